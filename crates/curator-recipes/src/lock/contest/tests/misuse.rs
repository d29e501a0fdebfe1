//! What should not happen, and must not do harm.

use super::*;

#[test]
fn after_an_overflow_nobody_owns() {
    let overflow = |number| Step::Failed(ContestError::SequenceOverflow(SequenceOverflow { name: name(number) }));
    let mut play = Play::joining();
    assert_eq!(play.answers([created(-5), children([-5])]), overflow(-5));
    // It has to be cleaned up.
    assert_eq!(play.contest.node(), Some(&own(-5)));
    assert!(play.contest.may_exist());
    // The last number is given again and again.
    let mut play = Play::joining();
    assert_eq!(play.answers([created(i32::MAX), children([i32::MAX])]), overflow(i32::MAX));
    assert!(play.contest.may_exist());
    // Ours came before the overflow, but whoever came after cannot know that.
    for number in [i32::MIN, i32::MAX] {
        let mut play = Play::joining();
        assert_eq!(play.answers([created(5), children([5, number])]), overflow(number));
    }
    let mut play = Play::waiting(5);
    let _ = play.event(gone(3));
    assert_eq!(play.answers([node(4), node(5), children([4, 5, -1])]), overflow(-1));
    let mut play = Play::recovering();
    assert_eq!(play.answers([Answer::Synced, children([-1])]), overflow(-1));
}

#[test]
fn a_name_that_is_taken_is_an_overflow() {
    let overflow = |name: String| Step::Failed(ContestError::SequenceOverflow(SequenceOverflow { name }));
    let mut play = Play::joining();
    assert_eq!(play.answers([Answer::NameTaken, children([3, i32::MAX])]), overflow(name(i32::MAX)));
    assert!(!play.contest.may_exist());
    // Whoever had it has gone meanwhile, or it is a low number that somebody has put there.
    for listed in [children([3]), Answer::NoParent, Answer::Unknown] {
        let mut play = Play::joining();
        assert_eq!(play.answers([Answer::NameTaken, listed]), overflow(PREFIX.to_owned()));
        assert!(!play.contest.may_exist());
    }
}

#[test]
fn a_number_that_comes_twice_is_an_overflow() {
    let twice = |mut names: Vec<String>| {
        names.push("another-lock-0000000003".to_owned());
        Answer::Children(names)
    };
    let failed = |step: Step| matches!(step, Step::Failed(ContestError::SequenceOverflow(_)));
    let mut play = Play::joining();
    assert!(failed(play.answers([created(3), twice(vec![name(3)])])));
    let mut play = Play::waiting(5);
    let _ = play.event(gone(3));
    assert!(failed(play.answers([node(4), node(5), twice(vec![name(3), name(4), name(5)])])));
}

#[test]
fn a_driver_that_makes_no_sense_is_an_error() {
    for place in [5, 6, 99] {
        let mut play = Play::driven_by(Peculiar { waits_for: Some(place), ..Peculiar::default() });
        let step = play.answers([created(5), children(0..=6)]);
        assert!(matches!(step, Step::Failed(ContestError::Protocol { .. })), "{step:?}");
        assert!(play.contest.may_exist());
    }
    let mut play = Play::joining();
    let stranger = Answer::Created { name: "stranger".to_owned(), czxid: 1 };
    assert!(matches!(play.answers([stranger, children([])]), Step::Failed(ContestError::Protocol { .. })));
}

#[test]
fn answers_that_do_not_fit_are_errors() {
    let joining = || Play::joining().contest;
    let preparing = || {
        let mut play = Play::joining();
        let _ = play.answers([Answer::NoParent, Answer::NoParent]);
        play.contest
    };
    let recovering = || Play::recovering().contest;
    let identifying = || {
        let mut play = Play::recovering();
        let _ = play.answers([Answer::Synced, children([3])]);
        play.contest
    };
    let placing = || Play::queued(1).0.contest;
    let looking = || {
        let mut play = Play::waiting(1);
        let _ = play.event(perhaps_gone(0));
        play.contest
    };
    let cases: [(Contest, Vec<Answer>); 20] = [
        (joining(), vec![]),
        (joining(), vec![created(0)]),
        (joining(), vec![created(0), children([0]), children([0])]),
        (joining(), vec![created(0), created(0)]),
        (joining(), vec![children([0]), created(0)]),
        (joining(), vec![Answer::Missing, Answer::Missing]),
        (preparing(), vec![]),
        (preparing(), vec![Answer::Synced]),
        (recovering(), vec![Answer::Synced]),
        (recovering(), vec![Answer::Synced, Answer::Synced]),
        (recovering(), vec![children([]), children([])]),
        (identifying(), vec![]),
        (identifying(), vec![created(3)]),
        (identifying(), vec![node(3), node(3)]),
        (placing(), vec![node(0)]),
        (placing(), vec![Answer::NoParent, node(1)]),
        (placing(), vec![node(0), Answer::Synced]),
        (looking(), vec![]),
        (looking(), vec![node(0)]),
        (Play::waiting(1).contest, vec![node(0)]),
    ];
    let driver = StandardLockInternalsDriver::new();
    for (mut contest, answers) in cases {
        let state = contest.state.clone();
        let step = contest.answered(&driver, answers.clone());
        assert!(matches!(step, Step::Failed(ContestError::Protocol { .. })), "{state:?}: {answers:?}: {step:?}");
        assert_eq!(contest.state, State::Over);
    }
}

#[test]
fn calls_out_of_turn_are_errors() {
    let is_error = |step: Step| matches!(step, Step::Failed(ContestError::Protocol { .. }));
    let driver = StandardLockInternalsDriver::new();
    let mut new = Contest::new(ContenderId::new(), SESSION);
    assert!(is_error(new.observed(&driver, Event::OwnDeleted)));
    let mut new = Contest::new(ContenderId::new(), SESSION);
    assert!(is_error(new.answered(&driver, vec![])));
    let mut play = Play::joining();
    assert!(is_error(play.contest.start(&driver)));
    let mut play = Play::joining();
    assert!(is_error(play.event(gone(0))));
    let (mut owned, _) = Play::queued(0);
    assert!(is_error(owned.answers([])));
    assert!(is_error(owned.event(Event::OwnDeleted)));
    assert_eq!(owned.contest.id(), ContenderId::from_uuid(Uuid::from_u128(1)));
}

fn any_answer() -> impl Strategy<Value = Answer> {
    let number = -1..6_i32;
    prop_oneof![
        number.clone().prop_map(created),
        Just(Answer::NameTaken),
        Just(Answer::NoParent),
        Just(Answer::ParentsReady),
        Just(Answer::Synced),
        prop::collection::vec(number.clone(), 0..6).prop_map(children),
        (number, any::<bool>(), any::<bool>()).prop_map(|(number, ours, is_ours)| Answer::Node {
            ephemeral_owner: if ours { SESSION } else { OTHER_SESSION },
            czxid: czxid(number),
            is_ours,
        }),
        Just(Answer::Missing),
        Just(Answer::Unknown),
    ]
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..6_i32, any::<bool>()).prop_map(|(n, certain)| Event::AheadDeleted { name: name(n), certain }),
        2 => (0..6_i32).prop_map(changed),
        1 => Just(Event::OwnDeleted),
        1 => Just(Event::OwnChanged),
        1 => Just(Event::Uncertain),
    ]
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
        (Request::List, _) => children((0..6).filter(|bit| *bit == 5 || seed & (1 << bit) != 0)),
        (_, 6) => Answer::Missing,
        _ => node(5),
    }
}

proptest! {
    #[test]
    fn no_answer_and_no_event_makes_it_panic(
        answers in prop::collection::vec(prop::collection::vec(any_answer(), 0..4), 0..12),
        events in prop::collection::vec(any_event(), 12),
    ) {
        let mut play = Play::joining();
        let mut events = events.into_iter();
        for answers in answers {
            let mut step = play.answers(answers);
            while step == Step::Wait {
                let Some(event) = events.next() else { return Ok(()) };
                step = play.event(event);
            }
        }
    }

    /// Whatever the server says, no node is watched twice, and nothing follows an end.
    #[test]
    fn every_run_is_orderly(seeds: Vec<u8>, events in prop::collection::vec(any_event(), 0..20)) {
        let mut play = Play::joining();
        let mut step = now(JOIN);
        let (mut seeds, mut events) = (seeds.into_iter(), events.into_iter());
        loop {
            step = match step {
                Step::Send { requests, .. } => {
                    for request in &requests {
                        match request {
                            Request::WatchAhead { name } => prop_assert!(!play.contest.watches.ahead.contains(name)),
                            Request::WatchOwn { .. } => prop_assert!(!play.contest.watches.own),
                            _ => {}
                        }
                    }
                    let answers = requests.iter().map(|request| fitting(request, seeds.next().unwrap_or(7)));
                    let answers: Vec<_> = answers.collect();
                    if seeds.len() == 0 {
                        return Ok(());
                    }
                    play.answers(answers)
                }
                Step::Wait => match events.next() {
                    Some(event) => play.event(event),
                    None => return Ok(()),
                },
                Step::Owned(node) => {
                    prop_assert_eq!(play.contest.node(), Some(&node));
                    prop_assert!(play.contest.may_exist());
                    break;
                }
                Step::Restart(_) => {
                    prop_assert!(!play.contest.may_exist());
                    break;
                }
                Step::Failed(error) => return Err(TestCaseError::fail(error.to_string())),
            };
        }
        prop_assert!(matches!(play.answers([]), Step::Failed(_)));
    }
}
