//! The contenders of locks, from the names of their nodes: nodes of Curator, of this project, of
//! kazoo and of go-zookeeper.

use std::fmt;

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

#[cfg(test)]
mod tests {
    use super::*;

    fn queues_of(names: &[&str]) -> Vec<(Kind, Vec<(i32, bool)>)> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let shown = |entry: &Entry| (entry.sequence, entry.holds);
        queues(&names)
            .into_iter()
            .map(|(kind, entries)| (kind, entries.iter().map(shown).collect()))
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
}
