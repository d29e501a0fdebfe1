//! The processes of a round: all descendants of its driver, as `/proc` shows them.

use std::collections::HashSet;
use std::fs;

use rustix::process::{Pid, WaitOptions, waitpid};

/// The environment variable that has the number of a contender.
pub(crate) const NUMBER: &str = "SIGNALS_NUMBER";

/// What a process does for a contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Zklock,
    Guardian,
    /// A process of the command's group: its environment has the fencing token.
    Member,
    /// A shell or `unshare` around zklock, or a process that zklock has not started.
    Other,
}

#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) id: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) state: char,
    pub(crate) number: Option<usize>,
    pub(crate) role: Role,
    arguments: String,
}

impl std::fmt::Display for Process {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            id,
            parent,
            group,
            state,
            arguments,
            ..
        } = self;
        write!(
            formatter,
            "{id} (parent {parent}, group {group}, state {state}, {:?}: {arguments})",
            self.role
        )
    }
}

impl Process {
    /// Whether it runs or is stopped.
    pub(crate) fn lives(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }

    pub(crate) fn is(&self, number: usize, role: Role) -> bool {
        self.number == Some(number) && self.role == role && self.lives()
    }

    fn read(id: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The program's name, in parentheses, may contain parentheses and blanks.
        let (name, fields) = stat.rsplit_once(") ")?;
        let mut fields = fields.split(' ');
        let state = fields.next()?;
        let parent = fields.next()?;
        let group = fields.next()?;
        Some(Self {
            id,
            parent: parent.parse().ok()?,
            group: group.parse().ok()?,
            state: state.chars().next()?,
            number: None,
            role: Role::Other,
            arguments: name.to_owned(),
        })
    }

    /// Reads the fields that are used only of this process's descendants. They are empty for a
    /// zombie.
    fn describe(&mut self) {
        let words = |file| {
            let text = fs::read(format!("/proc/{}/{file}", self.id)).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            text.split_terminator('\0')
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let arguments = words("cmdline");
        let environment = words("environ");
        let value = |name: &str| {
            environment
                .iter()
                .find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='))
        };
        self.number = value(NUMBER).and_then(|number| number.parse().ok());
        // The first argument is the interpreter if a script runs in place of zklock.
        self.role = if value("ZKLOCK_TOKEN").is_some() {
            Role::Member
        } else if arguments
            .first()
            .is_some_and(|first| first == "lock-guardian")
        {
            Role::Guardian
        } else if arguments[..arguments.len().min(3)]
            .windows(2)
            .any(|pair| pair[0].contains("zklock") && pair[1] == "run")
        {
            Role::Zklock
        } else {
            Role::Other
        };
        if !arguments.is_empty() {
            self.arguments = arguments.join(" ").chars().take(150).collect();
        }
    }
}

pub(crate) fn own_id() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// All descendants of this process.
pub(crate) fn descendants() -> Vec<Process> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut others: Vec<_> = ids.filter_map(Process::read).collect();
    let (mut found, mut parents): (Vec<Process>, _) = (Vec::new(), HashSet::from([own_id()]));
    // A parent may have a higher number than its child.
    loop {
        let (mut children, rest): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|process| parents.contains(&process.parent));
        if children.is_empty() {
            break;
        }
        children.iter_mut().for_each(Process::describe);
        parents.extend(children.iter().map(|process| process.id));
        found.extend(children);
        others = rest;
    }
    // Between fork and exec, a child looks like its parent, so a `Zklock` below a `Zklock` is a
    // copy.
    let zklocks: HashSet<_> = found
        .iter()
        .filter(|process| process.role == Role::Zklock)
        .map(|one| one.id)
        .collect();
    let copies =
        |process: &mut Process| process.role == Role::Zklock && zklocks.contains(&process.parent);
    found
        .iter_mut()
        .filter_map(|process| copies(process).then_some(process))
        .for_each(|copy| copy.role = Role::Other);
    found
}

/// Reaps the orphans that this process has adopted, but not the children that it has started
/// itself.
pub(crate) fn reap_orphans(processes: &[Process], children: &HashSet<i32>) {
    let orphans = processes
        .iter()
        .filter(|process| process.state == 'Z' && process.parent == own_id());
    for orphan in orphans.filter(|process| !children.contains(&process.id)) {
        let _ = waitpid(Pid::from_raw(orphan.id), WaitOptions::NOHANG);
    }
}
