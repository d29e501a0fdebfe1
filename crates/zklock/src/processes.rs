//! The processes of this machine, from `/proc`.

use std::fs::{read_dir, read_link, read_to_string};

use rustix::process::{Signal, getpid};

/// A process, from its `stat` file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) id: i32,
    pub(crate) name: String,
    /// Whether it runs or is stopped, and is not a zombie.
    pub(crate) is_alive: bool,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// When it started, in clock ticks since the machine was started: tells processes with the same id apart.
    pub(crate) started: u64,
}

/// All processes; `None` without the `/proc` of this process's PID namespace.
pub(crate) fn all() -> Option<Vec<Process>> {
    if !is_ours() {
        return None;
    }
    let stats = read_dir("/proc").ok()?.flatten().filter_map(|entry| read_to_string(entry.path().join("stat")).ok());
    Some(stats.filter_map(|stat| parse(&stat)).collect())
}

/// The process with this id, zombies included.
pub(crate) fn one(id: i32) -> Option<Process> {
    if is_ours() { parse(&read_to_string(format!("/proc/{id}/stat")).ok()?) } else { None }
}

/// Whether a process, or `self`, has a signal in the mask with this name in its `status` file, such as `SigIgn`.
pub(crate) fn is_in_mask(process: &str, name: &str, signal: Signal) -> bool {
    let status = read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal.as_raw() - 1) & 1 == 1
}

/// Whether `/proc` shows the process ids of this process's namespace.
fn is_ours() -> bool {
    let this = getpid().as_raw_pid().to_string();
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
    fn a_stat_file_is_parsed_whatever_the_name_of_the_program_is() {
        for name in ["sh", "a) Z 1 (b", ""] {
            let expected = Process {
                id: 71,
                name: name.to_owned(),
                is_alive: true,
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
        let this = getpid().as_raw_pid();
        let found = all().unwrap().into_iter().find(|process| process.id == this);
        assert!(found.is_some() && found == one(this), "{found:?}");
    }
}
