//! Each branch of the protocol by itself. That they fit together is shown by the model in `tests/model`.

mod misuse;
mod read_write;
mod recovery;
mod waiting;

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::lock::driver::{
    ContenderIdentity, ReadLockInternalsDriver, StandardLockInternalsDriver, Verdict, WriteLockInternalsDriver,
    downgraded_read_name,
};
use crate::lock::queue::SequenceOverflow;

const SESSION: i64 = 0x51;
const OTHER_SESSION: i64 = 0x52;
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
    Answer::Created { name: name(number), czxid: czxid(number) }
}

fn children(numbers: impl IntoIterator<Item = i32>) -> Answer {
    Answer::Children(numbers.into_iter().map(name).collect())
}

fn node(number: i32) -> Answer {
    Answer::Node { ephemeral_owner: SESSION, czxid: czxid(number), is_ours: true }
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

fn now(requests: impl Into<Vec<Request>>) -> Step {
    Step::Send { requests: requests.into(), pace: Pace::Now }
}

fn retry(requests: impl Into<Vec<Request>>) -> Step {
    Step::Send { requests: requests.into(), pace: Pace::Retry }
}

fn gone(number: i32) -> Event {
    Event::AheadDeleted { name: name(number), certain: true }
}

fn perhaps_gone(number: i32) -> Event {
    Event::AheadDeleted { name: name(number), certain: false }
}

fn changed(number: i32) -> Event {
    Event::AheadChanged { name: name(number) }
}

const MISSING: Step = Step::Restart(RestartReason::NodeMissing);
const DELETED: Step = Step::Restart(RestartReason::NodeDeleted);
const JOIN: [Request; 2] = [Request::Create, Request::List];
const RECOVER: [Request; 2] = [Request::Sync, Request::List];
const LIST: [Request; 1] = [Request::List];

/// A contest, the driver it has, and the requests it has sent.
struct Play {
    driver: Box<dyn LockInternalsDriver>,
    contest: Contest,
    requests: usize,
}

impl Play {
    /// A contest whose first flight is in the air.
    fn joining() -> Self {
        Self::driven_by(StandardLockInternalsDriver::new())
    }

    fn driven_by(driver: impl LockInternalsDriver) -> Self {
        let contest = Contest::new(ContenderId::from_uuid(Uuid::from_u128(1)), SESSION);
        let mut play = Self { driver: Box::new(driver), contest, requests: 0 };
        assert!(!play.contest.may_exist());
        let step = play.contest.start(&*play.driver);
        assert_eq!(play.count(step), now(JOIN));
        assert!(play.contest.may_exist());
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
        assert!(play.contest.may_exist());
        assert_eq!(play.contest.node(), None);
        play
    }

    fn answers(&mut self, answers: impl IntoIterator<Item = Answer>) -> Step {
        let step = self.contest.answered(&*self.driver, answers.into_iter().collect());
        self.count(step)
    }

    fn event(&mut self, event: Event) -> Step {
        let step = self.contest.observed(&*self.driver, event);
        self.count(step)
    }

    fn count(&mut self, step: Step) -> Step {
        if let Step::Send { requests, .. } = &step {
            assert!(!requests.is_empty());
            self.requests += requests.len();
        }
        step
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
    fn node_prefix(&self, id: &ContenderId) -> String {
        StandardLockInternalsDriver::new().node_prefix(id)
    }

    fn identity(&self) -> ContenderIdentity {
        self.identity
    }

    fn sequence(&self, child: &str) -> Option<i32> {
        StandardLockInternalsDriver::new().sequence(child)
    }

    fn verdict(&self, queue: &Queue, own: usize) -> Verdict {
        match self.waits_for {
            Some(place) => Verdict::WaitsFor(place),
            None => StandardLockInternalsDriver::new().verdict(queue, own),
        }
    }

    fn predecessors_are_final(&self) -> bool {
        self.final_
    }
}
