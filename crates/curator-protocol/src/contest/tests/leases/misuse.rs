//! Answers and events that do not fit, and any that do.

use super::*;

fn all_answers() -> [Answer; 16] {
    [
        created(2),
        others(0),
        says(9),
        Answer::Done,
        Answer::Taken(leases(2)),
        Answer::LimitChanged,
        Answer::PlaceWritten,
        Answer::Missing,
        Answer::NameTaken,
        Answer::NoParent,
        names(1),
        names(2),
        place(1),
        lease(SESSION),
        lease(OTHER_SESSION),
        Answer::Unknown,
    ]
}

/// Whether this answer can come to this request.
fn fits(request: &Request, answer: &Answer) -> bool {
    matches!(
        (request, answer),
        (_, Answer::Unknown)
            | (Request::List | Request::WatchList, Answer::Children(_) | Answer::NoParent)
            | (Request::Limit | Request::WatchLimit, Answer::Limit(_) | Answer::Missing)
            | (Request::CreateLimit | Request::Sync, Answer::Done)
            | (Request::Inspect { .. }, Answer::Node { .. } | Answer::Missing)
            | (
                Request::Take { .. },
                Answer::Taken(_) | Answer::LimitChanged | Answer::PlaceWritten | Answer::Missing | Answer::NoParent
            )
    )
}

#[test]
fn every_answer_in_every_state_goes_on_if_it_fits_and_fails_if_not() {
    let creating_limit = || {
        let mut play = Play::looking(2);
        let _ = play.answers([Answer::Missing, others(0)]);
        play
    };
    let taking_with_directory = || {
        let mut play = Play::taking(2);
        let _ = play.answers([Answer::NoParent]);
        play
    };
    let states = [
        Play::looking(2),
        creating_limit(),
        Play::taking(2),
        taking_with_directory(),
        Play::reading_place(2),
        Play::recovering_leases(2),
        Play::inspecting(2),
    ];
    for play in states {
        let requests = &play.in_flight;
        let fails = |answers: &[Answer]| is_failed(&play.contest.clone().answered(&DRIVER, answers.to_vec()));
        for first in all_answers() {
            // Two answers where two are due; the second is each in its turn.
            let rest =
                if requests.len() == 1 { vec![vec![]] } else { all_answers().map(|second| vec![second]).to_vec() };
            for second in rest {
                let answers = [vec![first.clone()], second].concat();
                let all_fit = requests.iter().zip(&answers).all(|((_, request), answer)| fits(request, answer));
                assert_eq!(fails(&answers), !all_fit, "{answers:?} in {play:?}");
                // One more or one less.
                let more = [answers.clone(), vec![Answer::Unknown]].concat();
                assert!(fails(&more), "{answers:?} and more in {play:?}");
                assert!(fails(&answers[1..]), "fewer than {answers:?} in {play:?}");
            }
        }
    }
    // Another number of leases than was asked for.
    assert!(is_failed(&Play::taking(2).answers([Answer::Taken(leases(1))])));
}

#[test]
fn calls_out_of_turn_are_errors() {
    for answer in all_answers() {
        assert!(is_failed(&Play::new(claiming(1), DRIVER).answers([answer.clone()])), "{answer:?}");
        assert!(is_failed(&Play::waiting_for(1).answers([answer.clone()])), "{answer:?}");
    }
    for event in [Event::LeasesChanged, Event::LimitChanged, Event::Interrupted, Event::OwnDeleted(0)] {
        assert!(is_failed(&Play::new(claiming(1), DRIVER).event(event.clone())));
        let not_waiting = [
            Play::looking(1),
            Play::taking(1),
            Play::reading_place(1),
            Play::recovering_leases(1),
            Play::inspecting(1),
        ];
        for mut play in not_waiting {
            assert!(is_failed(&play.event(event.clone())), "{play:?}");
            assert!(is_failed(&play.answers([Answer::Unknown])), "it is over");
        }
    }
}

fn any_answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        prop::sample::select(all_answers().to_vec()),
        (0..4_usize).prop_map(others),
        (0..4_usize).prop_map(says),
        (0..4_usize).prop_map(names),
        prop::sample::select(&[SESSION, OTHER_SESSION]).prop_map(lease),
    ]
}

fn any_event_of_leases() -> impl Strategy<Value = Event> {
    prop::sample::select(vec![Event::LeasesChanged, Event::LimitChanged, Event::Interrupted, Event::OwnChanged(0)])
}

/// How many leases a list shows, whosever they are.
fn count(children: &[String]) -> usize {
    children.iter().filter(|name| Claim::is_lease(name)).count()
}

proptest! {
    /// Whatever the server says: leases are taken only within a limit that was read with no fewer leases, and only as many
    /// as are wanted are held.
    #[test]
    fn every_run_is_orderly(
        quantity in 1..4_usize,
        waits: bool,
        answers in prop::collection::vec(any_answer(), 0..80),
        events in prop::collection::vec(any_event_of_leases(), 8),
    ) {
        let contest = if waits { claiming(quantity) } else { claiming(quantity).without_waiting() };
        let (mut play, mut step) = Play::first(contest, Answer::Unknown, Answer::Unknown);
        let (mut answers, mut events) = (answers.into_iter(), events.into_iter());
        let (mut read, mut in_doubt) = ((None, None), false);
        loop {
            step = match step {
                Step::Send { requests, .. } => {
                    prop_assert!(!requests.is_empty());
                    let mut given = Vec::new();
                    for (_, request) in requests {
                        if let Request::Take { quantity: wanted, limit, .. } = &request {
                            prop_assert_eq!(*wanted, quantity);
                            prop_assert!(!in_doubt, "another take may have been applied");
                            prop_assert_eq!(read.1, Some(*limit));
                            prop_assert!(read.0.unwrap() + quantity <= limit.leases);
                        }
                        let answer = answers.find(|answer| fits(&request, answer)).unwrap_or(Answer::Unknown);
                        if answers.len() == 0 {
                            return Ok(());
                        }
                        match (&request, &answer) {
                            (Request::List, Answer::Children(names)) if given == [Answer::Done] => {
                                in_doubt = names.iter().any(|name| name.starts_with("_c_00000000"));
                            }
                            (Request::List, Answer::NoParent) if given == [Answer::Done] => in_doubt = false,
                            (Request::List | Request::WatchList, Answer::Children(names)) => read.0 = Some(count(names)),
                            (Request::List | Request::WatchList, Answer::NoParent) => read.0 = Some(0),
                            (_, Answer::Limit(limit)) => read.1 = Some(*limit),
                            (Request::Take { .. }, Answer::Unknown) => in_doubt = true,
                            _ => {}
                        }
                        given.push(answer);
                    }
                    play.answers(given)
                }
                Step::Wait => {
                    prop_assert!(waits);
                    prop_assert!(read.0.unwrap() + quantity > read.1.unwrap().leases);
                    match events.next() {
                        Some(event) => play.event(event),
                        None => return Ok(()),
                    }
                }
                Step::Won(leases) => {
                    prop_assert_eq!(leases.len(), quantity);
                    break;
                }
                Step::Refused => {
                    prop_assert!(!waits);
                    break;
                }
                Step::Restart(_) => break,
                // The number of leases that were taken is of the server's choice here.
                Step::Failed { error, .. } => {
                    let detail = error.to_string();
                    prop_assert!(detail.ends_with("is not an answer to the taking of leases"), "{}", detail);
                    prop_assert_ne!(quantity, 2);
                    break;
                }
            };
        }
        prop_assert!(is_failed(&play.answers([Answer::Unknown])));
    }
}
