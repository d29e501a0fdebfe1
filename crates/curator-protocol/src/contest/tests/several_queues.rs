//! Contests for several queues together.

use super::*;

const JOIN_TWO: [(usize, Request); 4] = [
    (0, Request::Create),
    (1, Request::Create),
    (0, Request::List),
    (1, Request::List),
];

/// A contest for two queues.
impl Run {
    /// Returns a contest whose first pipeline is in flight.
    pub(super) fn joining_two() -> Self {
        let run = Self::new(Contest::new(ID, SESSION, 2), &DRIVER);
        assert_eq!(run.in_flight, JOIN_TWO);
        assert_eq!(run.unknown_nodes(), [0, 1]);
        run
    }

    /// Returns a contest whose nodes have these numbers. Its lists contain all lower numbers too.
    fn queued_in_two(numbers: [i32; 2]) -> (Self, Step) {
        let mut run = Self::joining_two();
        let [first, second] = numbers;
        let step = run.answers([
            created(first),
            created(second),
            children(0..=first),
            children(0..=second),
        ]);
        (run, step)
    }

    /// Returns a contest that is first in queue 0 and second in queue 1, with all its watches.
    pub(super) fn owning_the_first_and_waiting() -> Self {
        let (mut run, step) = Self::queued_in_two([0, 1]);
        assert_eq!(
            step,
            now([
                watch_own(0),
                in_queue(1, watch_ahead(0)),
                in_queue(1, watch_own(1))
            ])
        );
        assert_eq!(run.answers([node(0), node(0), node(1)]), Step::Wait);
        run
    }

    /// Returns a contest whose creates were not answered.
    fn recovering_two() -> Self {
        let mut run = Self::joining_two();
        let recover = [
            (0, Request::Sync),
            (1, Request::Sync),
            (0, Request::List),
            (1, Request::List),
        ];
        assert_eq!(run.answers([const { Answer::Unknown }; 4]), retry(recover));
        run
    }
}

#[test]
fn a_sequence_overflow_names_its_queue() {
    let mut run = Run::joining_two();
    let step = run.answers([
        created(0),
        created(i32::MAX),
        children([0]),
        children([i32::MAX]),
    ]);
    let Step::Failed {
        queue: 1,
        error: ContestError::SequenceOverflow(overflow),
    } = step
    else {
        panic!("{step:?}")
    };
    assert_eq!(overflow.name, name(i32::MAX));
}

#[test]
fn after_an_interruption_one_pipeline_sets_the_watches_of_all_queues() {
    let mut run = Run::owning_the_first_and_waiting();
    let look = [
        watch_own(0),
        in_queue(1, watch_ahead(0)),
        in_queue(1, watch_own(1)),
        (1, Request::List),
    ];
    assert_eq!(run.event(Event::Interrupted), now(look));
}

#[test]
fn creates_come_first_in_a_pipeline_and_plain_reads_last() {
    // The queues are at different points of their recovery.
    let mut run = Run::recovering_two();
    let step = run.answers([
        Answer::Unknown,
        Answer::Done,
        Answer::Unknown,
        children([0]),
    ]);
    assert_eq!(
        step,
        retry([
            (0, Request::Sync),
            in_queue(1, inspect(0)),
            (0, Request::List)
        ])
    );
    // A contest for leases also reads the leases and, unless it is fixed, their limit.
    let run = Run::new(
        Contest::for_leases(ID, SESSION, 1, LeaseLimit::Shared),
        &DRIVER,
    );
    assert_eq!(
        run.in_flight,
        [
            (0, Request::Create),
            (0, Request::List),
            (1, Request::List),
            (1, Request::Limit)
        ]
    );
    let run = Run::new(
        Contest::for_leases(ID, SESSION, 1, LeaseLimit::Fixed(1)),
        &DRIVER,
    );
    assert_eq!(
        run.in_flight,
        [(0, Request::Create), (0, Request::List), (1, Request::List)]
    );
}

#[test]
fn a_contest_is_queued_once_it_has_its_nodes() {
    let mut run = Run::joining_two();
    assert!(!run.contest.is_queued());
    let _ = run.answers([created(1), created(0), Answer::Unknown, Answer::Unknown]);
    assert!(
        run.contest.is_queued(),
        "its place is unknown, but its nodes exist"
    );
    assert!(!Run::recovering_two().contest.is_queued());
    assert!(Run::owning_the_first_and_waiting().contest.is_queued());
}
