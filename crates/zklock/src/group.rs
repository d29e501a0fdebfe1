//! The command's process group: which processes belong to it, and how it is signalled.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::unistd::getsid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, test_kill_process,
    test_kill_process_group,
};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::processes::{self, Process};

/// A process group.
///
/// The kernel may reuse the number of a group once the group has no process and its leader has been
/// waited for. So a group is identified by its number, its session and the start time of its
/// leader.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Group {
    number: i32,
    session: i32,
    /// When the leader started; `None` without `/proc`.
    started: Option<u64>,
}

/// The signals that request termination.
pub(crate) const DEADLY: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];
/// How often [`ended`](Group::ended) checks whether a known process of the group has ended.
const END_INTERVAL: Duration = Duration::from_millis(20);
/// How often [`ended`](Group::ended) reads the processes of the group again, because some may have
/// left the group.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl Group {
    /// The group that `leader` leads. `leader` is a child process that has not been waited for.
    pub(crate) fn led_by(leader: Pid) -> io::Result<Self> {
        let number = leader.as_raw_pid();
        let started = processes::one(number).map(|leader| leader.started);
        Ok(Self {
            number,
            session: getsid(None)?.as_raw(),
            started,
        })
    }

    pub(crate) fn number(self) -> i32 {
        self.number
    }

    fn id(self) -> Option<Pid> {
        Pid::from_raw(self.number)
    }

    /// Sends a signal to all processes of the group, if there are any. Sends CONT after a signal
    /// that requests termination, because a stopped process handles the signal only when it
    /// continues.
    pub(crate) fn signal(self, signal: Signal) {
        if self.is_gone() {
            return;
        }
        let Some(id) = self.id() else { return };
        let _ = kill_process_group(id, signal);
        if DEADLY.contains(&signal) {
            let _ = kill_process_group(id, Signal::CONT);
        }
    }

    /// Whether the group has no process, not even a zombie, or its number belongs to another group.
    pub(crate) fn is_gone(self) -> bool {
        if self
            .id()
            .is_none_or(|id| test_kill_process_group(id) == Err(Errno::SRCH))
        {
            return true;
        }
        match processes::one(self.number) {
            Some(leader) => self.is_other(&leader),
            // The leader has been waited for.
            None => {
                processes::all().is_some_and(|all| all.iter().any(|process| self.is_other(process)))
            }
        }
    }

    /// Whether a process of the group is running or stopped. Also returns `true` if this process
    /// cannot see the processes of the group.
    ///
    /// zklock reaps the orphans of the group, so in the end the group has no process. Only a zombie
    /// can remain, if its parent has left the group and does not reap it.
    pub(crate) fn is_alive(self) -> bool {
        if self.is_gone() {
            return false;
        }
        // While `/proc` is read, a process can start a child and end, so that the read finds a
        // zombie, but not its child. The second read then finds the child or one more zombie,
        // because this process reaps no child in the meantime.
        let (Some(first), Some(second)) = (processes::all(), processes::all()) else {
            return true;
        };
        processes::hides_any() || !self.has_only_zombies(&first, &second)
    }

    fn has_only_zombies(self, first: &[Process], second: &[Process]) -> bool {
        let ids =
            |all: &[Process]| -> Vec<i32> { self.members(all).map(|process| process.id).collect() };
        let found = ids(first);
        // `found` is empty if `/proc` hides the processes of other users.
        !found.is_empty()
            && found == ids(second)
            && !self
                .members(first)
                .chain(self.members(second))
                .any(|process| process.is_alive)
    }

    /// The processes of the group that this process is not permitted to signal, because they run as
    /// another user.
    pub(crate) fn refusing(self) -> Vec<Process> {
        let all = processes::all().unwrap_or_default();
        self.members(&all)
            .filter(|process| process.is_alive)
            .filter(|process| {
                Pid::from_raw(process.id)
                    .is_some_and(|id| test_kill_process(id) == Err(Errno::PERM))
            })
            .cloned()
            .collect()
    }

    /// Whether a child process may belong to the group. Returns `true` for a process that this
    /// process cannot see.
    pub(crate) fn may_have(self, process: Pid) -> bool {
        let process = processes::one(process.as_raw_pid());
        process.is_none_or(|process| self.members(&[process]).next().is_some())
    }

    /// Whether the leader runs: it has neither ended nor been stopped.
    pub(crate) fn is_leader_running(self) -> bool {
        processes::one(self.number).is_some_and(|leader| leader.is_alive && !leader.is_stopped)
    }

    /// Waits until no process of the group runs or is stopped.
    pub(crate) async fn ended(self) {
        while self.is_alive() {
            let all = processes::all().unwrap_or_default();
            let living = self
                .members(&all)
                .find(|process| process.is_alive)
                .and_then(|process| Pid::from_raw(process.id));
            // `None` if the process has ended in the meantime, or if the kernel is older than Linux
            // 5.3.
            let living = living.and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok());
            let begun = Instant::now();
            // Reads all processes of the machine again only when the `living` process has ended, or
            // may have left the group.
            while {
                sleep(END_INTERVAL).await;
                living.as_ref().is_some_and(is_running) && begun.elapsed() < CHECK_INTERVAL
            } {}
        }
    }

    /// The processes of the group, including zombies.
    fn members(self, all: &[Process]) -> impl Iterator<Item = &Process> {
        all.iter()
            .filter(move |process| process.group == self.number && !self.is_other(process))
    }

    /// Whether a process shows that another group has the number.
    fn is_other(self, process: &Process) -> bool {
        let is_later_leader = process.id == self.number
            && self
                .started
                .is_some_and(|started| started != process.started);
        is_later_leader || (process.group == self.number && process.session != self.session)
    }
}

/// Whether a process runs or is stopped.
fn is_running(process: &OwnedFd) -> bool {
    let mut ended = [PollFd::new(process, PollFlags::IN)];
    poll(&mut ended, Some(&Timespec::default())) == Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: Group = Group {
        number: 70,
        session: 9,
        started: Some(500),
    };

    fn process(id: i32, group: i32, session: i32, started: u64) -> Process {
        Process {
            id,
            name: "sh".to_owned(),
            is_alive: true,
            is_stopped: false,
            parent: 1,
            group,
            session,
            started,
        }
    }

    fn zombie(id: i32) -> Process {
        Process {
            is_alive: false,
            ..process(id, 70, 9, 500)
        }
    }

    #[test]
    fn the_group_is_alive_until_two_readings_find_the_same_zombies_and_nothing_else() {
        let alive = process(71, 70, 9, 501);
        let other = process(72, 72, 9, 501);
        let has_ended =
            |first: &[Process], second: &[Process]| GROUP.has_only_zombies(first, second);
        assert!(has_ended(
            &[zombie(70), other.clone()],
            &[zombie(70), other]
        ));
        assert!(!has_ended(
            &[zombie(70), alive.clone()],
            &[zombie(70), alive.clone()]
        ));
        // A chain: each process starts the next one and ends.
        assert!(
            !has_ended(&[zombie(70)], &[zombie(70), alive])
                && !has_ended(&[zombie(70)], &[zombie(70), zombie(71)])
        );
        // `/proc` hides other users' processes.
        assert!(!has_ended(&[], &[]));
    }

    #[test]
    fn a_group_that_has_taken_the_number_is_known_by_its_leaders_start_or_its_session() {
        for (process, is_other) in [
            (process(70, 70, 9, 500), false),
            (process(71, 70, 9, 900), false),
            (process(70, 70, 9, 900), true),
            (process(71, 70, 10, 900), true),
            (process(71, 71, 10, 900), false),
        ] {
            assert_eq!(GROUP.is_other(&process), is_other, "{process:?}");
        }
    }
}
