//! In the queue: what is watched, and what follows from what is seen.

use super::*;

#[test]
fn the_first_in_line_owns_after_one_pipeline() {
    let (play, step) = Play::queued(0);
    assert_eq!(step, won([own(0)]));
    assert_eq!(play.node(), Some(own(0)));
    assert!(play.may_exist());
    assert_eq!(play.surplus(), []);
    assert_eq!(play.unknown_nodes(), [0; 0]);
}

#[test]
fn foreign_children_and_later_contenders_do_not_matter() {
    let mut play = Play::joining();
    let foreign = ["", "zfoo", "-foo", "lock-", "other-lease-0000000000"].map(str::to_owned);
    let list = foreign.into_iter().chain([name(9), name(7), name(8)]).collect();
    assert_eq!(play.answers([created(7), Answer::Children(list)]), won([own(7)]));
}

#[test]
fn the_second_watches_the_first_and_itself_and_owns_when_it_goes() {
    let (mut play, step) = Play::queued(1);
    assert_eq!(step, now([ahead(0), watch_own(1)]));
    assert_eq!(play.answers([node(0), node(1)]), Step::Wait);
    assert_eq!(play.event(gone(0)), won([own(1)]));
}

#[test]
fn the_third_watches_both_and_owns_when_both_have_gone() {
    for order in [[0, 1], [1, 0]] {
        let (mut play, step) = Play::queued(2);
        assert_eq!(step, now([ahead(0), ahead(1), watch_own(2)]));
        assert_eq!(play.answers([node(0), node(1), node(2)]), Step::Wait);
        assert_eq!(play.event(gone(order[0])), Step::Wait);
        assert_eq!(play.event(gone(order[1])), won([own(2)]));
    }
}

#[test]
fn whoever_is_further_back_watches_the_second_node_before_it_and_steps_forward_when_it_goes() {
    let (mut play, step) = Play::queued(9);
    assert_eq!(step, now([ahead(7)]));
    assert_eq!(play.answers([node(7)]), Step::Wait);
    assert_eq!(play.event(gone(7)), now([ahead(8), watch_own(9), Request::List]));
    assert_eq!(play.answers([node(8), node(9), children([8, 9, 10])]), Step::Wait);
    assert_eq!(play.event(gone(8)), won([own(9)]));
}

#[test]
fn an_acquire_costs_this_many_requests() {
    for (place, requests) in [(0, 2), (1, 4), (2, 5), (3, 6), (9, 6)] {
        let (mut play, mut step) = Play::queued(place);
        let mut next_to_go = 0;
        while step != won([own(place)]) {
            step = match step {
                Step::Send { requests, .. } => play.answers(requests.into_iter().map(|(_, request)| match request {
                    Request::List => children(next_to_go..=place),
                    _ => node(place),
                })),
                Step::Wait => {
                    next_to_go += 1;
                    if play.contest.entries[0].watches.ahead.contains(&name(next_to_go - 1)) {
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
    assert_eq!(play.event(gone(0)), won([own(5)]));
}

#[test]
fn a_missing_node_counts_as_gone_if_ours_was_seen_after_it() {
    // (Place, answers to the first watches, what follows.)
    let cases = [
        (1, vec![Answer::Missing, node(1)], won([own(1)])),
        (2, vec![Answer::Missing, Answer::Missing, node(2)], won([own(2)])),
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
    // Our own watch was placed by an earlier pipeline.
    let mut play = Play::waiting(5);
    let _ = play.event(gone(3));
    assert_eq!(play.answers([node(4), node(5), children([0, 4, 5])]), now([ahead(0)]));
    assert_eq!(play.answers([Answer::Missing]), now(LIST));
    assert_eq!(play.answers([children([4, 5])]), Step::Wait);
    assert_eq!(play.event(gone(4)), won([own(5)]));

    let mut play = Play::waiting(1);
    assert_eq!(play.event(changed(0)), now([ahead(0)]));
    assert_eq!(play.answers([Answer::Missing]), now(LIST));
    assert_eq!(play.answers([children([1])]), won([own(1)]));
}

#[test]
fn after_an_interruption_one_pipeline_looks_and_places_all_watches_anew() {
    let cases = [
        (1, now([ahead(0), watch_own(1), Request::List])),
        (2, now([ahead(0), ahead(1), watch_own(2), Request::List])),
        (5, now([ahead(3), Request::List])),
    ];
    for (place, expected) in cases {
        let mut play = Play::waiting(place);
        assert_eq!(play.event(Event::Interrupted), expected, "at {place}");
        // If that breaks, too, all of it is tried again.
        let Step::Send { requests, .. } = expected else { panic!("{expected:?}") };
        assert_eq!(play.answers(requests.iter().map(|_| Answer::Unknown)), retry(requests), "at {place}");
    }
    let interrupted = |place| {
        let mut play = Play::waiting(place);
        let _ = play.event(Event::Interrupted);
        play
    };
    // Nothing has happened meanwhile.
    let mut play = interrupted(1);
    assert_eq!(play.answers([node(0), node(1), children([0, 1])]), Step::Wait);
    assert_eq!(play.event(gone(0)), won([own(1)]));
    // The node before ours has gone, or ours.
    assert_eq!(interrupted(1).answers([Answer::Missing, node(1), children([1])]), won([own(1)]));
    assert_eq!(interrupted(1).answers([node(0), Answer::Missing, children([0])]), MISSING);
    assert_eq!(interrupted(1).answers([Answer::Missing, Answer::Missing, children([])]), MISSING);
    // After it was watched.
    assert_eq!(interrupted(1).answers([Answer::Missing, node(1), children([])]), MISSING);
    // One of two before us; the watches on the other and on ourselves stand.
    let mut play = interrupted(2);
    assert_eq!(play.answers([Answer::Missing, node(1), node(2), children([1, 2])]), Step::Wait);
    assert_eq!(play.event(gone(1)), won([own(2)]));
}

#[test]
fn a_write_uses_up_a_watch_and_nothing_else() {
    let mut play = Play::waiting(2);
    for (event, again, number) in
        [(changed(0), ahead(0), 0), (changed(1), ahead(1), 1), (Event::OwnChanged(0), watch_own(2), 2)]
    {
        assert_eq!(play.event(event), now([again]));
        assert_eq!(play.answers([node(number)]), Step::Wait);
    }
    assert_eq!(play.event(gone(0)), Step::Wait);
    assert_eq!(play.event(gone(1)), won([own(2)]));

    let mut play = Play::waiting(1);
    assert_eq!(play.event(Event::OwnChanged(0)), now([watch_own(1)]));
    assert_eq!(play.answers([Answer::Missing]), MISSING);

    // Further back our own watch is not needed, so it is not renewed.
    let mut play = Play::waiting(5);
    let _ = play.event(gone(3));
    let _ = play.answers([node(4), node(5), children([0, 1, 4, 5])]);
    assert_eq!(play.answers([node(1)]), Step::Wait);
    assert_eq!(play.event(Event::OwnChanged(0)), Step::Wait);
    assert_eq!(play.event(changed(4)), Step::Wait);
    assert_eq!(play.event(gone(1)), now([ahead(4), watch_own(5), Request::List]));
}

#[test]
fn our_node_deleted_means_a_new_contest() {
    for place in [1, 2, 5] {
        let mut play = Play::waiting(place);
        assert_eq!(play.event(Event::OwnDeleted(0)), DELETED);
        assert_eq!((play.node(), play.may_exist()), (None, false));
    }
    for list in [children([]), children([0, 2]), Answer::NoParent] {
        let mut play = Play::joining();
        assert_eq!(play.answers([created(1), list.clone()]), MISSING, "{list:?}");
        assert!(!play.may_exist());
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
    assert_eq!(play.answers([children([5])]), won([own(5)]));
}
