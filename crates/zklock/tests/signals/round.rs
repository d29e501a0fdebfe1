//! One round: some zklocks contend for a lock while they get signals, and then all of them have to
//! end.
//!
//! The process of a round is process 1 of a PID namespace, if the machine permits it: so it sees
//! and reaps all processes of the round, can select the number of the next process, and nothing
//! outlives it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use curator_test::{Direction, FaultProxy, ServerKind, TestingServer};
use fastrand::Rng;
use rustix::process::Pid;
use tokio::process::{Child, Command};

use crate::bystanders::Bystanders;
use crate::chaos::{Chaos, now};
use crate::contender::{Contender, Kind, NAMESPACE, Place, Stage};
use crate::processes::{Process, descendants, own_id, reap_orphans};
use crate::pseudo_terminal::{CTRL_C, CTRL_S, CTRL_Z};
use crate::report::Report;

/// The session timeout of all contenders.
pub(crate) const SESSION: Duration = Duration::from_secs(4);
/// zklock needs this time before the end of a lease. If the machine stands still for longer,
/// overlaps in the round do not count.
const MARGIN: Duration = Duration::from_millis(400);
const CTRL_Q: &str = "\x11";

/// A zklock that was seen among the processes.
pub(crate) struct Seen {
    pub(crate) id: i32,
    pub(crate) has_ended: bool,
    pub(crate) is_reported: bool,
}

pub(crate) struct Round<'a> {
    pub(crate) stage: Stage<'a>,
    pub(crate) contenders: Vec<Contender>,
    pub(crate) bystanders: Bystanders,
    pub(crate) chaos: Chaos,
    pub(crate) zklocks: HashMap<usize, Seen>,
    pub(crate) probe: Option<Child>,
    pub(crate) is_ending: bool,
    /// The zklocks that have got their last signal.
    pub(crate) ended: HashSet<i32>,
    pub(crate) left_over: Vec<String>,
    pub(crate) patience: Duration,
}

/// Runs a round. The seed determines all choices, but not the moment when a process makes its
/// next step.
pub(crate) async fn run(seed: u64, program: &str, patience: Duration) -> Report {
    let _ = rustix::process::set_child_subreaper(Pid::from_raw(own_id()));
    let mut rng = Rng::with_seed(seed);
    let stall = watch_for_stalls();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("work.sh"), include_str!("work.sh")).unwrap();
    let server = TestingServer::builder()
        .kind(ServerKind::Embedded)
        .start()
        .await
        .unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let kinds = [
        Kind::Mutex,
        Kind::Mutex,
        Kind::ReadWrite,
        Kind::Semaphore,
        Kind::Leader,
    ];
    let kind = kinds[rng.usize(..5)];
    // If `drains` is set, the queue must become empty without TERM.
    let drains = kind != Kind::Leader && rng.u8(0..3) == 0;
    let may_disable_both = rng.u8(0..8) == 0;
    let stage = Stage {
        program,
        folder: folder.path(),
        kind,
        connect: [server.connect_string(), proxy.connect_string()],
        has_namespaces: can_start(&NAMESPACE).await,
        is_short: drains,
    };
    let mut round = Round {
        stage,
        contenders: Vec::new(),
        bystanders: Bystanders::default(),
        chaos: Chaos::new(may_disable_both),
        zklocks: HashMap::new(),
        probe: None,
        is_ending: false,
        ended: HashSet::new(),
        left_over: Vec::new(),
        patience,
    };
    let mut log = vec![format!(
        "seed {seed}: {kind:?}, drains: {drains}, both may be disabled: {may_disable_both}"
    )];
    round.disturb(&proxy, &mut rng, &mut log).await;
    proxy.heal();
    let _ = proxy.refuse(false);
    round.end(drains).await;
    let processes = round.tick();
    let innocent = round.bystanders.harmed(&processes);
    let notes = std::fs::read_to_string(folder.path().join("notes")).unwrap_or_default();
    let noted = |word: &'static str| {
        notes
            .lines()
            .filter(move |line| line.contains(word))
            .map(str::to_owned)
    };
    round.left_over.extend(noted("ZOMBIES"));
    let overlaps = Vec::from_iter(noted("OVERLAP"));
    let stall = Duration::from_millis(stall.load(Ordering::Relaxed));
    let is_judged = round.chaos.unprotected.is_empty() && stall < MARGIN;
    let mut report = Report {
        rounds: 1,
        starts: round.contenders.len() as u64,
        works: noted(": works").count() as u64,
        sent: std::mem::take(&mut round.chaos.sent),
        overlaps: if is_judged { overlaps.len() as u64 } else { 0 },
        left_over: round.left_over.len() as u64,
        innocent: innocent.len() as u64,
        reused: round.bystanders.reused,
        unprotected: u64::from(!round.chaos.unprotected.is_empty()),
        stalled: u64::from(stall >= MARGIN),
        not_promised: if is_judged { 0 } else { overlaps.len() as u64 },
        ..Report::default()
    };
    let found = round
        .left_over
        .iter()
        .chain(&innocent)
        .chain(overlaps.iter().filter(|_| is_judged));
    report.findings = found
        .map(|finding| format!("seed {seed}: {finding}"))
        .collect();
    if !report.findings.is_empty() {
        let mut events: Vec<_> = notes
            .lines()
            .map(str::to_owned)
            .chain(std::mem::take(&mut round.chaos.log))
            .collect();
        events.sort();
        log.extend(events);
        log.push(format!(
            "without protection: {:?}; longest stall: {stall:?}",
            round.chaos.unprotected
        ));
        log.extend(
            round
                .contenders
                .iter()
                .map(|one| format!("printed by {}:\n{}", one.number, one.printed())),
        );
        report.log = log.join("\n") + "\n\n";
    }
    report
}

/// Whether these words can start a program.
pub(crate) async fn can_start(words: &[&str]) -> bool {
    let status = Command::new(words[0])
        .args(&words[1..])
        .arg("true")
        .output()
        .await;
    status.is_ok_and(|output| output.status.success())
}

/// The longest time, in milliseconds, for which a thread of this process was ready to run, but did
/// not run.
fn watch_for_stalls() -> Arc<AtomicU64> {
    let longest = Arc::new(AtomicU64::new(0));
    let pause = Duration::from_millis(50);
    let kept = longest.clone();
    std::thread::spawn(move || {
        loop {
            let begun = Instant::now();
            std::thread::sleep(pause);
            let late = begun.elapsed().saturating_sub(pause).as_millis();
            longest.fetch_max(late.try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    });
    kept
}

impl Round<'_> {
    /// Starts the contenders at random moments, and sends signals to them meanwhile.
    async fn disturb(&mut self, proxy: &FaultProxy, rng: &mut Rng, log: &mut Vec<String>) {
        let most = rng.usize(4..=8);
        let steps = rng.usize(150..300);
        for _ in 0..steps {
            let processes = self.tick();
            let active = self
                .contenders
                .iter()
                .filter(|contender| contender.child.id().is_some())
                .count();
            if active < most && rng.u8(0..8) == 0 {
                let (contender, description) = self.stage.start(self.contenders.len(), rng);
                log.push(format!("{} {description}", now()));
                self.contenders.push(contender);
            }
            match rng.u8(0..40) {
                0..14 => self.chaos.strike(&processes, rng),
                14 | 15 => self.press_key(&processes, rng),
                16 => {
                    let faults: [&dyn Fn(); 5] = [
                        &|| proxy.cut(),
                        &|| proxy.reset(),
                        &|| proxy.black_hole(Direction::ToServer),
                        &|| proxy.black_hole(Direction::ToClient),
                        &|| proxy.heal(),
                    ];
                    let chosen = rng.usize(..5);
                    faults[chosen]();
                    self.chaos
                        .log
                        .push(format!("{} fault {chosen} of the network", now()));
                }
                _ => {}
            }
            // Sleeps until a random moment; no event is awaited.
            tokio::time::sleep(Duration::from_millis(rng.u64(10..60))).await;
        }
    }

    fn press_key(&mut self, processes: &[Process], rng: &mut Rng) {
        let Some(contender) = rng.choice(&self.contenders) else {
            return;
        };
        if contender.terminal.is_none() {
            return;
        }
        let keys = [
            CTRL_Z,
            CTRL_Z,
            CTRL_C,
            CTRL_S,
            CTRL_Q,
            "fg\n",
            "bg\n",
            "an answer\n",
        ];
        let key = keys[rng.usize(..keys.len())];
        if key != CTRL_Z || self.chaos.permits_key(processes, contender.number) {
            contender.type_text(key);
            *self
                .chaos
                .sent
                .entry(format!("key {}", key.escape_debug()))
                .or_default() += 1;
            self.chaos
                .log
                .push(format!("{} key {key:?} to {}", now(), contender.number));
        }
    }

    /// Reads all processes, and performs the regular checks.
    pub(crate) fn tick(&mut self) -> Vec<Process> {
        let processes = descendants();
        for contender in &mut self.contenders {
            let has_ended = self
                .zklocks
                .get(&contender.number)
                .is_some_and(|seen| seen.has_ended);
            if contender.place == Place::Shell && has_ended {
                let _ = contender.child.start_kill();
            }
            let _ = contender.child.try_wait();
        }
        let children = self
            .contenders
            .iter()
            .filter_map(|contender| contender.child.id());
        let children = children
            .chain(self.probe.as_ref().and_then(Child::id))
            .filter_map(|id| id.try_into().ok());
        reap_orphans(&processes, &children.chain(self.bystanders.ids()).collect());
        self.bystanders.follow(&processes);
        self.chaos.observe(&processes);
        if self.is_ending {
            self.chaos.continue_stopped(&processes);
        }
        self.check_ended(&processes);
        processes
    }
}
