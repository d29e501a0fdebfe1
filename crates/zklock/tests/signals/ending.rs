//! The end of a round: the locks become free, and all processes and nodes disappear.

use std::collections::HashSet;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;

use crate::chaos::now;
use crate::contender::{Kind, LOCKS, Place};
use crate::processes::{Process, Role, descendants};
use crate::round::{Round, Seen};

/// After how many reads of the processes the keys are typed again.
const PAUSE: usize = 20;

impl Round<'_> {
    /// Ends the round: the locks have to become free, and all processes and nodes have to
    /// disappear.
    pub(crate) async fn end(&mut self, drains: bool) {
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
        command
            .env("ZOOKEEPER_CONNECT", &self.stage.connect[0])
            .env("ZKLOCK_CONFIG", "")
            .kill_on_drop(true);
        self.probe = Some(command.stdin(Stdio::null()).spawn().unwrap());
        let mut status = None;
        let mut count = 0_usize;
        self.wait(async |round: &mut Self, processes: &[Process]| {
            if !drains {
                round.signal_last(processes);
            }
            // The other contenders must not keep the lock once their input has arrived.
            for contender in round
                .contenders
                .iter()
                .filter(|contender| contender.uses_terminal)
            {
                if count.is_multiple_of(PAUSE) {
                    contender.type_to_continue();
                }
            }
            count += 1;
            status = round
                .probe
                .as_mut()
                .and_then(|probe| probe.try_wait().unwrap());
            status.is_some()
        })
        .await;
        // 122: the probe had the lock, and lost it on a busy machine.
        if !status
            .and_then(|status| status.code())
            .is_some_and(|code| [expected, 122].contains(&code))
        {
            let living = self.living().join(" | ");
            self.left_over.push(format!(
                "{} LOCK left over: the next zklock for {lock}: {status:?}; {living}",
                now()
            ));
        }
        self.probe = None;
    }

    /// Sends each zklock the signal that ends it.
    fn signal_last(&mut self, processes: &[Process]) {
        for zklock in processes
            .iter()
            .filter(|process| process.role == Role::Zklock && process.lives())
        {
            let contender = self
                .contenders
                .iter()
                .find(|contender| Some(contender.number) == zklock.number);
            let Some(contender) = contender.filter(|_| self.ended.insert(zklock.id)) else {
                continue;
            };
            let signal = match contender.ending {
                "TERM" => Signal::TERM,
                "INT" => Signal::INT,
                _ => Signal::HUP,
            };
            let _ = Pid::from_raw(zklock.id).map(|id| kill_process(id, signal));
            self.chaos.log.push(format!(
                "{} the last signal, {}, to {zklock}",
                now(),
                contender.ending
            ));
        }
    }

    async fn wait_for_the_end(&mut self) {
        let mut count = 0_usize;
        let has_ended = self.wait(async |round: &mut Self, processes: &[Process]| {
            round.signal_last(processes);
            for contender in &mut round.contenders {
                if count.is_multiple_of(PAUSE) {
                    contender.type_to_continue();
                }
                // The zklock of this shell was never seen, because it ended too soon.
                let is_seen = round.zklocks.contains_key(&contender.number);
                if contender.place == Place::Shell && !is_seen && count == 3 * PAUSE {
                    let _ = contender.child.start_kill();
                }
            }
            count += 1;
            round.living().is_empty()
        });
        if !has_ended.await {
            for process in descendants() {
                let is_promised = process
                    .number
                    .is_none_or(|number| !self.chaos.unprotected.contains(&number));
                if is_promised && !self.bystanders.ids().any(|id| id == process.id) {
                    self.left_over
                        .push(format!("{} LEFT OVER at the end: {process}", now()));
                }
            }
        }
    }

    /// The processes that have to end.
    fn living(&self) -> Vec<String> {
        let bystanders: HashSet<_> = self.bystanders.ids().collect();
        descendants()
            .into_iter()
            .filter(|process| !bystanders.contains(&process.id))
            .map(|process| process.to_string())
            .collect()
    }

    async fn wait_for_nodes(&mut self) {
        let mut locks = Vec::from(["/a", "/b"]);
        let program = self.stage.program;
        let connect = self.stage.connect[0].clone();
        let is_free = self.wait(async |_: &mut Self, _: &[Process]| {
            let Some(lock) = locks.last() else {
                return true;
            };
            // Exit code 1: no contenders.
            let listed = Command::new(program)
                .args(["ls", lock])
                .env("ZOOKEEPER_CONNECT", &connect)
                .output()
                .await;
            if listed.is_ok_and(|listed| listed.status.code() == Some(1)) {
                locks.pop();
            }
            false
        });
        if !is_free.await {
            self.left_over
                .push(format!("{} NODE left over below one of {locks:?}", now()));
        }
    }

    /// Waits for a condition. Returns `false` if it does not become true.
    async fn wait(
        &mut self,
        mut condition: impl AsyncFnMut(&mut Self, &[Process]) -> bool,
    ) -> bool {
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

    /// Checks that a zklock that was not killed ends only after all processes of its command.
    pub(crate) fn check_ended(&mut self, processes: &[Process]) {
        for (&number, seen) in &mut self.zklocks {
            let lives = processes
                .iter()
                .any(|process| process.id == seen.id && process.lives());
            // Checked only if zklock had ended before the processes were read.
            if seen.has_ended && !seen.is_reported && !self.chaos.has_killed(number) {
                let members = processes
                    .iter()
                    .filter(|process| process.is(number, Role::Member));
                self.left_over.extend(members.map(|process| {
                    format!(
                        "{} LEFT OVER after zklock {number} has ended: {process}",
                        now()
                    )
                }));
                seen.is_reported = processes
                    .iter()
                    .any(|process| process.is(number, Role::Member));
            }
            seen.has_ended |= !lives;
        }
        for zklock in processes
            .iter()
            .filter(|process| process.role == Role::Zklock && process.lives())
        {
            if let Some(number) = zklock.number {
                self.zklocks.entry(number).or_insert(Seen {
                    id: zklock.id,
                    has_ended: false,
                    is_reported: false,
                });
            }
        }
    }
}
