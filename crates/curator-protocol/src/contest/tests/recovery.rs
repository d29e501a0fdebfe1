//! Missing directories, and lost answers.

use super::*;

#[test]
fn missing_parents_are_created_together_with_the_node_and_after_pauses_if_that_keeps_failing() {
    for listed in [Answer::NoParent, Answer::Unknown, children([])] {
        let mut run = Run::joining();
        for _attempt in 0..IMMEDIATE_ATTEMPTS {
            assert_eq!(
                run.answers([Answer::NoParent, listed.clone()]),
                now(JOIN_WITH_PARENTS)
            );
            assert_eq!(run.unknown_nodes(), [0]);
        }
        for _again in 0..2 {
            assert_eq!(
                run.answers([Answer::NoParent, listed.clone()]),
                pause(JOIN_WITH_PARENTS)
            );
        }
        assert_eq!(run.answers([created(0), children([0])]), won([own(0)]));
    }
}

#[test]
fn a_node_is_recovered_only_in_the_session_that_created_it() {
    let cases = [
        (node(3), won([own(3)])),
        (node_of(OTHER_SESSION, 3), now(JOIN)),
        (Answer::Missing, now(JOIN)),
        (Answer::Unknown, retry(RECOVER)),
    ];
    for (answer, expected) in cases {
        let mut run = Run::recovering();
        assert_eq!(
            run.answers([Answer::Done, children([3])]),
            now([inspect(3)])
        );
        assert_eq!(run.answers([answer.clone()]), expected, "{answer:?}");
    }
}

#[test]
fn a_recovery_joins_if_it_finds_no_node_and_starts_again_if_an_answer_is_missing() {
    // Children with other names are not candidates.
    let foreign = Answer::Children(vec![
        format!("{PREFIX}x"),
        "_c_other-lock-0000000001".to_owned(),
    ]);
    let cases = [
        ([Answer::Done, children([])], now(JOIN)),
        ([Answer::Done, foreign], now(JOIN)),
        ([Answer::Done, Answer::NoParent], now(JOIN_WITH_PARENTS)),
        ([Answer::Done, Answer::Unknown], retry(RECOVER)),
        // This list may come from a server that lags behind.
        ([Answer::Unknown, children([3])], retry(RECOVER)),
        ([Answer::Unknown, children([])], retry(RECOVER)),
        ([Answer::Unknown, Answer::NoParent], retry(RECOVER)),
        ([Answer::Unknown, Answer::Unknown], retry(RECOVER)),
    ];
    for (answers, expected) in cases {
        let mut run = Run::recovering();
        assert_eq!(run.answers(answers.clone()), expected, "{answers:?}");
    }
    // The same applies to the list of the first pipeline.
    assert_eq!(
        Run::joining().answers([Answer::Unknown, children([0])]),
        retry(RECOVER)
    );
    // But if the create was answered and the directory is now missing, the directory was deleted
    // after the create, and our node with it.
    assert_eq!(
        Run::joining().answers([created(1), Answer::NoParent]),
        RESTART
    );
}

#[test]
fn of_several_recovered_nodes_the_first_is_kept() {
    let mut run = Run::recovering();
    assert_eq!(
        run.answers([Answer::Done, children([5, 3, 2, 4])]),
        now([2, 3, 4, 5].map(inspect))
    );
    let other = node_of(OTHER_SESSION, 2);
    assert_eq!(
        run.answers([other, node(3), Answer::Missing, node(5)]),
        now([watch_ahead(2), watch_own(3)])
    );
    assert_eq!(run.nodes(), [(0, own(3))]);
    let nodes = [3, 5].map(name);
    let leftovers = [0, 1].map(|index| Leftover::Node {
        directory: 0,
        name: &nodes[index],
    });
    assert_eq!(run.leftovers(), leftovers);
    run.contest.hand_over();
    assert_eq!(run.leftovers(), leftovers[1..], "the caller owns the other");
}
