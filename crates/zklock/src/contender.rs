//! The contenders of locks, from the names of their nodes and from the data in them.
//!
//! Curator, this project, kazoo and go-zookeeper write such nodes. The data name the process, its
//! host and a label.

use std::fmt;

use rustix::system::uname;
use serde::{Deserialize, Serialize};

use crate::print::{NAME, printable};

/// The kind of a queue, by the names of its nodes. In one directory, queues of different kinds
/// ignore each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// A mutex of Curator, this project or go-zookeeper, or an election by `LeaderSelector`, which
    /// has the same nodes.
    Mutex,
    ReadWriteLock,
    LeaderLatch,
    Semaphore,
    /// A `Lock`, `ReadLock`, `WriteLock` or `Election` of kazoo.
    KazooLock,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mutex => "mutex",
            Self::ReadWriteLock => "read-write lock",
            Self::LeaderLatch => "leader latch",
            Self::Semaphore => "semaphore",
            Self::KazooLock => "kazoo lock",
        })
    }
}

/// A node of a contender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) sequence: i32,
    pub(crate) reads: bool,
    pub(crate) holds: bool,
}

/// The text before the sequence number, the kind of lock, and whether the node is a reader's.
const MARKS: [(&str, Kind, bool); 7] = [
    ("__rlock__", Kind::KazooLock, true),
    ("__lock__", Kind::KazooLock, false),
    ("__READ__", Kind::ReadWriteLock, true),
    ("__WRIT__", Kind::ReadWriteLock, false),
    ("-latch-", Kind::LeaderLatch, false),
    ("-lease-", Kind::Semaphore, false),
    ("-lock-", Kind::Mutex, false),
];

/// The children of a semaphore's directory: its leases, and the mutex of the waiters.
pub(crate) const LEASES: &str = "leases";
pub(crate) const LOCKS: &str = "locks";

/// Whether these are the children of a semaphore's directory.
pub(crate) fn is_semaphore(children: &[String]) -> bool {
    [LEASES, LOCKS]
        .iter()
        .all(|name| children.iter().any(|child| child == name))
}

/// The queues among these children, each in its order.
pub(crate) fn queues(children: &[String]) -> Vec<(Kind, Vec<Entry>)> {
    let mut entries: Vec<_> = children.iter().filter_map(|name| entry(name)).collect();
    entries.sort_by_key(|(_, entry)| entry.sequence);
    let mut queues: Vec<(Kind, Vec<Entry>)> = Vec::new();
    for (kind, mut entry) in entries {
        match queues.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, before)) => {
                entry.holds = kind == Kind::Semaphore
                    || entry.reads && before.iter().all(|before| before.reads);
                before.push(entry);
            }
            None => queues.push((kind, vec![entry])),
        }
    }
    queues
}

/// Whether the sequence numbers no longer give the order of the queue: after the largest number,
/// the directory's counter repeats this number or continues with negative ones.
pub(crate) fn are_used_up(entries: &[Entry]) -> bool {
    entries
        .iter()
        .any(|entry| entry.sequence == i32::MAX || entry.sequence < 0)
}

fn entry(name: &str) -> Option<(Kind, Entry)> {
    MARKS.iter().find_map(|(mark, kind, reads)| {
        let (_, number) = name.rsplit_once(mark)?;
        // An exhausted counter gives negative numbers.
        let is_number = number.trim_start_matches('-').len() >= 10;
        let sequence = number.parse().ok().filter(|_| is_number)?;
        // The first node of a queue holds the lock; `queues` corrects this for the others.
        Some((
            *kind,
            Entry {
                name: name.to_owned(),
                sequence,
                reads: *reads,
                holds: true,
            },
        ))
    })
}

/// The process that created a node, as its data describes it. zklock writes JSON; other clients
/// write an address, an id, or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Contender {
    pub(crate) host: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
}

impl Contender {
    /// This process.
    pub(crate) fn this(label: Option<String>) -> Self {
        let host = uname().nodename().to_string_lossy().into_owned();
        Self {
            host,
            pid: Some(std::process::id()),
            label,
        }
    }

    pub(crate) fn to_data(&self) -> Vec<u8> {
        // A map with text keys cannot fail to serialize.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Parses a node's data. Data that are not zklock's JSON become the host: Curator's locks write
    /// an address.
    pub(crate) fn from_data(data: &[u8]) -> Self {
        if data == REVOKED {
            return Self {
                label: Some("revocation requested".to_owned()),
                ..Self::default()
            };
        }
        let host = || String::from_utf8_lossy(data).trim().to_owned();
        // serde would also read an array, which other clients may write.
        let is_object = data.trim_ascii_start().starts_with(b"{");
        let contender = is_object
            .then(|| serde_json::from_slice(data).ok())
            .flatten();
        let mut contender = contender.unwrap_or_else(|| Self {
            host: host(),
            ..Self::default()
        });
        std::iter::once(&mut contender.host)
            .chain(&mut contender.label)
            .for_each(shorten);
        contender
    }
}

/// Names the first of these contenders, and counts the others; `None` if there are none.
pub(crate) fn names(contenders: impl IntoIterator<Item = Contender>) -> Option<String> {
    let mut contenders = contenders.into_iter();
    let named: Vec<_> = contenders
        .by_ref()
        .take(MOST_NAMED)
        .map(|contender| contender.to_string())
        .collect();
    match (named.is_empty(), contenders.count()) {
        (true, _) => None,
        (false, 0) => Some(named.join(", ")),
        (false, others) => Some(format!("{} and {others} more", named.join(", "))),
    }
}

/// The maximum number of contenders named in a line.
const MOST_NAMED: usize = 5;

/// The maximum number of characters kept of a host or a label.
const LONGEST: usize = 1_000;

fn shorten(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(end);
        text.shrink_to_fit();
    }
}

/// The data that Curator's `Revoker` and `zklock revoke` write to the holder's node.
const REVOKED: &[u8] = b"__REVOKE__";

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match printable(&self.host, NAME) {
            host if host.is_empty() => f.write_str("an unnamed client")?,
            host => f.write_str(&host)?,
        }
        if let Some(pid) = self.pid {
            write!(f, " pid {pid}")?;
        }
        self.label
            .as_ref()
            .map_or(Ok(()), |label| write!(f, " ({})", printable(label, NAME)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues_of(names: &[&str]) -> Vec<(Kind, Vec<(i32, bool)>)> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        queues(&names)
            .into_iter()
            .map(|(kind, entries)| {
                (
                    kind,
                    entries
                        .iter()
                        .map(|entry| (entry.sequence, entry.holds))
                        .collect(),
                )
            })
            .collect()
    }

    const ID: &str = "_c_0e3f3c2a-57a5-4b53-9b66-b5b8e8a5b3a3";

    #[test]
    fn the_first_node_of_a_mutex_holds_it_and_kazoo_nodes_form_a_separate_queue() {
        let names = [
            &format!("{ID}-lock-0000000007"),
            "8f2bb1a1f2f94c6c9f1f1b6f5a0e6a6b__lock__0000000005",
            "_c_8f2bb1a1f2f94c6c9f1f1b6f5a0e6a6b-lock-0000000006",
            "config",
        ];
        assert_eq!(
            queues_of(&names),
            [
                (Kind::KazooLock, vec![(5, true)]),
                (Kind::Mutex, vec![(6, true), (7, false)])
            ]
        );
        assert_eq!(queues_of(&["config", "x-lock-", "x-lock-12"]), []);
        assert_eq!(
            queues_of(&[&format!("{ID}-latch-0000000001")]),
            [(Kind::LeaderLatch, vec![(1, true)])]
        );
        let ends = [
            "a-lock--2147483648",
            "a-lock-2147483647",
            "a-lock-2147483646",
        ]
        .map(str::to_owned);
        assert_eq!(
            queues_of(&["a-lock--2147483648", "a-lock-2147483647"])[0]
                .1
                .len(),
            2
        );
        assert_eq!(
            [&ends[..1], &ends[1..2], &ends[2..]].map(|names| are_used_up(&queues(names)[0].1)),
            [true, true, false]
        );
    }

    #[test]
    fn readers_before_the_first_writer_hold_together() {
        let read = |number: u32| format!("{ID}-__READ__{number:010}");
        let write = |number: u32| format!("{ID}-__WRIT__{number:010}");
        let names = [read(1), read(2), write(3), read(4)];
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let holds = vec![(1, true), (2, true), (3, false), (4, false)];
        assert_eq!(queues_of(&names), [(Kind::ReadWriteLock, holds)]);
        assert_eq!(
            queues_of(&[&write(3), &read(4)])[0].1,
            [(3, true), (4, false)]
        );
        let kazoo = ["a__lock__0000000001", "a__rlock__0000000002"];
        assert_eq!(
            queues_of(&kazoo),
            [(Kind::KazooLock, vec![(1, true), (2, false)])]
        );
    }

    #[test]
    fn all_leases_are_held() {
        let lease = |number: u32| format!("{ID}-lease-{number:010}");
        assert_eq!(
            queues_of(&[&lease(9), &lease(2)]),
            [(Kind::Semaphore, vec![(2, true), (9, true)])]
        );
        assert!(
            is_semaphore(&["leases".to_owned(), "locks".to_owned()])
                && !is_semaphore(&["locks".to_owned()])
        );
    }

    #[test]
    fn data_of_any_client_are_shown_without_control_characters() {
        let this = Contender::this(Some("nightly".to_owned()));
        assert_eq!(Contender::from_data(&this.to_data()), this);
        for (data, shown) in [
            (&b"10.0.0.7"[..], "10.0.0.7"),
            (b"", "an unnamed client"),
            (br#"{"host":" ","pid":7}"#, "an unnamed client pid 7"),
            (b"\x1b[2Jx\n", "\u{fffd}[2Jx"),
            (b"\xff", "\u{fffd}"),
            (br#"["web1",7,"x"]"#, r#"["web1",7,"x"]"#),
            ("a\u{202e}b".as_bytes(), "a\u{fffd}b"),
            (b"__REVOKE__", "an unnamed client (revocation requested)"),
            (
                br#"{"host":"web1","pid":7,"label":"a\u001bb"}"#,
                "web1 pid 7 (a\u{fffd}b)",
            ),
            (br#"{"host":"\u001b[2J\nx"}"#, "\u{fffd}[2J\u{fffd}x"),
        ] {
            assert_eq!(Contender::from_data(data).to_string(), shown);
        }
        let long = "ü".repeat(300_000);
        let read =
            Contender::from_data(format!(r#"{{"host":"{long}","label":"{long}"}}"#).as_bytes());
        assert_eq!(
            [&read.host, read.label.as_ref().unwrap()].map(|text| text.chars().count()),
            [LONGEST; 2]
        );
        assert_eq!(read.to_string().chars().count(), 2 * NAME + " ()".len());
    }

    #[test]
    fn only_the_first_contenders_are_named() {
        let named = |count: usize| {
            names((1..=count).map(|id| Contender {
                host: format!("web{id}"),
                ..Contender::default()
            }))
        };
        assert_eq!([named(0), named(1)], [None, Some("web1".to_owned())]);
        assert_eq!(named(5).unwrap(), "web1, web2, web3, web4, web5");
        assert_eq!(named(7).unwrap(), "web1, web2, web3, web4, web5 and 2 more");
    }
}
