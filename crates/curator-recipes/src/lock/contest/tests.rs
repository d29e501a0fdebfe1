//! Each branch of the protocol by itself. That they fit together is shown by the model in `tests/model`.

use proptest::prelude::*;
use uuid::Uuid;

use super::super::driver::{ContenderIdentity, StandardLockInternalsDriver, Verdict};
use super::super::queue::SequenceOverflow;
use super::*;

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

#[test]
fn the_first_in_line_owns_after_one_flight() {
    let (play, step) = Play::queued(0);
    assert_eq!(step, Step::Owned(own(0)));
    assert_eq!(play.contest.node(), Some(&own(0)));
    assert!(play.contest.may_exist());
    assert_eq!(play.contest.surplus(), [""; 0]);
}

#[test]
fn foreign_children_and_later_contenders_do_not_matter() {
    let mut play = Play::joining();
    let foreign = ["", "zfoo", "-foo", "lock-", "other-lease-0000000000"].map(str::to_owned);
    let list = foreign.into_iter().chain([name(9), name(7), name(8)]).collect();
    assert_eq!(play.answers([created(7), Answer::Children(list)]), Step::Owned(own(7)));
}

#[test]
fn the_second_watches_the_first_and_itself_and_owns_when_it_goes() {
    let (mut play, step) = Play::queued(1);
    assert_eq!(step, now([ahead(0), watch_own(1)]));
    assert_eq!(play.answers([node(0), node(1)]), Step::Wait);
    assert_eq!(play.event(gone(0)), Step::Owned(own(1)));
}

#[test]
fn the_third_watches_both_and_owns_when_both_have_gone() {
    for order in [[0, 1], [1, 0]] {
        let (mut play, step) = Play::queued(2);
        assert_eq!(step, now([ahead(0), ahead(1), watch_own(2)]));
        assert_eq!(play.answers([node(0), node(1), node(2)]), Step::Wait);
        assert_eq!(play.event(gone(order[0])), Step::Wait);
        assert_eq!(play.event(gone(order[1])), Step::Owned(own(2)));
    }
}

#[test]
fn whoever_is_further_back_watches_the_second_node_before_it_and_steps_forward_when_it_goes() {
    let (mut play, step) = Play::queued(9);
    assert_eq!(step, now([ahead(7)]));
    assert_eq!(play.answers([node(7)]), Step::Wait);
    assert_eq!(play.event(gone(7)), now([ahead(8), watch_own(9), Request::List]));
    assert_eq!(play.answers([node(8), node(9), children([8, 9, 10])]), Step::Wait);
    assert_eq!(play.event(gone(8)), Step::Owned(own(9)));
}

#[test]
fn an_acquire_costs_this_many_requests() {
    for (place, requests) in [(0, 2), (1, 4), (2, 5), (3, 6), (9, 6)] {
        let (mut play, mut step) = Play::queued(place);
        let mut next_to_go = 0;
        while step != Step::Owned(own(place)) {
            step = match step {
                Step::Send { requests, .. } => play.answers(requests.into_iter().map(|request| match request {
                    Request::List => children(next_to_go..=place),
                    _ => node(place),
                })),
                Step::Wait => {
                    next_to_go += 1;
                    if play.contest.watches.ahead.contains(&name(next_to_go - 1)) {
                        play.event(gone(next_to_go - 1))
                    } else {
                        Step::Wait
                    }
                }
                step => panic!("{step:?}"),
            };
        }
        assert_eq!(play.requests, requests, "at place {place}");
    }
}

#[test]
fn a_changed_picture_is_followed_without_watching_anything_twice() {
    // Ours is 5. When 3 goes, 0 and 1 are still there: somebody in the middle gave up.
    let mut play = Play::waiting(5);
    assert_eq!(play.event(gone(3)), now([ahead(4), watch_own(5), Request::List]));
    assert_eq!(play.answers([node(4), node(5), children([0, 1, 4, 5])]), now([ahead(1)]));
    assert_eq!(play.answers([node(1)]), Step::Wait);
    // 4 goes out of turn: its event means nothing yet, since the plan is about 1.
    assert_eq!(play.event(gone(4)), Step::Wait);
    // Then 1: the next plan was to outlive 4, whose watch is used up. That it has gone is answered again.
    assert_eq!(play.event(gone(1)), now([ahead(4), Request::List]));
    assert_eq!(play.answers([Answer::Missing, children([0, 5])]), now([ahead(0)]));
    assert_eq!(play.answers([node(0)]), Step::Wait);
    assert_eq!(play.event(gone(0)), Step::Owned(own(5)));
}

#[test]
fn a_missing_node_counts_as_gone_if_ours_was_seen_after_it() {
    // (Place, answers to the first watches, what follows.)
    let cases = [
        (1, vec![Answer::Missing, node(1)], Step::Owned(own(1))),
        (2, vec![Answer::Missing, Answer::Missing, node(2)], Step::Owned(own(2))),
        (2, vec![Answer::Missing, node(1), node(2)], Step::Wait),
        (2, vec![node(0), Answer::Missing, node(2)], Step::Wait),
        (3, vec![Answer::Missing], now([ahead(2), watch_own(3), Request::List])),
        // Ours has gone as well.
        (1, vec![Answer::Missing, Answer::Missing], MISSING),
        (2, vec![node(0), node(1), Answer::Missing], MISSING),
        // A node of our name, but another one: the directory was made anew.
        (1, vec![node(0), node(7)], MISSING),
    ];
    for (place, answers, expected) in cases {
        let (mut play, _) = Play::queued(place);
        assert_eq!(play.answers(answers.clone()), expected, "{answers:?}");
    }
}

#[test]
fn a_missing_node_is_no_proof_while_the_event_of_our_own_may_lie_unread() {
    // Our own watch was placed by an earlier flight.
    let mut play = Play::waiting(5);
    let _ = play.event(gone(3));
    assert_eq!(play.answers([node(4), node(5), children([0, 4, 5])]), now([ahead(0)]));
    assert_eq!(play.answers([Answer::Missing]), now(LIST));
    assert_eq!(play.answers([children([4, 5])]), Step::Wait);
    assert_eq!(play.event(gone(4)), Step::Owned(own(5)));

    let mut play = Play::waiting(1);
    assert_eq!(play.event(changed(0)), now([ahead(0)]));
    assert_eq!(play.answers([Answer::Missing]), now(LIST));
    assert_eq!(play.answers([children([1])]), Step::Owned(own(1)));
}

#[test]
fn an_event_after_a_lost_connection_is_only_a_reason_to_look() {
    let cases = [
        (1, perhaps_gone(0), now(LIST)),
        (2, perhaps_gone(0), now(LIST)),
        (2, perhaps_gone(1), now(LIST)),
        (5, perhaps_gone(3), now([ahead(4), watch_own(5), Request::List])),
        (1, Event::Uncertain, now([ahead(0), watch_own(1), Request::List])),
        (2, Event::Uncertain, now([ahead(0), ahead(1), watch_own(2), Request::List])),
        (5, Event::Uncertain, now([ahead(3), Request::List])),
    ];
    for (place, event, expected) in cases {
        let mut play = Play::waiting(place);
        assert_eq!(play.event(event.clone()), expected, "{event:?} at {place}");
    }
    let mut play = Play::waiting(1);
    let _ = play.event(perhaps_gone(0));
    assert_eq!(play.answers([children([1])]), Step::Owned(own(1)));
    let mut play = Play::waiting(1);
    let _ = play.event(perhaps_gone(0));
    assert_eq!(play.answers([children([])]), MISSING);
    // Of two before us, one; the watches on the other and on ourselves still stand.
    let mut play = Play::waiting(2);
    let _ = play.event(perhaps_gone(0));
    assert_eq!(play.answers([children([1, 2])]), Step::Wait);
    assert_eq!(play.event(gone(1)), Step::Owned(own(2)));
}

#[test]
fn a_write_uses_up_a_watch_and_nothing_else() {
    let mut play = Play::waiting(2);
    for (event, again, number) in
        [(changed(0), ahead(0), 0), (changed(1), ahead(1), 1), (Event::OwnChanged, watch_own(2), 2)]
    {
        assert_eq!(play.event(event), now([again]));
        assert_eq!(play.answers([node(number)]), Step::Wait);
    }
    assert_eq!(play.event(gone(0)), Step::Wait);
    assert_eq!(play.event(gone(1)), Step::Owned(own(2)));

    let mut play = Play::waiting(1);
    assert_eq!(play.event(Event::OwnChanged), now([watch_own(1)]));
    assert_eq!(play.answers([Answer::Missing]), MISSING);

    // Further back our own watch is not needed, so it is not renewed.
    let mut play = Play::waiting(5);
    let _ = play.event(gone(3));
    let _ = play.answers([node(4), node(5), children([0, 1, 4, 5])]);
    assert_eq!(play.answers([node(1)]), Step::Wait);
    assert_eq!(play.event(Event::OwnChanged), Step::Wait);
    assert_eq!(play.event(changed(4)), Step::Wait);
    assert_eq!(play.event(gone(1)), now([ahead(4), watch_own(5), Request::List]));
}

#[test]
fn our_node_deleted_means_a_new_contest() {
    for place in [1, 2, 5] {
        let mut play = Play::waiting(place);
        assert_eq!(play.event(Event::OwnDeleted), DELETED);
        assert_eq!((play.contest.node(), play.contest.may_exist()), (None, false));
    }
    for list in [children([]), children([0, 2]), Answer::NoParent] {
        let mut play = Play::joining();
        assert_eq!(play.answers([created(1), list.clone()]), MISSING, "{list:?}");
        assert!(!play.contest.may_exist());
        let mut play = Play::waiting(5);
        let _ = play.event(gone(3));
        assert_eq!(play.answers([node(4), node(5), list]), MISSING);
    }
    let mut play = Play::waiting(5);
    let _ = play.event(gone(3));
    assert_eq!(play.answers([node(4), Answer::Missing, children([4, 5])]), MISSING);
}

#[test]
fn where_the_queue_is_not_final_every_deletion_is_a_reason_to_look() {
    let mut play = Play::driven_by(Peculiar { final_: false, ..Peculiar::default() });
    assert_eq!(play.answers([created(5), children(0..=5)]), now([ahead(4)]));
    assert_eq!(play.answers([Answer::Missing]), now(LIST));
    assert_eq!(play.answers([children([0, 5])]), now([ahead(0)]));
    assert_eq!(play.answers([node(0)]), Step::Wait);
    assert_eq!(play.event(gone(0)), now(LIST));
    assert_eq!(play.answers([children([5])]), Step::Owned(own(5)));
}

#[test]
fn missing_parents_are_made_and_made_again_with_less_haste() {
    for listed in [Answer::NoParent, Answer::Unknown, children([])] {
        let mut play = Play::joining();
        assert_eq!(play.answers([Answer::NoParent, listed]), now([Request::CreateParents]));
        assert!(!play.contest.may_exist());
        assert_eq!(play.answers([Answer::ParentsReady]), now(JOIN));
        assert!(play.contest.may_exist());
        assert_eq!(play.answers([Answer::NoParent, Answer::NoParent]), retry([Request::CreateParents]));
        for failed in [Answer::Unknown, Answer::NoParent] {
            assert_eq!(play.answers([failed]), retry([Request::CreateParents]));
        }
        assert_eq!(play.answers([Answer::ParentsReady]), now(JOIN));
        assert_eq!(play.answers([created(0), children([0])]), Step::Owned(own(0)));
    }
}

#[test]
fn an_unanswered_list_is_asked_again() {
    let mut play = Play::joining();
    assert_eq!(play.answers([created(1), Answer::Unknown]), retry(LIST));
    assert_eq!(play.contest.node(), Some(&own(1)));
    assert_eq!(play.answers([Answer::Unknown]), retry(LIST));
    assert_eq!(play.answers([children([0, 1])]), now([ahead(0), watch_own(1)]));
}

#[test]
fn unanswered_watches_are_placed_again_and_those_that_stand_are_not() {
    let unknown = || Answer::Unknown;
    let cases = [
        ([unknown(), unknown(), unknown()], vec![ahead(0), ahead(1), watch_own(2), Request::List]),
        ([node(0), unknown(), unknown()], vec![ahead(1), watch_own(2), Request::List]),
        ([unknown(), node(1), node(2)], vec![ahead(0), Request::List]),
        ([node(0), Answer::Missing, unknown()], vec![ahead(1), watch_own(2), Request::List]),
        ([Answer::Missing, Answer::Missing, unknown()], vec![ahead(0), ahead(1), watch_own(2), Request::List]),
    ];
    for (answers, again) in cases {
        let (mut play, _) = Play::queued(2);
        assert_eq!(play.answers(answers.clone()), retry(again), "{answers:?}");
    }
    let mut play = Play::waiting(5);
    let _ = play.event(gone(3));
    assert_eq!(play.answers([unknown(), node(5), children([4, 5])]), retry([ahead(4), Request::List]));
    assert_eq!(play.answers([node(4), unknown()]), retry(LIST));
    assert_eq!(play.answers([children([4, 5])]), Step::Wait);
}

#[test]
fn a_node_is_recovered_only_in_the_session_that_created_it() {
    let ours = node(3);
    let foreign = Answer::Node { ephemeral_owner: OTHER_SESSION, czxid: czxid(3), is_ours: true };
    let unlike = Answer::Node { ephemeral_owner: SESSION, czxid: czxid(3), is_ours: false };
    let cases = [
        (ours, Step::Owned(own(3))),
        (foreign, now(JOIN)),
        (unlike, now(JOIN)),
        (Answer::Missing, now(JOIN)),
        (Answer::Unknown, retry(RECOVER)),
    ];
    for (answer, expected) in cases {
        let mut play = Play::recovering();
        assert_eq!(play.answers([Answer::Synced, children([3])]), now([inspect(3)]));
        assert_eq!(play.answers([answer.clone()]), expected, "{answer:?}");
        assert!(play.contest.may_exist());
    }
}

#[test]
fn a_recovery_that_is_not_answered_in_full_begins_again() {
    let cases = [
        ([Answer::Synced, children([])], now(JOIN)),
        ([Answer::Synced, Answer::NoParent], now([Request::CreateParents])),
        ([Answer::Synced, Answer::Unknown], retry(RECOVER)),
        // Such a list may come from a server that lags behind.
        ([Answer::Unknown, children([3])], retry(RECOVER)),
        ([Answer::Unknown, children([])], retry(RECOVER)),
        ([Answer::Unknown, Answer::NoParent], retry(RECOVER)),
        ([Answer::Unknown, Answer::Unknown], retry(RECOVER)),
    ];
    for (answers, expected) in cases {
        let mut play = Play::recovering();
        assert_eq!(play.answers(answers.clone()), expected, "{answers:?}");
    }
    // The same holds for the list of the first flight.
    let mut play = Play::joining();
    assert_eq!(play.answers([Answer::Unknown, children([0])]), retry(RECOVER));
    // Foreign children are no candidates.
    let mut play = Play::recovering();
    let list = [format!("{PREFIX}x"), "_c_other-lock-0000000001".to_owned()];
    assert_eq!(play.answers([Answer::Synced, Answer::Children(list.into())]), now(JOIN));
}

#[test]
fn a_recovered_node_takes_its_place() {
    let mut play = Play::recovering();
    let queue = vec!["_c_other-lock-0000000000".to_owned(), name(1)];
    assert_eq!(play.answers([Answer::Synced, Answer::Children(queue)]), now([inspect(1)]));
    let first = Request::WatchAhead { name: "_c_other-lock-0000000000".to_owned() };
    assert_eq!(play.answers([node(1)]), now([first, watch_own(1)]));
}

#[test]
fn of_several_nodes_of_ours_the_first_is_kept() {
    let mut play = Play::driven_by(Peculiar { identity: ContenderIdentity::Data, ..Peculiar::default() });
    assert_eq!(play.answers([Answer::Unknown, Answer::Unknown]), retry(RECOVER));
    let all = [2, 3, 4, 5];
    assert_eq!(play.answers([Answer::Synced, children([5, 3, 2, 4])]), now(all.map(inspect)));
    let other = Answer::Node { ephemeral_owner: OTHER_SESSION, czxid: czxid(2), is_ours: false };
    assert_eq!(play.answers([other, node(3), Answer::Missing, node(5)]), now([ahead(2), watch_own(3)]));
    assert_eq!(play.contest.node(), Some(&own(3)));
    assert_eq!(play.contest.surplus(), [name(5)]);
}

#[test]
fn after_an_overflow_nobody_owns() {
    let overflow = |number| Step::Failed(ContestError::SequenceOverflow(SequenceOverflow { name: name(number) }));
    let mut play = Play::joining();
    assert_eq!(play.answers([created(-5), children([-5])]), overflow(-5));
    // It has to be cleaned up.
    assert_eq!(play.contest.node(), Some(&own(-5)));
    assert!(play.contest.may_exist());
    // Ours came before the overflow, but whoever came after cannot know that.
    let mut play = Play::joining();
    assert_eq!(play.answers([created(i32::MAX), children([i32::MAX, i32::MIN])]), overflow(i32::MIN));
    let mut play = Play::waiting(5);
    let _ = play.event(gone(3));
    assert_eq!(play.answers([node(4), node(5), children([4, 5, -1])]), overflow(-1));
    let mut play = Play::recovering();
    assert_eq!(play.answers([Answer::Synced, children([-1])]), overflow(-1));
}

#[test]
fn a_driver_that_makes_no_sense_is_an_error() {
    for place in [5, 6, 99] {
        let mut play = Play::driven_by(Peculiar { waits_for: Some(place), ..Peculiar::default() });
        let step = play.answers([created(5), children(0..=6)]);
        assert!(matches!(step, Step::Failed(ContestError::Protocol { .. })), "{step:?}");
        assert!(play.contest.may_exist());
    }
    let mut play = Play::joining();
    let stranger = Answer::Created { name: "stranger".to_owned(), czxid: 1 };
    assert!(matches!(play.answers([stranger, children([])]), Step::Failed(ContestError::Protocol { .. })));
}

#[test]
fn answers_that_do_not_fit_are_errors() {
    let joining = || Play::joining().contest;
    let preparing = || {
        let mut play = Play::joining();
        let _ = play.answers([Answer::NoParent, Answer::NoParent]);
        play.contest
    };
    let recovering = || Play::recovering().contest;
    let identifying = || {
        let mut play = Play::recovering();
        let _ = play.answers([Answer::Synced, children([3])]);
        play.contest
    };
    let placing = || Play::queued(1).0.contest;
    let looking = || {
        let mut play = Play::waiting(1);
        let _ = play.event(perhaps_gone(0));
        play.contest
    };
    let cases: [(Contest, Vec<Answer>); 20] = [
        (joining(), vec![]),
        (joining(), vec![created(0)]),
        (joining(), vec![created(0), children([0]), children([0])]),
        (joining(), vec![created(0), created(0)]),
        (joining(), vec![children([0]), created(0)]),
        (joining(), vec![Answer::Missing, Answer::Missing]),
        (preparing(), vec![]),
        (preparing(), vec![Answer::Synced]),
        (recovering(), vec![Answer::Synced]),
        (recovering(), vec![Answer::Synced, Answer::Synced]),
        (recovering(), vec![children([]), children([])]),
        (identifying(), vec![]),
        (identifying(), vec![created(3)]),
        (identifying(), vec![node(3), node(3)]),
        (placing(), vec![node(0)]),
        (placing(), vec![Answer::NoParent, node(1)]),
        (placing(), vec![node(0), Answer::Synced]),
        (looking(), vec![]),
        (looking(), vec![node(0)]),
        (Play::waiting(1).contest, vec![node(0)]),
    ];
    let driver = StandardLockInternalsDriver::new();
    for (mut contest, answers) in cases {
        let state = contest.state.clone();
        let step = contest.answered(&driver, answers.clone());
        assert!(matches!(step, Step::Failed(ContestError::Protocol { .. })), "{state:?}: {answers:?}: {step:?}");
        assert_eq!(contest.state, State::Over);
    }
}

#[test]
fn calls_out_of_turn_are_errors() {
    let is_error = |step: Step| matches!(step, Step::Failed(ContestError::Protocol { .. }));
    let driver = StandardLockInternalsDriver::new();
    let mut new = Contest::new(ContenderId::new(), SESSION);
    assert!(is_error(new.observed(&driver, Event::OwnDeleted)));
    let mut new = Contest::new(ContenderId::new(), SESSION);
    assert!(is_error(new.answered(&driver, vec![])));
    let mut play = Play::joining();
    assert!(is_error(play.contest.start(&driver)));
    let mut play = Play::joining();
    assert!(is_error(play.event(gone(0))));
    let (mut owned, _) = Play::queued(0);
    assert!(is_error(owned.answers([])));
    assert!(is_error(owned.event(Event::OwnDeleted)));
    assert_eq!(owned.contest.id(), ContenderId::from_uuid(Uuid::from_u128(1)));
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

fn any_answer() -> impl Strategy<Value = Answer> {
    let number = -1..6_i32;
    prop_oneof![
        number.clone().prop_map(created),
        Just(Answer::NoParent),
        Just(Answer::ParentsReady),
        Just(Answer::Synced),
        prop::collection::vec(number.clone(), 0..6).prop_map(children),
        (number, any::<bool>(), any::<bool>()).prop_map(|(number, ours, is_ours)| Answer::Node {
            ephemeral_owner: if ours { SESSION } else { OTHER_SESSION },
            czxid: czxid(number),
            is_ours,
        }),
        Just(Answer::Missing),
        Just(Answer::Unknown),
    ]
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..6_i32, any::<bool>()).prop_map(|(n, certain)| Event::AheadDeleted { name: name(n), certain }),
        2 => (0..6_i32).prop_map(changed),
        1 => Just(Event::OwnDeleted),
        1 => Just(Event::OwnChanged),
        1 => Just(Event::Uncertain),
    ]
}

/// An answer of the kind that fits, whatever it says.
fn fitting(request: &Request, seed: u8) -> Answer {
    let number = i32::from(seed % 6);
    match (request, seed % 8) {
        (_, 7) => Answer::Unknown,
        (Request::Create | Request::CreateParents | Request::List, 6) => Answer::NoParent,
        (Request::Create, _) => created(number),
        (Request::CreateParents, _) => Answer::ParentsReady,
        (Request::Sync, _) => Answer::Synced,
        (Request::List, _) => children((0..6).filter(|bit| *bit == 5 || seed & (1 << bit) != 0)),
        (_, 6) => Answer::Missing,
        _ => node(5),
    }
}

proptest! {
    #[test]
    fn no_answer_and_no_event_makes_it_panic(
        answers in prop::collection::vec(prop::collection::vec(any_answer(), 0..4), 0..12),
        events in prop::collection::vec(any_event(), 12),
    ) {
        let mut play = Play::joining();
        let mut events = events.into_iter();
        for answers in answers {
            let mut step = play.answers(answers);
            while step == Step::Wait {
                let Some(event) = events.next() else { return Ok(()) };
                step = play.event(event);
            }
        }
    }

    /// Whatever the server says, no node is watched twice, and nothing follows an end.
    #[test]
    fn every_run_is_orderly(seeds: Vec<u8>, events in prop::collection::vec(any_event(), 0..20)) {
        let mut play = Play::joining();
        let mut step = now(JOIN);
        let (mut seeds, mut events) = (seeds.into_iter(), events.into_iter());
        loop {
            step = match step {
                Step::Send { requests, .. } => {
                    for request in &requests {
                        match request {
                            Request::WatchAhead { name } => prop_assert!(!play.contest.watches.ahead.contains(name)),
                            Request::WatchOwn { .. } => prop_assert!(!play.contest.watches.own),
                            _ => {}
                        }
                    }
                    let answers = requests.iter().map(|request| fitting(request, seeds.next().unwrap_or(7)));
                    let answers: Vec<_> = answers.collect();
                    if seeds.len() == 0 {
                        return Ok(());
                    }
                    play.answers(answers)
                }
                Step::Wait => match events.next() {
                    Some(event) => play.event(event),
                    None => return Ok(()),
                },
                Step::Owned(node) => {
                    prop_assert_eq!(play.contest.node(), Some(&node));
                    prop_assert!(play.contest.may_exist());
                    break;
                }
                Step::Restart(_) => {
                    prop_assert!(!play.contest.may_exist());
                    break;
                }
                Step::Failed(error) => return Err(TestCaseError::fail(error.to_string())),
            };
        }
        prop_assert!(matches!(play.answers([]), Step::Failed(_)));
    }
}
