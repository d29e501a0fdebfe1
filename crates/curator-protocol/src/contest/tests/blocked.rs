//! Nodes that cannot be deleted, and the contests that they block.

use super::*;

#[test]
fn a_mutex_node_is_blocked_only_by_nodes_before_it() {
    let name = |number: i32| format!("_c_x-lock-{number:010}");
    assert!(blocks(&DRIVER, &name(1), &name(2)));
    // Any node before ours blocks, not only the nearest.
    assert!(blocks(&DRIVER, &name(1), &name(9)));
    assert!(!blocks(&DRIVER, &name(3), &name(2)));
    assert!(!blocks(&DRIVER, &name(2), &name(2)));
    assert!(!blocks(&DRIVER, "_c_x-lease-0000000001", &name(2)));
    assert!(!blocks(&DRIVER, "_c_x-lock-…", &name(2)));
}

#[test]
fn a_read_node_blocks_no_reader() {
    let read = |n: i32| format!("_c_x-__READ__{n:010}");
    let write = |n: i32| format!("_c_x-__WRIT__{n:010}");
    for driver in [
        &ReadLockInternalsDriver as &dyn LockInternalsDriver,
        &WriteLockInternalsDriver,
    ] {
        assert!(!blocks(driver, &read(1), &read(2)));
        assert!(blocks(driver, &read(1), &write(2)));
        assert!(blocks(driver, &write(1), &read(2)));
        assert!(blocks(driver, &write(1), &write(2)));
        assert!(!blocks(driver, &write(3), &read(2)));
        // The writer's read lock.
        let beside = downgraded_read_name(&Uuid::new_v4(), 2);
        assert!(!blocks(driver, &beside, &write(2)));
    }
}

#[test]
fn a_contest_is_blocked_by_a_node_before_its_own_in_the_same_queue() {
    let run = Run::waiting(5);
    let names = [name(7), name(5), name(2), name(4)];
    let [behind, own, far, near] = names.each_ref().map(|name| (0, name.as_str()));
    let blocked_by = |stuck: &[(usize, &str)]| run.contest.blocked_by(&DRIVER, stuck);
    assert_eq!(blocked_by(&[]), None);
    assert_eq!(blocked_by(&[behind, own]), None);
    assert_eq!(
        blocked_by(&[behind, far, near]),
        Some(1),
        "the first node of the list that blocks"
    );
    assert_eq!(
        blocked_by(&[(1, far.1)]),
        None,
        "a node of another directory"
    );
    assert_eq!(
        Run::recovering().contest.blocked_by(&DRIVER, &[far]),
        None,
        "the contest has no known node"
    );

    let run = Run::owning_the_first_and_waiting();
    let first = name(0);
    assert_eq!(
        run.contest.blocked_by(&DRIVER, &[(0, &first)]),
        None,
        "its own node"
    );
    assert_eq!(
        run.contest.blocked_by(&DRIVER, &[(0, &first), (1, &first)]),
        Some(1)
    );
}

#[test]
fn a_contest_that_has_not_started_is_blocked_as_if_it_were_last_in_its_queue() {
    let new = |queues| Contest::new(Uuid::new_v4(), 1, queues);
    let first = name(0);
    let late = name(i32::MAX - 2);
    for node in [&first, &late] {
        assert_eq!(new(1).blocked_by(&DRIVER, &[(0, node)]), Some(0));
        assert_eq!(
            new(2).blocked_by(&DRIVER, &[(1, "foreign"), (1, node)]),
            Some(1)
        );
        assert_eq!(
            new(1).blocked_by(&DRIVER, &[(1, node)]),
            None,
            "a node of another directory"
        );
    }
    let read = [(0, "_c_x-__READ__0000000001")];
    assert_eq!(new(1).blocked_by(&ReadLockInternalsDriver, &read), None);
    assert_eq!(new(1).blocked_by(&WriteLockInternalsDriver, &read), Some(0));
    let mut started = new(1);
    let _ = started.start();
    assert_eq!(
        started.blocked_by(&DRIVER, &[(0, &first)]),
        None,
        "its own node may be before that node"
    );
}
