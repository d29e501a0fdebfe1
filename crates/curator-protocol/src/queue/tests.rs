use super::*;
use crate::StandardLockInternalsDriver;

fn queue(children: &[&str]) -> Queue {
    Queue::of(
        children.iter().copied(),
        &StandardLockInternalsDriver::new(),
    )
    .unwrap()
}

fn names(queue: &Queue) -> Vec<&str> {
    queue.iter().map(|entry| entry.name.as_str()).collect()
}

#[test]
fn a_queue_is_ordered_by_sequence_number() {
    let queue = queue(&[
        "b-lock-0000000011",
        "z-lock-0000000009",
        "zfoo",
        "c-lock-0000000010",
    ]);
    assert_eq!(
        names(&queue),
        [
            "z-lock-0000000009",
            "c-lock-0000000010",
            "b-lock-0000000011"
        ]
    );
    assert_eq!(queue.position("c-lock-0000000010"), Some(1));
    assert_eq!(queue.position("zfoo"), None);
    assert_eq!(queue.get(2).map(|entry| entry.sequence), Some(11));
    assert_eq!(queue.get(3), None);
    assert_eq!((&queue).into_iter().count(), queue.len());
}

#[test]
fn a_queue_without_one_entry_keeps_its_order() {
    let all = queue(&["lock-0000000001", "lock-0000000002", "lock-0000000003"]);
    assert_eq!(
        names(&all.without(0)),
        ["lock-0000000002", "lock-0000000003"]
    );
    assert_eq!(
        names(&all.without(1)),
        ["lock-0000000001", "lock-0000000003"]
    );
    assert_eq!(all.without(3), all);
}

#[test]
fn an_overflow_and_a_duplicate_number_are_refused() {
    // The last of these repeats another node's number.
    for name in [
        "a-lock-2147483647",
        "b-lock--2147483648",
        "b-lock--000000001",
        "b-lock-0000000010",
    ] {
        // The server's list has no order: the refused node may come first.
        let children = ["zfoo", name, "a-lock-0000000010", "z-lock-0000000009"];
        let refused = Queue::of(children, &StandardLockInternalsDriver::new()).expect_err(name);
        assert_eq!(refused.name, name);
        assert!(refused.to_string().contains("used up"), "{refused}");
    }
    assert_eq!(queue(&["a-lock-2147483646"]).len(), 1);
}
