//! Unrelated process groups, some with the former number of a command's group.

use std::collections::HashSet;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use crate::processes::{Process, Role};

/// The kernel gives the next process the number after the number in this file.
const LAST: &str = "/proc/sys/kernel/ns_last_pid";

#[derive(Default)]
pub(crate) struct Bystanders {
    started: Vec<Child>,
    /// The groups of commands that have been seen, and that have not ended yet.
    groups: HashSet<i32>,
    /// How many bystanders have got the number of a command's group.
    pub(crate) reused: u64,
}

impl Bystanders {
    /// Whether the number of the next process can be selected. Only in a PID namespace: elsewhere
    /// this would disturb other programs.
    pub(crate) fn can_reuse() -> bool {
        crate::processes::own_id() == 1 && fs::OpenOptions::new().write(true).open(LAST).is_ok()
    }

    /// Starts a bystander for each command's group that has ended since the last call. No signal
    /// may be sent to a group between the reading of `processes` and this call.
    pub(crate) fn follow(&mut self, processes: &[Process]) {
        let used: HashSet<_> = processes
            .iter()
            .flat_map(|process| [process.id, process.group])
            .collect();
        let ended: Vec<_> = self.groups.difference(&used).copied().collect();
        self.groups.retain(|group| used.contains(group));
        let members = processes
            .iter()
            .filter(|process| process.role == Role::Member);
        self.groups.extend(members.map(|process| process.group));
        for group in ended {
            // Another process may get the number first; then this bystander has another number.
            let before = fs::read_to_string(LAST).unwrap_or_default();
            if Self::can_reuse() {
                let _ = fs::write(LAST, (group - 1).to_string());
            }
            let mut command = Command::new("sleep");
            command
                .arg("1000")
                .env_clear()
                .process_group(0)
                .stdin(Stdio::null());
            let child = command.spawn().unwrap();
            if Self::can_reuse() {
                let _ = fs::write(LAST, before);
            }
            self.reused += u64::from(i32::try_from(child.id()) == Ok(group));
            self.started.push(child);
        }
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = i32> {
        self.started
            .iter()
            .map(|child| child.id().try_into().unwrap())
    }

    /// Lists the bystanders that have been killed or stopped.
    pub(crate) fn harmed(&mut self, processes: &[Process]) -> Vec<String> {
        let is_stopped = |id: u32| {
            processes
                .iter()
                .any(|one| Ok(one.id) == id.try_into() && one.state == 'T')
        };
        self.started
            .iter_mut()
            .filter_map(|child| match child.try_wait().unwrap() {
                Some(status) => Some(format!(
                    "INNOCENT killed: the group {} has ended with {status}",
                    child.id()
                )),
                None if is_stopped(child.id()) => {
                    Some(format!("INNOCENT stopped: the group {}", child.id()))
                }
                None => None,
            })
            .collect()
    }
}

impl Drop for Bystanders {
    fn drop(&mut self) {
        for child in &mut self.started {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
