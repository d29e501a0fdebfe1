//! What several queues at once add to a contest. That it fits together is shown by the model in `tests/model`.

use proptest::prelude::*;
use uuid::Uuid;

use super::super::Contest;
use super::super::step::{OwnNode, Step};
use super::*;
use crate::lock::driver::StandardLockInternalsDriver;

const SESSION: i64 = 0x51;
const OTHER_SESSION: i64 = 0x52;
const DRIVER: StandardLockInternalsDriver = StandardLockInternalsDriver::new();
/// Everybody's node bears the same id; only the numbers tell them apart. So every node is a candidate in a recovery.
const PREFIX: &str = "_c_00000000-0000-0000-0000-000000000001-lock-";

const MISSING: JointStep = JointStep::Restart(RestartReason::NodeMissing);
const DELETED: JointStep = JointStep::Restart(RestartReason::NodeDeleted);

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

fn node_of_another_session(number: i32) -> Answer {
    Answer::Node { ephemeral_owner: OTHER_SESSION, czxid: czxid(number), is_ours: true }
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

fn now(requests: impl Into<Vec<(usize, Request)>>) -> JointStep {
    JointStep::Send { requests: requests.into(), pace: Pace::Now }
}

fn retry(requests: impl Into<Vec<(usize, Request)>>) -> JointStep {
    JointStep::Send { requests: requests.into(), pace: Pace::Retry }
}

fn gone(number: i32) -> Event {
    Event::AheadDeleted { name: name(number), certain: true }
}

fn perhaps_gone(number: i32) -> Event {
    Event::AheadDeleted { name: name(number), certain: false }
}

fn join() -> JointStep {
    now([(0, Request::Create), (0, Request::List), (1, Request::Create), (1, Request::List)])
}

fn recover() -> JointStep {
    retry([(0, Request::Sync), (0, Request::List), (1, Request::Sync), (1, Request::List)])
}

/// A contest for two queues.
#[derive(Debug)]
struct Play(JointContest);

impl Play {
    /// Its first flight is in the air.
    fn joining() -> Self {
        let mut contest = JointContest::new(ContenderId::from_uuid(Uuid::from_u128(1)), SESSION, 2);
        assert!(!contest.may_have_unknown_nodes());
        assert_eq!(contest.start(&DRIVER), join());
        assert!(contest.may_have_unknown_nodes());
        Self(contest)
    }

    /// Its nodes have these numbers, and it has seen all the nodes before.
    fn queued(numbers: [i32; 2]) -> (Self, JointStep) {
        let mut play = Self::joining();
        let [first, second] = numbers;
        let step = play.answers([
            (0, created(first)),
            (0, children(0..=first)),
            (1, created(second)),
            (1, children(0..=second)),
        ]);
        (play, step)
    }

    /// First in queue 0, second in queue 1, with all its watches.
    fn owning_the_first_and_waiting() -> Self {
        let (mut play, step) = Self::queued([0, 1]);
        assert_eq!(step, now([(0, watch_own(0)), (1, ahead(0)), (1, watch_own(1))]));
        assert_eq!(play.answers([(0, node(0)), (1, node(0)), (1, node(1))]), JointStep::Wait);
        play
    }

    /// No answer came to its creates.
    fn recovering() -> Self {
        let mut play = Self::joining();
        assert_eq!(play.answers([0, 0, 1, 1].map(|queue| (queue, Answer::Unknown))), recover());
        play
    }

    fn answers(&mut self, answers: impl Into<Vec<(usize, Answer)>>) -> JointStep {
        self.0.answered(&DRIVER, answers.into())
    }

    fn event(&mut self, queue: usize, event: Event) -> JointStep {
        self.0.observed(&DRIVER, queue, event)
    }

    fn nodes(&self) -> Vec<(usize, OwnNode)> {
        self.0.nodes().map(|(queue, node)| (queue, node.clone())).collect()
    }
}

#[test]
fn whoever_is_first_in_all_queues_owns_them_after_one_flight() {
    let (play, step) = Play::queued([0, 0]);
    assert_eq!(step, JointStep::Owned(vec![own(0), own(0)]));
    assert_eq!(play.nodes(), [(0, own(0)), (1, own(0))]);
    assert!(!play.0.may_have_unknown_nodes());
}

#[test]
fn it_waits_in_all_queues_at_once_and_owns_when_the_last_of_them_is_its_own() {
    for order in [[0, 1], [1, 0]] {
        let (mut play, step) = Play::queued([1, 1]);
        assert_eq!(step, now([(0, ahead(0)), (0, watch_own(1)), (1, ahead(0)), (1, watch_own(1))]));
        assert_eq!(play.answers([(0, node(0)), (0, node(1)), (1, node(0)), (1, node(1))]), JointStep::Wait);
        assert_eq!(play.event(order[0], gone(0)), JointStep::Wait, "its own node is watched already");
        assert_eq!(play.event(order[1], gone(0)), JointStep::Owned(vec![own(1), own(1)]));
    }
}

#[test]
fn the_own_node_of_a_queue_that_is_owned_early_is_watched() {
    let mut play = Play::owning_the_first_and_waiting();
    assert_eq!(play.event(1, gone(0)), JointStep::Owned(vec![own(0), own(1)]));
    // Become owned by a list, further back in the other.
    let (mut play, step) = Play::queued([5, 5]);
    assert_eq!(step, now([(0, ahead(3)), (1, ahead(3))]));
    assert_eq!(play.answers([(0, node(3)), (1, node(3))]), JointStep::Wait);
    assert_eq!(play.event(0, perhaps_gone(3)), now([(0, ahead(4)), (0, watch_own(5)), (0, Request::List)]));
    // Whether our own node is there is not known, so the list of this flight is not used.
    let step = play.answers([(0, Answer::Missing), (0, Answer::Unknown), (0, children([5]))]);
    assert_eq!(step, retry([(0, ahead(4)), (0, watch_own(5)), (0, Request::List)]));
    assert_eq!(play.answers([(0, Answer::Missing), (0, node(5)), (0, children([5]))]), JointStep::Wait);
    assert_eq!(play.event(0, Event::OwnDeleted), DELETED);
}

#[test]
fn an_owned_queue_whose_node_is_deleted_means_a_new_contest_for_all() {
    let mut play = Play::owning_the_first_and_waiting();
    assert_eq!(play.event(0, Event::OwnDeleted), DELETED);
    assert!(play.nodes().contains(&(1, own(1))), "it is to be deleted");

    // Deleted before the watch was placed, or the directory was made anew and another node has the number.
    for answer in [Answer::Missing, node(7)] {
        let (mut play, _) = Play::queued([0, 1]);
        assert_eq!(play.answers([(0, answer), (1, node(0)), (1, node(1))]), MISSING);
    }

    // In the other queue.
    let mut play = Play::owning_the_first_and_waiting();
    assert_eq!(play.event(1, Event::OwnDeleted), DELETED);
    assert!(play.nodes().contains(&(0, own(0))), "it is to be deleted");
}

#[test]
fn a_watch_on_an_owned_node_is_placed_again_when_it_is_used_up_or_unknown() {
    for event in [Event::OwnChanged, Event::Uncertain] {
        let mut play = Play::owning_the_first_and_waiting();
        assert_eq!(play.event(0, event), now([(0, watch_own(0))]));
        assert_eq!(play.answers([(0, Answer::Unknown)]), retry([(0, watch_own(0))]));
        assert_eq!(play.answers([(0, node(0))]), JointStep::Wait);
        assert_eq!(play.event(1, gone(0)), JointStep::Owned(vec![own(0), own(1)]));
    }
    // What was ahead in a queue that is owned does not matter any more.
    let mut play = Play::owning_the_first_and_waiting();
    assert_eq!(play.event(0, gone(0)), JointStep::Wait);
    assert_eq!(play.event(0, Event::AheadChanged { name: name(0) }), JointStep::Wait);
}

#[test]
fn nothing_is_owned_while_it_is_unknown_whether_the_node_of_an_owned_queue_is_there() {
    // Queue 0 becomes ours in the very flight that was to guard queue 1.
    let (mut play, step) = Play::queued([1, 0]);
    assert_eq!(step, now([(0, ahead(0)), (0, watch_own(1)), (1, watch_own(0))]));
    let step = play.answers([(0, Answer::Missing), (0, node(1)), (1, Answer::Unknown)]);
    assert_eq!(step, retry([(1, watch_own(0))]));
    assert_eq!(play.answers([(1, Answer::Missing)]), MISSING);
}

#[test]
fn the_parents_of_all_queues_are_made_before_any_create_is_tried_again() {
    let parents = [(0, Request::CreateParents), (1, Request::CreateParents)];
    let mut play = Play::joining();
    let none = [(0, Answer::NoParent), (0, children([])), (1, Answer::NoParent), (1, Answer::NoParent)];
    assert_eq!(play.answers(none.clone()), now(parents.clone()));
    assert!(!play.0.may_have_unknown_nodes(), "no part of a transaction that failed was done");
    // Those of one are made, those of the other perhaps.
    let step = play.answers([(0, Answer::ParentsReady), (1, Answer::Unknown)]);
    assert_eq!(step, retry([(1, Request::CreateParents)]));
    assert_eq!(play.answers([(1, Answer::ParentsReady)]), join());
    assert_eq!(play.answers(none), retry(parents), "they have gone again");
    assert_eq!(play.answers([(0, Answer::ParentsReady), (1, Answer::ParentsReady)]), join());
}

#[test]
fn the_queue_whose_numbers_come_again_is_named() {
    let mut play = Play::joining();
    let step =
        play.answers([(0, Answer::Unknown), (0, children([])), (1, Answer::NameTaken), (1, children([i32::MAX]))]);
    let JointStep::Failed { queue: 1, error: ContestError::SequenceOverflow(overflow) } = step else {
        panic!("{step:?}")
    };
    assert_eq!(overflow.name, name(i32::MAX));
}

#[test]
fn a_recovery_that_finds_none_of_the_nodes_creates_all_again() {
    let mut play = Play::recovering();
    let none = [(0, Answer::Synced), (0, children([])), (1, Answer::Synced), (1, children([]))];
    assert_eq!(play.answers(none), join());

    // They are not ours after all, which takes one flight longer to see.
    let mut play = Play::recovering();
    let some = [(0, Answer::Synced), (0, children([3])), (1, Answer::Synced), (1, children([]))];
    assert_eq!(play.answers(some.clone()), now([(0, inspect(3))]), "the other waits for the outcome");
    assert_eq!(play.answers([(0, node_of_another_session(3))]), join());
    let mut play = Play::recovering();
    let _ = play.answers(some);
    assert_eq!(play.answers([(0, Answer::Missing)]), join());

    // Neither directory is there.
    let mut play = Play::recovering();
    let no_dir = [(0, Answer::Synced), (0, Answer::NoParent), (1, Answer::Synced), (1, children([]))];
    assert_eq!(play.answers(no_dir), now([(0, Request::CreateParents)]));
    assert_eq!(play.answers([(0, Answer::ParentsReady)]), join());
}

#[test]
fn a_recovery_that_finds_all_nodes_goes_on_with_them() {
    let mut play = Play::recovering();
    let all = [(0, Answer::Synced), (0, children([0])), (1, Answer::Synced), (1, children([0, 1]))];
    assert_eq!(play.answers(all), now([(0, inspect(0)), (1, inspect(0)), (1, inspect(1))]));
    let step = play.answers([(0, node(0)), (1, node_of_another_session(0)), (1, node(1))]);
    assert_eq!(step, now([(0, watch_own(0)), (1, ahead(0)), (1, watch_own(1))]));
    assert_eq!(play.nodes(), [(0, own(0)), (1, own(1))]);

    // Of several that are ours, the first is used and the others are named.
    let mut play = Play::recovering();
    let _ = play.answers([(0, Answer::Synced), (0, children([0])), (1, Answer::Synced), (1, children([0, 1]))]);
    let step = play.answers([(0, node(0)), (1, node(0)), (1, node(1))]);
    assert_eq!(step, JointStep::Owned(vec![own(0), own(0)]));
    assert_eq!(play.0.surplus().collect::<Vec<_>>(), [(1, &*name(1))]);
}

#[test]
fn a_recovery_that_finds_some_of_the_nodes_begins_anew() {
    for found in [0, 1] {
        let lost = 1 - found;
        let mut play = Play::recovering();
        let list = |queue| if queue == found { children([0]) } else { children([]) };
        let answers = [(0, Answer::Synced), (0, list(0)), (1, Answer::Synced), (1, list(1))];
        assert_eq!(play.answers(answers), now([(found, inspect(0))]));
        assert_eq!(play.answers([(found, node(0))]), MISSING, "queue {lost} alone is never entered");
        assert_eq!(play.nodes(), [(found, own(0))], "it is to be deleted");
    }
}

#[test]
fn queues_recover_each_at_its_own_pace() {
    // Queue 0 is found and guarded, while queue 1 goes on looking.
    let mut play = Play::recovering();
    let half = [(0, Answer::Synced), (0, children([0])), (1, Answer::Synced), (1, Answer::Unknown)];
    assert_eq!(play.answers(half), retry([(0, inspect(0)), (1, Request::Sync), (1, Request::List)]));
    let step = play.answers([(0, node(0)), (1, Answer::Unknown), (1, Answer::Unknown)]);
    assert_eq!(step, retry([(0, watch_own(0)), (1, Request::Sync), (1, Request::List)]));
    let step = play.answers([(0, node(0)), (1, Answer::Synced), (1, children([0]))]);
    assert_eq!(step, now([(1, inspect(0))]));
    assert_eq!(play.answers([(1, node(0))]), JointStep::Owned(vec![own(0), own(0)]));

    // Queue 0 knows that it has no node. It waits for queue 1 to find out.
    let mut play = Play::recovering();
    let half = [(0, Answer::Synced), (0, children([])), (1, Answer::Unknown), (1, Answer::Unknown)];
    assert_eq!(play.answers(half), retry([(1, Request::Sync), (1, Request::List)]));
    assert_eq!(play.answers([(1, Answer::Synced), (1, children([]))]), join());
}

#[test]
fn calls_out_of_turn_are_errors() {
    let misused = |step: JointStep| matches!(step, JointStep::Failed { error: ContestError::Protocol { .. }, .. });
    let new = || JointContest::new(ContenderId::new(), SESSION, 2);
    assert!(misused(new().observed(&DRIVER, 0, Event::OwnDeleted)));
    assert!(misused(new().answered(&DRIVER, vec![])));
    assert!(misused(Play::joining().0.start(&DRIVER)));
    assert!(misused(Play::joining().event(1, gone(0))));
    assert!(misused(Play::owning_the_first_and_waiting().0.start(&DRIVER)));
    for answers in [vec![], vec![(1, node(0))]] {
        assert!(misused(Play::owning_the_first_and_waiting().answers(answers)));
    }
    // Whatever the end was.
    let (owned, _) = Play::queued([0, 0]);
    let mut deleted = Play::owning_the_first_and_waiting();
    assert_eq!(deleted.event(1, Event::OwnDeleted), DELETED);
    let mut missing = Play::recovering();
    let answers = [(0, Answer::Synced), (0, children([])), (1, Answer::Synced), (1, children([4]))];
    let _ = missing.answers(answers);
    assert_eq!(missing.answers([(1, node(4))]), MISSING);
    let mut failed = Play::joining();
    assert!(misused(failed.answers([])));
    for over in [owned, deleted, missing, failed] {
        let play = || Play(over.0.clone());
        assert!(misused(play().0.start(&DRIVER)), "{over:?}");
        assert!(misused(play().answers([])), "{over:?}");
        assert!(misused(play().event(0, Event::OwnDeleted)), "{over:?}");
        assert_eq!(play().nodes(), over.nodes(), "they are still to be deleted");
    }
}

#[test]
fn answers_that_do_not_fit_are_errors() {
    let is_error = |step: JointStep, at: usize| matches!(step, JointStep::Failed { queue, .. } if queue == at);
    // (Answers to the first flight, the queue that complains.)
    let joining = [
        (vec![], 0),
        (vec![(0, created(0)), (0, children([0]))], 1),
        (vec![(0, created(0)), (1, created(0)), (1, children([0]))], 0),
        (vec![(0, created(0)), (0, children([0])), (1, created(0)), (1, created(0))], 1),
        (vec![(2, created(0))], 2),
    ];
    for (answers, queue) in joining {
        assert!(is_error(Play::joining().answers(answers.clone()), queue), "{answers:?}");
    }
    // To the watch on the node of an owned queue.
    for answers in [vec![], vec![(0, Answer::Synced)], vec![(0, node(0)), (0, node(0))]] {
        let mut play = Play::owning_the_first_and_waiting();
        let _ = play.event(0, Event::OwnChanged);
        assert!(is_error(play.answers(answers.clone()), 0), "{answers:?}");
    }
    assert!(is_error(Play::owning_the_first_and_waiting().event(2, Event::OwnDeleted), 2));
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
        (Request::List, _) => children((0..6).filter(|bit| seed & (1 << bit) != 0)),
        (_, 6) => Answer::Missing,
        (_, 5) => node_of_another_session(number),
        (Request::Inspect { name } | Request::WatchAhead { name } | Request::WatchOwn { name }, _) => {
            // Mostly the node that was meant.
            node(name.strip_prefix(PREFIX).and_then(|number| number.parse().ok()).unwrap_or(number))
        }
    }
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..6_i32, any::<bool>()).prop_map(|(n, certain)| Event::AheadDeleted { name: name(n), certain }),
        2 => (0..6_i32).prop_map(|n| Event::AheadChanged { name: name(n) }),
        1 => Just(Event::OwnDeleted),
        1 => Just(Event::OwnChanged),
        1 => Just(Event::Uncertain),
    ]
}

fn alone(step: JointStep) -> Step {
    match step {
        JointStep::Send { requests, pace } => {
            Step::Send { requests: requests.into_iter().map(|(_, request)| request).collect(), pace }
        }
        JointStep::Wait => Step::Wait,
        JointStep::Owned(nodes) => Step::Owned(nodes.into_iter().next().unwrap()),
        JointStep::Restart(reason) => Step::Restart(reason),
        JointStep::Failed { error, .. } => Step::Failed(error),
    }
}

proptest! {
    /// Whatever the server says: the nodes are created all together, and only when there is none of them; the creates
    /// of a transaction fail together, if it is kept to that.
    #[test]
    fn no_queue_is_ever_entered_alone(
        queues in 1..4_usize,
        seeds in prop::collection::vec(any::<u8>(), 0..60),
        events in prop::collection::vec((0..4_usize, any_event()), 0..12),
    ) {
        let mut contest = JointContest::new(ContenderId::from_uuid(Uuid::from_u128(1)), SESSION, queues);
        let mut step = contest.start(&DRIVER);
        let (mut seeds, mut events) = (seeds.into_iter(), events.into_iter());
        loop {
            step = match step {
                JointStep::Send { requests, .. } => {
                    prop_assert!(!requests.is_empty());
                    let created = requests.iter().filter(|(_, request)| *request == Request::Create);
                    let created: Vec<_> = created.map(|(queue, _)| *queue).collect();
                    if !created.is_empty() {
                        prop_assert_eq!(created, (0..queues).collect::<Vec<_>>());
                        prop_assert_eq!(contest.nodes().count(), 0);
                    }
                    if seeds.len() < requests.len() {
                        return Ok(());
                    }
                    // All the creates are one transaction.
                    let outcome = fitting(&Request::Create, seeds.next().unwrap());
                    let answers = requests.iter().map(|(queue, request)| (*queue, match request {
                        Request::Create => outcome.clone(),
                        request => fitting(request, seeds.next().unwrap_or(7)),
                    }));
                    contest.answered(&DRIVER, answers.collect())
                }
                JointStep::Wait => match events.next() {
                    Some((queue, event)) => contest.observed(&DRIVER, queue % queues, event),
                    None => return Ok(()),
                },
                JointStep::Owned(nodes) => {
                    prop_assert_eq!(&nodes, &contest.nodes().map(|(_, node)| node.clone()).collect::<Vec<_>>());
                    prop_assert_eq!(nodes.len(), queues);
                    break;
                }
                JointStep::Restart(_) => break,
                JointStep::Failed { error, .. } => return Err(TestCaseError::fail(error.to_string())),
            };
        }
    }

    #[test]
    fn with_one_queue_it_does_what_a_contest_does(
        seeds in prop::collection::vec(any::<u8>(), 0..40),
        events in prop::collection::vec(any_event(), 0..12),
        misfit: Option<u8>,
    ) {
        let id = ContenderId::from_uuid(Uuid::from_u128(1));
        let (mut joint, mut contest) = (JointContest::new(id, SESSION, 1), Contest::new(id, SESSION));
        let mut step = contest.start(&DRIVER);
        prop_assert_eq!(alone(joint.start(&DRIVER)), step.clone());
        let (mut seeds, mut events) = (seeds.into_iter(), events.into_iter());
        loop {
            let same;
            (step, same) = match step {
                Step::Send { requests, .. } => {
                    let answers = requests.iter().map(|request| fitting(request, seeds.next().unwrap_or(7)));
                    let mut answers: Vec<_> = answers.collect();
                    if seeds.len() == 0 {
                        return Ok(());
                    }
                    if misfit.is_some_and(|at| usize::from(at) == seeds.len()) {
                        answers.pop();
                    }
                    let of_joint = answers.iter().cloned().map(|answer| (0, answer)).collect();
                    (contest.answered(&DRIVER, answers), joint.answered(&DRIVER, of_joint))
                }
                Step::Wait => match events.next() {
                    Some(event) => (contest.observed(&DRIVER, event.clone()), joint.observed(&DRIVER, 0, event)),
                    None => return Ok(()),
                },
                _ => break,
            };
            prop_assert_eq!(alone(same), step.clone());
            prop_assert_eq!(joint.nodes().next().map(|(_, node)| node), contest.node());
            let unknown = contest.may_exist() && contest.node().is_none();
            prop_assert_eq!(joint.may_have_unknown_nodes(), unknown);
            prop_assert!(joint.surplus().map(|(_, name)| name).eq(contest.surplus().iter().map(String::as_str)));
        }
    }
}
