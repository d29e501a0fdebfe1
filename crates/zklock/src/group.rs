//! The command's process group: which processes belong to it, and how it is signalled.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::unistd::getsid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, test_kill_process, test_kill_process_group,
};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::processes::{self, Process};
use crate::signals::DEADLY;

/// A process group.
///
/// The kernel gives the number of a group to another process once the group has no process, and its leader has been
/// waited for. So the group is known by more than its number: by its session, and by the start of its leader.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Group {
    number: i32,
    session: i32,
    /// When the leader started; `None` without `/proc`.
    started: Option<u64>,
}

/// The interval at which the known processes of a group are checked for their end.
const END_INTERVAL: Duration = Duration::from_millis(20);
/// The interval at which the processes of a group are read again: some may have left it.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl Group {
    /// The group that a child process of this process leads, which has not been waited for.
    pub(crate) fn led_by(leader: Pid) -> io::Result<Self> {
        let number = leader.as_raw_pid();
        let started = processes::one(number).map(|leader| leader.started);
        Ok(Self { number, session: getsid(None)?.as_raw(), started })
    }

    pub(crate) fn number(self) -> i32 {
        self.number
    }

    fn id(self) -> Option<Pid> {
        Pid::from_raw(self.number)
    }

    /// Sends a signal to all processes of the group, if there are any. A signal that requests termination is followed by
    /// CONT, as a stopped process handles it only when it continues.
    pub(crate) fn signal(self, signal: Signal) {
        let Some(id) = self.id().filter(|_| self.has_its_number()) else { return };
        let _ = kill_process_group(id, signal);
        if DEADLY.contains(&signal) {
            let _ = kill_process_group(id, Signal::CONT);
        }
    }

    /// Whether a process of the group runs or is stopped. Processes that this one may not see count too.
    pub(crate) fn is_alive(self) -> bool {
        // Also succeeds if the group has only zombies.
        if self.id().is_none_or(|id| test_kill_process_group(id) == Err(Errno::SRCH)) {
            return false;
        }
        processes::all().is_none_or(|all| self.has_hidden(&all) || !self.living(&all).is_empty())
    }

    /// The processes of the group that this process may not signal, as they run as another user.
    pub(crate) fn refusing(self) -> Vec<Process> {
        let all = processes::all().unwrap_or_default();
        let may_not_signal =
            |process: &&Process| Pid::from_raw(process.id).is_some_and(|id| test_kill_process(id) == Err(Errno::PERM));
        self.living(&all).into_iter().filter(may_not_signal).cloned().collect()
    }

    /// Waits until no process of the group runs or is stopped.
    pub(crate) async fn ended(self) {
        while self.is_alive() {
            let all = processes::all().unwrap_or_default();
            let ids = self.living(&all).into_iter().filter_map(|process| Pid::from_raw(process.id));
            // None if one of them has ended in the meantime, or if the kernel is older than Linux 5.3.
            let handles: Vec<_> = ids.map_while(|id| pidfd_open(id, PidfdFlags::empty()).ok()).collect();
            let begun = Instant::now();
            // Looks at all processes of the machine only once these have ended, or one may have left the group.
            while {
                sleep(END_INTERVAL).await;
                handles.iter().any(is_running) && begun.elapsed() < CHECK_INTERVAL
            } {}
        }
    }

    /// Whether the number still belongs to this group.
    fn has_its_number(self) -> bool {
        match processes::one(self.number) {
            Some(leader) => self.started.is_none_or(|started| started == leader.started),
            // The leader has been waited for.
            None => self.started.is_none() || self.is_alive(),
        }
    }

    /// The processes of the group that run or are stopped.
    fn living(self, all: &[Process]) -> Vec<&Process> {
        let is_other_leader = |process: &Process| {
            process.id == self.number && self.started.is_some_and(|started| started != process.started)
        };
        if all.iter().any(is_other_leader) {
            return Vec::new();
        }
        let belongs = |process: &&Process| process.group == self.number && process.session == self.session;
        all.iter().filter(belongs).filter(|process| process.is_alive).collect()
    }

    /// Whether `/proc` shows no process with the group's number: it may be mounted so that it hides other users' processes.
    fn has_hidden(self, all: &[Process]) -> bool {
        !all.iter().any(|process| process.group == self.number || process.id == self.number)
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

    const GROUP: Group = Group { number: 70, session: 9, started: Some(500) };

    fn process(id: i32, group: i32, session: i32, started: u64) -> Process {
        Process { id, name: "sh".to_owned(), is_alive: true, parent: 1, group, session, started }
    }

    fn living(all: &[Process]) -> Vec<i32> {
        GROUP.living(all).into_iter().map(|process| process.id).collect()
    }

    #[test]
    fn the_processes_of_the_group_are_found_after_the_end_of_its_leader() {
        let (leader, child, other) = (process(70, 70, 9, 500), process(71, 70, 9, 501), process(72, 72, 9, 501));
        assert_eq!(living(&[leader.clone(), child.clone(), other.clone()]), [70, 71]);
        let zombie = Process { is_alive: false, ..leader };
        assert_eq!(living(&[zombie, child.clone()]), [71]);
        assert_eq!(living(&[child, other]), [71]);
    }

    #[test]
    fn a_group_that_has_taken_the_number_is_not_the_commands() {
        // A later leader, one with its child, and one in another session that has ended.
        for all in [
            vec![process(70, 70, 9, 900)],
            vec![process(70, 70, 9, 900), process(71, 70, 9, 901)],
            vec![process(71, 70, 10, 901)],
        ] {
            assert!(living(&all).is_empty(), "{all:?}");
        }
    }
}
