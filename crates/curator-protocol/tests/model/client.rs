//! The modelled client: one attempt to acquire (`Contest`), and the state of its runner, which
//! sends the requests.

use std::collections::{BTreeSet, VecDeque};
use std::mem;

use curator_protocol::{
    Answer, Contest, Event, LockInternalsDriver as _, ParticipantKind, Request, Uuid,
    WriteLockInternalsDriver, downgraded_read_name,
};

use super::defect::Defect;
use super::scenario::{LEASES, Scenario};
use super::server::Creator;

/// A contender, its session and its connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) number: u8,
    /// How many contests and sessions were started.
    pub(crate) contests: u8,
    pub(crate) sessions: u8,
    pub(crate) connected: bool,
    /// Whether the client has acted. See `World::active`.
    pub(crate) has_acted: bool,
    /// `None` once the contest has ended.
    pub(crate) contest: Option<Contest>,
    pub(crate) phase: Phase,
    /// Requests that were sent, but that the server has not applied yet. While there is no
    /// connection, requests wait here for the next one.
    pub(crate) wire: VecDeque<Call>,
    /// The answers to the pipeline in flight, so far.
    pub(crate) answers: Vec<Answer>,
    /// The watches in force, all on one connection.
    pub(crate) watches: Vec<Watch>,
    /// The events of the watches, in the order of the server's messages.
    pub(crate) events: VecDeque<Seen>,
    /// Whether the connection broke and the contest has not been notified.
    pub(crate) interrupted: bool,
    /// Whether at some moment all nodes of this contest were first in their queues (a reader's:
    /// behind read nodes only). Only then may the contest become the owner.
    pub(crate) was_first: bool,
    /// Whether at some moment of this contest too few leases were left for it.
    pub(crate) saw_too_few: bool,
    /// The directories where another client has deleted this contest's node.
    pub(crate) node_deleted: [bool; 2],
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// A pipeline of this many requests is in flight.
    InFlight(usize),
    Waiting,
    /// The client considers itself the owner. `nodes`: the nodes through which it owns the lock,
    /// each with its directory. `rightful`: the client `was_first`, or an event that reports the
    /// loss of a node is on its way.
    ///
    /// A writer has one node or two: the write lock's, then the read lock's.
    Owning {
        nodes: Vec<(usize, String)>,
        rightful: bool,
    },
    /// The contest was refused, and its janitor is at work.
    Refused,
    /// The client has released or was cancelled, and its janitor is at work.
    Cleaning,
    #[default]
    Done,
    Failed(String),
}

/// A request in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    /// One request of a contest, or several that are sent as one, each with its directory. If not
    /// `wanted`, the contest ignores the answers.
    Contest {
        requests: Vec<(usize, Request)>,
        contest: u8,
        wanted: bool,
    },
    /// A delete by the janitor, which repeats it until it is answered: the directory, and the name
    /// of the node.
    Delete(usize, String),
    /// A sweep by the janitor: find the nodes of this contest in this directory, and delete them.
    /// In reality, a sweep is several requests. One step suffices here, because only this session
    /// could create such a node in between, and it creates none.
    Sweep(usize, Creator),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Watch {
    Ahead(usize, String),
    Own(usize, String),
    Leases,
    Limit,
}

/// The event of a watch, not reported to the contest yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Seen {
    pub(crate) watch: Watch,
    /// Whether the node was deleted; if not, it was written.
    pub(crate) deleted: bool,
}

impl Client {
    pub(crate) fn new(number: u8) -> Self {
        Self {
            number,
            sessions: 1,
            connected: true,
            ..Self::default()
        }
    }

    pub(crate) fn session(&self) -> i64 {
        i64::from(self.number) * 100 + i64::from(self.sessions)
    }

    /// Identifies the nodes of the current contest.
    pub(crate) fn creator(&self) -> Creator {
        Creator::Contest {
            client: self.number,
            contest: self.contests,
        }
    }

    pub(crate) fn next_contest(&mut self, scenario: &Scenario) {
        self.drop_contest();
        if !scenario.has(Defect::ReturnsWithItsOldId) {
            self.contests += 1;
        }
        let id = contender_id(self.number, self.contests);
        let wanted = &scenario.clients[usize::from(self.number)];
        let session = self.session();
        let contest = match wanted.leases {
            0 => Contest::new(id, session, wanted.queues.len()),
            quantity => Contest::for_leases(id, session, quantity, scenario.lease_limit()),
        };
        self.contest = Some(if wanted.waits {
            contest
        } else {
            contest.without_waiting()
        });
        self.was_first = false;
        self.saw_too_few = false;
        self.node_deleted = [false; 2];
    }

    /// Ends the contest. Requests already sent stay in flight, except those that only read.
    pub(crate) fn drop_contest(&mut self) {
        self.contest = None;
        self.answers.clear();
        self.stop_watching();
        self.forget_answers();
    }

    /// Stops waiting for answers. Requests that only read are dropped.
    pub(crate) fn forget_answers(&mut self) {
        self.wire
            .retain(|call| !matches!(call, Call::Contest { .. }) || call.has_effect());
        for call in &mut self.wire {
            if let Call::Contest { wanted, .. } = call {
                *wanted = false;
            }
        }
    }

    pub(crate) fn stop_watching(&mut self) {
        self.watches.clear();
        self.events.clear();
        self.interrupted = false;
    }

    /// Whether the client has left. Its janitor may be at work, and its node may still exist in a
    /// lost session.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.phase, Phase::Cleaning | Phase::Done)
    }

    pub(crate) fn contends(&self) -> bool {
        matches!(self.phase, Phase::InFlight(_) | Phase::Waiting)
    }

    /// Whether the next request creates directories.
    pub(crate) fn creates_directories(&self) -> bool {
        let Some(Call::Contest {
            requests,
            wanted: true,
            ..
        }) = self.wire.front()
        else {
            return false;
        };
        requests
            .iter()
            .any(|(_, request)| *request == Request::CreateWithParents)
    }

    pub(crate) fn is_owner(&self) -> bool {
        matches!(self.phase, Phase::Owning { .. })
    }

    /// Whether the client owns the lock only as a reader, and so may share it with other readers.
    pub(crate) fn shares(&self) -> bool {
        self.is_owner()
            && self
                .owned_nodes()
                .iter()
                .all(|(_, name)| kind(name) == ParticipantKind::Read)
    }

    /// The nodes through which the client owns the lock.
    pub(crate) fn owned_nodes(&self) -> &[(usize, String)] {
        match &self.phase {
            Phase::Owning { nodes, .. } => nodes,
            _ => &[],
        }
    }

    /// The name of the read node beside a write node. It sorts before the write node for clients
    /// with an even number, and after it for the others.
    pub(crate) fn downgraded_name(&self, sequence: i32) -> String {
        let contest = if self.number.is_multiple_of(2) {
            0
        } else {
            u8::MAX
        };
        downgraded_read_name(&contender_id(self.number, contest), sequence)
    }

    pub(crate) fn watch(&mut self, watch: Watch) {
        if !watch.is_on_one_node() {
            // A new watch replaces the previous one and its event.
            self.watches.retain(|other| *other != watch);
            self.events.retain(|seen| seen.watch != watch);
        }
        self.watches.push(watch);
    }

    pub(crate) fn fire(
        &mut self,
        scenario: &Scenario,
        deleted: bool,
        which: impl Fn(&Watch) -> bool,
    ) {
        let (fired, kept): (Vec<_>, _) = mem::take(&mut self.watches).into_iter().partition(which);
        self.watches = kept;
        // While an interruption is unreported, the watches that fire belong to the next
        // connection. Their events are dropped, because the contest will set all watches again;
        // except events of the contest's own nodes, because a runner may check these first.
        let are_all_kept = !self.interrupted || scenario.has(Defect::ReportsInterruptionsLate);
        self.events.extend(
            fired
                .into_iter()
                .filter(|watch| are_all_kept || matches!(watch, Watch::Own(..)))
                .map(|watch| Seen { watch, deleted }),
        );
    }

    pub(crate) fn watches_each_node_once(&self) -> bool {
        let nodes: BTreeSet<_> = self.watches.iter().map(Watch::node).collect();
        nodes.len() == self.watches.len()
    }

    pub(crate) fn watches_node(&self, dir: usize, name: &str) -> bool {
        self.watches.iter().any(|watch| watch.is_on(dir, name))
    }

    /// The events that the runner may report next.
    pub(crate) fn deliverable(&self, scenario: &Scenario) -> impl Iterator<Item = usize> {
        let any_order = scenario.has(Defect::ForgetsOrderOfEvents)
            || scenario.has(Defect::KeepsWatchesOverConnections);
        (0..self.events.len()).filter(move |&i| {
            // The first event. Also events of the contest's own nodes, which the runner checks
            // first, and events of the leases and the limit, which have separate watchers.
            i == 0 || any_order || !matches!(self.events[i].watch, Watch::Ahead(..))
        })
    }

    /// Whether the client will learn that this node of its own was deleted: its event is queued, or
    /// the interruption makes the owner read its nodes.
    pub(crate) fn will_learn_of_loss(&self, dir: usize, name: &str) -> bool {
        self.interrupted
            || self
                .events
                .iter()
                .any(|seen| matches!(seen.watch, Watch::Own(..)) && seen.watch.is_on(dir, name))
    }
}

impl Call {
    /// Whether the call can change nodes on the server; false if it only reads or sets watches.
    pub(crate) fn has_effect(&self) -> bool {
        let Self::Contest { requests, .. } = self else {
            return true;
        };
        requests.iter().any(|(_, request)| {
            request.is_create() || matches!(request, Request::CreateLimit | Request::Take { .. })
        })
    }

    /// Whether the call creates nodes of a contest.
    pub(crate) fn creates_nodes(&self) -> bool {
        let Self::Contest { requests, .. } = self else {
            return false;
        };
        requests
            .iter()
            .any(|(_, request)| request.is_create() || matches!(request, Request::Take { .. }))
    }
}

impl Watch {
    fn is_on_one_node(&self) -> bool {
        matches!(self, Self::Ahead(..) | Self::Own(..))
    }

    pub(crate) fn node(&self) -> (usize, &str) {
        match self {
            Self::Ahead(dir, name) | Self::Own(dir, name) => (*dir, name),
            Self::Leases => (LEASES, "all"),
            Self::Limit => (LEASES, "the limit"),
        }
    }

    pub(crate) fn is_on(&self, dir: usize, name: &str) -> bool {
        self.node() == (dir, name)
    }
}

impl Seen {
    /// The event as reported to a contest for these queues.
    pub(crate) fn event(self, queues: &[usize]) -> Event {
        let queue_of = |dir| {
            queues
                .iter()
                .position(|queue| *queue == dir)
                .unwrap_or(usize::MAX)
        };
        match (self.watch, self.deleted) {
            (Watch::Own(dir, _), true) => Event::OwnDeleted(queue_of(dir)),
            (Watch::Own(dir, _), false) => Event::OwnChanged(queue_of(dir)),
            (Watch::Ahead(dir, name), true) => Event::AheadDeleted {
                queue: queue_of(dir),
                name,
            },
            (Watch::Ahead(dir, name), false) => Event::AheadChanged {
                queue: queue_of(dir),
                name,
            },
            (Watch::Leases, _) => Event::LeasesChanged,
            (Watch::Limit, _) => Event::LimitChanged,
        }
    }
}

pub(crate) fn kind(name: &str) -> ParticipantKind {
    WriteLockInternalsDriver.kind(name)
}

pub(crate) fn contender_id(client: u8, contest: u8) -> Uuid {
    Uuid::from_u128(u128::from(client) << 64 | u128::from(contest))
}
