//! Contests that may not wait.

use super::*;

fn unwaiting(queues: usize) -> Play {
    let mut play = Play::new(Contest::new(ID, SESSION, queues).without_waiting(), DRIVER);
    let _ = play.start();
    play
}

#[test]
fn whoever_may_not_wait_owns_the_queue_or_is_refused() {
    assert_eq!(unwaiting(1).answers([created(0), children([0])]), won([own(0)]));
    for place in [1, 2, 5] {
        let mut play = unwaiting(1);
        assert_eq!(play.answers([created(place), children(0..=place)]), Step::Refused);
        assert_eq!(play.nodes(), [(0, own(place))], "it is to be deleted");
        assert_eq!(play.requests, 2, "nothing is watched");
        assert!(is_failed(&play.event(gone(0))), "it is over");
    }
}

#[test]
fn whoever_may_not_wait_is_not_refused_before_it_knows() {
    let mut play = unwaiting(1);
    assert_eq!(play.answers([created(1), Answer::Unknown]), retry(LIST));
    assert_eq!(play.answers([Answer::Unknown]), retry(LIST));
    assert_eq!(play.answers([children([0, 1])]), Step::Refused);
    // A node that was found again.
    for (others, expected) in [(vec![], won([own(1)])), (vec!["_c_x-lock-0000000000".to_owned()], Step::Refused)] {
        let mut play = unwaiting(1);
        assert_eq!(play.answers([Answer::Unknown, Answer::Unknown]), retry(RECOVER));
        let listed = Answer::Children([others, vec![name(1)]].concat());
        assert_eq!(play.answers([Answer::Done, listed]), now([inspect(1)]));
        assert_eq!(play.answers([node(1)]), expected);
        assert_eq!(play.nodes(), [(0, own(1))]);
    }
    // A node that is gone, and an end of the numbers, are what they are.
    assert_eq!(unwaiting(1).answers([created(1), children([0])]), MISSING);
    assert!(matches!(unwaiting(1).answers([created(1), children([1, -1])]), Step::Failed { .. }));
}

#[test]
fn whoever_may_not_wait_is_refused_if_it_would_have_to_in_any_of_its_queues() {
    let first_in_both = [created(0), created(0), children([0]), children([0])];
    assert_eq!(unwaiting(2).answers(first_in_both), won([own(0), own(0)]));
    for [first, second] in [[0, 1], [1, 0], [3, 3]] {
        let mut play = unwaiting(2);
        let step = play.answers([created(first), created(second), children(0..=first), children(0..=second)]);
        assert_eq!(step, Step::Refused);
        assert_eq!(play.nodes(), [(0, own(first)), (1, own(second))], "they are to be deleted");
    }
    // The other queue has worse to say.
    let step = unwaiting(2).answers([created(1), created(1), children([0, 1]), children([0])]);
    assert_eq!(step, MISSING);
    // Nothing is known of the other.
    let mut play = unwaiting(2);
    let step = play.answers([created(0), created(1), children([0]), Answer::Unknown]);
    assert_eq!(step, retry([(0, watch_own(0)), (1, Request::List)]));
    assert_eq!(play.answers([node(0), children([0, 1])]), Step::Refused);
}
