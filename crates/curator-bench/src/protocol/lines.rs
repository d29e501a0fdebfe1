//! Formats and parses the lines of the protocol.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;

use super::{Done, Lock, Operation, ProtocolError, Reply, Request, Workload};

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(*self))
    }
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(*self))
    }
}

/// No variant is skipped, so each has a name.
fn name(named: impl ValueEnum) -> String {
    named
        .to_possible_value()
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open {
                sessions,
                connect: None,
            } => write!(f, "open sessions={sessions}"),
            Self::Open {
                sessions,
                connect: Some(connect),
            } => write!(f, "open sessions={sessions} connect={connect}"),
            Self::Supports { operation, lock } => {
                write!(f, "supports case={operation} lock={lock}")
            }
            Self::Run(workload) => write!(f, "run {workload}"),
            Self::Go => f.write_str("go"),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "case={} lock={} path={}",
            self.operation, self.lock, self.path
        )?;
        if !self.time.is_zero() {
            write!(f, " seconds={}", self.time.as_secs_f64())?;
        }
        let numbers = [
            ("tasks", self.tasks),
            ("sessions", self.sessions),
            ("rounds", self.rounds),
            ("waiters", self.waiters),
            ("members", self.members),
            ("nodes", self.nodes),
            ("marked", self.marked),
        ];
        for (key, number) in numbers.iter().filter(|(_, number)| *number > 0) {
            write!(f, " {key}={number}")?;
        }
        if self.waiters > 0 {
            write!(f, " paths={}", if self.each { "each" } else { "one" })?;
        }
        if self.mark > 0 {
            write!(f, " mark={}", self.mark)?;
        }
        self.start
            .map_or(Ok(()), |start| write!(f, " start={start}"))
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => f.write_str("ok"),
            Self::Yes => f.write_str("yes"),
            Self::No(why) => write!(f, "no {}", one_line(why)),
            Self::Held => f.write_str("held"),
            Self::Queued { nanoseconds } => write!(f, "queued nanoseconds={nanoseconds}"),
            Self::Loaded { nanoseconds } => write!(f, "loaded nanoseconds={nanoseconds}"),
            Self::Current { events } => write!(f, "current events={events}"),
            Self::Done(Done {
                operations,
                nanoseconds,
                heap,
            }) => {
                write!(f, "done operations={operations} nanoseconds={nanoseconds}")?;
                heap.map_or(Ok(()), |heap| write!(f, " heap={heap}"))
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
            "supports" => Ok(Self::Supports {
                operation: words.named("case")?,
                lock: words.named("lock")?,
            }),
            "run" => words.workload().map(Self::Run),
            "go" => Ok(Self::Go),
            _ => Err(ProtocolError::Line(line.to_owned())),
        }
    }
}

impl FromStr for Reply {
    type Err = ProtocolError;

    fn from_str(line: &str) -> Result<Self, ProtocolError> {
        let words = Words::of(line);
        let rest = || line.split_once(' ').map_or("", |(_, rest)| rest).to_owned();
        match words.first {
            "ok" => Ok(Self::Ok),
            "yes" => Ok(Self::Yes),
            "no" => Ok(Self::No(rest())),
            "held" => Ok(Self::Held),
            "queued" => Ok(Self::Queued {
                nanoseconds: words.number("nanoseconds")?,
            }),
            "loaded" => Ok(Self::Loaded {
                nanoseconds: words.number("nanoseconds")?,
            }),
            "current" => Ok(Self::Current {
                events: words.number("events")?,
            }),
            "done" => Ok(Self::Done(Done {
                operations: words.number("operations")?,
                nanoseconds: words.number("nanoseconds")?,
                heap: words.optional("heap")?,
            })),
            "error" => Ok(Self::Error(rest())),
            _ => Err(ProtocolError::Line(line.to_owned())),
        }
    }
}

/// A parsed line: its first word, and the values by their keys.
struct Words<'a> {
    line: &'a str,
    first: &'a str,
    values: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    fn of(line: &'a str) -> Self {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or("");
        Self {
            line,
            first,
            values: words.filter_map(|word| word.split_once('=')).collect(),
        }
    }

    fn invalid(&self, key: &'static str) -> ProtocolError {
        ProtocolError::Value {
            line: self.line.to_owned(),
            key,
        }
    }

    fn value(&self, key: &'static str) -> Result<&'a str, ProtocolError> {
        self.values
            .get(key)
            .copied()
            .ok_or_else(|| self.invalid(key))
    }

    fn number<T: FromStr>(&self, key: &'static str) -> Result<T, ProtocolError> {
        self.value(key)?.parse().map_err(|_| self.invalid(key))
    }

    fn optional<T: FromStr>(&self, key: &'static str) -> Result<Option<T>, ProtocolError> {
        self.values
            .contains_key(key)
            .then(|| self.number(key))
            .transpose()
    }

    fn number_or_0(&self, key: &'static str) -> Result<usize, ProtocolError> {
        Ok(self.optional(key)?.unwrap_or(0))
    }

    fn named<T: ValueEnum>(&self, key: &'static str) -> Result<T, ProtocolError> {
        T::from_str(self.value(key)?, false).map_err(|_| self.invalid(key))
    }

    fn workload(&self) -> Result<Workload, ProtocolError> {
        let seconds = self.optional("seconds")?.unwrap_or(0.0);
        Ok(Workload {
            operation: self.named("case")?,
            lock: self.named("lock")?,
            path: self.value("path")?.to_owned(),
            time: Duration::try_from_secs_f64(seconds).map_err(|_| self.invalid("seconds"))?,
            tasks: self.number_or_0("tasks")?,
            sessions: self.number_or_0("sessions")?,
            rounds: self.number_or_0("rounds")?,
            waiters: self.number_or_0("waiters")?,
            each: self.values.get("paths") == Some(&"each"),
            members: self.number_or_0("members")?,
            nodes: self.number_or_0("nodes")?,
            marked: self.number_or_0("marked")?,
            mark: self.optional("mark")?.unwrap_or(0),
            start: self.optional("start")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Request;

    #[test]
    fn formatted_lines_are_parsed_to_the_same_values() {
        let crowd = Workload {
            waiters: 10,
            each: true,
            start: Some(5),
            ..Workload::new(Operation::Crowd, Lock::Mutex, "/a")
        };
        let cache = Workload {
            nodes: 1000,
            marked: 10,
            mark: 7,
            ..Workload::new(Operation::CacheStorm, Lock::Cache, "/a")
        };
        for workload in [crowd, cache] {
            let request = Request::Run(workload);
            assert_eq!(request.to_string().parse(), Ok(request));
        }
        let done = |heap| {
            Reply::Done(Done {
                operations: 3,
                nanoseconds: 4,
                heap,
            })
        };
        for reply in [
            done(None),
            done(Some(5)),
            Reply::Loaded { nanoseconds: 6 },
            Reply::Current { events: 7 },
        ] {
            assert_eq!(reply.to_string().parse(), Ok(reply));
        }
    }

    #[test]
    fn a_malformed_number_is_refused() {
        let line = "run case=cache-load lock=cache path=/a nodes=many";
        let refused = ProtocolError::Value {
            line: line.to_owned(),
            key: "nodes",
        };
        assert_eq!(line.parse::<Request>(), Err(refused));
    }
}
