//! The lines that the bench and a worker exchange, whatever client the worker uses.
//!
//! A worker is started with a connect string and a session timeout in milliseconds. It answers each line of its standard
//! input with one line on its standard output, and ends when the input does. A crowd's `run` is answered three times:
//! the locks are `held`, after a line `go` all are `queued`, and after another one it is `done`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What is done with a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Act {
    /// One task acquires and releases.
    Cycle,
    /// The same, while it holds the lock.
    Reentry,
    /// Tasks of one session, each with a lock of its own.
    Distinct,
    /// A task in each session, all with the same lock.
    Handover,
    /// Readers, each in a session of its own, wait for a writer.
    Readers,
    /// Tasks of one session wait for another one's lock, or locks.
    Crowd,
    /// The same on one lock, and the connection breaks before it is released.
    Reconnect,
}

/// With which lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lock {
    Mutex,
    Read,
    Write,
    Semaphore,
    SemaphoreMutex,
    Multi,
    /// No lock: the creation and the deletion of an ephemeral, sequential node.
    Floor,
}

/// What the bench asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Request {
    /// So many sessions more, with this server if one is named.
    Open {
        sessions: usize,
        connect: Option<String>,
    },
    Supports {
        act: Act,
        lock: Lock,
    },
    Run(Play),
    Go,
}

/// A case, played once. What the case does not need is 0.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Play {
    pub(crate) act: Act,
    pub(crate) lock: Lock,
    /// The node of the lock, or the parent of those of several.
    pub(crate) path: String,
    /// For how long.
    pub(crate) time: Duration,
    pub(crate) tasks: usize,
    pub(crate) sessions: usize,
    pub(crate) rounds: usize,
    pub(crate) waiters: usize,
    /// Each waiter has a lock of its own.
    pub(crate) each: bool,
    /// How many paths a multi-lock has.
    pub(crate) members: usize,
    /// When to begin, in milliseconds since 1970.
    pub(crate) start: Option<u64>,
}

/// What a worker says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Ok,
    Yes,
    No(String),
    Held,
    Queued { nanoseconds: u64 },
    Done(Done),
    Error(String),
}

/// What has been done, and how long it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Done {
    pub(crate) operations: u64,
    pub(crate) nanoseconds: u64,
}

/// A line that is not part of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtocolError {
    #[error("{0:?} is not a line of the bench's protocol")]
    Line(String),
    #[error("{line:?} has no {key}, or one that cannot be")]
    Value { line: String, key: &'static str },
}

const ACTS: [(Act, &str); 7] = [
    (Act::Cycle, "cycle"),
    (Act::Reentry, "reentry"),
    (Act::Distinct, "distinct"),
    (Act::Handover, "handover"),
    (Act::Readers, "readers"),
    (Act::Crowd, "crowd"),
    (Act::Reconnect, "reconnect"),
];

const LOCKS: [(Lock, &str); 7] = [
    (Lock::Mutex, "mutex"),
    (Lock::Read, "read"),
    (Lock::Write, "write"),
    (Lock::Semaphore, "semaphore"),
    (Lock::SemaphoreMutex, "semaphore-mutex"),
    (Lock::Multi, "multi"),
    (Lock::Floor, "floor"),
];

impl Play {
    /// One that needs nothing but a path.
    pub(crate) fn new(act: Act, lock: Lock, path: impl Into<String>) -> Self {
        let (tasks, sessions, rounds, waiters, members) = (0, 0, 0, 0, 0);
        let (path, time, each, start) = (path.into(), Duration::ZERO, false, None);
        Self { act, lock, path, time, tasks, sessions, rounds, waiters, each, members, start }
    }
}

impl Done {
    pub(crate) fn new(operations: u64, time: Duration) -> Self {
        Self { operations, nanoseconds: nanoseconds(time) }
    }
}

/// Saturates, after five centuries.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ACTS.iter().find(|(act, _)| act == self).map_or("", |(_, name)| name))
    }
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(LOCKS.iter().find(|(lock, _)| lock == self).map_or("", |(_, name)| name))
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { sessions, connect: None } => write!(f, "open sessions={sessions}"),
            Self::Open { sessions, connect: Some(connect) } => write!(f, "open sessions={sessions} connect={connect}"),
            Self::Supports { act, lock } => write!(f, "supports case={act} lock={lock}"),
            Self::Run(play) => write!(f, "run {play}"),
            Self::Go => f.write_str("go"),
        }
    }
}

impl fmt::Display for Play {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "case={} lock={} path={}", self.act, self.lock, self.path)?;
        if !self.time.is_zero() {
            write!(f, " seconds={}", self.time.as_secs_f64())?;
        }
        let numbers = [
            ("tasks", self.tasks),
            ("sessions", self.sessions),
            ("rounds", self.rounds),
            ("waiters", self.waiters),
            ("members", self.members),
        ];
        for (key, number) in numbers.iter().filter(|(_, number)| *number > 0) {
            write!(f, " {key}={number}")?;
        }
        if self.waiters > 0 {
            write!(f, " paths={}", if self.each { "each" } else { "one" })?;
        }
        self.start.map_or(Ok(()), |start| write!(f, " start={start}"))
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => f.write_str("ok"),
            Self::Yes => f.write_str("yes"),
            Self::No(why) => write!(f, "no {}", one_line(why)),
            Self::Held => f.write_str("held"),
            Self::Queued { nanoseconds } => write!(f, "queued nanoseconds={nanoseconds}"),
            Self::Done(Done { operations, nanoseconds }) => {
                write!(f, "done operations={operations} nanoseconds={nanoseconds}")
            }
            Self::Error(what) => write!(f, "error {}", one_line(what)),
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl FromStr for Request {
    type Err = ProtocolError;

    fn from_str(line: &str) -> Result<Self, ProtocolError> {
        let words = Words::of(line);
        match words.first {
            "open" => Ok(Self::Open {
                sessions: words.number("sessions")?,
                connect: words.values.get("connect").map(ToString::to_string),
            }),
            "supports" => Ok(Self::Supports { act: words.named("case", &ACTS)?, lock: words.named("lock", &LOCKS)? }),
            "run" => words.play().map(Self::Run),
            "go" => Ok(Self::Go),
            _ => Err(ProtocolError::Line(line.to_owned())),
        }
    }
}

impl FromStr for Answer {
    type Err = ProtocolError;

    fn from_str(line: &str) -> Result<Self, ProtocolError> {
        let (words, rest) = (Words::of(line), || line.split_once(' ').map_or("", |(_, rest)| rest).to_owned());
        match words.first {
            "ok" => Ok(Self::Ok),
            "yes" => Ok(Self::Yes),
            "no" => Ok(Self::No(rest())),
            "held" => Ok(Self::Held),
            "queued" => Ok(Self::Queued { nanoseconds: words.number("nanoseconds")? }),
            "done" => Ok(Self::Done(Done {
                operations: words.number("operations")?,
                nanoseconds: words.number("nanoseconds")?,
            })),
            "error" => Ok(Self::Error(rest())),
            _ => Err(ProtocolError::Line(line.to_owned())),
        }
    }
}

/// A line: a word, and values by their keys.
struct Words<'a> {
    line: &'a str,
    first: &'a str,
    values: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    fn of(line: &'a str) -> Self {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or("");
        Self { line, first, values: words.filter_map(|word| word.split_once('=')).collect() }
    }

    fn wrong(&self, key: &'static str) -> ProtocolError {
        ProtocolError::Value { line: self.line.to_owned(), key }
    }

    fn value(&self, key: &'static str) -> Result<&'a str, ProtocolError> {
        self.values.get(key).copied().ok_or_else(|| self.wrong(key))
    }

    fn number<T: FromStr>(&self, key: &'static str) -> Result<T, ProtocolError> {
        self.value(key)?.parse().map_err(|_| self.wrong(key))
    }

    fn number_or_none(&self, key: &'static str) -> Result<usize, ProtocolError> {
        if self.values.contains_key(key) { self.number(key) } else { Ok(0) }
    }

    fn named<T: Copy>(&self, key: &'static str, names: &[(T, &str)]) -> Result<T, ProtocolError> {
        let value = self.value(key)?;
        names.iter().find(|(_, name)| *name == value).map(|(named, _)| *named).ok_or_else(|| self.wrong(key))
    }

    fn play(&self) -> Result<Play, ProtocolError> {
        let seconds = if self.values.contains_key("seconds") { self.number("seconds")? } else { 0.0 };
        Ok(Play {
            act: self.named("case", &ACTS)?,
            lock: self.named("lock", &LOCKS)?,
            path: self.value("path")?.to_owned(),
            time: Duration::try_from_secs_f64(seconds).map_err(|_| self.wrong("seconds"))?,
            tasks: self.number_or_none("tasks")?,
            sessions: self.number_or_none("sessions")?,
            rounds: self.number_or_none("rounds")?,
            waiters: self.number_or_none("waiters")?,
            each: self.values.get("paths") == Some(&"each"),
            members: self.number_or_none("members")?,
            start: self.values.contains_key("start").then(|| self.number("start")).transpose()?,
        })
    }
}
