//! What the search in `tests/model` does not check: the number of requests, the contents of
//! pipelines, other clients' nodes with our name, servers that lag behind or give wrong answers,
//! and calls in the wrong order.

mod blocked;
mod leases;
mod misuse;
mod recovery;
mod several_queues;
mod waiting;

use super::step::IMMEDIATE_ATTEMPTS;
use super::*;
use crate::driver::{
    ReadLockInternalsDriver, StandardLockInternalsDriver, WriteLockInternalsDriver,
    downgraded_read_name,
};
use crate::queue::SequenceOverflow;

const SESSION: i64 = 0x51;
const OTHER_SESSION: i64 = 0x52;
const ID: Uuid = Uuid::from_u128(1);
static DRIVER: StandardLockInternalsDriver = StandardLockInternalsDriver::new();
/// All nodes have the same id; only their numbers differ. So every node is a candidate in a
/// recovery.
const PREFIX: &str = "_c_00000000-0000-0000-0000-000000000001-lock-";

fn name(number: i32) -> String {
    format!("{PREFIX}{number:010}")
}

fn own(number: i32) -> OwnNode {
    OwnNode {
        name: name(number),
        czxid: 1000 + i64::from(number),
    }
}

fn created(number: i32) -> Answer {
    Answer::Created(own(number))
}

fn children(numbers: impl IntoIterator<Item = i32>) -> Answer {
    Answer::Children(numbers.into_iter().map(name).collect())
}

fn node_of(ephemeral_owner: i64, number: i32) -> Answer {
    Answer::Node {
        ephemeral_owner,
        czxid: own(number).czxid,
        version: 0,
    }
}

fn node(number: i32) -> Answer {
    node_of(SESSION, number)
}

// Requests for the first queue.

fn watch_ahead(number: i32) -> (usize, Request) {
    (0, Request::WatchAhead { name: name(number) })
}

fn watch_own(number: i32) -> (usize, Request) {
    (0, Request::WatchOwn { name: name(number) })
}

fn inspect(number: i32) -> (usize, Request) {
    (0, Request::Inspect { name: name(number) })
}

fn gone(number: i32) -> Event {
    gone_in(0, number)
}

fn gone_in(queue: usize, number: i32) -> Event {
    Event::AheadDeleted {
        queue,
        name: name(number),
    }
}

/// The same request for another queue.
fn in_queue(queue: usize, (_, request): (usize, Request)) -> (usize, Request) {
    (queue, request)
}

fn send(requests: impl Into<Vec<(usize, Request)>>, pace: Pace) -> Step {
    Step::Send {
        requests: requests.into(),
        pace,
    }
}

fn now(requests: impl Into<Vec<(usize, Request)>>) -> Step {
    send(requests, Pace::Now)
}

fn retry(requests: impl Into<Vec<(usize, Request)>>) -> Step {
    send(requests, Pace::Retry)
}

fn pause(requests: impl Into<Vec<(usize, Request)>>) -> Step {
    send(requests, Pace::Pause)
}

fn won(nodes: impl Into<Vec<OwnNode>>) -> Step {
    Step::Won(nodes.into())
}

fn is_failed(step: &Step) -> bool {
    matches!(
        step,
        Step::Failed {
            error: ContestError::Protocol { .. },
            ..
        }
    )
}

const RESTART: Step = Step::Restart;
const LIST: (usize, Request) = (0, Request::List);
const JOIN: [(usize, Request); 2] = [(0, Request::Create), LIST];
const JOIN_WITH_PARENTS: [(usize, Request); 2] = [(0, Request::CreateWithParents), LIST];
const RECOVER: [(usize, Request); 2] = [(0, Request::Sync), LIST];

/// A run of a contest, with its driver and its requests.
#[derive(Debug)]
struct Run {
    driver: &'static dyn LockInternalsDriver,
    contest: Contest,
    in_flight: Vec<(usize, Request)>,
    /// How many requests the contest has sent.
    requests: usize,
}

/// Contests for one queue, unless stated otherwise.
impl Run {
    /// A contest whose first pipeline is in flight.
    fn new(contest: Contest, driver: &'static dyn LockInternalsDriver) -> Self {
        let mut run = Self {
            driver,
            contest,
            in_flight: Vec::new(),
            requests: 0,
        };
        let step = run.contest.start();
        let _ = run.record(step);
        run
    }

    fn joining() -> Self {
        Self::new(Contest::new(ID, SESSION, 1), &DRIVER)
    }

    /// A contest whose node has this number, and whose list has all lower numbers.
    fn queued(number: i32) -> (Self, Step) {
        let mut run = Self::joining();
        let step = run.answers([created(number), children((0..=number).rev())]);
        (run, step)
    }

    /// Like [`queued`](Self::queued), with its watches placed.
    fn waiting(number: i32) -> Self {
        let (mut run, _) = Self::queued(number);
        let answers = vec![node(number); run.in_flight.len()];
        assert_eq!(run.answers(answers), Step::Wait);
        run
    }

    /// Like [`waiting`](Self::waiting), after an interruption.
    fn interrupted(number: i32) -> Self {
        let mut run = Self::waiting(number);
        let _ = run.event(Event::Interrupted);
        run
    }

    /// A contest whose create was not answered.
    fn recovering() -> Self {
        let mut run = Self::joining();
        assert_eq!(
            run.answers([Answer::Unknown, Answer::Unknown]),
            retry(RECOVER)
        );
        run
    }

    fn answers(&mut self, answers: impl IntoIterator<Item = Answer>) -> Step {
        let step = self
            .contest
            .answered(self.driver, answers.into_iter().collect());
        self.record(step)
    }

    fn event(&mut self, event: Event) -> Step {
        let step = self.contest.observed(event);
        self.record(step)
    }

    fn record(&mut self, step: Step) -> Step {
        if let Step::Send { requests, .. } = &step {
            assert!(!requests.is_empty());
            self.requests += requests.len();
            self.in_flight.clone_from(requests);
            self.contest.sent();
        }
        step
    }

    fn nodes(&self) -> Vec<(usize, OwnNode)> {
        self.contest
            .nodes()
            .map(|(queue, node)| (queue, node.clone()))
            .collect()
    }

    fn leftovers(&self) -> Vec<Leftover<'_>> {
        self.contest.leftovers().collect()
    }

    /// The directories where the contest may have nodes whose names it does not know.
    fn unknown_nodes(&self) -> Vec<usize> {
        self.contest
            .leftovers()
            .filter_map(|leftover| match leftover {
                Leftover::Unknown { directory } => Some(directory),
                Leftover::Node { .. } => None,
            })
            .collect()
    }
}
