//! Missing directories, and answers that do not come.

use super::*;

#[test]
fn missing_parents_are_created_with_the_node_and_after_two_attempts_with_less_haste() {
    for listed in [Answer::NoParent, Answer::Unknown, children([])] {
        let mut play = Play::joining();
        for _guess_and_look in 0..2 {
            assert_eq!(play.answers([Answer::NoParent, listed.clone()]), now(JOIN_WITH_PARENTS));
            assert!(play.may_exist());
        }
        for _again in 0..2 {
            assert_eq!(play.answers([Answer::NoParent, listed.clone()]), retry(JOIN_WITH_PARENTS));
        }
        assert_eq!(play.answers([created(0), children([0])]), won([own(0)]));
    }
}

#[test]
fn a_create_with_parents_that_is_not_answered_is_looked_for() {
    let mut play = Play::joining();
    let _ = play.answers([Answer::NoParent, Answer::NoParent]);
    assert_eq!(play.answers([Answer::Unknown, Answer::NoParent]), retry(RECOVER));
    assert!(play.may_exist());
    // It was not applied, or it was and the directory has gone again, with our node.
    assert_eq!(play.answers([Answer::Done, Answer::NoParent]), now(JOIN_WITH_PARENTS));
    assert_eq!(play.answers([Answer::Unknown, Answer::Unknown]), retry(RECOVER));
    assert_eq!(play.answers([Answer::Done, children([0])]), now([inspect(0)]));
    assert_eq!(play.answers([node(0)]), won([own(0)]));
}

#[test]
fn an_unanswered_list_is_asked_again() {
    let mut play = Play::joining();
    assert_eq!(play.answers([created(1), Answer::Unknown]), retry(LIST));
    assert_eq!(play.node(), Some(own(1)));
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
    let foreign = node_of_another_session(3);
    let unlike = Answer::Node { ephemeral_owner: SESSION, czxid: czxid(3), version: 0, is_ours: false };
    let cases = [
        (ours, won([own(3)])),
        (foreign, now(JOIN)),
        (unlike, now(JOIN)),
        (Answer::Missing, now(JOIN)),
        (Answer::Unknown, retry(RECOVER)),
    ];
    for (answer, expected) in cases {
        let mut play = Play::recovering();
        assert_eq!(play.answers([Answer::Done, children([3])]), now([inspect(3)]));
        assert_eq!(play.answers([answer.clone()]), expected, "{answer:?}");
        assert!(play.may_exist());
    }
}

#[test]
fn a_recovery_that_is_not_answered_in_full_begins_again() {
    let cases = [
        ([Answer::Done, children([])], now(JOIN)),
        ([Answer::Done, Answer::NoParent], now(JOIN_WITH_PARENTS)),
        ([Answer::Done, Answer::Unknown], retry(RECOVER)),
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
    // The same holds for the list of the first pipeline.
    let mut play = Play::joining();
    assert_eq!(play.answers([Answer::Unknown, children([0])]), retry(RECOVER));
    // Foreign children are no candidates.
    let mut play = Play::recovering();
    let list = [format!("{PREFIX}x"), "_c_other-lock-0000000001".to_owned()];
    assert_eq!(play.answers([Answer::Done, Answer::Children(list.into())]), now(JOIN));
}

#[test]
fn a_recovered_node_takes_its_place() {
    let mut play = Play::recovering();
    let queue = vec!["_c_other-lock-0000000000".to_owned(), name(1)];
    assert_eq!(play.answers([Answer::Done, Answer::Children(queue)]), now([inspect(1)]));
    let first = Request::WatchAhead { name: "_c_other-lock-0000000000".to_owned() };
    assert_eq!(play.answers([node(1)]), now([first, watch_own(1)]));
}

#[test]
fn of_several_nodes_of_ours_the_first_is_kept() {
    let mut play = Play::driven_by(Peculiar { identity: ContenderIdentity::Data, ..Peculiar::default() });
    assert_eq!(play.answers([Answer::Unknown, Answer::Unknown]), retry(RECOVER));
    let all = [2, 3, 4, 5];
    assert_eq!(play.answers([Answer::Done, children([5, 3, 2, 4])]), now(all.map(inspect)));
    let other = Answer::Node { ephemeral_owner: OTHER_SESSION, czxid: czxid(2), version: 0, is_ours: false };
    assert_eq!(play.answers([other, node(3), Answer::Missing, node(5)]), now([ahead(2), watch_own(3)]));
    assert_eq!(play.node(), Some(own(3)));
    assert_eq!(play.surplus(), [(0, &*name(5))]);
}
