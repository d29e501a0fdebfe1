//! What should not happen, and must not do harm.

use super::*;

fn overflow_of(name: String) -> Step {
    Step::Failed { queue: 0, error: ContestError::SequenceOverflow(SequenceOverflow { name }) }
}

#[test]
fn after_an_overflow_nobody_owns() {
    let overflow = |number| overflow_of(name(number));
    let mut play = Play::joining();
    assert_eq!(play.answers([created(-5), children([-5])]), overflow(-5));
    // It has to be cleaned up.
    assert_eq!(play.node(), Some(own(-5)));
    assert!(play.may_exist());
    // The last number is given again and again.
    let mut play = Play::joining();
    assert_eq!(play.answers([created(i32::MAX), children([i32::MAX])]), overflow(i32::MAX));
    assert!(play.may_exist());
    // Ours came before the overflow, but whoever came after cannot know that.
    for number in [i32::MIN, i32::MAX] {
        let mut play = Play::joining();
        assert_eq!(play.answers([created(5), children([5, number])]), overflow(number));
    }
    let mut play = Play::waiting(5);
    let _ = play.event(gone(3));
    assert_eq!(play.answers([node(4), node(5), children([4, 5, -1])]), overflow(-1));
    let mut play = Play::recovering();
    assert_eq!(play.answers([Answer::Done, children([-1])]), overflow(-1));
}

#[test]
fn a_name_that_is_taken_is_an_overflow() {
    let overflow = overflow_of;
    let mut play = Play::joining();
    assert_eq!(play.answers([Answer::NameTaken, children([3, i32::MAX])]), overflow(name(i32::MAX)));
    assert!(!play.may_exist());
    // Whoever had it has gone meanwhile, or it is a low number that somebody has put there.
    for listed in [children([3]), Answer::NoParent, Answer::Unknown] {
        let mut play = Play::joining();
        assert_eq!(play.answers([Answer::NameTaken, listed]), overflow(PREFIX.to_owned()));
        assert!(!play.may_exist());
    }
}

#[test]
fn a_number_that_comes_twice_is_an_overflow() {
    let twice = |mut names: Vec<String>| {
        names.push("another-lock-0000000003".to_owned());
        Answer::Children(names)
    };
    let failed = |step: Step| matches!(step, Step::Failed { error: ContestError::SequenceOverflow(_), .. });
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
        assert!(is_failed(&step), "{step:?}");
        assert!(play.may_exist());
    }
    let mut play = Play::joining();
    let stranger = Answer::Created(OwnNode { name: "stranger".to_owned(), czxid: 1 });
    assert!(is_failed(&play.answers([stranger, children([])])));
}

#[test]
fn answers_that_do_not_fit_are_errors() {
    let joining = || Play::joining().contest;
    let joining_with_parents = || {
        let mut play = Play::joining();
        let _ = play.answers([Answer::NoParent, Answer::NoParent]);
        play.contest
    };
    let recovering = || Play::recovering().contest;
    let identifying = || {
        let mut play = Play::recovering();
        let _ = play.answers([Answer::Done, children([3])]);
        play.contest
    };
    let placing = || Play::queued(1).0.contest;
    let looking = || {
        let mut play = Play::waiting(1);
        let _ = play.event(Event::Interrupted);
        play.contest
    };
    let cases: [(Contest, Vec<Answer>); 23] = [
        (joining(), vec![]),
        (joining(), vec![created(0)]),
        (joining(), vec![created(0), children([0]), children([0])]),
        (joining(), vec![created(0), created(0)]),
        (joining(), vec![children([0]), created(0)]),
        (joining(), vec![Answer::Missing, Answer::Missing]),
        (joining_with_parents(), vec![]),
        (joining_with_parents(), vec![children([])]),
        (recovering(), vec![Answer::Done]),
        (recovering(), vec![Answer::Done, Answer::Done]),
        (recovering(), vec![children([]), children([])]),
        (identifying(), vec![]),
        (identifying(), vec![created(3)]),
        (identifying(), vec![node(3), node(3)]),
        (placing(), vec![node(0)]),
        (placing(), vec![Answer::NoParent, node(1)]),
        (placing(), vec![node(0), Answer::Done]),
        (looking(), vec![]),
        (looking(), vec![node(0)]),
        (looking(), vec![node(0), node(1), node(1)]),
        (looking(), vec![Answer::Done, node(1), children([0, 1])]),
        (looking(), vec![node(0), created(1), children([0, 1])]),
        (Play::waiting(1).contest, vec![node(0)]),
    ];
    for (mut contest, answers) in cases {
        let before = contest.clone();
        let step = contest.answered(&DRIVER, answers.clone());
        assert!(is_failed(&step), "{before:?}: {answers:?}: {step:?}");
        assert_eq!(contest.stage, Stage::Over);
    }
}

#[test]
fn calls_out_of_turn_are_errors() {
    let new = || Play::new(Contest::new(Uuid::new_v4(), SESSION, 1), DRIVER);
    assert!(is_failed(&new().event(Event::OwnDeleted(0))));
    assert!(is_failed(&new().answers([])));
    assert!(is_failed(&Play::joining().start()));
    assert!(is_failed(&Play::joining().event(gone(0))));
    assert!(is_failed(&Play::waiting(1).event(Event::LeasesChanged)));
    assert!(is_failed(&Play::waiting(1).event(Event::LimitChanged)));
    let (mut owned, _) = Play::queued(0);
    assert!(is_failed(&owned.answers([])));
    assert!(is_failed(&owned.event(Event::OwnDeleted(0))));
}

fn any_answer() -> impl Strategy<Value = Answer> {
    let number = -1..6_i32;
    prop_oneof![
        number.clone().prop_map(created),
        Just(Answer::NameTaken),
        Just(Answer::NoParent),
        Just(Answer::Done),
        prop::collection::vec(number.clone(), 0..6).prop_map(children),
        (number, any::<bool>(), any::<bool>()).prop_map(|(number, ours, is_ours)| Answer::Node {
            ephemeral_owner: if ours { SESSION } else { OTHER_SESSION },
            czxid: czxid(number),
            version: 0,
            is_ours,
        }),
        Just(Answer::Missing),
        Just(Answer::Unknown),
    ]
}

proptest! {
    #[test]
    fn no_answer_and_no_event_makes_it_panic(
        answers in prop::collection::vec(prop::collection::vec(any_answer(), 0..4), 0..12),
        events in prop::collection::vec(any_event(1), 12),
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
    fn every_run_is_orderly(seeds: Vec<u8>, events in prop::collection::vec(any_event(1), 0..20)) {
        let mut play = Play::joining();
        let mut step = now(JOIN);
        let (mut seeds, mut events) = (seeds.into_iter(), events.into_iter());
        loop {
            step = match step {
                Step::Send { requests, .. } => {
                    let watches = &play.contest.entries[0].watches;
                    for (_, request) in &requests {
                        match request {
                            Request::WatchAhead { name } => prop_assert!(!watches.ahead.contains(name)),
                            Request::WatchOwn { .. } => prop_assert!(!watches.own),
                            _ => {}
                        }
                    }
                    let answers = requests.iter().map(|(_, request)| fitting(request, seeds.next().unwrap_or(7)));
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
                Step::Won(nodes) => {
                    prop_assert_eq!(play.nodes(), nodes.into_iter().map(|node| (0, node)).collect::<Vec<_>>());
                    break;
                }
                Step::Restart(_) => {
                    prop_assert!(!play.may_exist());
                    break;
                }
                Step::Refused => return Err(TestCaseError::fail("it may wait")),
                Step::Failed { error, .. } => return Err(TestCaseError::fail(error.to_string())),
            };
        }
        prop_assert!(is_failed(&play.answers([])));
    }
}
