//! The processes of this machine, from `/proc`.

use std::ffi::OsStr;
use std::fs::{read_dir, read_link, read_to_string};

// The types of `rustix` do not permit 0, the id of a process or group outside this PID namespace.
use nix::unistd::{getpgrp, getpid, getppid, getsid};
use rustix::process::{Signal, kill_process};

/// A process, from its `stat` file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) id: i32,
    pub(crate) name: String,
    /// Whether the process runs or is stopped, and is not a zombie.
    pub(crate) is_alive: bool,
    pub(crate) is_stopped: bool,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// When it started, in clock ticks since the machine was started: distinguishes processes with
    /// the same id.
    pub(crate) started: u64,
}

/// All processes; `None` without the `/proc` of this process's PID namespace.
pub(crate) fn all() -> Option<Vec<Process>> {
    if !is_ours() {
        return None;
    }
    // Skips `self`: that process is also listed by its id.
    let is_process = |name: &OsStr| {
        name.to_str()
            .is_some_and(|name| name.parse::<i32>().is_ok())
    };
    let stats = read_dir("/proc")
        .ok()?
        .flatten()
        .filter(|entry| is_process(&entry.file_name()))
        .filter_map(|process| read_to_string(process.path().join("stat")).ok());
    Some(stats.filter_map(|stat| parse(&stat)).collect())
}

/// The process with this id, zombies included.
pub(crate) fn one(id: i32) -> Option<Process> {
    if is_ours() {
        parse(&read_to_string(format!("/proc/{id}/stat")).ok()?)
    } else {
        None
    }
}

/// Whether this process is the only one of its group.
pub(crate) fn is_alone() -> bool {
    let group = getpgrp().as_raw();
    all().is_some_and(|all| all.iter().filter(|process| process.group == group).count() == 1)
}

/// Sends a signal to the other processes of this process's group.
pub(crate) fn signal_rest_of_group(signal: Signal) {
    let this = getpid().as_raw();
    let group = getpgrp().as_raw();
    for process in all()
        .unwrap_or_default()
        .into_iter()
        .filter(|process| process.group == group && process.id != this)
    {
        let _ = rustix::process::Pid::from_raw(process.id).map(|id| kill_process(id, signal));
    }
}

/// Whether the leader of a group is an orphan that this process has adopted, or the group has no
/// process.
pub(crate) fn is_orphan_or_gone(group: i32) -> bool {
    let this = getpid().as_raw();
    all().is_some_and(|all| match all.iter().find(|process| process.id == group) {
        Some(leader) => leader.parent == this,
        None => all.iter().all(|process| process.group != group),
    })
}

/// Whether `/proc` hides, or may hide, the processes of other users from this process.
pub(crate) fn hides_any() -> bool {
    let Ok(mounts) = read_to_string("/proc/self/mountinfo") else {
        return true;
    };
    mounts
        .split([' ', ',', '\n'])
        .filter_map(|option| option.strip_prefix("hidepid="))
        .any(|value| !matches!(value, "0" | "off"))
}

/// Whether a process was started by one of this process's group.
pub(crate) fn is_child_of_this_group(id: i32) -> bool {
    one(id)
        .and_then(|child| one(child.parent))
        .is_some_and(|parent| parent.group == getpgrp().as_raw())
}

/// Whether this process ignores a signal; `false` where there is no `/proc`.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    is_in_mask("self", "SigIgn", signal)
}

/// Whether a process, or `self`, has a signal in the mask with this name in its `status` file, such
/// as `SigIgn`.
pub(crate) fn is_in_mask(process: &str, name: &str, signal: Signal) -> bool {
    let status = read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let mask = mask
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    mask >> (signal.as_raw() - 1) & 1 == 1
}

/// Whether a shell could continue this process after a stop. The kernel calls a process group
/// orphaned if no shell could. Process 1 of a container is not stopped by its own signals.
pub(crate) fn is_continuable() -> bool {
    getpid().as_raw() != 1
        && all().map_or_else(
            || getsid(Some(getppid())).ok() == getsid(None).ok(),
            |all| has_shell(&all, getpgrp().as_raw()),
        )
}

/// Whether a process of the group has a parent in another group of the same session.
fn has_shell(all: &[Process], group: i32) -> bool {
    all.iter()
        .filter(|process| process.group == group && process.is_alive)
        .any(|member| {
            let parent = all.iter().find(|process| process.id == member.parent);
            parent.is_some_and(|parent| parent.session == member.session && parent.group != group)
        })
}

/// Whether `/proc` shows the process ids of this process's namespace.
fn is_ours() -> bool {
    let this = getpid().as_raw().to_string();
    read_link("/proc/self").is_ok_and(|process| process.as_os_str() == this.as_str())
}

fn parse(stat: &str) -> Option<Process> {
    // The program's name, in parentheses, may contain parentheses and blanks.
    let (id, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<_> = rest.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse().ok();
    // The main thread of a process can end before its other threads.
    let is_alive = !matches!(*fields.first()?, "Z" | "X") || number(17)? > 1;
    Some(Process {
        id: id.parse().ok()?,
        name: name.to_owned(),
        is_alive,
        is_stopped: *fields.first()? == "T",
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        started: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(name: &str, state: char, threads: u32) -> String {
        format!(
            "71 ({name}) {state} 1 70 69 34816 70 4194560 1 0 0 0 0 0 0 0 20 0 {threads} 0 4711 8192 1 18446744073709551615"
        )
    }

    #[test]
    fn a_stat_file_is_parsed_with_any_name_of_the_program() {
        for name in ["sh", "a) Z 1 (b", ""] {
            let expected = Process {
                id: 71,
                name: name.to_owned(),
                is_alive: true,
                is_stopped: true,
                parent: 1,
                group: 70,
                session: 69,
                started: 4711,
            };
            assert_eq!(parse(&stat(name, 'T', 1)), Some(expected));
        }
        assert_eq!((parse(""), parse("71 (sh) S 1")), (None, None));
    }

    #[test]
    fn a_zombie_is_not_alive_unless_another_of_its_threads_is() {
        let is_alive = |state, threads| parse(&stat("sh", state, threads)).unwrap().is_alive;
        assert_eq!(
            [('Z', 1), ('X', 1), ('Z', 2)].map(|(state, threads)| is_alive(state, threads)),
            [false, false, true]
        );
    }

    #[test]
    fn this_process_is_found() {
        let this = getpid().as_raw();
        let found: Vec<_> = all()
            .unwrap()
            .into_iter()
            .filter(|process| process.id == this)
            .collect();
        assert_eq!(
            found
                .iter()
                .map(|process| process.started)
                .collect::<Vec<_>>(),
            [one(this).unwrap().started]
        );
    }

    #[test]
    fn a_group_has_a_shell_if_a_parent_of_one_of_its_processes_is_in_the_session_but_not_in_the_group()
     {
        let process = |id, parent, group, session| Process {
            id,
            name: "sh".to_owned(),
            is_alive: true,
            is_stopped: false,
            parent,
            group,
            session,
            started: 0,
        };
        let init = process(1, 0, 1, 1);
        let shell = process(5, 1, 5, 5);
        let script = process(6, 5, 6, 5);
        let zklock = process(7, 6, 6, 5);
        assert!(has_shell(
            &[init.clone(), shell.clone(), script.clone(), zklock.clone()],
            6
        ));
        // In turn: the shell has ended; a script runs without job control; the process leads a
        // session.
        assert!(!has_shell(
            &[
                init.clone(),
                Process {
                    parent: 1,
                    ..script
                },
                zklock
            ],
            6
        ));
        assert!(!has_shell(
            &[init.clone(), shell.clone(), process(7, 5, 5, 5)],
            5
        ));
        assert!(!has_shell(&[init, shell], 5));
    }
}
