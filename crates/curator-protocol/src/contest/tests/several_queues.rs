//! What several queues at once add to a contest. That it fits together is shown by the model in `tests/model`.

use super::*;

fn join() -> Step {
    now([(0, Request::Create), (1, Request::Create), (0, Request::List), (1, Request::List)])
}

fn recover() -> Step {
    retry([(0, Request::Sync), (1, Request::Sync), (0, Request::List), (1, Request::List)])
}

/// A contest for two queues.
impl Play {
    /// Its first pipeline is in flight.
    fn joining_two() -> Self {
        let mut play = Self::new(Contest::new(ID, SESSION, 2), DRIVER);
        assert_eq!(play.unknown_nodes(), [0; 0]);
        assert_eq!(play.start(), join());
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
        assert_eq!(play.answers([const { Answer::Unknown }; 4]), recover());
        play
    }
}

#[test]
fn whoever_is_first_in_all_queues_owns_them_after_one_pipeline() {
    let (play, step) = Play::queued_in_two([0, 0]);
    assert_eq!(step, won([own(0), own(0)]));
    assert_eq!(play.nodes(), [(0, own(0)), (1, own(0))]);
    assert!(play.unknown_nodes().is_empty());
}

#[test]
fn it_waits_in_all_queues_at_once_and_owns_when_the_last_of_them_is_its_own() {
    for order in [[0, 1], [1, 0]] {
        let (mut play, step) = Play::queued_in_two([1, 1]);
        assert_eq!(step, now([(0, ahead(0)), (0, watch_own(1)), (1, ahead(0)), (1, watch_own(1))]));
        assert_eq!(play.answers_by_directory([(0, node(0)), (0, node(1)), (1, node(0)), (1, node(1))]), Step::Wait);
        assert_eq!(play.event(gone_in(order[0], 0)), Step::Wait, "its own node is watched already");
        assert_eq!(play.event(gone_in(order[1], 0)), won([own(1), own(1)]));
    }
}

#[test]
fn the_own_node_of_a_queue_that_is_owned_early_is_watched() {
    let mut play = Play::owning_the_first_and_waiting();
    assert_eq!(play.event(gone_in(1, 0)), won([own(0), own(1)]));
    // Become owned by a list, further back in the other.
    let (mut play, step) = Play::queued_in_two([5, 5]);
    assert_eq!(step, now([(0, ahead(3)), (1, ahead(3))]));
    assert_eq!(play.answers_by_directory([(0, node(3)), (1, node(3))]), Step::Wait);
    assert_eq!(play.event(gone_in(0, 3)), now([(0, ahead(4)), (0, watch_own(5)), (0, Request::List)]));
    // Whether our own node is there is not known, so the list of this pipeline is not used.
    let step = play.answers_by_directory([(0, Answer::Missing), (0, Answer::Unknown), (0, children([5]))]);
    assert_eq!(step, retry([(0, ahead(4)), (0, watch_own(5)), (0, Request::List)]));
    assert_eq!(play.answers_by_directory([(0, Answer::Missing), (0, node(5)), (0, children([5]))]), Step::Wait);
    assert_eq!(play.event(Event::OwnDeleted(0)), DELETED);
}

#[test]
fn an_owned_queue_whose_node_is_deleted_means_a_new_contest_for_all() {
    let mut play = Play::owning_the_first_and_waiting();
    assert_eq!(play.event(Event::OwnDeleted(0)), DELETED);
    assert!(play.nodes().contains(&(1, own(1))), "it is to be deleted");

    // Deleted before the watch was placed, or the directory was made anew and another node has the number.
    for answer in [Answer::Missing, node(7)] {
        let (mut play, _) = Play::queued_in_two([0, 1]);
        assert_eq!(play.answers_by_directory([(0, answer), (1, node(0)), (1, node(1))]), MISSING);
    }

    // In the other queue.
    let mut play = Play::owning_the_first_and_waiting();
    assert_eq!(play.event(Event::OwnDeleted(1)), DELETED);
    assert!(play.nodes().contains(&(0, own(0))), "it is to be deleted");
}

#[test]
fn a_watch_on_an_owned_node_is_placed_again_when_it_is_used_up() {
    let mut play = Play::owning_the_first_and_waiting();
    assert_eq!(play.event(Event::OwnChanged(0)), now([(0, watch_own(0))]));
    assert_eq!(play.answers([Answer::Unknown]), retry([(0, watch_own(0))]));
    assert_eq!(play.answers([node(0)]), Step::Wait);
    assert_eq!(play.event(gone_in(1, 0)), won([own(0), own(1)]));
    // What was ahead in a queue that is owned does not matter any more.
    let mut play = Play::owning_the_first_and_waiting();
    assert_eq!(play.event(gone_in(0, 0)), Step::Wait);
    assert_eq!(play.event(changed(0)), Step::Wait);
}

#[test]
fn nothing_is_owned_while_it_is_unknown_whether_the_node_of_an_owned_queue_is_there() {
    // Queue 0 becomes ours in the very pipeline that was to guard queue 1.
    let (mut play, step) = Play::queued_in_two([1, 0]);
    assert_eq!(step, now([(0, ahead(0)), (0, watch_own(1)), (1, watch_own(0))]));
    let step = play.answers_by_directory([(0, Answer::Missing), (0, node(1)), (1, Answer::Unknown)]);
    assert_eq!(step, retry([(1, watch_own(0))]));
    assert_eq!(play.answers_by_directory([(1, Answer::Missing)]), MISSING);
}

#[test]
fn the_parents_of_all_queues_are_created_in_the_transaction_of_the_nodes() {
    let create = [(0, Request::CreateWithParents), (1, Request::CreateWithParents)];
    let join = create.into_iter().chain([(0, Request::List), (1, Request::List)]).collect::<Vec<_>>();
    let mut play = Play::joining_two();
    let none = [(0, Answer::NoParent), (0, children([])), (1, Answer::NoParent), (1, Answer::NoParent)];
    assert_eq!(play.answers_by_directory(none.clone()), now(join.clone()));
    assert_eq!(play.answers_by_directory(none.clone()), now(join.clone()));
    assert_eq!(play.answers_by_directory(none), retry(join), "they have gone again");
    let first = [(0, created(0)), (0, children([0])), (1, created(0)), (1, children([0]))];
    assert_eq!(play.answers_by_directory(first), won([own(0), own(0)]));
}

#[test]
fn the_queue_whose_numbers_come_again_is_named() {
    let mut play = Play::joining_two();
    let step = play.answers([Answer::Unknown, Answer::NameTaken, children([]), children([i32::MAX])]);
    let Step::Failed { queue: 1, error: ContestError::SequenceOverflow(overflow) } = step else { panic!("{step:?}") };
    assert_eq!(overflow.name, name(i32::MAX));
}

#[test]
fn a_recovery_that_finds_none_of_the_nodes_creates_all_again() {
    let mut play = Play::recovering_two();
    let none = [(0, Answer::Done), (0, children([])), (1, Answer::Done), (1, children([]))];
    assert_eq!(play.answers_by_directory(none), join());

    // They are not ours after all, which takes one pipeline longer to see.
    let mut play = Play::recovering_two();
    let some = [(0, Answer::Done), (0, children([3])), (1, Answer::Done), (1, children([]))];
    assert_eq!(play.answers_by_directory(some.clone()), now([(0, inspect(3))]), "the other waits for the outcome");
    assert_eq!(play.answers_by_directory([(0, node_of_another_session(3))]), join());
    let mut play = Play::recovering_two();
    let _ = play.answers_by_directory(some);
    assert_eq!(play.answers_by_directory([(0, Answer::Missing)]), join());

    // The directory of the first is not there.
    let mut play = Play::recovering_two();
    let no_dir = [(0, Answer::Done), (0, Answer::NoParent), (1, Answer::Done), (1, children([]))];
    let (create, join) =
        ([(0, Request::CreateWithParents), (1, Request::Create)], [(0, Request::List), (1, Request::List)]);
    assert_eq!(play.answers_by_directory(no_dir), now([create, join].concat()));
}

#[test]
fn a_recovery_that_finds_all_nodes_goes_on_with_them() {
    let mut play = Play::recovering_two();
    let all = [(0, Answer::Done), (0, children([0])), (1, Answer::Done), (1, children([0, 1]))];
    assert_eq!(play.answers_by_directory(all), now([(0, inspect(0)), (1, inspect(0)), (1, inspect(1))]));
    let step = play.answers_by_directory([(0, node(0)), (1, node_of_another_session(0)), (1, node(1))]);
    assert_eq!(step, now([(0, watch_own(0)), (1, ahead(0)), (1, watch_own(1))]));
    assert_eq!(play.nodes(), [(0, own(0)), (1, own(1))]);

    // Of several that are ours, the first is used and the others are named.
    let mut play = Play::recovering_two();
    let _ =
        play.answers_by_directory([(0, Answer::Done), (0, children([0])), (1, Answer::Done), (1, children([0, 1]))]);
    let step = play.answers_by_directory([(0, node(0)), (1, node(0)), (1, node(1))]);
    assert_eq!(step, won([own(0), own(0)]));
    assert_eq!(play.surplus(), [(1, &*name(1))]);
}

#[test]
fn a_recovery_that_finds_some_of_the_nodes_begins_anew() {
    for found in [0, 1] {
        let lost = 1 - found;
        let mut play = Play::recovering_two();
        let list = |queue| if queue == found { children([0]) } else { children([]) };
        let answers = [(0, Answer::Done), (0, list(0)), (1, Answer::Done), (1, list(1))];
        assert_eq!(play.answers_by_directory(answers), now([(found, inspect(0))]));
        assert_eq!(play.answers_by_directory([(found, node(0))]), MISSING, "queue {lost} alone is never entered");
        assert_eq!(play.nodes(), [(found, own(0))], "it is to be deleted");
    }
}

#[test]
fn queues_recover_each_at_its_own_pace() {
    // Queue 0 is found and guarded, while queue 1 goes on looking.
    let mut play = Play::recovering_two();
    let half = [(0, Answer::Done), (0, children([0])), (1, Answer::Done), (1, Answer::Unknown)];
    assert_eq!(play.answers_by_directory(half), retry([(0, inspect(0)), (1, Request::Sync), (1, Request::List)]));
    assert_eq!(play.unknown_nodes(), [0, 1]);
    let step = play.answers_by_directory([(0, node(0)), (1, Answer::Unknown), (1, Answer::Unknown)]);
    assert_eq!((play.nodes(), play.unknown_nodes()), (vec![(0, own(0))], vec![1]));
    assert_eq!(step, retry([(0, watch_own(0)), (1, Request::Sync), (1, Request::List)]));
    let step = play.answers_by_directory([(0, node(0)), (1, Answer::Done), (1, children([0]))]);
    assert_eq!(step, now([(1, inspect(0))]));
    assert_eq!(play.answers_by_directory([(1, node(0))]), won([own(0), own(0)]));

    // Queue 0 knows that it has no node. It waits for queue 1 to find out.
    let mut play = Play::recovering_two();
    let half = [(0, Answer::Done), (0, children([])), (1, Answer::Unknown), (1, Answer::Unknown)];
    assert_eq!(play.answers_by_directory(half), retry([(1, Request::Sync), (1, Request::List)]));
    assert_eq!(play.answers_by_directory([(1, Answer::Done), (1, children([]))]), join());
}

#[test]
fn calls_out_of_turn_are_errors() {
    let new = || Play::new(Contest::new(ID, SESSION, 2), DRIVER);
    assert!(is_failed(&new().event(Event::OwnDeleted(0))));
    assert!(is_failed(&new().answers([])));
    assert!(is_failed(&Play::joining_two().start()));
    assert!(is_failed(&Play::joining_two().event(gone_in(1, 0))));
    assert!(is_failed(&Play::owning_the_first_and_waiting().start()));
    for answers in [vec![], vec![node(0)]] {
        assert!(is_failed(&Play::owning_the_first_and_waiting().answers(answers)));
    }
    // Whatever the end was.
    let (owned, _) = Play::queued_in_two([0, 0]);
    let mut deleted = Play::owning_the_first_and_waiting();
    assert_eq!(deleted.event(Event::OwnDeleted(1)), DELETED);
    let mut missing = Play::recovering_two();
    let _ = missing.answers([Answer::Done, Answer::Done, children([]), children([4])]);
    assert_eq!(missing.answers([node(4)]), MISSING);
    let mut failed = Play::joining_two();
    assert!(is_failed(&failed.answers([])));
    for over in [owned, deleted, missing, failed] {
        let play = || Play::new(over.contest.clone(), DRIVER);
        assert!(is_failed(&play().start()), "{over:?}");
        assert!(is_failed(&play().answers([])), "{over:?}");
        assert!(is_failed(&play().event(Event::OwnDeleted(0))), "{over:?}");
        assert_eq!(play().nodes(), over.nodes(), "they are still to be deleted");
    }
}

#[test]
fn answers_that_do_not_fit_are_errors() {
    let is_error =
        |step: Step, at: usize| is_failed(&step) && matches!(step, Step::Failed { queue, .. } if queue == at);
    // (Answers to the first pipeline, the queue that complains.)
    let joining = [
        (vec![], 0),
        (vec![created(0), created(0), children([0])], 0),
        (vec![created(0), created(0), children([0]), children([0]), children([0])], 0),
        (vec![created(0), created(0), created(0), children([0])], 0),
        (vec![created(0), created(0), children([0]), created(0)], 1),
    ];
    for (answers, queue) in joining {
        assert!(is_error(Play::joining_two().answers(answers.clone()), queue), "{answers:?}");
    }
    // To the watch on the node of an owned queue.
    for answers in [vec![], vec![Answer::Done], vec![node(0), node(0)]] {
        let mut play = Play::owning_the_first_and_waiting();
        let _ = play.event(Event::OwnChanged(0));
        assert!(is_error(play.answers(answers.clone()), 0), "{answers:?}");
    }
    assert!(is_error(Play::owning_the_first_and_waiting().event(Event::OwnDeleted(2)), 0));
    assert!(is_error(Play::owning_the_first_and_waiting().event(gone_in(2, 0)), 0));
}

#[test]
fn after_an_interruption_one_pipeline_looks_after_all_queues() {
    let look = [(0, watch_own(0)), (1, ahead(0)), (1, watch_own(1)), (1, Request::List)];
    let interrupted = || {
        let mut play = Play::owning_the_first_and_waiting();
        assert_eq!(play.event(Event::Interrupted), now(look.clone()));
        play
    };
    let mut play = interrupted();
    assert_eq!(play.answers([node(0), node(0), node(1), children([0, 1])]), Step::Wait);
    assert_eq!(play.event(gone_in(1, 0)), won([own(0), own(1)]));
    // The node of either queue has gone.
    assert_eq!(interrupted().answers([Answer::Missing, node(0), node(1), children([0, 1])]), MISSING);
    assert_eq!(interrupted().answers([node(0), node(0), Answer::Missing, children([0])]), MISSING);
    // The other queue has become ours: won, unless it is unknown whether we have lost the first.
    let step = interrupted().answers([node(0), Answer::Missing, node(1), children([1])]);
    assert_eq!(step, won([own(0), own(1)]));
    let mut play = interrupted();
    let step = play.answers([Answer::Unknown, Answer::Missing, node(1), children([1])]);
    assert_eq!(step, retry([(0, watch_own(0))]));
    assert_eq!(play.answers([Answer::Missing]), MISSING);
    // It breaks again.
    assert_eq!(interrupted().answers([const { Answer::Unknown }; 4]), retry(look.clone()));
    // In both queues it waits.
    let (mut play, _) = Play::queued_in_two([1, 5]);
    assert_eq!(play.answers([node(0), node(1), node(3)]), Step::Wait);
    let both = [(0, ahead(0)), (0, watch_own(1)), (1, ahead(3)), (0, Request::List), (1, Request::List)];
    assert_eq!(play.event(Event::Interrupted), now(both));
}

#[test]
fn creates_come_first_in_a_pipeline_and_plain_reads_last() {
    // The queues are at different points of their recovery.
    let mut play = Play::recovering_two();
    let step = play.answers([Answer::Unknown, Answer::Done, Answer::Unknown, children([0])]);
    let requests = [(0, Request::Sync), (1, inspect(0)), (0, Request::List)];
    assert_eq!(step, retry(requests));
    // With leases and their limit.
    let mut play = Play::new(Contest::for_leases(ID, SESSION, 1, LeaseLimit::Shared), DRIVER);
    let requests = [(0, Request::Create), (0, Request::List), (1, Request::List), (1, Request::Limit)];
    assert_eq!(play.start(), now(requests));
    let mut play = Play::new(Contest::for_leases(ID, SESSION, 1, LeaseLimit::Fixed(1)), DRIVER);
    assert_eq!(play.start(), now([(0, Request::Create), (0, Request::List), (1, Request::List)]));
}

#[test]
fn it_is_queued_once_it_has_its_nodes() {
    let mut play = Play::joining_two();
    assert!(!play.contest.is_queued());
    let _ = play.answers([created(1), created(0), Answer::Unknown, Answer::Unknown]);
    assert!(play.contest.is_queued(), "it only has to see where");
    assert!(!Play::recovering_two().contest.is_queued());
    assert!(Play::owning_the_first_and_waiting().contest.is_queued());
    let mut play = Play::waiting(1);
    let _ = play.event(Event::OwnDeleted(0));
    assert!(!play.contest.is_queued());
}

fn queue_of(event: &Event) -> usize {
    match event {
        Event::AheadDeleted { queue, .. } | Event::AheadChanged { queue, .. } => *queue,
        Event::OwnDeleted(queue) | Event::OwnChanged(queue) => *queue,
        Event::Interrupted | Event::LeasesChanged | Event::LimitChanged => 0,
    }
}

proptest! {
    /// Whatever the server says: the nodes are created all together, and only when there is none of them; the creates
    /// of a transaction fail together, if it is kept to that.
    #[test]
    fn no_queue_is_ever_entered_alone(
        queues in 1..4_usize,
        seeds in prop::collection::vec(any::<u8>(), 0..60),
        events in prop::collection::vec(any_event(3), 0..12),
    ) {
        let mut contest = Contest::new(ID, SESSION, queues);
        let mut step = contest.start();
        let (mut seeds, mut events) = (seeds.into_iter(), events.into_iter());
        loop {
            step = match step {
                Step::Send { requests, .. } => {
                    prop_assert!(!requests.is_empty());
                    let created = requests.iter().filter(|(_, request)| request.is_create());
                    let created: Vec<_> = created.map(|(queue, _)| *queue).collect();
                    if !created.is_empty() {
                        prop_assert_eq!(created, (0..queues).collect::<Vec<_>>());
                        prop_assert_eq!(contest.nodes().count(), 0);
                    }
                    if seeds.len() < requests.len() {
                        return Ok(());
                    }
                    // All the creates are one transaction.
                    let outcome = fitting(&Request::Create, seeds.next().unwrap());
                    let answers = requests.iter().map(|(_, request)| match request {
                        request if request.is_create() => outcome.clone(),
                        request => fitting(request, seeds.next().unwrap_or(7)),
                    });
                    contest.answered(&DRIVER, answers.collect())
                }
                Step::Wait => match events.next() {
                    Some(event) if queue_of(&event) < queues => contest.observed(event),
                    Some(_) => Step::Wait,
                    None => return Ok(()),
                },
                Step::Won(nodes) => {
                    prop_assert_eq!(&nodes, &contest.nodes().map(|(_, node)| node.clone()).collect::<Vec<_>>());
                    prop_assert_eq!(nodes.len(), queues);
                    break;
                }
                Step::Restart(_) => break,
                Step::Refused => return Err(TestCaseError::fail("it may wait")),
                Step::Failed { error, .. } => return Err(TestCaseError::fail(error.to_string())),
            };
        }
    }
}
