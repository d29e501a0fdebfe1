use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn a_number_is_read_as_it_is_defined(
        parts in prop::collection::vec(
            prop_oneof![
                Just("lock-".to_owned()), Just("-".to_owned()), Just("0".to_owned()), Just("k-0".to_owned()), Just("ä".to_owned()),
                any::<i32>().prop_map(|number| format!("{number:010}")), "[0-9]{8,11}",
            ],
            0..5,
        ),
        lock_name in prop_oneof![Just("lock-"), Just("k-0"), Just("-"), Just("0-"), Just("0"), Just("00"), Just("ä"), Just("")],
    ) {
        let child = parts.concat();
        prop_assert_eq!(sequence_after(&child, lock_name), spelled_after(&child, lock_name), "{:?} after {:?}", child, lock_name);
    }
}

/// Checks the guarantees of [`LockInternalsDriver`] for one queue, at every place in it.
///
/// `gone` says which nodes disappear after the verdict.
pub(crate) fn check_guarantees(driver: &dyn LockInternalsDriver, children: &[String], gone: &[bool]) {
    let queue = Queue::of(children.iter().cloned(), driver).unwrap();
    for (own, entry) in queue.iter().enumerate() {
        let verdict = driver.verdict(&queue, own);
        let only_before = queue.iter().take(own + 1).map(|entry| entry.name.clone());
        let only_before = Queue::of(only_before, driver).unwrap();
        assert_eq!(driver.verdict(&only_before, own), verdict, "nodes behind {own} matter in {queue:?}");

        let blocker = match verdict {
            Verdict::Owns => own,
            Verdict::WaitsFor(blocker) => {
                assert!(blocker < own, "{own} waits for {blocker} in {queue:?}");
                blocker
            }
        };
        let stay = |&(i, _): &(usize, _)| i == own || i == blocker || !gone.get(i).copied().unwrap_or(false);
        let later = queue.iter().enumerate().filter(stay).map(|(_, entry)| entry.name.clone());
        let later = Queue::of(later, driver).unwrap();
        let later_verdict = driver.verdict(&later, later.position(&entry.name).unwrap());
        assert_eq!(
            matches!(later_verdict, Verdict::Owns),
            matches!(verdict, Verdict::Owns),
            "{own} in {queue:?}, then in {later:?}"
        );
    }
}

#[test]
fn kinds_have_names() {
    use ParticipantKind::{Exclusive, Lease, Read, Write};
    let names = [Exclusive, Read, Write, Lease].map(|kind| kind.to_string());
    assert_eq!(names, ["exclusive", "read", "write", "lease"]);
    assert_eq!(StandardLockInternalsDriver::new().kind("lock-0000000001"), Exclusive);
}
