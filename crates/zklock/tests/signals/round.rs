//! One round: some zklocks contend for a lock while they get signals, and then all of them have to end.
//!
//! The process of a round is process 1 of a PID namespace, if the machine permits it: so it sees and reaps all
//! processes of the round, can select the number of the next process, and nothing outlives it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::AddAssign;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use curator_test::{Direction, FaultProxy, ServerKind, TestingServer};
use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::process::{Child, Command};

use crate::bystanders::Bystanders;
use crate::chaos::{Chaos, now};
use crate::contender::{Contender, Kind, LOCKS, NAMESPACE, Place, Stage};
use crate::processes::{Process, Role, descendants, own_id, reap_orphans};
use crate::pseudo_terminal::{CTRL_C, CTRL_S, CTRL_Z};

/// The session timeout of all contenders.
pub(crate) const SESSION: Duration = Duration::from_secs(4);
/// zklock needs this time before the end of a lease: if the machine stands still for longer, a round is not judged.
const MARGIN: Duration = Duration::from_millis(400);
const CTRL_Q: &str = "\x11";

/// What a round has found.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) rounds: u64,
    pub(crate) starts: u64,
    pub(crate) works: u64,
    pub(crate) sent: BTreeMap<String, u64>,
    pub(crate) overlaps: u64,
    pub(crate) left_over: u64,
    pub(crate) innocent: u64,
    /// The bystanders that had the number of a command's group.
    pub(crate) reused: u64,
    /// The rounds whose overlaps do not count, since both zklock and its guardian were disabled, or the machine stood
    /// still.
    pub(crate) unprotected: u64,
    pub(crate) stalled: u64,
    pub(crate) not_promised: u64,
    pub(crate) findings: Vec<String>,
    /// All that happened, if there are findings.
    pub(crate) log: String,
}

impl AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.starts += other.starts;
        self.works += other.works;
        other.sent.into_iter().for_each(|(signal, count)| *self.sent.entry(signal).or_default() += count);
        self.overlaps += other.overlaps;
        self.left_over += other.left_over;
        self.innocent += other.innocent;
        self.reused += other.reused;
        self.unprotected += other.unprotected;
        self.stalled += other.stalled;
        self.not_promised += other.not_promised;
        self.findings.extend(other.findings);
    }
}

/// A zklock that was seen among the processes.
struct Seen {
    id: i32,
    has_ended: bool,
    is_reported: bool,
}

struct Round<'a> {
    stage: Stage<'a>,
    contenders: Vec<Contender>,
    bystanders: Bystanders,
    chaos: Chaos,
    zklocks: HashMap<usize, Seen>,
    probe: Option<Child>,
    is_ending: bool,
    /// The zklocks that have got their last signal.
    ended: HashSet<i32>,
    left_over: Vec<String>,
    patience: Duration,
}

/// Runs a round. The seed determines all choices, but not the moment at which a process makes its next step.
pub(crate) async fn run(seed: u64, program: &str, patience: Duration) -> Report {
    let _ = rustix::process::set_child_subreaper(Pid::from_raw(own_id()));
    let mut rng = Rng::with_seed(seed);
    let stall = watch_for_stalls();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("work.sh"), include_str!("work.sh")).unwrap();
    let server = TestingServer::builder().kind(ServerKind::Embedded).start().await.unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let kinds = [Kind::Mutex, Kind::Mutex, Kind::ReadWrite, Kind::Semaphore, Kind::Leader];
    let kind = kinds[rng.usize(..5)];
    // Then the queue has to become empty without TERM.
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
    let mut log = vec![format!("seed {seed}: {kind:?}, drains: {drains}, both may be disabled: {may_disable_both}")];
    round.disturb(&proxy, &mut rng, &mut log).await;
    proxy.heal();
    let _ = proxy.refuse(false);
    round.end(drains).await;
    let processes = round.tick();
    let innocent = round.bystanders.harmed(&processes);
    let notes = std::fs::read_to_string(folder.path().join("notes")).unwrap_or_default();
    let noted = |word: &'static str| notes.lines().filter(move |line| line.contains(word)).map(str::to_owned);
    round.left_over.extend(noted("ZOMBIES"));
    let (overlaps, stall) = (Vec::from_iter(noted("OVERLAP")), Duration::from_millis(stall.load(Ordering::Relaxed)));
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
    let found = round.left_over.iter().chain(&innocent).chain(overlaps.iter().filter(|_| is_judged));
    report.findings = found.map(|finding| format!("seed {seed}: {finding}")).collect();
    if !report.findings.is_empty() {
        let mut events: Vec<_> = notes.lines().map(str::to_owned).chain(std::mem::take(&mut round.chaos.log)).collect();
        events.sort();
        log.extend(events);
        log.push(format!("without protection: {:?}; longest stall: {stall:?}", round.chaos.unprotected));
        log.extend(round.contenders.iter().map(|one| format!("printed by {}:\n{}", one.number, one.printed())));
        report.log = log.join("\n") + "\n\n";
    }
    report
}

/// Whether a program can be started by these words.
pub(crate) async fn can_start(words: &[&str]) -> bool {
    let status = Command::new(words[0]).args(&words[1..]).arg("true").output().await;
    status.is_ok_and(|output| output.status.success())
}

/// The longest time, in milliseconds, for which a thread of this process did not run although it should have.
fn watch_for_stalls() -> Arc<AtomicU64> {
    let (longest, pause) = (Arc::new(AtomicU64::new(0)), Duration::from_millis(50));
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
        let (most, steps) = (rng.usize(4..=8), rng.usize(150..300));
        for _ in 0..steps {
            let processes = self.tick();
            let active = self.contenders.iter().filter(|contender| contender.child.id().is_some()).count();
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
                    self.chaos.log.push(format!("{} fault {chosen} of the network", now()));
                }
                _ => {}
            }
            // A random moment; nothing is waited for.
            tokio::time::sleep(Duration::from_millis(rng.u64(10..60))).await;
        }
    }

    fn press_key(&mut self, processes: &[Process], rng: &mut Rng) {
        let Some(contender) = rng.choice(&self.contenders) else { return };
        if contender.terminal.is_none() {
            return;
        }
        let keys = [CTRL_Z, CTRL_Z, CTRL_C, CTRL_S, CTRL_Q, "fg\n", "bg\n", "an answer\n"];
        let key = keys[rng.usize(..keys.len())];
        if key != CTRL_Z || self.chaos.permits_key(processes, contender.number) {
            contender.type_text(key);
            *self.chaos.sent.entry(format!("key {}", key.escape_debug())).or_default() += 1;
            self.chaos.log.push(format!("{} key {key:?} to {}", now(), contender.number));
        }
    }

    /// Looks at all processes, and does what has to be done all the time.
    fn tick(&mut self) -> Vec<Process> {
        let processes = descendants();
        for contender in &mut self.contenders {
            let has_ended = self.zklocks.get(&contender.number).is_some_and(|seen| seen.has_ended);
            if contender.place == Place::Shell && has_ended {
                let _ = contender.child.start_kill();
            }
            let _ = contender.child.try_wait();
        }
        let children = self.contenders.iter().filter_map(|contender| contender.child.id());
        let children = children.chain(self.probe.as_ref().and_then(Child::id)).filter_map(|id| id.try_into().ok());
        reap_orphans(&processes, &children.chain(self.bystanders.ids()).collect());
        self.bystanders.follow(&processes);
        self.chaos.observe(&processes);
        if self.is_ending {
            self.chaos.continue_stopped(&processes);
        }
        self.check_ended(&processes);
        processes
    }

    /// A zklock that was not killed ends after all processes of its command.
    fn check_ended(&mut self, processes: &[Process]) {
        for (&number, seen) in &mut self.zklocks {
            let lives = processes.iter().any(|process| process.id == seen.id && process.lives());
            // Only if it had ended before the processes were read.
            if seen.has_ended && !seen.is_reported && !self.chaos.has_killed(number) {
                let members = processes.iter().filter(|process| process.is(number, Role::Member));
                let text = |process| format!("{} LEFT OVER after zklock {number} has ended: {process}", now());
                self.left_over.extend(members.map(text));
                seen.is_reported = processes.iter().any(|process| process.is(number, Role::Member));
            }
            seen.has_ended |= !lives;
        }
        for zklock in processes.iter().filter(|process| process.role == Role::Zklock && process.lives()) {
            if let Some(number) = zklock.number {
                self.zklocks.entry(number).or_insert(Seen { id: zklock.id, has_ended: false, is_reported: false });
            }
        }
    }

    /// Ends the round: the locks have to become free, and all processes and nodes have to disappear.
    async fn end(&mut self, drains: bool) {
        self.is_ending = true;
        for lock in LOCKS {
            self.probe(lock, drains).await;
        }
        self.wait_for_the_end().await;
        self.wait_for_nodes().await;
    }

    /// Starts one more zklock, behind all others, which has to get the lock.
    async fn probe(&mut self, lock: &str, drains: bool) {
        let wait = format!("--wait {}s", self.patience.as_secs());
        let (options, script, expected) = match self.stage.kind {
            Kind::Mutex => (wait, "exit 0", 0),
            Kind::ReadWrite => (format!("--exclusive {wait}"), "exit 0", 0),
            Kind::Semaphore => (format!("--semaphore 1 {wait}"), "exit 0", 0),
            // After this code, a leader is not elected again.
            Kind::Leader => ("--leader".to_owned(), "exit 126", 126),
        };
        let mut command = Command::new(self.stage.program);
        command
            .arg("run")
            .arg("--lock")
            .arg(format!("/{lock}"))
            .args(options.split(' '))
            .args(["--", "sh", "-c", script]);
        command.env("ZOOKEEPER_CONNECT", &self.stage.connect[0]).env_remove("ZKLOCK_CONFIG").kill_on_drop(true);
        self.probe = Some(command.stdin(Stdio::null()).spawn().unwrap());
        let mut status = None;
        self.wait(async |round: &mut Self, processes: &[Process]| {
            if !drains {
                round.signal_last(processes);
            }
            status = round.probe.as_mut().and_then(|probe| probe.try_wait().unwrap());
            status.is_some()
        })
        .await;
        // 122: it had the lock, and a busy machine has made it lose it.
        if !status.and_then(|status| status.code()).is_some_and(|code| [expected, 122].contains(&code)) {
            let living = self.living();
            self.left_over
                .push(format!("{} LOCK left over: the next zklock for {lock}: {status:?}; {living:#?}", now()));
        }
        self.probe = None;
    }

    /// Sends each zklock a signal that it has to end after.
    fn signal_last(&mut self, processes: &[Process]) {
        for zklock in processes.iter().filter(|process| process.role == Role::Zklock && process.lives()) {
            let contender = self.contenders.iter().find(|contender| Some(contender.number) == zklock.number);
            let Some(contender) = contender.filter(|_| self.ended.insert(zklock.id)) else { continue };
            let signal = match contender.ending {
                "TERM" => Signal::TERM,
                "INT" => Signal::INT,
                _ => Signal::HUP,
            };
            let _ = Pid::from_raw(zklock.id).map(|id| kill_process(id, signal));
            self.chaos.log.push(format!("{} the last signal, {}, to {zklock}", now(), contender.ending));
        }
    }

    async fn wait_for_the_end(&mut self) {
        let mut count = 0_usize;
        let is_over = self.wait(async |round: &mut Self, processes: &[Process]| {
            round.signal_last(processes);
            for contender in &mut round.contenders {
                // As a person does who wants the shell back.
                if count.is_multiple_of(20) {
                    contender.type_text(CTRL_Q);
                    if contender.place == Place::Shell {
                        contender.type_text("fg\n");
                    }
                }
                // A shell whose zklock was never seen: it had ended too soon.
                let is_seen = round.zklocks.contains_key(&contender.number);
                if contender.place == Place::Shell && !is_seen && count == 60 {
                    let _ = contender.child.start_kill();
                }
            }
            count += 1;
            round.living().is_empty()
        });
        if !is_over.await {
            for process in descendants() {
                let is_promised = process.number.is_none_or(|number| !self.chaos.unprotected.contains(&number));
                if is_promised && !self.bystanders.ids().any(|id| id == process.id) {
                    self.left_over.push(format!("{} LEFT OVER at the end: {process}", now()));
                }
            }
        }
    }

    /// The processes that have to end.
    fn living(&self) -> Vec<String> {
        let bystanders: HashSet<_> = self.bystanders.ids().collect();
        let processes = descendants().into_iter().filter(|process| !bystanders.contains(&process.id));
        processes.map(|process| process.to_string()).collect()
    }

    async fn wait_for_nodes(&mut self) {
        let mut locks = Vec::from(["/a", "/b"]);
        let (program, connect) = (self.stage.program, self.stage.connect[0].clone());
        let is_free = self.wait(async |_: &mut Self, _: &[Process]| {
            let Some(lock) = locks.last() else { return true };
            // Exit code 1: no contenders.
            let listed = Command::new(program).args(["ls", lock]).env("ZOOKEEPER_CONNECT", &connect).output().await;
            if listed.is_ok_and(|listed| listed.status.code() == Some(1)) {
                locks.pop();
            }
            false
        });
        if !is_free.await {
            self.left_over.push(format!("{} NODE left over below one of {locks:?}", now()));
        }
    }

    /// Waits for a condition. Returns `false` if it does not become true.
    async fn wait(&mut self, mut condition: impl AsyncFnMut(&mut Self, &[Process]) -> bool) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < self.patience {
            let processes = self.tick();
            if condition(self, &processes).await {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    }
}
