//! Taking leases, as the first contender in a semaphore's queue.

use super::*;

const fn limit(leases: usize) -> Limit {
    Limit {
        leases,
        version: Some(3),
    }
}

pub(super) fn limit_is(leases: usize) -> Answer {
    Answer::Limit(limit(leases))
}

fn lease_name(number: usize) -> String {
    format!(
        "{}{number:010}",
        StandardLockInternalsDriver::LEASES.node_prefix(&ID)
    )
}

/// Our leases.
pub(super) fn leases(count: usize) -> Vec<OwnNode> {
    (0..count)
        .map(|number| OwnNode {
            name: lease_name(number),
            czxid: 7,
        })
        .collect()
}

/// A list with this many leases with our names, and a child that is not a lease.
pub(super) fn names(count: usize) -> Answer {
    // The server's lists have no order.
    let mut names: Vec<_> = (0..count).rev().map(lease_name).collect();
    names.push("foreign".to_owned());
    Answer::Children(names)
}

/// A list with this many leases of others.
pub(super) fn others(count: usize) -> Answer {
    Answer::Children(
        (0..count)
            .map(|number| format!("_c_x-lease-{number:010}"))
            .collect(),
    )
}

pub(super) fn lease(ephemeral_owner: i64) -> Answer {
    Answer::Node {
        ephemeral_owner,
        czxid: 7,
        version: 0,
    }
}

fn of_leases<const N: usize>(requests: [Request; N]) -> [(usize, Request); N] {
    requests.map(|request| (LEASES, request))
}

fn look() -> [(usize, Request); 2] {
    of_leases([Request::WatchLimit, Request::WatchList])
}

fn recover() -> Step {
    retry(of_leases([Request::Sync, Request::List]))
}

fn take(with_directory: bool, quantity: usize, limit: Limit) -> Step {
    take_place_of_version(0, with_directory, quantity, limit)
}

fn take_place_of_version(
    place_version: i32,
    with_directory: bool,
    quantity: usize,
    limit: Limit,
) -> Step {
    now(of_leases([Request::Take {
        with_directory,
        quantity,
        limit,
        place: name(0),
        place_version,
    }]))
}

fn read_place() -> [(usize, Request); 1] {
    [inspect(0)]
}

const READ_LIMIT: [(usize, Request); 1] = [(LEASES, Request::WatchLimit)];
const READ_LEASES: [(usize, Request); 1] = [(LEASES, Request::WatchList)];

fn claiming(quantity: usize) -> Contest {
    Contest::for_leases(ID, SESSION, quantity, LeaseLimit::Shared)
}

/// A contest for leases.
impl Run {
    /// A contest that is first in its queue, and has read these answers with its first list.
    fn first(contest: Contest, leases: Answer, limit: Answer) -> (Self, Step) {
        let mut run = Self::new(contest, &DRIVER);
        let mut answers = vec![created(0), children([0]), leases];
        if run.in_flight.contains(&(LEASES, Request::Limit)) {
            answers.push(limit);
        }
        let step = run.answers(answers);
        (run, step)
    }

    /// A contest that reads the leases and the limit.
    pub(super) fn reading(quantity: usize) -> Self {
        let (run, step) = Self::first(claiming(quantity), Answer::Unknown, Answer::Unknown);
        assert_eq!(step, now(look()));
        run
    }

    pub(super) fn creating_limit() -> Self {
        let mut run = Self::reading(1);
        assert_eq!(
            run.answers([Answer::Missing, others(0)]),
            now(of_leases([Request::CreateLimit]))
        );
        run
    }

    /// A contest that waits: it has read two leases and a limit of two.
    pub(super) fn waiting_for(quantity: usize) -> Self {
        let mut run = Self::reading(quantity);
        assert_eq!(run.answers([limit_is(2), others(2)]), Step::Wait);
        run
    }

    pub(super) fn taking(quantity: usize) -> Self {
        let (run, step) = Self::first(claiming(quantity), others(0), limit_is(quantity));
        assert_eq!(step, take(false, quantity, limit(quantity)));
        assert_eq!(run.unknown_nodes(), [LEASES]);
        run
    }

    pub(super) fn recovering_leases(quantity: usize) -> Self {
        let mut run = Self::taking(quantity);
        assert_eq!(run.answers([Answer::Unknown]), recover());
        assert_eq!(run.unknown_nodes(), [LEASES]);
        run
    }

    pub(super) fn inspecting(quantity: usize) -> Self {
        let mut run = Self::recovering_leases(quantity);
        let inspect = Request::Inspect {
            name: lease_name(0),
        };
        assert_eq!(
            run.answers([Answer::Done, names(quantity)]),
            now(of_leases([inspect]))
        );
        run
    }

    /// A contest that reads its place again, because another client has written to it.
    pub(super) fn reading_place(quantity: usize) -> Self {
        let mut run = Self::taking(quantity);
        assert_eq!(run.answers([Answer::PlaceWritten]), now(read_place()));
        run
    }
}

#[test]
fn leases_and_limit_read_in_the_first_pipeline_suffice_for_the_take() {
    let (mut run, step) = Run::first(claiming(3), others(2), limit_is(5));
    assert_eq!(step, take(false, 3, limit(5)));
    assert_eq!(run.answers([Answer::Taken(leases(3))]), won(leases(3)));
    // A fixed limit has no version, and is not read.
    let fixed = Contest::for_leases(ID, SESSION, 1, LeaseLimit::Fixed(1));
    for contest in [fixed.clone(), fixed.without_waiting()] {
        let (run, step) = Run::first(contest, others(0), Answer::Unknown);
        assert_eq!(
            step,
            take(
                false,
                1,
                Limit {
                    leases: 1,
                    version: None
                }
            )
        );
        assert_eq!(run.requests, 4);
    }
    // Children that are not leases do not count, and a missing directory has no leases.
    let (_, step) = Run::first(
        claiming(1),
        Answer::Children(vec!["foreign".to_owned()]),
        limit_is(1),
    );
    assert_eq!(step, take(false, 1, limit(1)));
    let (_, step) = Run::first(claiming(1), Answer::NoParent, limit_is(1));
    assert_eq!(step, take(true, 1, limit(1)));
    assert_eq!(
        Run::reading(1).answers([limit_is(1), Answer::NoParent]),
        take(true, 1, limit(1))
    );
    // The directory was created before the second read.
    let (mut run, _) = Run::first(claiming(1), Answer::NoParent, Answer::Unknown);
    assert_eq!(
        run.answers([limit_is(1), others(0)]),
        take(false, 1, limit(1))
    );
}

#[test]
fn leases_and_limit_that_do_not_suffice_are_read_again_with_watches() {
    let seen = [
        (others(3), limit_is(5)),
        (Answer::Unknown, limit_is(5)),
        (others(0), Answer::Unknown),
        (others(0), Answer::Missing),
    ];
    for (leases, limit) in seen {
        let (mut run, step) = Run::first(claiming(3), leases.clone(), limit.clone());
        assert_eq!(step, now(look()), "{leases:?}, {limit:?}");
        assert_eq!(run.answers([limit_is(5), others(3)]), Step::Wait);
    }
    // With a fixed limit, only the leases are read again.
    let contest = Contest::for_leases(ID, SESSION, 1, LeaseLimit::Fixed(1));
    let (mut run, step) = Run::first(contest, others(1), Answer::Unknown);
    assert_eq!(step, now(READ_LEASES));
    assert_eq!(run.answers([others(1)]), Step::Wait);
    assert_eq!(run.event(Event::LeasesChanged), now(READ_LEASES));
    assert_eq!(
        run.answers([others(0)]),
        take(
            false,
            1,
            Limit {
                leases: 1,
                version: None
            }
        )
    );
}

#[test]
fn a_contest_without_waiting_for_leases_is_refused_and_sets_no_watch() {
    let contest = || claiming(3).without_waiting();
    let (run, step) = Run::first(contest(), others(3), limit_is(5));
    assert_eq!(step, Step::Refused);
    assert_eq!(run.nodes(), [(0, own(0))], "the caller has to delete it");
    assert_eq!(run.unknown_nodes(), [0; 0]);
    let (mut run, step) = Run::first(contest(), others(3), Answer::Unknown);
    assert_eq!(step, now(of_leases([Request::Limit, Request::List])));
    assert_eq!(run.answers([limit_is(5), others(3)]), Step::Refused);
}

#[test]
fn a_contest_waits_if_the_limit_is_zero_exceeded_or_leaves_too_few_leases() {
    for (quantity, count, limit) in [
        (1, 0, 0),
        (1, 5, 2),
        (usize::MAX, 1, 2),
        (usize::MAX, 1, usize::MAX),
    ] {
        let mut run = Run::reading(quantity);
        assert_eq!(
            run.answers([limit_is(limit), others(count)]),
            Step::Wait,
            "{quantity} beside {count} of {limit}"
        );
    }
}

/// The search has neither two nodes with the same name, nor clients that delete the leases of
/// others.
#[test]
fn a_place_or_leases_that_others_have_created_or_deleted_restart_the_contest() {
    // Another client has created a node with the place's name.
    assert_eq!(Run::reading_place(1).answers([node(7)]), RESTART);
    // The take was applied, and another client has deleted some leases, or all after they were
    // listed.
    for left in [1, 2] {
        let mut run = Run::recovering_leases(3);
        assert_eq!(run.answers([Answer::Done, names(left)]), RESTART, "{left}");
        assert_eq!(
            run.unknown_nodes(),
            [LEASES],
            "the caller has to delete them"
        );
    }
    assert_eq!(Run::inspecting(3).answers([Answer::Missing]), RESTART);
    // A lease of another session is not adopted.
    assert_eq!(Run::inspecting(1).answers([lease(OTHER_SESSION)]), RESTART);
}

#[test]
fn an_unanswered_recovery_of_leases_restarts_with_its_sync() {
    let not_answered = [
        [Answer::Unknown, Answer::Unknown],
        [Answer::Done, Answer::Unknown],
        // From a server that may lag behind.
        [Answer::Unknown, others(0)],
        [Answer::Unknown, names(1)],
        [Answer::Unknown, Answer::NoParent],
    ];
    for answers in not_answered {
        assert_eq!(
            Run::recovering_leases(1).answers(answers.clone()),
            recover(),
            "{answers:?}"
        );
    }
    assert_eq!(Run::inspecting(1).answers([Answer::Unknown]), recover());
}

#[test]
fn the_first_contender_is_no_longer_queued_and_is_blocked_by_leases_only() {
    let run = Run::waiting_for(2);
    assert!(!run.contest.is_queued());
    let before = name(-1);
    let leases = [0, 1, 2].map(lease_name);
    let blocked_by = |quantity, stuck: &[(usize, &str)]| {
        Run::waiting_for(quantity)
            .contest
            .blocked_by(&DRIVER, stuck)
    };
    let [one, two, three] = leases.each_ref().map(|lease| (LEASES, lease.as_str()));
    assert_eq!(blocked_by(1, &[]), None);
    assert_eq!(blocked_by(1, &[one]), None, "the other lease is enough");
    assert_eq!(blocked_by(2, &[(0, &before), one]), Some(1));
    assert_eq!(blocked_by(1, &[one, two]), Some(0));
    assert_eq!(blocked_by(2, &[one, two, three]), Some(0));
    assert_eq!(
        blocked_by(3, &[one, two, three]),
        None,
        "the contest waits for a higher limit"
    );
    assert_eq!(
        blocked_by(2, &[(0, one.1), (LEASES, "foreign")]),
        None,
        "neither node is a lease"
    );
    assert_eq!(
        Run::taking(1).contest.blocked_by(&DRIVER, &[one, two]),
        None,
        "the contest does not wait"
    );
    // The contender is not first yet.
    let mut run = Run::new(claiming(1), &DRIVER);
    let _ = run.answers([created(1), children([0, 1]), others(0), limit_is(1)]);
    assert!(run.contest.is_queued());
    assert_eq!(
        run.contest.blocked_by(&DRIVER, &[one, (0, &name(0))]),
        Some(1)
    );
}

#[test]
fn a_contest_that_has_not_started_is_blocked_by_places_and_by_too_few_free_leases() {
    let new = |quantity, limit| Contest::for_leases(Uuid::new_v4(), 1, quantity, limit);
    let place = name(0);
    let leases = [0, 1].map(lease_name);
    let place = (0, place.as_str());
    let [one, two] = leases.each_ref().map(|lease| (LEASES, lease.as_str()));
    let fixed = LeaseLimit::Fixed(2);
    assert_eq!(new(1, fixed).blocked_by(&DRIVER, &[one, place]), Some(1));
    assert_eq!(
        new(1, fixed).blocked_by(&DRIVER, &[one]),
        None,
        "the other lease is enough"
    );
    assert_eq!(new(2, fixed).blocked_by(&DRIVER, &[one]), Some(0));
    assert_eq!(new(1, fixed).blocked_by(&DRIVER, &[one, two]), Some(0));
    assert_eq!(
        new(1, LeaseLimit::Shared).blocked_by(&DRIVER, &[one, two]),
        None,
        "the limit is not known yet"
    );
}

#[test]
fn a_directory_that_keeps_vanishing_is_created_after_pauses() {
    let mut run = Run::taking(1);
    assert_eq!(run.answers([Answer::NoParent]), take(true, 1, limit(1)));
    for attempt in 1..IMMEDIATE_ATTEMPTS + 3 {
        // The directory was created, or deleted, since the last attempt.
        let pace = if attempt < IMMEDIATE_ATTEMPTS {
            Pace::Now
        } else {
            Pace::Pause
        };
        assert_eq!(run.answers([Answer::NoParent]), send(read_place(), pace));
        assert_eq!(run.answers([node(0)]), take(attempt % 2 == 0, 1, limit(1)));
    }
}

#[test]
fn a_limit_that_keeps_vanishing_is_recreated_after_pauses() {
    let vanishes = |run: &mut Run, pace| {
        assert_eq!(
            run.answers([Answer::Missing]),
            send(of_leases([Request::CreateLimit]), pace)
        );
        assert_eq!(run.answers([Answer::Done]), now(READ_LIMIT));
    };
    let mut run = Run::creating_limit();
    assert_eq!(run.answers([Answer::Done]), now(READ_LIMIT));
    for _ in 1..IMMEDIATE_ATTEMPTS {
        vanishes(&mut run, Pace::Now);
    }
    vanishes(&mut run, Pace::Pause);
    vanishes(&mut run, Pace::Pause);
    // The same if the limit is deleted between its read and the take.
    assert_eq!(run.answers([limit_is(1)]), take(false, 1, limit(1)));
    assert_eq!(run.answers([Answer::LimitChanged]), now(look()));
    assert_eq!(
        run.answers([Answer::Missing, others(1)]),
        pause(of_leases([Request::CreateLimit]))
    );
    assert_eq!(run.answers([Answer::Done]), now(READ_LIMIT));
    // If the limit exists when the claim starts to wait, the next create is immediate.
    assert_eq!(run.answers([limit_is(1)]), Step::Wait);
    assert_eq!(run.event(Event::LimitChanged), now(READ_LIMIT));
    for _ in 0..IMMEDIATE_ATTEMPTS {
        vanishes(&mut run, Pace::Now);
    }
    vanishes(&mut run, Pace::Pause);
}

/// A contest without waiting, for one of five leases, behind this many contenders.
fn behind(ahead: i32, leases: usize) -> (Run, Step) {
    let contest = Contest::for_leases(ID, SESSION, 1, LeaseLimit::Fixed(5)).without_waiting();
    let mut run = Run::new(contest, &DRIVER);
    let step = run.answers([created(ahead), children(0..=ahead), others(leases)]);
    (run, step)
}

#[test]
fn a_contest_without_waiting_waits_behind_contenders_that_may_leave_it_a_lease() {
    const LOOK: [(usize, Request); 2] = [LIST, (LEASES, Request::List)];
    let (mut run, step) = behind(2, 0);
    assert_eq!(step, now([watch_ahead(1)]));
    assert_eq!(run.answers([node(1)]), Step::Wait);
    assert_eq!(run.event(gone(1)), now(LOOK));
    // Node 0 has not taken its lease yet.
    assert_eq!(
        run.answers([children([0, 2]), others(1)]),
        now([watch_ahead(0)])
    );
    // Node 0 is deleted before it is watched.
    assert_eq!(run.answers([Answer::Missing]), now(LOOK));
    assert_eq!(
        run.answers([children([2]), others(2)]),
        now(of_leases([take_in_place(2)]))
    );
    // The contenders ahead have taken all leases.
    let (mut run, _) = behind(2, 0);
    assert_eq!(run.answers([Answer::Missing]), now(LOOK));
    assert_eq!(run.answers([children([0, 2]), others(5)]), Step::Refused);
    assert_eq!(run.nodes(), [(0, own(2))], "the caller has to delete it");
    assert_eq!(
        behind(2, 5).1,
        Step::Refused,
        "all leases are taken at the first list"
    );
    assert_eq!(behind(0, 5).1, Step::Refused);
}

fn take_in_place(place: i32) -> Request {
    let limit = Limit {
        leases: 5,
        version: None,
    };
    Request::Take {
        with_directory: false,
        quantity: 1,
        limit,
        place: name(place),
        place_version: 0,
    }
}

/// Otherwise, the contenders at the end of a long queue would wait for each other before they are
/// refused.
#[test]
fn a_contest_without_waiting_watches_the_contender_that_may_take_the_last_lease() {
    for (ahead, leases, watched) in [
        (4, 0, 3),
        (5, 0, 4),
        (99, 0, 4),
        (99, 3, 1),
        (99, 4, 0),
        (1, 4, 0),
    ] {
        assert_eq!(
            behind(ahead, leases).1,
            now([watch_ahead(watched)]),
            "{ahead} ahead, {leases} leases"
        );
    }
}

#[test]
fn a_contest_without_waiting_that_does_not_know_the_leases_watches_the_contender_before_it() {
    for (leases, limit) in [
        (Answer::Unknown, limit_is(5)),
        (others(0), Answer::Unknown),
        (others(9), Answer::Missing),
    ] {
        let mut run = Run::new(claiming(1).without_waiting(), &DRIVER);
        assert_eq!(
            run.answers([created(7), children(0..=7), leases, limit]),
            now([watch_ahead(6)])
        );
    }
}

#[test]
fn a_denied_take_leaves_no_leases_to_look_for() {
    let mut run = Run::taking(1);
    run.contest.denied(LEASES);
    let _ = run.answers([Answer::Unknown]);
    assert_eq!(run.unknown_nodes(), [0; 0]);
}
