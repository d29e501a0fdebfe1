use proptest::prelude::*;

use super::super::tests::check_guarantees;
use super::*;

#[test]
fn node_names_match_curator() {
    let id = Uuid::from_u128(1);
    let mutex = StandardLockInternalsDriver::default();
    assert_eq!(
        mutex.node_prefix(&id),
        "_c_00000000-0000-0000-0000-000000000001-lock-"
    );
    assert!(mutex.predecessors_are_final());
    let lease = StandardLockInternalsDriver::with_lock_name("lease-");
    assert_eq!(
        lease.node_prefix(&id),
        "_c_00000000-0000-0000-0000-000000000001-lease-"
    );
    assert_eq!(
        lease.sequence("_c_00000000-0000-0000-0000-000000000001-lease-0000000003"),
        Some(3)
    );
}

#[test]
fn only_suffixes_that_the_server_writes_are_sequence_numbers() {
    let cases = [
        ("lock-0000000000", Some(0)),
        (
            "_c_00000000-0000-0000-0000-000000000001-lock-0000000012",
            Some(12),
        ),
        ("_c_lock-0000000001-lock-0000000012", Some(12)),
        ("lock-2147483647", Some(i32::MAX)),
        // After an overflow.
        ("lock--2147483648", Some(i32::MIN)),
        ("_c_x-lock--000000001", Some(-1)),
        // Not a node of this lock.
        ("", None),
        ("lock-", None),
        ("_c_x-lock-12", None),
        ("lock-00000000010", None),
        ("lock-+000000001", None),
        ("lock--1", None),
        ("lock-2147483648", None),
        ("lock-0000000001-", None),
        ("lease-0000000001", None),
        ("lock-٠٠٠٠٠٠٠٠٠١", None),
        ("zámek-lock-日本", None),
    ];
    let driver = StandardLockInternalsDriver::new();
    for (child, expected) in cases {
        assert_eq!(driver.sequence(child), expected, "{child:?}");
    }
}

proptest! {
    #[test]
    fn the_standard_driver_gives_its_guarantees(
        numbers in prop::collection::btree_set(0..1000_i32, 0..8),
        gone in prop::collection::vec(any::<bool>(), 8),
    ) {
        let children: Vec<_> = numbers.iter().map(|n| format!("_c_x-lock-{n:010}")).collect();
        check_guarantees(&StandardLockInternalsDriver::new(), &children, &gone);
    }
}
