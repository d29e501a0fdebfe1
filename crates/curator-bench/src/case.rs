//! The cases: each is an operation on a lock, a cache, a counter, a discovery or shards, with the
//! number of participants.

use std::collections::BTreeSet;
use std::fmt;

pub(crate) use curator_results::bench::Kind;

use crate::peer::{Peer, has_floor};
use crate::protocol::{Lock, Operation, Workload};
use crate::tree::CHANGES;

/// A case: a workload, and the number of processes that run it.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// The number of worker processes of a peer that run the case concurrently. All processes get
    /// the same request.
    pub(crate) processes: usize,
    /// The workload, without a path and without a duration.
    pub(crate) workload: Workload,
}

/// The locks of the uncontended cycles. The number is the number of paths of a multi-lock, and 0
/// for other locks.
const CYCLES: [(Lock, usize); 8] = [
    (Lock::Floor, 0),
    (Lock::Mutex, 0),
    (Lock::Read, 0),
    (Lock::Write, 0),
    (Lock::Semaphore, 0),
    (Lock::SemaphoreMutex, 0),
    (Lock::Multi, 3),
    (Lock::Multi, 10),
];
/// The numbers of tasks, each with a separate lock.
const DISTINCT: [usize; 3] = [16, 64, 256];
/// The numbers of sessions, or of processes, that contend for one lock.
const HANDOVER: [usize; 3] = [2, 16, 64];
/// The number of sessions of `handover-floor`, the baseline of the hand-over cases.
const FLOOR_SESSIONS: usize = 16;
/// The number of sessions of `fleet`, the largest hand-over.
const FLEET: usize = 200;
/// The number of readers behind a writer.
const READERS: usize = 16;
/// The numbers of waiters of one session.
const CROWDS: [usize; 2] = [1_000, 10_000];
/// The numbers of leaves of the trees that a cache loads. `cache-storm` and `cache-reconnect` use
/// the second tree.
const TREES: [usize; 3] = [1_000, 10_000, 100_000];
/// The number of changes in `cache-storm`.
const STORM: usize = 10_000;
/// The number of processes that increment one counter.
const COUNTING: usize = 16;
/// The number of instances of a service.
const INSTANCES: usize = 1_000;
/// The numbers of members and of their shards.
const MEMBERS: usize = 50;
const SHARDS: usize = 1_000;
/// In `cache-reconnect`, one in this many leaves is changed while the cache is disconnected.
const LEAVES_PER_MISSED_CHANGE: usize = 100;

/// The largest numbers in a smoke run.
const QUICK_SESSIONS: usize = 4;
const QUICK_WAITERS: usize = 50;
const QUICK_TREE: usize = 1_000;
const QUICK_INSTANCES: usize = 100;
const QUICK_SHARDS: usize = 40;

/// All cases, in the order they run. `quick` makes them small.
pub(crate) fn all(quick: bool) -> Vec<Case> {
    let sessions = |number: usize| at_most(number, QUICK_SESSIONS, quick);
    let mut cases = Vec::new();
    for (lock, members) in CYCLES {
        let name = if members > 0 {
            format!("cycle-{lock}-{members}")
        } else {
            format!("cycle-{lock}")
        };
        cases.push(Case::new(
            name,
            Workload {
                members,
                ..workload(Operation::Cycle, lock)
            },
        ));
    }
    for lock in [Lock::Mutex, Lock::Write] {
        cases.push(Case::new(
            format!("reentry-{lock}"),
            workload(Operation::Reentry, lock),
        ));
    }
    for tasks in DISTINCT.map(sessions) {
        cases.push(Case::new(
            format!("distinct-{tasks}"),
            Workload {
                tasks,
                ..workload(Operation::Distinct, Lock::Mutex)
            },
        ));
    }
    for sessions in HANDOVER.map(sessions) {
        cases.push(Case::new(
            format!("handover-{sessions}"),
            Workload {
                sessions,
                ..workload(Operation::Handover, Lock::Mutex)
            },
        ));
    }
    cases.push(Case::new(
        "handover-floor".to_owned(),
        Workload {
            sessions: sessions(FLOOR_SESSIONS),
            ..workload(Operation::Handover, Lock::Floor)
        },
    ));
    for processes in HANDOVER.map(sessions) {
        cases.push(Case {
            name: format!("handover-processes-{processes}"),
            processes,
            workload: Workload {
                sessions: 1,
                ..workload(Operation::Handover, Lock::Mutex)
            },
        });
    }
    let fleet = sessions(FLEET);
    cases.push(Case::new(
        format!("fleet-{fleet}"),
        Workload {
            sessions: fleet,
            ..workload(Operation::Handover, Lock::Mutex)
        },
    ));
    let readers = sessions(READERS);
    cases.push(Case::new(
        format!("readers-{readers}"),
        Workload {
            sessions: readers,
            rounds: 10,
            ..workload(Operation::Readers, Lock::Read)
        },
    ));
    let [few, many] = CROWDS.map(|waiters| at_most(waiters, QUICK_WAITERS, quick));
    cases.extend(crowds(few));
    cases.push(Case::new(
        format!("reconnect-{few}"),
        Workload {
            waiters: few,
            ..workload(Operation::Reconnect, Lock::Mutex)
        },
    ));
    // The largest crowds are the last lock cases, because their many long lists of children can
    // crash a server.
    cases.extend(crowds(many));
    cases.extend(caches(quick));
    cases.extend(counters(sessions(COUNTING)));
    cases.extend(discoveries(if quick { QUICK_INSTANCES } else { INSTANCES }));
    let members = sessions(MEMBERS);
    cases.push(Case::new(
        format!("shards-{members}"),
        Workload {
            sessions: members,
            nodes: at_most(SHARDS, QUICK_SHARDS, quick),
            ..workload(Operation::Shards, Lock::Shards)
        },
    ));
    // Cases that differ only in large numbers are equal in a smoke run.
    let mut names = BTreeSet::new();
    cases.retain(|case| names.insert(case.name.clone()));
    cases
}

/// Limits the number to `most` in a smoke run.
fn at_most(number: usize, most: usize, quick: bool) -> usize {
    if quick { number.min(most) } else { number }
}

fn workload(operation: Operation, lock: Lock) -> Workload {
    Workload::new(operation, lock, "")
}

/// The cases of a crowd: its waiters wait for one lock, or each for a separate lock.
fn crowds(waiters: usize) -> [Case; 2] {
    [(false, "crowd"), (true, "crowd-each")].map(|(each, name)| {
        Case::new(
            format!("{name}-{waiters}"),
            Workload {
                waiters,
                each,
                ..workload(Operation::Crowd, Lock::Mutex)
            },
        )
    })
}

/// The cases of a cache. They come after the lock cases, as their trees stay on the server.
fn caches(quick: bool) -> Vec<Case> {
    let tree = |number: usize| at_most(number, QUICK_TREE, quick);
    let case = |operation: Operation, number: usize, nodes: usize, marked: usize| {
        Case::new(
            format!("{operation}-{number}"),
            Workload {
                nodes,
                marked,
                ..workload(operation, Lock::Cache)
            },
        )
    };
    let [_, followed, _] = TREES.map(tree);
    let changes = tree(STORM);
    let mut cases: Vec<_> = TREES
        .map(tree)
        .iter()
        .map(|nodes| case(Operation::CacheLoad, *nodes, *nodes, 0))
        .collect();
    cases.push(case(
        Operation::CacheStorm,
        changes,
        followed,
        changes / CHANGES,
    ));
    cases.push(case(
        Operation::CacheReconnect,
        followed,
        followed,
        followed / LEAVES_PER_MISSED_CHANGE,
    ));
    cases
}

/// The cases of a counter: incremented by one process, and by many.
fn counters(processes: usize) -> impl Iterator<Item = Case> {
    [Lock::Counter, Lock::Receipt]
        .into_iter()
        .flat_map(move |lock| {
            [
                (format!("increment-{lock}"), 1),
                (format!("increment-{lock}-{processes}"), processes),
            ]
            .map(|(name, processes)| Case {
                name,
                processes,
                workload: Workload {
                    sessions: 1,
                    ..workload(Operation::Increment, lock)
                },
            })
        })
}

/// The cases of service discovery.
fn discoveries(nodes: usize) -> [Case; 2] {
    // `find` has two sessions: one registers the instances, the other finds them.
    [(Operation::Register, 1), (Operation::Find, 2)].map(|(operation, sessions)| {
        Case::new(
            format!("{operation}-{nodes}"),
            Workload {
                nodes,
                sessions,
                ..workload(operation, Lock::Discovery)
            },
        )
    })
}

/// The cases that `names` selects. Each name selects the case with that name or, if there is none,
/// all cases whose names begin with it. An empty list selects all cases. The error is the first
/// name that selects no case.
pub(crate) fn selected(names: &[String], quick: bool) -> Result<Vec<Case>, String> {
    let all = all(quick);
    let fits = |case: &Case, name: &String| {
        let is_whole = all.iter().any(|case| case.name == *name);
        if is_whole {
            case.name == *name
        } else {
            case.name.starts_with(name.as_str())
        }
    };
    if let Some(unknown) = names
        .iter()
        .find(|name| !all.iter().any(|case| fits(case, name)))
    {
        return Err(unknown.clone());
    }
    Ok(all
        .iter()
        .filter(|case| names.is_empty() || names.iter().any(|name| fits(case, name)))
        .cloned()
        .collect())
}

/// The workload of a peer's warm-up: like `workload`, but with a small crowd or tree.
pub(crate) fn warm_up(workload: &Workload) -> Workload {
    let small = |number: usize| number.min((number / 20).max(10));
    let nodes = small(workload.nodes);
    Workload {
        waiters: small(workload.waiters),
        nodes,
        marked: workload.marked.min(nodes),
        ..workload.clone()
    }
}

impl Case {
    /// A case for one process.
    fn new(name: String, workload: Workload) -> Self {
        Self {
            name,
            processes: 1,
            workload,
        }
    }

    /// Whether the bench requests the case from a peer. The worker reports cases that it does not
    /// support.
    pub(crate) fn is_for(&self, peer: Peer) -> bool {
        let Workload {
            operation, lock, ..
        } = &self.workload;
        let is_lock = self.kind() != Kind::Cache && *operation != Operation::Increment;
        match peer {
            _ if *operation == Operation::Shards => matches!(peer, Peer::Ours | Peer::Native),
            Peer::CuratorShared | Peer::Go | Peer::ZookeeperClient if !is_lock => false,
            // The duration grows with the square of the number of waiters: larger crowds would take
            // hours.
            Peer::CuratorShared => {
                *operation == Operation::Crowd
                    && !self.workload.each
                    && self.workload.waiters <= CROWDS[0]
            }
            _ if *lock == Lock::Floor && *operation == Operation::Handover => {
                matches!(peer, Peer::Ours | Peer::Native)
            }
            _ => *lock != Lock::Floor || has_floor(peer),
        }
    }

    /// Whether the peer also runs the case in environments with slow round trips (a network delay,
    /// or an ensemble with fsync). Left out: re-entries, which send nothing; several processes,
    /// because the processor is their bottleneck; large crowds and trees, which would take minutes;
    /// all cases of `curator-shared`; kazoo's and go-zookeeper's cycles of locks other than the
    /// mutex.
    pub(crate) fn is_for_slow_round_trips(&self, peer: Peer) -> bool {
        let Workload {
            operation,
            lock,
            waiters,
            nodes,
            ..
        } = &self.workload;
        let is_small = *waiters <= CROWDS[0] && *nodes <= TREES[1];
        let is_suitable = *operation != Operation::Reentry && self.processes == 1 && is_small;
        let is_of_peer = match peer {
            Peer::Kazoo | Peer::Go => *operation != Operation::Cycle || *lock == Lock::Mutex,
            Peer::CuratorShared => false,
            Peer::Ours | Peer::Native | Peer::Curator | Peer::ZookeeperClient => true,
        };
        is_suitable && is_of_peer
    }

    /// Whether the peer's requests are counted. Large crowds are not counted, because counting
    /// takes another run of the case.
    pub(crate) fn is_counted(&self, peer: Peer) -> bool {
        self.workload.waiters <= CROWDS[0] && peer != Peer::CuratorShared
    }

    pub(crate) fn kind(&self) -> Kind {
        match self.workload.operation {
            Operation::Crowd | Operation::Reconnect => Kind::Crowd,
            Operation::CacheLoad
            | Operation::CacheStorm
            | Operation::CacheReconnect
            | Operation::Register
            | Operation::Find
            | Operation::Shards => Kind::Cache,
            _ => Kind::Timed,
        }
    }

    /// A description of the case.
    pub(crate) fn title(&self) -> String {
        let Workload {
            operation,
            lock,
            tasks,
            sessions,
            waiters,
            each,
            members,
            nodes,
            marked,
            ..
        } = &self.workload;
        match operation {
            Operation::Cycle if *lock == Lock::Floor => {
                "the floor (baseline): create and delete a node".to_owned()
            }
            Operation::Cycle if *members > 0 => {
                format!("uncontended cycle of a multi-lock of {members}")
            }
            Operation::Cycle => format!("uncontended cycle, {lock}"),
            Operation::Reentry => format!("re-entry, {lock}"),
            Operation::Distinct => format!("{tasks} tasks on distinct locks, one session"),
            Operation::Handover if self.name.starts_with("fleet") => {
                format!("a fleet: hand-over between {sessions} sessions")
            }
            Operation::Handover if *lock == Lock::Floor => {
                "the floor (baseline) of a hand-over: a delete, and its event".to_owned()
            }
            Operation::Handover if self.processes > 1 => {
                format!("hand-over between {} processes", self.processes)
            }
            Operation::Handover => format!("hand-over between {sessions} sessions, one process"),
            Operation::Readers => format!("{sessions} readers behind a writer"),
            Operation::Crowd if *each => {
                format!("{waiters} waiters of one session, each on a separate lock")
            }
            Operation::Crowd => format!("{waiters} waiters of one session on one lock"),
            Operation::Reconnect => format!("{waiters} waiters, whose connection is cut"),
            Operation::CacheLoad => format!("a cache loads {nodes} nodes"),
            Operation::CacheStorm => format!(
                "a cache of {nodes} nodes follows {} changes",
                marked * CHANGES
            ),
            Operation::CacheReconnect => {
                format!(
                    "a cache of {nodes} nodes loses its connection, and misses {marked} changes"
                )
            }
            Operation::Increment => {
                let how = if *lock == Lock::Receipt {
                    ", each exactly once"
                } else {
                    ""
                };
                let who = if self.processes > 1 {
                    format!("{} processes", self.processes)
                } else {
                    "one task".to_owned()
                };
                format!("increments of one counter by {who}{how}")
            }
            Operation::Register => format!("{nodes} instances of a service are registered"),
            Operation::Find => format!("a cache of a service finds {nodes} instances"),
            Operation::Shards => {
                format!(
                    "the last of {sessions} members joins, and serves its part of {nodes} shards"
                )
            }
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(cases: &[Case]) -> Vec<&str> {
        cases.iter().map(|case| case.name.as_str()).collect()
    }

    #[test]
    fn names_and_titles_of_cases_are_unique() {
        for quick in [false, true] {
            let all = all(quick);
            assert_eq!(names(&all).iter().collect::<BTreeSet<_>>().len(), all.len());
            assert_eq!(
                all.iter().map(Case::title).collect::<BTreeSet<_>>().len(),
                all.len()
            );
        }
        assert_eq!(all(false).len(), 39);
    }

    #[test]
    fn cases_are_selected_by_name_or_by_prefix() {
        let selected_by = |list: &[&str]| {
            selected(
                &list.iter().map(ToString::to_string).collect::<Vec<_>>(),
                false,
            )
        };
        assert_eq!(
            names(&selected_by(&["crowd-each", "fleet"]).unwrap()),
            ["fleet-200", "crowd-each-1000", "crowd-each-10000"]
        );
        // A whole name does not select `crowd-10000`, which begins with it.
        assert_eq!(
            names(&selected_by(&["crowd-1000"]).unwrap()),
            ["crowd-1000"]
        );
        assert_eq!(selected_by(&[]).unwrap().len(), all(false).len());
        assert_eq!(selected_by(&["cycle", "wheel"]).unwrap_err(), "wheel");
    }

    #[test]
    fn a_smoke_run_has_small_trees() {
        let caches = |quick| {
            caches(quick)
                .iter()
                .map(|case| (case.name.clone(), case.workload.nodes))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            caches(false)[3..],
            [
                ("cache-storm-10000".to_owned(), 10_000),
                ("cache-reconnect-10000".to_owned(), 10_000)
            ]
        );
        assert!(caches(true).iter().all(|(_, nodes)| *nodes == QUICK_TREE));
    }

    #[test]
    fn a_warm_up_changes_no_more_leaves_than_its_tree_has() {
        for case in caches(false) {
            let workload = warm_up(&case.workload);
            assert!(
                workload.nodes <= 5_000 && workload.marked <= workload.nodes,
                "{workload:?}"
            );
        }
    }
}
