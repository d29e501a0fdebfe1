//! Wrong sequence numbers, answers and calls end the contest, without an owner.

use super::leases::{lease, leases, limit_is, names, others};
use super::*;

fn overflow_of(name: String) -> Step {
    Step::Failed {
        queue: 0,
        error: ContestError::SequenceOverflow(SequenceOverflow { name }),
    }
}

#[test]
fn a_queue_with_an_overflow_fails_the_contest() {
    // Either our node or another node has the number. A list does not show whether the other node
    // is older than ours.
    for number in [-5, i32::MIN, i32::MAX] {
        for (ours, listed) in [(number, children([number])), (5, children([5, number]))] {
            let mut run = Run::joining();
            assert_eq!(
                run.answers([created(ours), listed]),
                overflow_of(name(number))
            );
            assert_eq!(run.nodes(), [(0, own(ours))], "the caller has to delete it");
        }
    }
    let mut run = Run::waiting(5);
    let _ = run.event(gone(3));
    assert_eq!(
        run.answers([node(4), node(5), children([4, 5, -1])]),
        overflow_of(name(-1))
    );
    assert_eq!(
        Run::recovering().answers([Answer::Done, children([-1])]),
        overflow_of(name(-1))
    );
}

/// Like the mutex's driver, but every contender waits for the node at this place.
#[derive(Debug)]
struct WaitsFor(usize);

impl LockInternalsDriver for WaitsFor {
    fn node_prefix(&self, id: &Uuid) -> String {
        DRIVER.node_prefix(id)
    }

    fn sequence(&self, child: &str) -> Option<i32> {
        DRIVER.sequence(child)
    }

    fn verdict(&self, _queue: &Queue, _own: usize) -> Verdict {
        Verdict::WaitsFor(self.0)
    }

    fn predecessors_are_final(&self) -> bool {
        false
    }
}

#[test]
fn an_inconsistent_driver_fails_the_contest() {
    for driver in [&WaitsFor(5), &WaitsFor(6), &WaitsFor(99)] {
        let mut run = Run::new(Contest::new(ID, SESSION, 1), driver);
        let step = run.answers([created(5), children(0..=6)]);
        assert!(is_failed(&step), "{step:?}");
        assert_eq!(run.nodes(), [(0, own(5))]);
    }
    let stranger = Answer::Created(OwnNode {
        name: "stranger".to_owned(),
        czxid: 1,
    });
    assert!(is_failed(&Run::joining().answers([stranger, children([])])));
}

/// Whether this answer is possible for this request.
fn fits(request: &Request, answer: &Answer) -> bool {
    matches!(
        (request, answer),
        (_, Answer::Unknown)
            | (
                Request::Create | Request::CreateWithParents,
                Answer::Created(_) | Answer::NoParent
            )
            | (
                Request::List | Request::WatchList,
                Answer::Children(_) | Answer::NoParent
            )
            | (
                Request::Limit | Request::WatchLimit,
                Answer::Limit(_) | Answer::Missing
            )
            | (Request::CreateLimit | Request::Sync, Answer::Done)
            | (
                Request::Inspect { .. } | Request::WatchAhead { .. } | Request::WatchOwn { .. },
                Answer::Node { .. } | Answer::Missing
            )
            | (
                Request::Take { .. },
                Answer::Taken(_)
                    | Answer::LimitChanged
                    | Answer::PlaceWritten
                    | Answer::Missing
                    | Answer::NoParent
            )
    )
}

/// A contest in each state with requests in flight, and answers that fit.
fn in_flight() -> Vec<(Run, Vec<Answer>)> {
    let after = |mut run: Run, answers: Vec<Answer>| {
        let _ = run.answers(answers);
        run
    };
    let mut guarding = Run::owning_the_first_and_waiting();
    let _ = guarding.event(Event::OwnChanged(0));
    vec![
        (Run::joining(), vec![created(1), children([0, 1])]),
        (
            after(Run::joining(), vec![Answer::NoParent; 2]),
            vec![created(1), children([0, 1])],
        ),
        (
            Run::joining_two(),
            vec![created(1), created(0), children([0, 1]), children([0])],
        ),
        (Run::recovering(), vec![Answer::Done, children([3])]),
        (
            after(Run::recovering(), vec![Answer::Done, children([3])]),
            vec![node(3)],
        ),
        (Run::queued(1).0, vec![node(0), node(1)]),
        (
            Run::interrupted(1),
            vec![node(0), node(1), children([0, 1])],
        ),
        (guarding, vec![node(0)]),
        (Run::reading(2), vec![limit_is(2), others(2)]),
        (Run::creating_limit(), vec![Answer::Done]),
        (Run::taking(2), vec![Answer::Taken(leases(2))]),
        (
            after(Run::taking(2), vec![Answer::NoParent]),
            vec![Answer::Taken(leases(2))],
        ),
        (Run::reading_place(2), vec![node(0)]),
        (Run::recovering_leases(2), vec![Answer::Done, names(2)]),
        (Run::inspecting(2), vec![lease(SESSION)]),
    ]
}

#[test]
fn an_answer_that_fits_its_request_continues_the_contest_and_any_other_fails_it() {
    let mut all: Vec<_> = in_flight()
        .into_iter()
        .flat_map(|(_, answers)| answers)
        .collect();
    all.extend([Answer::LimitChanged, Answer::PlaceWritten, Answer::Missing]);
    all.extend([Answer::NoParent, node_of(OTHER_SESSION, 0), Answer::Unknown]);
    for (run, answers) in in_flight() {
        let fails = |answers: &[Answer]| {
            is_failed(&run.contest.clone().answered(run.driver, answers.to_vec()))
        };
        for (place, (_, request)) in run.in_flight.iter().enumerate() {
            for answer in &all {
                let mut answers = answers.clone();
                answers[place] = answer.clone();
                assert_eq!(
                    fails(&answers),
                    !fits(request, answer),
                    "{answers:?} in {run:?}"
                );
            }
        }
        assert!(fails(&answers[1..]), "fewer than {answers:?} in {run:?}");
        assert!(
            fails(&[&answers[..], &[Answer::Unknown]].concat()),
            "{answers:?} and more in {run:?}"
        );
    }
    // The answer has fewer leases than were requested.
    assert!(is_failed(
        &Run::taking(2).answers([Answer::Taken(leases(1))])
    ));
}

#[test]
fn calls_out_of_turn_are_errors() {
    let events = [
        Event::OwnDeleted(0),
        gone(0),
        Event::Interrupted,
        Event::LeasesChanged,
        Event::LimitChanged,
    ];
    let accepts_event = |contest: &Contest| {
        events
            .clone()
            .into_iter()
            .any(|event| !is_failed(&contest.clone().observed(event)))
    };
    let accepts_start = |contest: &Contest| !is_failed(&contest.clone().start());
    let accepts_answers =
        |contest: &Contest| !is_failed(&contest.clone().answered(&DRIVER, vec![]));

    let new = Contest::new(ID, SESSION, 1);
    assert!(!accepts_answers(&new) && !accepts_event(&new));
    for (run, _) in in_flight() {
        assert!(
            !accepts_start(&run.contest) && !accepts_event(&run.contest),
            "{run:?}"
        );
    }
    for Run { contest, .. } in [
        Run::waiting(1),
        Run::owning_the_first_and_waiting(),
        Run::waiting_for(1),
    ] {
        assert!(
            !accepts_start(&contest) && !accepts_answers(&contest),
            "{contest:?}"
        );
    }
    for event in [
        Event::LeasesChanged,
        Event::LimitChanged,
        Event::OwnDeleted(2),
        gone_in(2, 0),
    ] {
        assert!(is_failed(&Run::owning_the_first_and_waiting().event(event)));
    }
    // No call is accepted after the end of a contest, however it ended.
    let (owned, _) = Run::queued(0);
    let mut deleted = Run::owning_the_first_and_waiting();
    assert_eq!(deleted.event(Event::OwnDeleted(1)), RESTART);
    let mut missing = Run::queued(1).0;
    assert_eq!(missing.answers([node(0), Answer::Missing]), RESTART);
    let mut failed = Run::waiting(1);
    assert!(is_failed(&failed.event(Event::OwnDeleted(2))));
    let mut refused = Run::new(Contest::new(ID, SESSION, 1).without_waiting(), &DRIVER);
    assert_eq!(
        refused.answers([created(1), children([0, 1])]),
        Step::Refused
    );
    assert_eq!(
        refused.nodes(),
        [(0, own(1))],
        "the caller has to delete it"
    );
    for Run { contest, .. } in [owned, deleted, missing, failed, refused] {
        assert!(
            !accepts_start(&contest) && !accepts_answers(&contest) && !accepts_event(&contest),
            "{contest:?}"
        );
    }
}
