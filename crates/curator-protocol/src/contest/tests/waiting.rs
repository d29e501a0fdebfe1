//! Waiting in the queue: which watches are placed, and what follows from events.

use super::*;

#[test]
fn an_acquire_sends_two_to_six_requests_depending_on_its_place() {
    // (Place, first watches, requests of the whole acquire if the nodes before it are deleted in order.)
    let cases = [
        (0, vec![], 2),
        (1, vec![watch_ahead(0), watch_own(1)], 4),
        (2, vec![watch_ahead(0), watch_ahead(1), watch_own(2)], 5),
        (3, vec![watch_ahead(1)], 6),
        (9, vec![watch_ahead(7)], 6),
    ];
    for (place, watched, requests) in cases {
        let (mut run, mut step) = Run::queued(place);
        assert_eq!(step, if watched.is_empty() { won([own(place)]) } else { now(watched) });
        let mut next_to_go = 0;
        while step != won([own(place)]) {
            step = match step {
                Step::Send { requests, .. } => run.answers(requests.into_iter().map(|(_, request)| match request {
                    Request::List => children(next_to_go..=place),
                    _ => node(place),
                })),
                Step::Wait => {
                    assert!(next_to_go < place, "the contest waits, although all nodes before its own are deleted");
                    next_to_go += 1;
                    if run.contest.entries[0].watches.ahead.contains(&name(next_to_go - 1)) {
                        run.event(gone(next_to_go - 1))
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
fn a_changed_queue_is_followed_without_setting_a_watch_twice() {
    // Our node is 5. When 3 is deleted, 0 and 1 are still there: a contender in the middle gave up.
    let mut run = Run::waiting(5);
    assert_eq!(run.event(gone(3)), now([watch_ahead(4), watch_own(5), LIST]));
    assert_eq!(run.answers([node(4), node(5), children([0, 1, 4, 5])]), now([watch_ahead(1)]));
    assert_eq!(run.answers([node(1)]), Step::Wait);
    // 4 is deleted out of turn. Its event has no effect yet, because the plan is to wait for 1.
    assert_eq!(run.event(gone(4)), Step::Wait);
    // 1 is deleted. The next plan needs 4, whose watch is used up. So 4 is read again, and is missing.
    assert_eq!(run.event(gone(1)), now([watch_ahead(4), LIST]));
    assert_eq!(run.answers([Answer::Missing, children([0, 5])]), now([watch_ahead(0)]));
}

#[test]
fn a_waiter_knows_its_place_and_the_node_before_it() {
    let standing = |run: &Run| {
        let standing = run.contest.standing();
        standing.map(|at| (at.queue, at.own.to_owned(), at.place, at.behind.to_owned()))
    };
    let mut run = Run::waiting(5);
    assert_eq!(standing(&run), Some((0, name(5), 5, name(4))));
    assert_eq!(run.event(gone(3)), now([watch_ahead(4), watch_own(5), LIST]));
    assert_eq!(standing(&run), None, "the contest lists again");
    assert_eq!(run.answers([node(4), node(5), children([4, 5])]), Step::Wait);
    assert_eq!(standing(&run), Some((0, name(5), 1, name(4))));
    // Two nodes are before its own, and the nearer one is deleted first.
    let mut run = Run::waiting(2);
    assert_eq!(standing(&run), Some((0, name(2), 2, name(1))));
    assert_eq!(run.event(gone(1)), Step::Wait);
    assert_eq!(standing(&run), Some((0, name(2), 1, name(0))));
}

#[test]
fn a_missing_node_counts_as_deleted_if_the_own_node_was_seen_after_it() {
    // (Place, answers to the first watches, next step.)
    let cases = [
        (1, vec![Answer::Missing, node(1)], won([own(1)])),
        (2, vec![Answer::Missing, Answer::Missing, node(2)], won([own(2)])),
        (2, vec![Answer::Missing, node(1), node(2)], Step::Wait),
        (2, vec![node(0), Answer::Missing, node(2)], Step::Wait),
        (3, vec![Answer::Missing], now([watch_ahead(2), watch_own(3), LIST])),
        // Our node is deleted too.
        (1, vec![Answer::Missing, Answer::Missing], RESTART),
        (2, vec![node(0), node(1), Answer::Missing], RESTART),
        // A node with our name but another transaction: the directory was recreated.
        (1, vec![node(0), node(7)], RESTART),
    ];
    for (place, answers, expected) in cases {
        let (mut run, _) = Run::queued(place);
        assert_eq!(run.answers(answers.clone()), expected, "{answers:?}");
    }
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
        assert_eq!(run.event(Event::Interrupted), now(expected.clone()), "at {place}");
        // If the next connection breaks too, the whole pipeline is sent again.
        assert_eq!(run.answers(vec![Answer::Unknown; expected.len()]), retry(expected), "at {place}");
    }
}

#[test]
fn after_a_write_to_a_watched_node_only_its_watch_is_set_again() {
    let mut run = Run::waiting(2);
    let changed = |number| Event::AheadChanged { queue: 0, name: name(number) };
    for (event, again, number) in [(changed(1), watch_ahead(1), 1), (Event::OwnChanged(0), watch_own(2), 2)] {
        assert_eq!(run.event(event), now([again]));
        assert_eq!(run.answers([node(number)]), Step::Wait);
    }
    assert_eq!(run.event(gone(0)), Step::Wait);
    assert_eq!(run.event(gone(1)), won([own(2)]));
}

#[test]
fn a_writer_keeps_waiting_when_the_writer_before_it_downgrades() {
    let own = OwnNode { name: format!("{}0000000005", WriteLockInternalsDriver.node_prefix(&ID)), czxid: own(5).czxid };
    let list = |before: &[String]| Answer::Children([before, std::slice::from_ref(&own.name)].concat());
    let before = ["_c_x-__WRIT__0000000004".to_owned(), downgraded_read_name(&Uuid::new_v4(), 4)];
    let [watch_write, watch_read] = before.clone().map(|name| now([(0, Request::WatchAhead { name })]));
    let mut run = Run::new(Contest::new(ID, SESSION, 1), &WriteLockInternalsDriver);
    assert_eq!(run.answers([Answer::Created(own.clone()), list(&before[..1])]), watch_write);
    assert_eq!(run.answers([node(4)]), Step::Wait);
    assert_eq!(run.event(Event::AheadDeleted { queue: 0, name: before[0].clone() }), now([LIST]));
    assert_eq!(run.answers([list(&before[1..])]), watch_read);
    assert_eq!(run.answers([Answer::Missing]), now([LIST]));
    assert_eq!(run.answers([list(&[])]), won([own.clone()]));
}
