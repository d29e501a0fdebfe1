//! Each branch of the protocol by itself. That they fit together is shown by the model in `tests/model`.

mod blocked;
mod leases;
mod misuse;
mod read_write;
mod recovery;
mod refusal;
mod several_queues;
mod waiting;

use proptest::prelude::*;

use super::*;
use crate::driver::{
    ContenderIdentity, ReadLockInternalsDriver, StandardLockInternalsDriver, WriteLockInternalsDriver,
    downgraded_read_name,
};
use crate::queue::SequenceOverflow;

const SESSION: i64 = 0x51;
const OTHER_SESSION: i64 = 0x52;
const ID: Uuid = Uuid::from_u128(1);
const DRIVER: StandardLockInternalsDriver = StandardLockInternalsDriver::new();
/// Everybody's node bears the same id; only the numbers tell them apart. So every node is a candidate in a recovery.
const PREFIX: &str = "_c_00000000-0000-0000-0000-000000000001-lock-";

fn name(number: i32) -> String {
    format!("{PREFIX}{number:010}")
}

fn czxid(number: i32) -> i64 {
    1000 + i64::from(number)
}

fn own(number: i32) -> OwnNode {
    OwnNode { name: name(number), czxid: czxid(number) }
}

fn created(number: i32) -> Answer {
    Answer::Created(own(number))
}

fn children(numbers: impl IntoIterator<Item = i32>) -> Answer {
    Answer::Children(numbers.into_iter().map(name).collect())
}

fn node(number: i32) -> Answer {
    Answer::Node { ephemeral_owner: SESSION, czxid: czxid(number), version: 0, is_ours: true }
}

fn node_of_another_session(number: i32) -> Answer {
    Answer::Node { ephemeral_owner: OTHER_SESSION, czxid: czxid(number), version: 0, is_ours: true }
}

fn ahead(number: i32) -> Request {
    Request::WatchAhead { name: name(number) }
}

fn watch_own(number: i32) -> Request {
    Request::WatchOwn { name: name(number) }
}

fn inspect(number: i32) -> Request {
    Request::Inspect { name: name(number) }
}

fn gone(number: i32) -> Event {
    gone_in(0, number)
}

fn gone_in(queue: usize, number: i32) -> Event {
    Event::AheadDeleted { queue, name: name(number) }
}

fn changed(number: i32) -> Event {
    Event::AheadChanged { queue: 0, name: name(number) }
}

/// A request of the first queue, or one with its directory.
trait Numbered {
    fn numbered(self) -> (usize, Request);
}

impl Numbered for Request {
    fn numbered(self) -> (usize, Request) {
        (0, self)
    }
}

impl Numbered for (usize, Request) {
    fn numbered(self) -> (usize, Request) {
        self
    }
}

fn now<R: Numbered>(requests: impl IntoIterator<Item = R>) -> Step {
    Step::Send { requests: requests.into_iter().map(R::numbered).collect(), pace: Pace::Now }
}

fn retry<R: Numbered>(requests: impl IntoIterator<Item = R>) -> Step {
    Step::Send { requests: requests.into_iter().map(R::numbered).collect(), pace: Pace::Retry }
}

fn won(nodes: impl Into<Vec<OwnNode>>) -> Step {
    Step::Won(nodes.into())
}

fn is_failed(step: &Step) -> bool {
    matches!(step, Step::Failed { error: ContestError::Protocol { .. }, .. })
}

const MISSING: Step = Step::Restart(RestartReason::NodeMissing);
const DELETED: Step = Step::Restart(RestartReason::NodeDeleted);
const JOIN: [Request; 2] = [Request::Create, Request::List];
const JOIN_WITH_PARENTS: [Request; 2] = [Request::CreateWithParents, Request::List];
const RECOVER: [Request; 2] = [Request::Sync, Request::List];
const LIST: [Request; 1] = [Request::List];

/// A contest, the driver it has, and what it has sent.
#[derive(Debug)]
struct Play {
    driver: Box<dyn LockInternalsDriver>,
    contest: Contest,
    in_flight: Vec<(usize, Request)>,
    /// How many requests it has sent in all.
    requests: usize,
}

/// Of one queue, where not said otherwise.
impl Play {
    /// A contest that has not begun.
    fn new(contest: Contest, driver: impl LockInternalsDriver) -> Self {
        Self { driver: Box::new(driver), contest, in_flight: Vec::new(), requests: 0 }
    }

    /// A contest whose first pipeline is in flight.
    fn joining() -> Self {
        Self::driven_by(DRIVER)
    }

    fn driven_by(driver: impl LockInternalsDriver) -> Self {
        let mut play = Self::new(Contest::new(ID, SESSION, 1), driver);
        assert!(!play.may_exist());
        assert_eq!(play.start(), now(JOIN));
        assert!(play.may_exist());
        play
    }

    /// A contest whose node has this number, and which has seen all the nodes before.
    fn queued(number: i32) -> (Self, Step) {
        let mut play = Self::joining();
        let step = play.answers([created(number), children((0..=number).rev())]);
        (play, step)
    }

    /// As [`queued`](Self::queued), with its watches placed.
    fn waiting(number: i32) -> Self {
        let (mut play, step) = Self::queued(number);
        let Step::Send { requests, pace: Pace::Now } = step else { panic!("{step:?}") };
        let step = play.answers(requests.iter().map(|_| node(number)));
        assert_eq!(step, Step::Wait);
        play
    }

    /// A contest whose create was not answered.
    fn recovering() -> Self {
        let mut play = Self::joining();
        assert_eq!(play.answers([Answer::Unknown, Answer::Unknown]), retry(RECOVER));
        assert!(play.may_exist());
        assert_eq!(play.node(), None);
        play
    }

    fn start(&mut self) -> Step {
        let step = self.contest.start();
        self.note(step)
    }

    fn answers(&mut self, answers: impl IntoIterator<Item = Answer>) -> Step {
        let step = self.contest.answered(&*self.driver, answers.into_iter().collect());
        self.note(step)
    }

    /// Gives answers that are in order for each directory, whatever the order of the directories in the pipeline.
    fn answers_by_directory(&mut self, answers: impl Into<Vec<(usize, Answer)>>) -> Step {
        let mut answers = answers.into();
        let in_order = self.in_flight.iter().map(|(directory, request)| {
            let next = answers.iter().position(|(of, _)| of == directory);
            answers.remove(next.unwrap_or_else(|| panic!("no answer to {request:?} in {directory}"))).1
        });
        let in_order: Vec<_> = in_order.collect();
        assert!(answers.is_empty(), "answers to nothing: {answers:?}");
        self.answers(in_order)
    }

    fn event(&mut self, event: Event) -> Step {
        let step = self.contest.observed(event);
        self.note(step)
    }

    fn note(&mut self, step: Step) -> Step {
        if let Step::Send { requests, .. } = &step {
            assert!(!requests.is_empty());
            self.requests += requests.len();
            self.in_flight.clone_from(requests);
        }
        step
    }

    fn nodes(&self) -> Vec<(usize, OwnNode)> {
        self.contest.nodes().map(|(queue, node)| (queue, node.clone())).collect()
    }

    fn node(&self) -> Option<OwnNode> {
        self.contest.nodes().next().map(|(_, node)| node.clone())
    }

    fn unknown_nodes(&self) -> Vec<usize> {
        self.contest.unknown_nodes().collect()
    }

    fn may_exist(&self) -> bool {
        self.node().is_some() || !self.unknown_nodes().is_empty()
    }

    fn surplus(&self) -> Vec<(usize, &str)> {
        self.contest.surplus().collect()
    }
}

/// The standard driver, but for one thing.
#[derive(Debug)]
struct Peculiar {
    identity: ContenderIdentity,
    final_: bool,
    waits_for: Option<usize>,
}

impl Default for Peculiar {
    fn default() -> Self {
        Self { identity: ContenderIdentity::Name, final_: true, waits_for: None }
    }
}

impl LockInternalsDriver for Peculiar {
    fn node_prefix(&self, id: &Uuid) -> String {
        DRIVER.node_prefix(id)
    }

    fn identity(&self) -> ContenderIdentity {
        self.identity
    }

    fn sequence(&self, child: &str) -> Option<i32> {
        DRIVER.sequence(child)
    }

    fn verdict(&self, queue: &Queue, own: usize) -> Verdict {
        match self.waits_for {
            Some(place) => Verdict::WaitsFor(place),
            None => DRIVER.verdict(queue, own),
        }
    }

    fn predecessors_are_final(&self) -> bool {
        self.final_
    }
}

/// An answer of the kind that fits a request to a queue, whatever it says.
fn fitting(request: &Request, seed: u8) -> Answer {
    let number = i32::from(seed % 6);
    match (request, seed % 8) {
        (_, 7) => Answer::Unknown,
        (Request::Create | Request::CreateWithParents | Request::List, 6) => Answer::NoParent,
        (Request::Create | Request::CreateWithParents, _) => created(number),
        (Request::Sync, _) => Answer::Done,
        (Request::List, _) => children((0..6).filter(|bit| seed & (1 << bit) != 0)),
        (_, 6) => Answer::Missing,
        (_, 5) => node_of_another_session(number),
        (Request::Inspect { name } | Request::WatchAhead { name } | Request::WatchOwn { name }, _) => {
            // Mostly the node that was meant.
            node(name.strip_prefix(PREFIX).and_then(|number| number.parse().ok()).unwrap_or(number))
        }
        (request, _) => panic!("{request:?} is for no queue"),
    }
}

fn any_event(queues: usize) -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..queues, 0..6_i32).prop_map(|(queue, number)| gone_in(queue, number)),
        2 => (0..queues, 0..6_i32).prop_map(|(queue, number)| Event::AheadChanged { queue, name: name(number) }),
        1 => (0..queues).prop_map(Event::OwnDeleted),
        1 => (0..queues).prop_map(Event::OwnChanged),
        1 => Just(Event::Interrupted),
    ]
}
