//! Contests for several queues at once.

use super::*;

const JOIN_TWO: [(usize, Request); 4] =
    [(0, Request::Create), (1, Request::Create), (0, Request::List), (1, Request::List)];

/// A contest for two queues.
impl Play {
    /// Its first pipeline is in flight.
    pub(super) fn joining_two() -> Self {
        let play = Self::new(Contest::new(ID, SESSION, 2), &DRIVER);
        assert_eq!(play.in_flight, JOIN_TWO);
        assert_eq!(play.unknown_nodes(), [0, 1]);
        play
    }

    /// Its nodes have these numbers, and it has listed all nodes before.
    fn queued_in_two(numbers: [i32; 2]) -> (Self, Step) {
        let mut play = Self::joining_two();
        let [first, second] = numbers;
        let step = play.answers([created(first), created(second), children(0..=first), children(0..=second)]);
        (play, step)
    }

    /// First in queue 0, second in queue 1, with all its watches.
    pub(super) fn owning_the_first_and_waiting() -> Self {
        let (mut play, step) = Self::queued_in_two([0, 1]);
        assert_eq!(step, now([watch_own(0), at(1, ahead(0)), at(1, watch_own(1))]));
        assert_eq!(play.answers([node(0), node(0), node(1)]), Step::Wait);
        play
    }

    /// Its creates were not answered.
    fn recovering_two() -> Self {
        let mut play = Self::joining_two();
        let recover = [(0, Request::Sync), (1, Request::Sync), (0, Request::List), (1, Request::List)];
        assert_eq!(play.answers([const { Answer::Unknown }; 4]), retry(recover));
        play
    }
}

#[test]
fn a_deleted_node_in_an_owned_queue_restarts_the_contest_for_all_queues() {
    let mut play = Play::owning_the_first_and_waiting();
    assert_eq!(play.event(Event::OwnDeleted(0)), RESTART);
    assert_eq!(play.nodes(), [(1, own(1))], "it is to be deleted");
    assert_eq!(play.unknown_nodes(), [0; 0]);
    // Deleted before the watch was placed, or another client has created a node with the same name.
    for answer in [Answer::Missing, node(7)] {
        let (mut play, _) = Play::queued_in_two([0, 1]);
        assert_eq!(play.answers([answer, node(0), node(1)]), RESTART);
    }
}

#[test]
fn no_contest_is_won_while_the_node_of_an_owned_queue_is_unconfirmed() {
    // Queue 0 becomes owned by the pipeline that was to watch queue 1's node.
    let (mut play, step) = Play::queued_in_two([1, 0]);
    assert_eq!(step, now([ahead(0), watch_own(1), at(1, watch_own(0))]));
    assert_eq!(play.answers([Answer::Missing, node(1), Answer::Unknown]), retry([at(1, watch_own(0))]));
    assert_eq!(play.answers([Answer::Missing]), RESTART);
}

#[test]
fn a_sequence_overflow_names_its_queue() {
    let mut play = Play::joining_two();
    let step = play.answers([created(0), created(i32::MAX), children([0]), children([i32::MAX])]);
    let Step::Failed { queue: 1, error: ContestError::SequenceOverflow(overflow) } = step else { panic!("{step:?}") };
    assert_eq!(overflow.name, name(i32::MAX));
}

#[test]
fn queues_recover_separately_but_create_their_nodes_together() {
    // Queue 0's node is found and watched, while queue 1 still looks for its node.
    let mut play = Play::recovering_two();
    let step = play.answers([Answer::Done, Answer::Done, children([0]), Answer::Unknown]);
    assert_eq!(step, retry([inspect(0), (1, Request::Sync), (1, Request::List)]));
    let step = play.answers([node(0), Answer::Unknown, Answer::Unknown]);
    assert_eq!((play.nodes(), play.unknown_nodes()), (vec![(0, own(0))], vec![1]));
    assert_eq!(step, retry([watch_own(0), (1, Request::Sync), (1, Request::List)]));
    assert_eq!(play.answers([node(0), Answer::Done, children([0])]), now([at(1, inspect(0))]));
    assert_eq!(play.answers([node(0)]), won([own(0), own(0)]));
    // Queue 0 has no node. None is created in it until queue 1 is known to have none either.
    let mut play = Play::recovering_two();
    let step = play.answers([Answer::Done, Answer::Done, children([]), Answer::Unknown]);
    assert_eq!(step, retry([(1, Request::Sync), (1, Request::List)]));
    assert_eq!(play.answers([Answer::Done, children([])]), now(JOIN_TWO));
    // If queue 1 has a node, the contest starts over.
    let mut play = Play::recovering_two();
    assert_eq!(play.answers([Answer::Done, Answer::Done, children([]), children([0])]), now([at(1, inspect(0))]));
    assert_eq!(play.answers([node(0)]), RESTART);
}

#[test]
fn after_an_interruption_one_pipeline_sets_the_watches_of_all_queues() {
    let mut play = Play::owning_the_first_and_waiting();
    let look = [watch_own(0), at(1, ahead(0)), at(1, watch_own(1)), (1, Request::List)];
    assert_eq!(play.event(Event::Interrupted), now(look));
}

#[test]
fn creates_come_first_in_a_pipeline_and_plain_reads_last() {
    // The queues are at different points of their recovery.
    let mut play = Play::recovering_two();
    let step = play.answers([Answer::Unknown, Answer::Done, Answer::Unknown, children([0])]);
    assert_eq!(step, retry([(0, Request::Sync), at(1, inspect(0)), (0, Request::List)]));
    // With leases and their limit.
    let play = Play::new(Contest::for_leases(ID, SESSION, 1, LeaseLimit::Shared), &DRIVER);
    assert_eq!(play.in_flight, [(0, Request::Create), (0, Request::List), (1, Request::List), (1, Request::Limit)]);
    let play = Play::new(Contest::for_leases(ID, SESSION, 1, LeaseLimit::Fixed(1)), &DRIVER);
    assert_eq!(play.in_flight, [(0, Request::Create), (0, Request::List), (1, Request::List)]);
}

#[test]
fn a_contest_is_queued_once_it_has_its_nodes() {
    let mut play = Play::joining_two();
    assert!(!play.contest.is_queued());
    let _ = play.answers([created(1), created(0), Answer::Unknown, Answer::Unknown]);
    assert!(play.contest.is_queued(), "it only has to see where");
    assert!(!Play::recovering_two().contest.is_queued());
    assert!(Play::owning_the_first_and_waiting().contest.is_queued());
}
