//! The cases: each is an operation on a lock, a cache, a counter or a discovery, with the number of participants.

use std::collections::BTreeSet;
use std::fmt;

pub(crate) use curator_results::bench::Kind;

use crate::peer::{Peer, Worker as _};
use crate::protocol::{Act, Lock, Play};
use crate::tree::CHANGES;

/// A case.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// The number of processes that play it at once. All get the same request.
    pub(crate) processes: usize,
    /// The request, without a path, and without a time.
    pub(crate) play: Play,
}

/// The locks of the uncontended cycles, with the number of paths of a multi-lock.
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
const DISTINCT: [usize; 3] = [16, 64, 256];
const HANDOVER: [usize; 3] = [2, 16, 64];
/// The number of sessions that take turns in the floor of a hand-over.
const FLOOR_SESSIONS: usize = 16;
const FLEET: usize = 200;
const READERS: usize = 16;
const CROWDS: [usize; 2] = [1_000, 10_000];
/// The numbers of leaves of the trees that a cache loads. Caches follow changes of the second tree.
const TREES: [usize; 3] = [1_000, 10_000, 100_000];
const STORM: usize = 10_000;
/// The number of processes that increment one counter.
const COUNTING: usize = 16;
/// The number of instances of a service.
const INSTANCES: usize = 1_000;
/// A fraction: one of so many leaves is changed while a cache is disconnected.
const MISSED: usize = 100;

/// The largest numbers in a smoke run.
const QUICK_SESSIONS: usize = 4;
const QUICK_WAITERS: usize = 50;
const QUICK_TREE: usize = 1_000;
const QUICK_INSTANCES: usize = 100;

/// All cases, in the order in which they are played; `quick` makes them small.
pub(crate) fn all(quick: bool) -> Vec<Case> {
    let sessions = |number: usize| if quick { number.min(QUICK_SESSIONS) } else { number };
    let crowd = |number: usize| if quick { number.min(QUICK_WAITERS) } else { number };
    let case = |name: String, play: Play| Case { name, processes: 1, play };
    let new = |act, lock| Play::new(act, lock, "");
    let mut cases = Vec::new();
    for (lock, members) in CYCLES {
        let name = if members > 0 { format!("cycle-{lock}-{members}") } else { format!("cycle-{lock}") };
        cases.push(case(name, Play { members, ..new(Act::Cycle, lock) }));
    }
    for lock in [Lock::Mutex, Lock::Write] {
        cases.push(case(format!("reentry-{lock}"), new(Act::Reentry, lock)));
    }
    for tasks in DISTINCT.map(sessions) {
        cases.push(case(format!("distinct-{tasks}"), Play { tasks, ..new(Act::Distinct, Lock::Mutex) }));
    }
    for sessions in HANDOVER.map(sessions) {
        cases.push(case(format!("handover-{sessions}"), Play { sessions, ..new(Act::Handover, Lock::Mutex) }));
    }
    let floor = Play { sessions: sessions(FLOOR_SESSIONS), ..new(Act::Handover, Lock::Floor) };
    cases.push(case("handover-floor".to_owned(), floor));
    for processes in HANDOVER.map(sessions) {
        let play = Play { sessions: 1, ..new(Act::Handover, Lock::Mutex) };
        cases.push(Case { name: format!("handover-processes-{processes}"), processes, play });
    }
    let fleet = Play { sessions: sessions(FLEET), ..new(Act::Handover, Lock::Mutex) };
    cases.push(case(format!("fleet-{}", fleet.sessions), fleet));
    let readers = Play { sessions: sessions(READERS), rounds: 10, ..new(Act::Readers, Lock::Read) };
    cases.push(case(format!("readers-{}", readers.sessions), readers));
    let crowds = |waiters: usize| {
        let crowd = move |(each, name): (bool, &str)| {
            case(format!("{name}-{waiters}"), Play { waiters, each, ..new(Act::Crowd, Lock::Mutex) })
        };
        [(false, "crowd"), (true, "crowd-each")].map(crowd)
    };
    let [few, many] = CROWDS.map(crowd);
    cases.extend(crowds(few));
    cases.push(case(format!("reconnect-{few}"), Play { waiters: few, ..new(Act::Reconnect, Lock::Mutex) }));
    // At the end, as a server may not survive that many long lists of children.
    cases.extend(crowds(many));
    cases.extend(caches(quick));
    cases.extend(counters(sessions(COUNTING)));
    cases.extend(discoveries(if quick { QUICK_INSTANCES } else { INSTANCES }));
    // Cases that differ only in large numbers are equal in a smoke run.
    let mut names = BTreeSet::new();
    cases.retain(|case| names.insert(case.name.clone()));
    cases
}

/// Trees stay on the server, so these cases come after those with locks.
fn caches(quick: bool) -> Vec<Case> {
    let tree = |number: usize| if quick { number.min(QUICK_TREE) } else { number };
    let case = |act: Act, number: usize, nodes: usize, marked: usize| {
        let play = Play { nodes, marked, ..Play::new(act, Lock::Cache, "") };
        Case { name: format!("{act}-{number}"), processes: 1, play }
    };
    let [_, followed, _] = TREES.map(tree);
    let changes = tree(STORM);
    let mut cases: Vec<_> = TREES.map(tree).iter().map(|nodes| case(Act::CacheLoad, *nodes, *nodes, 0)).collect();
    cases.push(case(Act::CacheStorm, changes, followed, changes / CHANGES));
    cases.push(case(Act::CacheReconnect, followed, followed, followed / MISSED));
    cases
}

/// The cases of a counter: incremented by one process, and by many.
fn counters(processes: usize) -> impl Iterator<Item = Case> {
    [Lock::Counter, Lock::Receipt].into_iter().flat_map(move |lock| {
        let play = Play { sessions: 1, ..Play::new(Act::Increment, lock, "") };
        let many = format!("increment-{lock}-{processes}");
        [(format!("increment-{lock}"), 1), (many, processes)].map(|(name, processes)| Case {
            name,
            processes,
            play: play.clone(),
        })
    })
}

fn discoveries(nodes: usize) -> [Case; 2] {
    // The finding session is not the registering one.
    [(Act::Register, 1), (Act::Find, 2)].map(|(act, sessions)| {
        let play = Play { nodes, sessions, ..Play::new(act, Lock::Discovery, "") };
        Case { name: format!("{act}-{nodes}"), processes: 1, play }
    })
}

/// The cases with one of these names, or those that begin with it if no case has the name; all cases without names. A
/// name without a case is returned as an error.
pub(crate) fn chosen(names: &[String], quick: bool) -> Result<Vec<Case>, String> {
    let all = all(quick);
    let fits = |case: &Case, name: &String| {
        let is_whole = all.iter().any(|case| case.name == *name);
        if is_whole { case.name == *name } else { case.name.starts_with(name.as_str()) }
    };
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|case| fits(case, name))) {
        return Err(unknown.clone());
    }
    Ok(all.iter().filter(|case| names.is_empty() || names.iter().any(|name| fits(case, name))).cloned().collect())
}

/// The play with which a peer warms up: the same, but with a small crowd or tree.
pub(crate) fn warm_up(play: &Play) -> Play {
    let small = |number: usize| number.min((number / 20).max(10));
    let nodes = small(play.nodes);
    Play { waiters: small(play.waiters), nodes, marked: play.marked.min(nodes), ..play.clone() }
}

impl Case {
    /// Whether the case is requested from a peer. The worker itself reports what it does not support.
    pub(crate) fn is_for(&self, peer: Peer) -> bool {
        let Play { act, lock, .. } = &self.play;
        let is_lock = self.kind() != Kind::Cache && *act != Act::Increment;
        match peer {
            Peer::CuratorShared | Peer::Go | Peer::ZookeeperClient if !is_lock => false,
            // Its time grows with the square of the number of waiters: larger crowds would take hours.
            Peer::CuratorShared => *act == Act::Crowd && !self.play.each && self.play.waiters <= CROWDS[0],
            _ if *lock == Lock::Floor && *act == Act::Handover => peer == Peer::Ours,
            _ => *lock != Lock::Floor || peer.has_floor(),
        }
    }

    /// Whether it is played where round trips are slow: not if it sends nothing, if the machine limits it, or if it
    /// would take minutes there. With kazoo and go-zookeeper, cycles are played with one kind of lock only.
    pub(crate) fn is_for_far(&self, peer: Peer) -> bool {
        let Play { act, lock, waiters, nodes, .. } = &self.play;
        let is_small = *waiters <= CROWDS[0] && *nodes <= TREES[1];
        let is_played = *act != Act::Reentry && self.processes == 1 && is_small;
        let is_of_peer = match peer {
            Peer::Kazoo | Peer::Go => *act != Act::Cycle || *lock == Lock::Mutex,
            Peer::CuratorShared => false,
            Peer::Ours | Peer::Curator | Peer::ZookeeperClient => true,
        };
        is_played && is_of_peer
    }

    /// Whether its requests are counted. Only for smaller crowds, as the case has to be played once more.
    pub(crate) fn is_counted(&self, peer: Peer) -> bool {
        self.play.waiters <= CROWDS[0] && peer != Peer::CuratorShared
    }

    pub(crate) fn kind(&self) -> Kind {
        match self.play.act {
            Act::Crowd | Act::Reconnect => Kind::Crowd,
            Act::CacheLoad | Act::CacheStorm | Act::CacheReconnect | Act::Register | Act::Find => Kind::Cache,
            _ => Kind::Timed,
        }
    }

    /// A description of the case.
    pub(crate) fn title(&self) -> String {
        let Play { act, lock, tasks, sessions, waiters, each, members, nodes, marked, .. } = &self.play;
        match act {
            Act::Cycle if *lock == Lock::Floor => "the floor: create and delete a node".to_owned(),
            Act::Cycle if *members > 0 => format!("uncontended cycle of a multi-lock of {members}"),
            Act::Cycle => format!("uncontended cycle, {lock}"),
            Act::Reentry => format!("re-entry, {lock}"),
            Act::Distinct => format!("{tasks} tasks on distinct locks, one session"),
            Act::Handover if self.name.starts_with("fleet") => {
                format!("a fleet: hand-over between {sessions} sessions")
            }
            Act::Handover if *lock == Lock::Floor => "the floor of a hand-over: a delete, and its event".to_owned(),
            Act::Handover if self.processes > 1 => format!("hand-over between {} processes", self.processes),
            Act::Handover => format!("hand-over between {sessions} sessions, one process"),
            Act::Readers => format!("{sessions} readers behind a writer"),
            Act::Crowd if *each => format!("{waiters} waiters of one session, a lock each"),
            Act::Crowd => format!("{waiters} waiters of one session on one lock"),
            Act::Reconnect => format!("{waiters} waiters, and the connection breaks"),
            Act::CacheLoad => format!("a cache loads {nodes} nodes"),
            Act::CacheStorm => format!("a cache of {nodes} nodes follows {} changes", marked * CHANGES),
            Act::CacheReconnect => {
                format!("a cache of {nodes} nodes loses its connection, and misses {marked} changes")
            }
            Act::Increment => {
                let how = if *lock == Lock::Receipt { ", each exactly once" } else { "" };
                let who =
                    if self.processes > 1 { format!("{} processes", self.processes) } else { "one task".to_owned() };
                format!("increments of one counter by {who}{how}")
            }
            Act::Register => format!("{nodes} instances of a service are registered"),
            Act::Find => format!("a cache of a service finds {nodes} instances"),
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
            assert_eq!(all.iter().map(Case::title).collect::<BTreeSet<_>>().len(), all.len());
        }
        assert_eq!(all(false).len(), 38);
    }

    #[test]
    fn cases_are_chosen_by_the_beginning_of_their_names() {
        let chosen = |list: &[&str]| chosen(&list.iter().map(ToString::to_string).collect::<Vec<_>>(), false);
        assert_eq!(
            names(&chosen(&["crowd-each", "fleet"]).unwrap()),
            ["fleet-200", "crowd-each-1000", "crowd-each-10000"]
        );
        // Not those with ten thousand waiters.
        assert_eq!(names(&chosen(&["crowd-1000"]).unwrap()), ["crowd-1000"]);
        assert_eq!(chosen(&[]).unwrap().len(), all(false).len());
        assert_eq!(chosen(&["cycle", "wheel"]).unwrap_err(), "wheel");
    }

    #[test]
    fn a_smoke_run_has_small_trees() {
        let caches = |quick| caches(quick).iter().map(|case| (case.name.clone(), case.play.nodes)).collect::<Vec<_>>();
        assert_eq!(
            caches(false)[3..],
            [("cache-storm-10000".to_owned(), 10_000), ("cache-reconnect-10000".to_owned(), 10_000)]
        );
        assert!(caches(true).iter().all(|(_, nodes)| *nodes == QUICK_TREE));
    }

    #[test]
    fn a_warm_up_marks_no_more_leaves_than_it_has() {
        for case in caches(false) {
            let play = warm_up(&case.play);
            assert!(play.nodes <= 5_000 && play.marked <= play.nodes, "{play:?}");
        }
    }
}
