//! Each branch of a claim by itself. That it fits to its queue is shown by the model in `tests/model`.

use proptest::prelude::*;

use super::*;

const SESSION: i64 = 0x51;
const OTHER_SESSION: i64 = 0x52;

const fn limit(leases: usize) -> Limit {
    Limit { leases, version: Some(3) }
}

fn answer(leases: usize) -> ClaimAnswer {
    ClaimAnswer::Limit(limit(leases))
}

fn leases(count: usize) -> Vec<OwnNode> {
    (0..count).map(|number| OwnNode { name: format!("lease-{number}"), czxid: 7 }).collect()
}

fn names(count: usize) -> ClaimAnswer {
    ClaimAnswer::OwnLeases(leases(count).into_iter().map(|lease| lease.name).collect())
}

fn now(requests: impl Into<Vec<ClaimRequest>>) -> ClaimStep {
    ClaimStep::Send { requests: requests.into(), pace: Pace::Now }
}

fn retry(requests: impl Into<Vec<ClaimRequest>>) -> ClaimStep {
    ClaimStep::Send { requests: requests.into(), pace: Pace::Retry }
}

fn take(quantity: usize, limit: Limit) -> ClaimStep {
    now([ClaimRequest::Take { quantity, limit }])
}

fn inspect() -> ClaimStep {
    now([ClaimRequest::Inspect { name: "lease-0".to_owned() }])
}

fn node(ephemeral_owner: i64) -> ClaimAnswer {
    ClaimAnswer::Node { ephemeral_owner, czxid: 7 }
}

fn is_failed(step: &ClaimStep) -> bool {
    matches!(step, ClaimStep::Failed(_))
}

const READ_LIMIT: ClaimRequest = ClaimRequest::Limit { watch: true };
const READ_LEASES: ClaimRequest = ClaimRequest::Leases { watch: true };
const LOOK: [ClaimRequest; 2] = [READ_LIMIT, READ_LEASES];
const RECOVER: [ClaimRequest; 2] = [ClaimRequest::Sync, ClaimRequest::OwnLeases];

/// A claim of so many leases that reads.
fn looking(quantity: usize) -> Claim {
    let mut claim = Claim::new(SESSION, quantity, true);
    assert_eq!(claim.start((None, None)), now(LOOK));
    claim
}

/// It has seen two leases of two.
fn waiting(quantity: usize) -> Claim {
    let mut claim = looking(quantity);
    assert_eq!(claim.answered(vec![answer(2), ClaimAnswer::Leases(2)]), ClaimStep::Wait);
    claim
}

fn taking(quantity: usize) -> Claim {
    let mut claim = Claim::new(SESSION, quantity, true);
    assert_eq!(claim.start((Some(0), Some(limit(quantity)))), take(quantity, limit(quantity)));
    claim
}

fn recovering(quantity: usize) -> Claim {
    let mut claim = taking(quantity);
    assert_eq!(claim.answered(vec![ClaimAnswer::Unknown]), retry(RECOVER));
    claim
}

fn inspecting(quantity: usize) -> Claim {
    let mut claim = recovering(quantity);
    assert_eq!(claim.answered(vec![ClaimAnswer::Synced, names(quantity)]), inspect());
    claim
}

/// Somebody has written to its place.
fn reading_place(quantity: usize) -> Claim {
    let mut claim = taking(quantity);
    assert_eq!(claim.answered(vec![ClaimAnswer::PlaceWritten]), now([ClaimRequest::Place]));
    claim
}

#[test]
fn what_was_read_beside_the_queue_is_enough_to_take() {
    let mut claim = Claim::new(SESSION, 3, true);
    assert_eq!(claim.start((Some(2), Some(limit(5)))), take(3, limit(5)));
    assert_eq!(claim.answered(vec![ClaimAnswer::Taken(leases(3))]), ClaimStep::Taken(leases(3)));
    // A fixed number has no version.
    let fixed = Limit { leases: 1, version: None };
    let mut claim = Claim::new(SESSION, 1, false);
    assert_eq!(claim.start((Some(0), Some(fixed))), take(1, fixed));
}

#[test]
fn what_is_too_little_is_read_again_with_watches() {
    for seen in [(Some(3), Some(limit(5))), (None, Some(limit(5))), (Some(0), None), (None, None)] {
        let mut claim = Claim::new(SESSION, 3, true);
        assert_eq!(claim.start(seen), now(LOOK), "{seen:?}");
        assert_eq!(claim.answered(vec![answer(5), ClaimAnswer::Leases(3)]), ClaimStep::Wait);
    }
}

#[test]
fn whoever_may_not_wait_is_refused_and_watches_nothing() {
    let mut claim = Claim::new(SESSION, 3, false);
    assert_eq!(claim.start((Some(3), Some(limit(5)))), ClaimStep::Refused);
    let mut claim = Claim::new(SESSION, 3, false);
    let unwatched = [ClaimRequest::Limit { watch: false }, ClaimRequest::Leases { watch: false }];
    assert_eq!(claim.start((Some(3), None)), now(unwatched));
    assert_eq!(claim.answered(vec![answer(5), ClaimAnswer::Leases(3)]), ClaimStep::Refused);
    assert!(is_failed(&claim.answered(vec![answer(9), ClaimAnswer::Leases(0)])), "it is over");
}

#[test]
fn neither_a_limit_of_none_nor_more_leases_than_the_limit_give_any() {
    for (count, limit) in [(0, 0), (5, 2), (usize::MAX, 2), (usize::MAX, usize::MAX)] {
        let mut claim = looking(1);
        let answers = vec![answer(limit), ClaimAnswer::Leases(count)];
        assert_eq!(claim.answered(answers), ClaimStep::Wait, "{count} of {limit}");
    }
}

#[test]
fn it_takes_all_that_it_wants_when_there_is_enough_and_nothing_before() {
    let mut claim = looking(3);
    assert_eq!(claim.answered(vec![answer(3), ClaimAnswer::Leases(2)]), ClaimStep::Wait);
    assert_eq!(claim.observed(ClaimEvent::LeasesChanged), now([READ_LEASES]));
    assert_eq!(claim.answered(vec![ClaimAnswer::Leases(1)]), ClaimStep::Wait);
    assert_eq!(claim.observed(ClaimEvent::LeasesChanged), now([READ_LEASES]));
    assert_eq!(claim.answered(vec![ClaimAnswer::Leases(0)]), take(3, limit(3)));
}

#[test]
fn an_event_is_followed_by_a_look_at_what_has_changed() {
    let mut claim = waiting(1);
    assert_eq!(claim.observed(ClaimEvent::LeasesChanged), now([READ_LEASES]));
    assert_eq!(claim.answered(vec![ClaimAnswer::Unknown]), retry([READ_LEASES]));
    assert_eq!(claim.answered(vec![ClaimAnswer::Leases(1)]), take(1, limit(2)));

    let mut claim = waiting(1);
    assert_eq!(claim.observed(ClaimEvent::LimitChanged), now([READ_LIMIT]));
    assert_eq!(claim.answered(vec![ClaimAnswer::Unknown]), retry([READ_LIMIT]));
    assert_eq!(claim.answered(vec![answer(2)]), ClaimStep::Wait, "it was written, and not changed");
    assert_eq!(claim.observed(ClaimEvent::LimitChanged), now([READ_LIMIT]));
    assert_eq!(claim.answered(vec![answer(3)]), take(1, limit(3)));
}

#[test]
fn only_what_was_not_answered_is_asked_again() {
    let cases = [
        ([ClaimAnswer::Unknown, ClaimAnswer::Leases(0)], vec![READ_LIMIT]),
        ([answer(2), ClaimAnswer::Unknown], vec![READ_LEASES]),
        ([ClaimAnswer::Unknown, ClaimAnswer::Unknown], LOOK.to_vec()),
    ];
    for (answers, again) in cases {
        assert_eq!(looking(1).answered(answers.to_vec()), retry(again), "{answers:?}");
    }
}

#[test]
fn a_limit_that_is_missing_is_made_and_read() {
    for second in [ClaimAnswer::Leases(0), ClaimAnswer::Unknown] {
        let mut claim = looking(1);
        assert_eq!(claim.answered(vec![ClaimAnswer::NoLimit, second.clone()]), now([ClaimRequest::CreateLimit]));
        let left = if second == ClaimAnswer::Unknown { LOOK.to_vec() } else { vec![READ_LIMIT] };
        assert_eq!(claim.answered(vec![ClaimAnswer::LimitReady]), now(left));
    }
    let mut claim = looking(1);
    let _ = claim.answered(vec![ClaimAnswer::NoLimit, ClaimAnswer::Leases(0)]);
    assert_eq!(claim.answered(vec![ClaimAnswer::Unknown]), retry([READ_LIMIT]));
    assert_eq!(claim.answered(vec![answer(1)]), take(1, limit(1)));

    // It was deleted while it was waited for.
    let mut claim = waiting(1);
    assert_eq!(claim.observed(ClaimEvent::LimitChanged), now([READ_LIMIT]));
    assert_eq!(claim.answered(vec![ClaimAnswer::NoLimit]), now([ClaimRequest::CreateLimit]));
}

#[test]
fn a_limit_that_changed_before_the_take_is_read_again() {
    let mut claim = taking(3);
    assert_eq!(claim.answered(vec![ClaimAnswer::LimitChanged]), now(LOOK));
    assert_eq!(claim.answered(vec![answer(2), ClaimAnswer::Leases(0)]), ClaimStep::Wait);
    let mut claim = taking(3);
    assert_eq!(claim.answered(vec![ClaimAnswer::LimitChanged]), now(LOOK));
    assert_eq!(claim.answered(vec![ClaimAnswer::NoLimit, ClaimAnswer::Leases(0)]), now([ClaimRequest::CreateLimit]));
}

#[test]
fn whoever_has_lost_its_place_begins_anew() {
    assert_eq!(taking(1).answered(vec![ClaimAnswer::PlaceGone]), ClaimStep::Restart);
}

#[test]
fn a_place_that_was_written_is_read_before_the_leases_are_taken() {
    let mut claim = reading_place(2);
    assert_eq!(claim.answered(vec![ClaimAnswer::PlaceRead]), take(2, limit(2)), "it is still the first");
    assert_eq!(claim.answered(vec![ClaimAnswer::Taken(leases(2))]), ClaimStep::Taken(leases(2)));
    // Written again after it was read.
    let mut claim = reading_place(2);
    for _ in 0..2 {
        assert_eq!(claim.answered(vec![ClaimAnswer::PlaceRead]), take(2, limit(2)));
        assert_eq!(claim.answered(vec![ClaimAnswer::PlaceWritten]), now([ClaimRequest::Place]));
    }
    // The number of leases was changed, too.
    let mut claim = reading_place(2);
    assert_eq!(claim.answered(vec![ClaimAnswer::PlaceRead]), take(2, limit(2)));
    assert_eq!(claim.answered(vec![ClaimAnswer::LimitChanged]), now(LOOK));
}

#[test]
fn a_place_that_could_not_be_read_is_read_again_and_one_that_is_gone_is_lost() {
    let mut claim = reading_place(1);
    for _ in 0..2 {
        assert_eq!(claim.answered(vec![ClaimAnswer::Unknown]), retry([ClaimRequest::Place]));
    }
    assert_eq!(claim.answered(vec![ClaimAnswer::PlaceRead]), take(1, limit(1)));
    assert_eq!(reading_place(1).answered(vec![ClaimAnswer::PlaceGone]), ClaimStep::Restart);
}

#[test]
fn a_missing_directory_is_made_and_the_leases_taken_then() {
    let parents = || vec![ClaimRequest::CreateParents];
    let mut claim = taking(2);
    assert_eq!(claim.answered(vec![ClaimAnswer::NoParent]), now(parents()));
    assert_eq!(claim.answered(vec![ClaimAnswer::Unknown]), retry(parents()));
    assert_eq!(claim.answered(vec![ClaimAnswer::NoParent]), retry(parents()));
    assert_eq!(claim.answered(vec![ClaimAnswer::ParentsReady]), take(2, limit(2)));
}

#[test]
fn a_take_that_was_not_answered_is_looked_for_before_anything_else() {
    // It was done.
    let mut claim = inspecting(3);
    assert_eq!(claim.answered(vec![node(SESSION)]), ClaimStep::Taken(leases(3)));
    // It was not done.
    let mut claim = recovering(3);
    assert_eq!(claim.answered(vec![ClaimAnswer::Synced, names(0)]), now(LOOK), "there may be fewer by now");
    // It was done, and somebody has deleted some, or all after they were listed.
    for left in [1, 2] {
        assert_eq!(recovering(3).answered(vec![ClaimAnswer::Synced, names(left)]), ClaimStep::Restart, "{left}");
    }
    assert_eq!(inspecting(3).answered(vec![ClaimAnswer::Missing]), ClaimStep::Restart);
}

#[test]
fn a_lease_of_another_session_is_not_adopted() {
    assert_eq!(inspecting(1).answered(vec![node(OTHER_SESSION)]), ClaimStep::Restart);
    assert_eq!(inspecting(3).answered(vec![node(OTHER_SESSION)]), ClaimStep::Restart);
}

#[test]
fn a_recovery_that_is_not_answered_is_tried_again_from_the_sync_on() {
    let not_answered = [
        [ClaimAnswer::Unknown, ClaimAnswer::Unknown],
        [ClaimAnswer::Synced, ClaimAnswer::Unknown],
        // Of a server that may lag behind.
        [ClaimAnswer::Unknown, names(0)],
        [ClaimAnswer::Unknown, names(1)],
    ];
    for answers in not_answered {
        assert_eq!(recovering(1).answered(answers.to_vec()), retry(RECOVER), "{answers:?}");
    }
    assert_eq!(inspecting(1).answered(vec![ClaimAnswer::Unknown]), retry(RECOVER));
}

fn all_answers() -> [ClaimAnswer; 16] {
    [
        ClaimAnswer::Leases(0),
        answer(9),
        ClaimAnswer::NoLimit,
        ClaimAnswer::LimitReady,
        ClaimAnswer::Taken(leases(2)),
        ClaimAnswer::LimitChanged,
        ClaimAnswer::PlaceWritten,
        ClaimAnswer::PlaceGone,
        ClaimAnswer::PlaceRead,
        ClaimAnswer::NoParent,
        ClaimAnswer::ParentsReady,
        ClaimAnswer::Synced,
        names(2),
        node(SESSION),
        ClaimAnswer::Missing,
        ClaimAnswer::Unknown,
    ]
}

/// Whether this answer can come to this request.
fn fits(request: &ClaimRequest, answer: &ClaimAnswer) -> bool {
    matches!(
        (request, answer),
        (_, ClaimAnswer::Unknown)
            | (ClaimRequest::Leases { .. }, ClaimAnswer::Leases(_))
            | (ClaimRequest::Limit { .. }, ClaimAnswer::Limit(_) | ClaimAnswer::NoLimit)
            | (ClaimRequest::CreateLimit, ClaimAnswer::LimitReady)
            | (
                ClaimRequest::Take { .. },
                ClaimAnswer::Taken(_)
                    | ClaimAnswer::LimitChanged
                    | ClaimAnswer::PlaceWritten
                    | ClaimAnswer::PlaceGone
                    | ClaimAnswer::NoParent
            )
            | (ClaimRequest::Place, ClaimAnswer::PlaceRead | ClaimAnswer::PlaceGone)
            | (ClaimRequest::CreateParents, ClaimAnswer::ParentsReady | ClaimAnswer::NoParent)
            | (ClaimRequest::Sync, ClaimAnswer::Synced)
            | (ClaimRequest::OwnLeases, ClaimAnswer::OwnLeases(_))
            | (ClaimRequest::Inspect { .. }, ClaimAnswer::Node { .. } | ClaimAnswer::Missing)
    )
}

#[test]
fn every_answer_in_every_state_goes_on_if_it_fits_and_fails_if_not() {
    let creating_limit = || {
        let mut claim = looking(2);
        let step = claim.answered(vec![ClaimAnswer::NoLimit, ClaimAnswer::Leases(0)]);
        (claim, step)
    };
    let preparing_parents = || {
        let mut claim = taking(2);
        let step = claim.answered(vec![ClaimAnswer::NoParent]);
        (claim, step)
    };
    // (The claim, its requests in the air.)
    let states = [
        (looking(2), now(LOOK)),
        creating_limit(),
        (taking(2), take(2, limit(2))),
        preparing_parents(),
        (reading_place(2), now([ClaimRequest::Place])),
        (recovering(2), retry(RECOVER)),
        (inspecting(2), inspect()),
    ];
    for (claim, step) in states {
        let ClaimStep::Send { requests, .. } = step else { panic!("{step:?}") };
        let state = claim.state.clone();
        for first in all_answers() {
            // Two answers where two are due; the second is each in its turn.
            let rest =
                if requests.len() == 1 { vec![vec![]] } else { all_answers().map(|second| vec![second]).to_vec() };
            for second in rest {
                let answers = [vec![first.clone()], second].concat();
                let all_fit = requests.iter().zip(&answers).all(|(request, answer)| fits(request, answer));
                let failed = is_failed(&claim.clone().answered(answers.clone()));
                assert_eq!(failed, !all_fit, "{answers:?} in {state:?}");
                // One more or one less.
                let more = [answers.clone(), vec![ClaimAnswer::Unknown]].concat();
                assert!(is_failed(&claim.clone().answered(more)), "{answers:?} and more in {state:?}");
                let fewer = answers[1..].to_vec();
                assert!(is_failed(&claim.clone().answered(fewer)), "fewer than {answers:?} in {state:?}");
            }
        }
    }
    // Another number of leases than was asked for.
    assert!(is_failed(&taking(2).answered(vec![ClaimAnswer::Taken(leases(1))])));
}

#[test]
fn calls_out_of_turn_are_errors() {
    for answer in all_answers() {
        assert!(is_failed(&Claim::new(SESSION, 1, true).answered(vec![answer.clone()])), "{answer:?}");
        assert!(is_failed(&waiting(1).answered(vec![answer.clone()])), "{answer:?}");
    }
    for event in [ClaimEvent::LeasesChanged, ClaimEvent::LimitChanged] {
        assert!(is_failed(&Claim::new(SESSION, 1, true).observed(event)));
        for mut claim in [looking(1), taking(1), reading_place(1), recovering(1), inspecting(1)] {
            assert!(is_failed(&claim.observed(event)), "{claim:?}");
            assert!(is_failed(&claim.answered(vec![ClaimAnswer::Unknown])), "it is over");
        }
    }
}

fn any_answer() -> impl Strategy<Value = ClaimAnswer> {
    let or_other = prop_oneof![Just(SESSION), Just(OTHER_SESSION)];
    prop_oneof![
        prop::sample::select(all_answers().to_vec()),
        (0..4_usize).prop_map(ClaimAnswer::Leases),
        (0..4_usize).prop_map(answer),
        (0..4_usize).prop_map(names),
        or_other.prop_map(node),
    ]
}

proptest! {
    /// Whatever the server says: leases are taken only within a limit that was read with no fewer leases, and only as many
    /// as are wanted are held.
    #[test]
    fn every_run_is_orderly(
        quantity in 1..4_usize,
        waits: bool,
        answers in prop::collection::vec(any_answer(), 0..80),
        events in prop::collection::vec(prop::sample::select(&[ClaimEvent::LeasesChanged, ClaimEvent::LimitChanged]), 8),
    ) {
        let mut claim = Claim::new(SESSION, quantity, waits);
        let mut step = claim.start((None, None));
        let (mut answers, mut events) = (answers.into_iter(), events.into_iter());
        let (mut read, mut in_doubt) = ((None, None), false);
        loop {
            step = match step {
                ClaimStep::Send { requests, .. } => {
                    prop_assert!(!requests.is_empty());
                    let mut given = Vec::new();
                    for request in requests {
                        if let ClaimRequest::Take { quantity: wanted, limit } = &request {
                            prop_assert_eq!(*wanted, quantity);
                            prop_assert!(!in_doubt, "another take may have been applied");
                            prop_assert_eq!(read.1, Some(*limit));
                            prop_assert!(read.0.unwrap() + quantity <= limit.leases);
                        }
                        let answer = answers.find(|answer| fits(&request, answer)).unwrap_or(ClaimAnswer::Unknown);
                        if answers.len() == 0 {
                            return Ok(());
                        }
                        match &answer {
                            ClaimAnswer::Leases(leases) => read.0 = Some(*leases),
                            ClaimAnswer::Limit(limit) => read.1 = Some(*limit),
                            ClaimAnswer::OwnLeases(names) if given == [ClaimAnswer::Synced] => in_doubt = !names.is_empty(),
                            ClaimAnswer::Unknown if matches!(request, ClaimRequest::Take { .. }) => in_doubt = true,
                            _ => {}
                        }
                        given.push(answer);
                    }
                    claim.answered(given)
                }
                ClaimStep::Wait => {
                    prop_assert!(waits);
                    prop_assert!(read.0.unwrap() + quantity > read.1.unwrap().leases);
                    match events.next() {
                        Some(event) => claim.observed(event),
                        None => return Ok(()),
                    }
                }
                ClaimStep::Taken(leases) => {
                    prop_assert_eq!(leases.len(), quantity);
                    break;
                }
                ClaimStep::Refused => {
                    prop_assert!(!waits);
                    break;
                }
                ClaimStep::Restart => break,
                // The number of leases that were taken is of the server's choice here.
                ClaimStep::Failed(error) => {
                    prop_assert_eq!(error, "no answer to the taking of leases");
                    prop_assert_ne!(quantity, 2);
                    break;
                }
            };
        }
        prop_assert!(is_failed(&claim.answered(vec![ClaimAnswer::Unknown])));
    }
}

#[test]
fn a_directory_that_vanishes_again_is_made_again_at_the_pace_of_the_retry_policy() {
    let mut claim = Claim::new(7, 1, true);
    let mut step = claim.start((Some(0), Some(Limit { leases: 1, version: None })));
    for pace in [Pace::Now, Pace::Retry, Pace::Retry] {
        assert!(matches!(&step, ClaimStep::Send { requests, .. } if matches!(**requests, [ClaimRequest::Take { .. }])));
        step = claim.answered(vec![ClaimAnswer::NoParent]);
        assert_eq!(step, ClaimStep::Send { requests: vec![ClaimRequest::CreateParents], pace });
        step = claim.answered(vec![ClaimAnswer::ParentsReady]);
    }
}

#[test]
fn a_limit_that_vanishes_again_is_made_again_at_the_pace_of_the_retry_policy() {
    let create = |pace| ClaimStep::Send { requests: vec![ClaimRequest::CreateLimit], pace };
    let mut claim = looking(1);
    let vanishes = |claim: &mut Claim, pace| {
        assert_eq!(claim.answered(vec![ClaimAnswer::NoLimit]), create(pace));
        assert_eq!(claim.answered(vec![ClaimAnswer::LimitReady]), now([READ_LIMIT]));
    };
    assert_eq!(claim.answered(vec![ClaimAnswer::NoLimit, ClaimAnswer::Leases(0)]), create(Pace::Now));
    assert_eq!(claim.answered(vec![ClaimAnswer::LimitReady]), now([READ_LIMIT]));
    vanishes(&mut claim, Pace::Retry);
    vanishes(&mut claim, Pace::Retry);
    // Also if it lasts until the take.
    assert_eq!(claim.answered(vec![answer(1)]), take(1, limit(1)));
    assert_eq!(claim.answered(vec![ClaimAnswer::LimitChanged]), now(LOOK));
    assert_eq!(claim.answered(vec![ClaimAnswer::NoLimit, ClaimAnswer::Leases(1)]), create(Pace::Retry));
    assert_eq!(claim.answered(vec![ClaimAnswer::LimitReady]), now([READ_LIMIT]));
    // It has lasted while there was something to wait for.
    assert_eq!(claim.answered(vec![answer(1)]), ClaimStep::Wait);
    assert_eq!(claim.observed(ClaimEvent::LimitChanged), now([READ_LIMIT]));
    vanishes(&mut claim, Pace::Now);
    vanishes(&mut claim, Pace::Retry);
}
