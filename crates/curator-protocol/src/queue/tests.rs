use proptest::prelude::*;

use super::*;
use crate::StandardLockInternalsDriver;

fn queue(children: &[&str]) -> Queue {
    Queue::of(children.iter().copied(), &StandardLockInternalsDriver::new()).unwrap()
}

fn names(queue: &Queue) -> Vec<&str> {
    queue.iter().map(|entry| entry.name.as_str()).collect()
}

#[test]
fn an_empty_directory_is_an_empty_queue() {
    let empty = queue(&[]);
    assert!(empty.is_empty());
    assert_eq!((empty.len(), empty.get(0), empty.position("lock-0000000000")), (0, None, None));
    assert_eq!(queue(&["-foo", "zfoo", "lock-x"]), empty);
}

#[test]
fn the_order_is_that_of_the_numbers() {
    let queue = queue(&["b-lock-0000000011", "z-lock-0000000009", "zfoo", "c-lock-0000000010"]);
    assert_eq!(names(&queue), ["z-lock-0000000009", "c-lock-0000000010", "b-lock-0000000011"]);
    assert_eq!(queue.position("c-lock-0000000010"), Some(1));
    assert_eq!(queue.position("zfoo"), None);
    assert_eq!(queue.get(2).map(|entry| entry.sequence), Some(11));
    assert_eq!(queue.get(3), None);
    assert_eq!((&queue).into_iter().count(), queue.len());
}

#[test]
fn without_leaves_the_others_in_order() {
    let all = queue(&["lock-0000000001", "lock-0000000002", "lock-0000000003"]);
    assert_eq!(names(&all.without(0)), ["lock-0000000002", "lock-0000000003"]);
    assert_eq!(names(&all.without(1)), ["lock-0000000001", "lock-0000000003"]);
    assert_eq!(all.without(3), all);
}

#[test]
fn an_overflow_is_refused() {
    for name in ["a-lock-2147483647", "b-lock--2147483648", "b-lock--000000001"] {
        let refused = Queue::of(["a-lock-0000000001", name], &StandardLockInternalsDriver::new()).unwrap_err();
        assert_eq!(refused.name, name);
        assert!(refused.to_string().contains("used up"), "{refused}");
    }
    assert_eq!(queue(&["a-lock-2147483646"]).len(), 1);
}

#[test]
fn two_nodes_with_one_number_are_refused() {
    let children = ["b-lock-0000000010", "z-lock-0000000009", "zfoo", "a-lock-0000000010"];
    let refused = Queue::of(children, &StandardLockInternalsDriver::new()).unwrap_err();
    assert_eq!(refused.name, "b-lock-0000000010");
}

/// Contenders with distinct numbers.
fn contenders() -> impl Strategy<Value = Vec<String>> {
    let numbered = prop::collection::btree_map(0..i32::MAX, "[a-f0-9]{4}", 0..20);
    let name = |(number, id)| format!("_c_{id}-lock-{number:010}");
    numbered.prop_map(move |numbered| numbered.into_iter().map(name).collect::<Vec<_>>()).prop_shuffle()
}

fn foreign() -> impl Strategy<Value = String> {
    "[-a-z0-9]{0,12}|lock-[0-9]{11,12}|_c_[a-f]{4}-lease-[0-9]{10}"
        .prop_filter("a contender after all", |name| !name.contains("lock-") || name.len() > 15)
}

/// Children, some of which do not contend for the lock, and the same children shuffled.
fn directory() -> impl Strategy<Value = (Vec<String>, Vec<String>)> {
    let foreigners = prop::collection::vec(foreign(), 0..10);
    (contenders(), foreigners).prop_flat_map(|(contenders, foreigners)| {
        let all: Vec<_> = contenders.iter().cloned().chain(foreigners).collect();
        (Just(contenders), Just(all).prop_shuffle())
    })
}

proptest! {
    #[test]
    fn foreign_children_and_the_order_of_the_list_change_nothing((contenders, shuffled) in directory()) {
        let driver = StandardLockInternalsDriver::new();
        let (plain, mixed) = (Queue::of(&contenders, &driver), Queue::of(&shuffled, &driver));
        prop_assert_eq!(plain, mixed);
    }

    #[test]
    fn the_numbers_rise_and_every_contender_has_a_place((contenders, shuffled) in directory()) {
        let queue = Queue::of(&shuffled, &StandardLockInternalsDriver::new()).unwrap();
        prop_assert!(queue.iter().is_sorted_by_key(|entry| entry.sequence));
        prop_assert_eq!(queue.len(), contenders.len());
        for name in &contenders {
            let place = queue.position(name).unwrap();
            prop_assert_eq!(&queue.get(place).unwrap().name, name);
        }
    }

    #[test]
    fn one_number_from_the_end_spoils_the_queue(
        (_, mut children) in directory(),
        number in prop_oneof![i32::MIN..0, Just(i32::MAX)],
    ) {
        let name = format!("_c_x-lock-{number:010}");
        children.push(name.clone());
        let refused = Queue::of(&children, &StandardLockInternalsDriver::new());
        prop_assert_eq!(refused, Err(SequenceOverflow { name }));
    }

    #[test]
    fn without_takes_out_exactly_one((contenders, _) in directory(), place in 0..20_usize) {
        let queue = Queue::of(&contenders, &StandardLockInternalsDriver::new()).unwrap();
        let less = queue.without(place);
        let mut back: Vec<_> = less.iter().cloned().collect();
        back.extend(queue.get(place).cloned());
        back.sort();
        prop_assert!(back.iter().eq(queue.iter()));
    }
}
