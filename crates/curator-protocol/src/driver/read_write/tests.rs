use proptest::prelude::*;

use super::super::tests::check_guarantees;
use super::*;

const DRIVERS: [&dyn LockInternalsDriver; 2] =
    [&ReadLockInternalsDriver, &WriteLockInternalsDriver];

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn read(sequence: i32) -> String {
    format!("_c_x-__READ__{sequence:010}")
}

fn write(sequence: i32) -> String {
    format!("_c_x-__WRIT__{sequence:010}")
}

/// The verdict of both drivers on this node in a directory with these children.
fn verdict_of(name: &str, children: &[String]) -> Option<String> {
    let [first, second] = DRIVERS.map(|driver| {
        let queue = Queue::of(children, driver).unwrap();
        match driver.verdict(&queue, queue.position(name).unwrap()) {
            Verdict::Owns => None,
            Verdict::WaitsFor(place) => Some(queue.get(place).unwrap().name.clone()),
        }
    });
    assert_eq!(first, second);
    first
}

#[test]
fn node_names_match_curator() {
    let reader = ReadLockInternalsDriver.node_prefix(&id(1));
    assert_eq!(reader, "_c_00000000-0000-0000-0000-000000000001-__READ__");
    let writer = WriteLockInternalsDriver.node_prefix(&id(1));
    assert_eq!(writer, "_c_00000000-0000-0000-0000-000000000001-__WRIT__");
    assert_eq!(
        downgraded_read_name(&id(1), 12),
        format!("{reader}0000000012")
    );
    assert_eq!(
        downgraded_read_name(&id(1), i32::MAX),
        format!("{reader}2147483647")
    );
}

#[test]
fn the_last_marker_in_a_node_name_decides_its_kind() {
    use ParticipantKind::{Read, Write};
    let cases = [
        ("__READ__0000000000", Some((Read, 0))),
        ("__WRIT__0000000000", Some((Write, 0))),
        (
            "_c_00000000-0000-0000-0000-000000000001-__READ__0000000012",
            Some((Read, 12)),
        ),
        ("__READ__0000000001__WRIT__0000000002", Some((Write, 2))),
        ("__WRIT__0000000001__READ__0000000002", Some((Read, 2))),
        ("__READ____WRIT__0000000002", Some((Write, 2))),
        // After an overflow.
        ("_c_x-__READ__-2147483648", Some((Read, i32::MIN))),
        // Not a node of this lock.
        ("", None),
        ("__READ__", None),
        ("__WRIT__12", None),
        ("__READ__0000000001__WRIT__", None),
        ("__WRITE__0000000001", None),
        ("_c_x-lock-0000000001", None),
    ];
    for (child, expected) in cases {
        for driver in DRIVERS {
            assert_eq!(
                driver.sequence(child),
                expected.map(|(_, sequence)| sequence),
                "{child:?}"
            );
            let kind = expected.map_or(ParticipantKind::Exclusive, |(kind, _)| kind);
            assert_eq!(driver.kind(child), kind, "{child:?}");
        }
    }
}

#[test]
fn a_reader_waits_for_the_nearest_writer_and_a_writer_for_the_nearest_node() {
    let queue = [
        read(0),
        read(1),
        write(2),
        read(3),
        write(4),
        write(5),
        read(6),
        read(7),
        write(8),
    ];
    let cases = [
        (read(0), None),
        (read(1), None),
        (write(2), Some(read(1))),
        (read(3), Some(write(2))),
        (write(4), Some(read(3))),
        (write(5), Some(write(4))),
        (read(6), Some(write(5))),
        (read(7), Some(write(5))),
        (write(8), Some(read(7))),
    ];
    for (name, expected) in cases {
        assert_eq!(verdict_of(&name, &queue), expected, "{name}");
    }
    let foreign = ["", "zfoo", "_c_x-lock-0000000000"].map(str::to_owned);
    assert_eq!(
        verdict_of(&write(1), &[foreign.as_slice(), &[write(1)]].concat()),
        None
    );
}

#[test]
fn a_write_node_may_share_its_number_with_read_nodes_but_not_with_a_write_node() {
    let reads = [1, 2].map(|reader| downgraded_read_name(&id(reader), 5));
    let [one, other] = [3, 4].map(|writer| {
        format!(
            "{}{:010}",
            WriteLockInternalsDriver.node_prefix(&id(writer)),
            5
        )
    });
    for driver in DRIVERS {
        let allowed = [
            vec![&reads[0], &one],
            vec![&reads[0], &reads[1], &one],
            vec![&reads[0], &reads[1]],
        ];
        for children in allowed {
            let queue = Queue::of(children.iter().map(|name| name.as_str()), driver).unwrap();
            assert!(
                (0..queue.len()).all(|own| driver.verdict(&queue, own) == Verdict::Owns),
                "{queue:?}"
            );
        }
        for children in [vec![&one, &other], vec![&one, &reads[0], &other]] {
            let refused = Queue::of(children.iter().map(|name| name.as_str()), driver).unwrap_err();
            assert_eq!(&refused.name, &other);
        }
        // An exhausted counter is an error for readers too.
        assert!(Queue::of([read(i32::MAX)], driver).is_err());
        assert!(Queue::of([write(i32::MAX)], driver).is_err());
    }
}

/// A number, the kinds of nodes that have it (0: write, 1: read, 2: both), and whether the read
/// node's name sorts first.
fn holder() -> impl Strategy<Value = (i32, u8, bool)> {
    (0..12_i32, 0..3_u8, any::<bool>())
}

fn children(holders: &[(i32, u8, bool)]) -> Vec<String> {
    let mut names = Vec::new();
    for &(sequence, kinds, read_first) in holders {
        let [reader, writer] = if read_first { [1, 2] } else { [2, 1] };
        if kinds != 0 {
            names.push(downgraded_read_name(&id(reader), sequence));
        }
        if kinds != 1 {
            names.push(format!(
                "{}{sequence:010}",
                WriteLockInternalsDriver.node_prefix(&id(writer))
            ));
        }
    }
    names
}

fn mixed() -> impl Strategy<Value = Vec<(i32, u8, bool)>> {
    prop::collection::vec(holder(), 0..8).prop_map(|mut holders| {
        holders.sort_unstable();
        holders.dedup_by_key(|(sequence, ..)| *sequence);
        holders
    })
}

proptest! {
    #[test]
    fn both_drivers_give_their_guarantees(holders in mixed(), gone in prop::collection::vec(any::<bool>(), 16)) {
        for driver in DRIVERS {
            check_guarantees(driver, &children(&holders), &gone);
        }
    }
}
