use proptest::prelude::*;

use super::*;

fn number() -> impl Strategy<Value = String> {
    let spelled = |number: i32| format!("{number:010}");
    // Numbers from -1,000,000,000 downwards have ten digits after the minus sign.
    prop_oneof![
        any::<i32>().prop_map(spelled),
        (i32::MIN..=-1_000_000_000).prop_map(spelled),
        "[0-9]{8,11}"
    ]
}

proptest! {
    #[test]
    fn the_fast_path_returns_the_same_sequence_numbers_as_the_slow_path(
        before in prop::collection::vec(prop_oneof!["lock-|k-0|-|0-|0|ä", number()], 0..3),
        lock_name in "lock-|k-0|-|0-|0|00|ä|",
        is_named in any::<bool>(),
        number in number(),
    ) {
        let child = [&*before.concat(), if is_named { &*lock_name } else { "" }, &*number].concat();
        let fast = sequence_after(&child, &lock_name);
        let slow = sequence_after_slow(&child, &lock_name);
        prop_assert_eq!(fast, slow, "{:?} after {:?}", child, lock_name);
    }
}

/// Checks the guarantees of [`LockInternalsDriver`] for one queue, at every place in it.
///
/// `gone` marks the nodes that are deleted after the verdict.
pub(crate) fn check_guarantees(
    driver: &dyn LockInternalsDriver,
    children: &[String],
    gone: &[bool],
) {
    let queue = Queue::of(children.iter().cloned(), driver).unwrap();
    for (own, entry) in queue.iter().enumerate() {
        let verdict = driver.verdict(&queue, own);
        let only_before = queue.iter().take(own + 1).map(|entry| entry.name.clone());
        let only_before = Queue::of(only_before, driver).unwrap();
        assert_eq!(
            driver.verdict(&only_before, own),
            verdict,
            "nodes behind {own} matter in {queue:?}"
        );

        let blocker = match verdict {
            Verdict::Owns => own,
            Verdict::WaitsFor(blocker) => {
                assert!(blocker < own, "{own} waits for {blocker} in {queue:?}");
                blocker
            }
        };
        let later = queue
            .iter()
            .enumerate()
            .filter(|&(i, _): &(usize, _)| {
                i == own || i == blocker || !gone.get(i).copied().unwrap_or(false)
            })
            .map(|(_, entry)| entry.name.clone());
        let later = Queue::of(later, driver).unwrap();
        let later_verdict = driver.verdict(&later, later.position(&entry.name).unwrap());
        assert_eq!(
            matches!(later_verdict, Verdict::Owns),
            matches!(verdict, Verdict::Owns),
            "{own} in {queue:?}, then in {later:?}"
        );
    }
}
