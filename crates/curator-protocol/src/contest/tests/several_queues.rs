//! What several queues at once add to a contest.

use super::*;

/// A contest for two queues.
impl Play {
    /// Its first pipeline is in flight.
    pub(super) fn joining_two() -> Self {
        let play = Self::new(Contest::new(ID, SESSION, 2), &DRIVER);
        assert_eq!(
            play.in_flight,
            [(0, Request::Create), (1, Request::Create), (0, Request::List), (1, Request::List)]
        );
        assert_eq!(play.unknown_nodes(), [0, 1]);
        play
    }

    /// Its nodes have these numbers, and it has seen all the nodes before.
    fn queued_in_two(numbers: [i32; 2]) -> (Self, Step) {
        let mut play = Self::joining_two();
        let [first, second] = numbers;
        let step = play.answers([created(first), created(second), children(0..=first), children(0..=second)]);
        (play, step)
    }

    /// First in queue 0, second in queue 1, with all its watches.
    pub(super) fn owning_the_first_and_waiting() -> Self {
        let (mut play, step) = Self::queued_in_two([0, 1]);
        assert_eq!(step, now([(0, watch_own(0)), (1, ahead(0)), (1, watch_own(1))]));
        assert_eq!(play.answers([node(0), node(0), node(1)]), Step::Wait);
        play
    }

    /// No answer came to its creates.
    fn recovering_two() -> Self {
        let mut play = Self::joining_two();
        let recover = [(0, Request::Sync), (1, Request::Sync), (0, Request::List), (1, Request::List)];
        assert_eq!(play.answers([const { Answer::Unknown }; 4]), retry(recover));
        play
    }
}

#[test]
fn it_waits_in_all_queues_at_once_and_owns_when_the_last_of_them_is_its_own() {
    assert_eq!(Play::queued_in_two([0, 0]).1, won([own(0), own(0)]));
    for order in [[0, 1], [1, 0]] {
        let (mut play, step) = Play::queued_in_two([1, 1]);
        assert_eq!(step, now([(0, ahead(0)), (0, watch_own(1)), (1, ahead(0)), (1, watch_own(1))]));
        assert_eq!(play.answers([node(0), node(1), node(0), node(1)]), Step::Wait);
        assert_eq!(play.event(gone_in(order[0], 0)), Step::Wait, "its own node is watched already");
        assert_eq!(play.event(gone_in(order[1], 0)), won([own(1), own(1)]));
    }
}

#[test]
fn an_owned_queue_whose_node_is_deleted_means_a_new_contest_for_all() {
    let mut play = Play::owning_the_first_and_waiting();
    assert_eq!(play.event(Event::OwnDeleted(0)), DELETED);
    assert_eq!(play.nodes(), [(1, own(1))], "it is to be deleted");
    // Deleted before the watch was placed, or the directory was made anew and another node has the number.
    for answer in [Answer::Missing, node(7)] {
        let (mut play, _) = Play::queued_in_two([0, 1]);
        assert_eq!(play.answers([answer, node(0), node(1)]), MISSING);
    }
}

#[test]
fn nothing_is_owned_while_it_is_unknown_whether_the_node_of_an_owned_queue_is_there() {
    // Queue 0 becomes ours in the very pipeline that was to guard queue 1.
    let (mut play, step) = Play::queued_in_two([1, 0]);
    assert_eq!(step, now([(0, ahead(0)), (0, watch_own(1)), (1, watch_own(0))]));
    assert_eq!(play.answers([Answer::Missing, node(1), Answer::Unknown]), retry([(1, watch_own(0))]));
    assert_eq!(play.answers([Answer::Missing]), MISSING);
}

#[test]
fn the_queue_whose_numbers_come_again_is_named() {
    let mut play = Play::joining_two();
    let step = play.answers([Answer::Unknown, Answer::NameTaken, children([]), children([i32::MAX])]);
    let Step::Failed { queue: 1, error: ContestError::SequenceOverflow(overflow) } = step else { panic!("{step:?}") };
    assert_eq!(overflow.name, name(i32::MAX));
}

#[test]
fn queues_recover_each_at_its_own_pace() {
    // Queue 0 is found and guarded, while queue 1 goes on looking.
    let mut play = Play::recovering_two();
    let step = play.answers([Answer::Done, Answer::Done, children([0]), Answer::Unknown]);
    assert_eq!(step, retry([(0, inspect(0)), (1, Request::Sync), (1, Request::List)]));
    let step = play.answers([node(0), Answer::Unknown, Answer::Unknown]);
    assert_eq!((play.nodes(), play.unknown_nodes()), (vec![(0, own(0))], vec![1]));
    assert_eq!(step, retry([(0, watch_own(0)), (1, Request::Sync), (1, Request::List)]));
    assert_eq!(play.answers([node(0), Answer::Done, children([0])]), now([(1, inspect(0))]));
    assert_eq!(play.answers([node(0)]), won([own(0), own(0)]));
}

#[test]
fn after_an_interruption_one_pipeline_looks_after_all_queues() {
    let mut play = Play::owning_the_first_and_waiting();
    let look = [(0, watch_own(0)), (1, ahead(0)), (1, watch_own(1)), (1, Request::List)];
    assert_eq!(play.event(Event::Interrupted), now(look));
}

#[test]
fn creates_come_first_in_a_pipeline_and_plain_reads_last() {
    // The queues are at different points of their recovery.
    let mut play = Play::recovering_two();
    let step = play.answers([Answer::Unknown, Answer::Done, Answer::Unknown, children([0])]);
    assert_eq!(step, retry([(0, Request::Sync), (1, inspect(0)), (0, Request::List)]));
    // With leases and their limit.
    let play = Play::new(Contest::for_leases(ID, SESSION, 1, LeaseLimit::Shared), &DRIVER);
    assert_eq!(play.in_flight, [(0, Request::Create), (0, Request::List), (1, Request::List), (1, Request::Limit)]);
    let play = Play::new(Contest::for_leases(ID, SESSION, 1, LeaseLimit::Fixed(1)), &DRIVER);
    assert_eq!(play.in_flight, [(0, Request::Create), (0, Request::List), (1, Request::List)]);
}

#[test]
fn it_is_queued_once_it_has_its_nodes() {
    let mut play = Play::joining_two();
    assert!(!play.contest.is_queued());
    let _ = play.answers([created(1), created(0), Answer::Unknown, Answer::Unknown]);
    assert!(play.contest.is_queued(), "it only has to see where");
    assert!(!Play::recovering_two().contest.is_queued());
    assert!(Play::owning_the_first_and_waiting().contest.is_queued());
}

/// An answer of the kind that fits a request to a queue, whatever it says.
fn fitting(request: &Request, seed: u8) -> Answer {
    let number = i32::from(seed % 6);
    match (request, seed % 8) {
        (_, 7) => Answer::Unknown,
        (Request::Create | Request::CreateWithParents | Request::List, 6) => Answer::NoParent,
        (Request::Create | Request::CreateWithParents, _) => created(number),
        (Request::Sync, _) => Answer::Done,
        (Request::List, _) => children((0..6).filter(|bit| seed & (1 << bit) != 0)),
        (_, 6) => Answer::Missing,
        (_, 5) => node_of(OTHER_SESSION, number),
        (Request::Inspect { name } | Request::WatchAhead { name } | Request::WatchOwn { name }, _) => {
            // Mostly the node that was meant.
            node(name.strip_prefix(PREFIX).and_then(|number| number.parse().ok()).unwrap_or(number))
        }
        (request, _) => panic!("{request:?} is for no queue"),
    }
}

fn any_event() -> impl Strategy<Value = Event> {
    let queue = 0..3_usize;
    prop_oneof![
        4 => (queue.clone(), 0..6_i32).prop_map(|(queue, number)| gone_in(queue, number)),
        2 => (queue.clone(), 0..6_i32).prop_map(|(queue, number)| Event::AheadChanged { queue, name: name(number) }),
        1 => queue.clone().prop_map(Event::OwnDeleted),
        1 => queue.prop_map(Event::OwnChanged),
        1 => Just(Event::Interrupted),
    ]
}

proptest! {
    /// Whatever the server says: the nodes are created all together, and only when there is none of them; no node is watched
    /// twice, and nothing follows an end.
    #[test]
    fn every_run_is_orderly(queues in 1..4_usize, seeds: Vec<u8>, events in prop::collection::vec(any_event(), 0..20)) {
        let mut contest = Contest::new(ID, SESSION, queues);
        let mut step = contest.start();
        let (mut seeds, mut events) = (seeds.into_iter(), events.into_iter());
        loop {
            step = match step {
                Step::Send { requests, .. } => {
                    let created = requests.iter().filter(|(_, request)| request.is_create());
                    let created: Vec<_> = created.map(|(queue, _)| *queue).collect();
                    if !created.is_empty() {
                        prop_assert_eq!(created, (0..queues).collect::<Vec<_>>());
                        prop_assert_eq!(contest.nodes().count(), 0);
                    }
                    for (queue, request) in &requests {
                        let watches = &contest.entries[*queue].watches;
                        match request {
                            Request::WatchAhead { name } => prop_assert!(!watches.ahead.contains(name)),
                            Request::WatchOwn { .. } => prop_assert!(!watches.own),
                            _ => {}
                        }
                    }
                    // All the creates are one transaction.
                    let Some(outcome) = seeds.next().map(|seed| fitting(&Request::Create, seed)) else { return Ok(()) };
                    let answers = requests.iter().map(|(_, request)| match request {
                        request if request.is_create() => outcome.clone(),
                        request => fitting(request, seeds.next().unwrap_or(7)),
                    });
                    contest.answered(&DRIVER, answers.collect())
                }
                Step::Wait => match events.next() {
                    Some(
                        Event::AheadDeleted { queue, .. } | Event::AheadChanged { queue, .. }
                        | Event::OwnDeleted(queue) | Event::OwnChanged(queue)
                    ) if queue >= queues => Step::Wait,
                    Some(event) => contest.observed(event),
                    None => return Ok(()),
                },
                Step::Won(nodes) => {
                    prop_assert_eq!(nodes.len(), queues);
                    prop_assert!(nodes.iter().eq(contest.nodes().map(|(_, node)| node)));
                    break;
                }
                Step::Restart(_) => break,
                Step::Refused => return Err(TestCaseError::fail("it may wait")),
                Step::Failed { error, .. } => return Err(TestCaseError::fail(error.to_string())),
            };
        }
        prop_assert!(is_failed(&contest.answered(&DRIVER, vec![])));
    }
}
