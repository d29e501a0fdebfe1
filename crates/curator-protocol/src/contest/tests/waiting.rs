//! Waiting in the queue: which watches are placed, and what follows from events.

use super::*;

#[test]
fn an_acquire_sends_two_to_six_requests_depending_on_its_place() {
    // (Place, first watches, requests of the whole acquire if the nodes before it are deleted in
    // order.)
    let cases = [
        (0, vec![], 2),
        (1, vec![watch_ahead(0), watch_own(1)], 4),
        (2, vec![watch_ahead(0), watch_ahead(1), watch_own(2)], 5),
        (3, vec![watch_ahead(1)], 6),
        (9, vec![watch_ahead(7)], 6),
    ];
    for (place, watched, requests) in cases {
        let (mut run, mut step) = Run::queued(place);
        assert_eq!(
            step,
            if watched.is_empty() {
                won([own(place)])
            } else {
                now(watched)
            }
        );
        let mut deleted = 0;
        while step != won([own(place)]) {
            step = match step {
                Step::Send { requests, .. } => {
                    run.answers(requests.into_iter().map(|(_, request)| match request {
                        Request::List => children(deleted..=place),
                        _ => node(place),
                    }))
                }
                Step::Wait => {
                    assert!(
                        deleted < place,
                        "the contest waits, although all nodes before its own are deleted"
                    );
                    let next = deleted;
                    deleted += 1;
                    if run.contest.entries[0].watches.ahead.contains(&name(next)) {
                        run.event(gone(next))
                    } else {
                        Step::Wait
                    }
                }
                step => panic!("{step:?}"),
            };
        }
        assert_eq!(run.requests, requests, "at place {place}");
    }
}

#[test]
fn a_waiter_knows_its_place_and_the_node_before_it() {
    let standing = |run: &Run| {
        let standing = run.contest.standing()?;
        Some((
            standing.queue,
            standing.own.to_owned(),
            standing.place,
            standing.behind.to_owned(),
        ))
    };
    let mut run = Run::waiting(5);
    assert_eq!(standing(&run), Some((0, name(5), 5, name(4))));
    assert_eq!(
        run.event(gone(3)),
        now([watch_ahead(4), watch_own(5), LIST])
    );
    assert_eq!(standing(&run), None, "the contest lists again");
    assert_eq!(
        run.answers([node(4), node(5), children([4, 5])]),
        Step::Wait
    );
    assert_eq!(standing(&run), Some((0, name(5), 1, name(4))));
    // Two nodes are before its own, and the nearer one is deleted first.
    let mut run = Run::waiting(2);
    assert_eq!(standing(&run), Some((0, name(2), 2, name(1))));
    assert_eq!(run.event(gone(1)), Step::Wait);
    assert_eq!(standing(&run), Some((0, name(2), 1, name(0))));
}

/// This happens if the directory is recreated. The search never has two nodes with the same name.
#[test]
fn a_node_with_our_name_from_another_transaction_restarts_the_contest() {
    let (mut run, _) = Run::queued(1);
    assert_eq!(run.answers([node(0), node(7)]), RESTART);
}

#[test]
fn after_an_interruption_one_pipeline_sets_all_watches_and_lists_the_queue() {
    let cases = [
        (1, vec![watch_ahead(0), watch_own(1), LIST]),
        (2, vec![watch_ahead(0), watch_ahead(1), watch_own(2), LIST]),
        (5, vec![watch_ahead(3), LIST]),
    ];
    for (place, expected) in cases {
        let mut run = Run::waiting(place);
        assert_eq!(
            run.event(Event::Interrupted),
            now(expected.clone()),
            "at {place}"
        );
        // If the next connection breaks too, the whole pipeline is sent again.
        assert_eq!(
            run.answers(vec![Answer::Unknown; expected.len()]),
            retry(expected),
            "at {place}"
        );
    }
}
