//! Random signals to random targets, and which of them zklock promises to survive.
//!
//! Either of zklock and its guardian protects the lock; "if both are killed at the same time, the
//! command continues". So only some rounds send a signal that disables one of them while the other
//! is disabled, and the overlaps of these rounds are counted separately: zklock does not promise to
//! prevent them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::processes::{Process, Role};

const SIGNALS: [(&str, Signal); 7] = [
    ("TERM", Signal::TERM),
    ("INT", Signal::INT),
    ("STOP", Signal::STOP),
    ("CONT", Signal::CONT),
    ("TSTP", Signal::TSTP),
    ("HUP", Signal::HUP),
    ("KILL", Signal::KILL),
];
const TARGETS: [&str; 10] = [
    "zklock", "zklock", "zklock", "zklock", "guardian", "guardian", "group", "group", "member",
    "member",
];

/// The signals sent to a contender.
#[derive(Debug, Default)]
struct Done {
    is_killed: bool,
    is_stopped: bool,
    /// The guardians that have got a signal: `false` if the signal only stops them, `true` if it
    /// may end them.
    hit: HashMap<i32, bool>,
    /// Whether a signal, rather than a terminal, may have stopped one of its processes.
    has_stopped: bool,
}

#[derive(Debug)]
pub(crate) struct Chaos {
    pub(crate) sent: BTreeMap<String, u64>,
    /// Whether both zklock and its guardian may be disabled.
    may_disable_both: bool,
    /// The contenders whose zklock and guardian are or were both disabled.
    pub(crate) unprotected: BTreeSet<usize>,
    done: HashMap<usize, Done>,
    pub(crate) log: Vec<String>,
}

impl Chaos {
    pub(crate) fn new(may_disable_both: bool) -> Self {
        let (sent, unprotected, done, log) = Default::default();
        Self {
            sent,
            may_disable_both,
            unprotected,
            done,
            log,
        }
    }

    /// Whether zklock got KILL.
    pub(crate) fn has_killed(&self, number: usize) -> bool {
        self.done.get(&number).is_some_and(|done| done.is_killed)
    }

    /// Sends a random signal to a random target.
    pub(crate) fn strike(&mut self, processes: &[Process], rng: &mut Rng) {
        // Mostly selects contenders whose command runs; the others wait for the lock, and most
        // signals would only end them.
        let is_rare = rng.u8(0..5) == 0;
        let numbers: BTreeSet<_> = processes
            .iter()
            .filter(|process| is_rare || process.role == Role::Member)
            .filter_map(|process| process.number)
            .collect();
        let Some(number) = rng.choice(numbers) else {
            return;
        };
        let (target, (name, signal)) = (TARGETS[rng.usize(..10)], SIGNALS[rng.usize(..7)]);
        // zklock is disabled, so the guardian has to end the command; more signals would do so in
        // its place.
        if self.is_zklock_off(processes, number) && target != "zklock" && rng.u8(0..8) > 0 {
            return;
        }
        let role = match target {
            "zklock" => Role::Zklock,
            "guardian" => Role::Guardian,
            _ => Role::Member,
        };
        let candidates: Vec<_> = processes
            .iter()
            .filter(|process| process.is(number, role))
            .collect();
        let Some(process) = rng.choice(candidates) else {
            return;
        };
        let id = if target == "group" {
            process.group
        } else {
            process.id
        };
        if self.permits(processes, number, target, signal, id) {
            self.send(number, target, name, signal, id);
        }
    }

    /// Whether zklock promises to survive this signal, or this round does not require it.
    fn permits(
        &mut self,
        processes: &[Process],
        number: usize,
        target: &str,
        signal: Signal,
        id: i32,
    ) -> bool {
        let guardians: Vec<_> = processes
            .iter()
            .filter(|one| one.is(number, Role::Guardian))
            .map(|one| one.id)
            .collect();
        let works = processes.iter().any(|one| one.is(number, Role::Member));
        let is_off = self.is_zklock_off(processes, number);
        let done = self.done.entry(number).or_default();
        let is_guarded = !guardians.is_empty()
            && !guardians
                .iter()
                .any(|guardian| done.hit.contains_key(guardian));
        let both = match target {
            "guardian" => signal != Signal::CONT && is_off,
            // TSTP from a terminal may stop zklock together with its command.
            "zklock" => {
                is_stop(signal) | (signal == Signal::KILL)
                    && !is_guarded
                    && (works || !guardians.is_empty())
            }
            _ => is_stop(signal) && !is_guarded,
        };
        if both && self.may_disable_both {
            self.unprotected.insert(number);
        }
        if both && !self.may_disable_both {
            return false;
        }
        match (target, signal) {
            ("zklock", Signal::KILL) => done.is_killed = true,
            ("guardian", Signal::CONT) => done
                .hit
                .retain(|guardian, may_end| *guardian != id || *may_end),
            ("guardian", _) => *done.hit.entry(id).or_default() |= !is_stop(signal),
            (_, Signal::CONT) => done.is_stopped = false,
            (_, stop) if is_stop(stop) => done.is_stopped = true,
            _ => {}
        }
        done.has_stopped |= is_stop(signal);
        true
    }

    /// Whether a key that stops the foreground group may be pressed.
    pub(crate) fn permits_key(&mut self, processes: &[Process], number: usize) -> bool {
        let done = self.done.entry(number).or_default();
        let hit = processes
            .iter()
            .any(|one| one.is(number, Role::Guardian) && done.hit.contains_key(&one.id));
        let works = processes.iter().any(|one| one.is(number, Role::Member));
        let is_guarded = processes.iter().any(|one| one.is(number, Role::Guardian)) && !hit;
        let permits = is_guarded || !works;
        done.is_stopped |= permits;
        permits
    }

    fn is_zklock_off(&self, processes: &[Process], number: usize) -> bool {
        let zklock = processes.iter().find(|one| one.is(number, Role::Zklock));
        zklock.is_none_or(|zklock| zklock.state == 'T')
            || self
                .done
                .get(&number)
                .is_some_and(|done| done.is_killed || done.is_stopped)
    }

    fn send(&mut self, number: usize, target: &str, name: &str, signal: Signal, id: i32) {
        let Some(id) = Pid::from_raw(id) else { return };
        let sent = if target == "group" {
            kill_process_group(id, signal)
        } else {
            kill_process(id, signal)
        };
        *self.sent.entry(format!("{name} {target}")).or_default() += 1;
        self.log.push(format!(
            "{} {name} to {target} {} of {number}: {sent:?}",
            now(),
            id.as_raw_nonzero()
        ));
    }

    /// Records contenders whose zklock and guardian are both disabled: zklock may stop itself, with
    /// its job, while the guardian is disabled.
    pub(crate) fn observe(&mut self, processes: &[Process]) {
        for guardian in processes.iter().filter(|one| one.role == Role::Guardian) {
            let Some(number) = guardian.number else {
                continue;
            };
            let is_hit = self
                .done
                .get(&number)
                .is_some_and(|done| done.hit.contains_key(&guardian.id));
            let stopped = processes
                .iter()
                .any(|one| one.is(number, Role::Zklock) && one.state == 'T');
            if is_hit && stopped {
                self.unprotected.insert(number);
            }
        }
    }

    /// Continues processes that a signal, rather than a terminal, may have stopped.
    pub(crate) fn continue_stopped(&mut self, processes: &[Process]) {
        for process in processes
            .iter()
            .filter(|process| process.role != Role::Other && process.state == 'T')
        {
            let Some(number) = process.number else {
                continue;
            };
            if self.done.get(&number).is_some_and(|done| done.has_stopped) {
                let _ = Pid::from_raw(process.id).map(|id| kill_process(id, Signal::CONT));
                self.log.push(format!("{} CONT to {process}", now()));
            }
        }
    }
}

fn is_stop(signal: Signal) -> bool {
    matches!(signal, Signal::STOP | Signal::TSTP)
}

/// The time of day, as in the notes of the commands.
pub(crate) fn now() -> String {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let seconds = since.as_secs() % 86_400;
    format!(
        "{:02}:{:02}:{:02}.{:03}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        since.subsec_millis()
    )
}
