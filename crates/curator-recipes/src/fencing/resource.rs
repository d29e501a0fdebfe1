//! A check and a read or write as one step.

use std::sync::{Mutex, PoisonError};

use super::{FencingChecker, FencingToken, StaleToken};

/// A resource that refuses holders older than the newest one that it has seen.
///
/// If you read in order to write, use [`read_with`](Self::read_with): from then on no older holder can change what was read.
/// A read and a write within one [`write`](Self::write) are one step, and need nothing else.
///
/// It belongs in the store, not with the holders: holders in several processes send their writes and tokens to the one
/// process that has it.
///
/// ```
/// use curator_recipes::FencingToken;
/// use curator_recipes::fencing::FencedResource;
///
/// let stock = FencedResource::new(10);
/// let (old, new) = (FencingToken::try_from(33)?, FencingToken::try_from(34)?);
/// let seen_by_old = stock.read_with(old, |stock| *stock)?;
/// let seen_by_new = stock.read_with(new, |stock| *stock)?;
/// // The old holder resumes before the new one writes. What the new one has read stays true.
/// assert!(stock.write(old, |stock| *stock = seen_by_old - 1).is_err());
/// stock.write(new, |stock| *stock = seen_by_new - 1)?;
/// assert_eq!(stock.into_inner(), 9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Guarantees
///
/// - Check and write are one step, and so are check and read: no write is applied after a write or a
///   [`read_with`](Self::read_with) with a higher token.
/// - So if every holder uses `read_with` before it writes, no applied write is lost to another holder's: a later writer has
///   read it.
/// - [`highest`](Self::highest) never falls.
///
/// # Caveats
///
/// - A [`read`](Self::read) without the token keeps nobody out. An older holder may write between it and the next write, is
///   told that its write was applied, and is overwritten by a holder that has not seen it.
/// - Each write is a separate step. If an old holder makes several writes, the first may be applied and the next refused.
/// - It lives in memory, and ends with the process. If the value is to outlive that, store it with the highest token, those
///   of reads included, and open it with [`starting_at`](Self::starting_at).
///
/// After the storage service of Kleppmann, "How to do distributed locking" (2016). For an asynchronous store see
/// [the module](super#an-asynchronous-store).
#[derive(Debug, Default)]
pub struct FencedResource<T> {
    /// Changes only under the mutex of `value`.
    checker: FencingChecker,
    value: Mutex<T>,
}

impl<T> FencedResource<T> {
    /// No token has been seen yet, so the first is admitted.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self { checker: FencingChecker::new(), value: Mutex::new(value) }
    }

    /// `highest` has been seen: by the last write, or by a [`read_with`](Self::read_with) since.
    #[must_use]
    pub fn starting_at(value: T, highest: FencingToken) -> Self {
        Self { checker: FencingChecker::starting_at(highest), value: Mutex::new(value) }
    }

    /// Calls `write` if no higher token has been seen. Blocks the thread while other writes and reads are under way.
    ///
    /// The token counts as seen even if `write` fails or panics. After a panic the value is as `write` left it, and the next
    /// holder finds it like that.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] when a higher token has been seen; `write` is not called then.
    pub fn write<R>(&self, token: FencingToken, write: impl FnOnce(&mut T) -> R) -> Result<R, StaleToken> {
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the mutex: a higher token could overtake one that waits for it.
        self.checker.admit(token)?;
        Ok(write(&mut value))
    }

    /// Calls `read` if no higher token has been seen, for a holder whose next write follows from it. The token counts as
    /// seen from then on: a holder with a lower one cannot change what was read. Blocks as [`write`](Self::write) does.
    ///
    /// Not for holders that hold at the same time (readers of a read-write lock, leases of a semaphore with several): the
    /// first with the highest token would shut the others out. If you only look, use [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// [`StaleToken`] when a higher token has been seen; `read` is not called then. The lock is lost.
    pub fn read_with<R>(&self, token: FencingToken, read: impl FnOnce(&T) -> R) -> Result<R, StaleToken> {
        self.write(token, |value| read(value))
    }

    /// Looks at the value, without a token. Blocks as [`write`](Self::write) does.
    ///
    /// No later write may follow from it: see [`read_with`](Self::read_with).
    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.value.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The highest token seen, or `None` if there was none. Does not block, so the write or read that it belongs to may
    /// still be under way.
    #[must_use]
    pub fn highest(&self) -> Option<FencingToken> {
        self.checker.highest()
    }

    /// The value.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.value.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn token(number: i64) -> FencingToken {
        FencingToken::try_from(number).unwrap()
    }

    #[test]
    fn a_refused_write_is_not_called() {
        let resource = FencedResource::starting_at(0, token(34));
        let stale = resource.write(token(33), |_| panic!("it was called")).unwrap_err();
        assert_eq!(stale, StaleToken { token: token(33), highest: token(34) });
        assert_eq!(resource.write(token(34), |value| std::mem::replace(value, 7)), Ok(0));
        assert_eq!(resource.read(|value| *value), 7);
        assert_eq!(resource.highest(), Some(token(34)));
        assert_eq!(resource.into_inner(), 7);
    }

    #[test]
    fn a_refused_read_is_not_called() {
        let resource = FencedResource::starting_at(7, token(34));
        let stale = resource.read_with(token(33), |_| panic!("it was called")).unwrap_err();
        assert_eq!(stale, StaleToken { token: token(33), highest: token(34) });
        assert_eq!(resource.read_with(token(35), |value| *value), Ok(7));
        assert_eq!(resource.highest(), Some(token(35)));
    }

    /// An old holder, stopped between its read and its write, resumes after the new one has read and before it writes. Each
    /// adds an element. Returns those whose write was said to be applied, and those that are there in the end.
    fn late_between_read_and_write(
        read: impl Fn(&FencedResource<Vec<&'static str>>, FencingToken) -> Vec<&'static str>,
    ) -> (Vec<&'static str>, Vec<&'static str>) {
        let (resource, old, new) = (FencedResource::new(Vec::new()), token(33), token(34));
        let seen_by_old = read(&resource, old);
        let seen_by_new = read(&resource, new);
        let mut acknowledged = Vec::new();
        for (token, seen, own) in [(old, seen_by_old, "old"), (new, seen_by_new, "new")] {
            let computed = [seen, vec![own]].concat();
            acknowledged.extend(resource.write(token, |value| *value = computed).is_ok().then_some(own));
        }
        (acknowledged, resource.into_inner())
    }

    #[test]
    fn no_acknowledged_write_of_an_old_holder_is_lost_when_the_new_one_has_read_with_its_token() {
        let read = |resource: &FencedResource<Vec<_>>, token| resource.read_with(token, Vec::clone).unwrap();
        assert_eq!(late_between_read_and_write(read), (vec!["new"], vec!["new"]));
    }

    #[test]
    fn a_token_in_the_write_alone_loses_an_acknowledged_write_of_an_old_holder() {
        let read = |resource: &FencedResource<Vec<_>>, _| resource.read(Vec::clone);
        assert_eq!(late_between_read_and_write(read), (vec!["old", "new"], vec!["new"]));
    }

    #[test]
    fn the_token_of_a_write_that_panics_counts_and_the_resource_goes_on() {
        let resource = FencedResource::new(0);
        let panicked = thread::scope(|scope| {
            let write = || {
                resource.write(token(2), |value| {
                    *value = 1;
                    panic!("half done");
                })
            };
            scope.spawn(write).join()
        });
        assert!(panicked.is_err());
        assert!(resource.write(token(1), |_| ()).is_err());
        assert_eq!(resource.write(token(2), |value| *value), Ok(1));
        assert_eq!(resource.into_inner(), 1);
    }

    proptest! {
        /// A holder reads, then writes what it has read with its number added, over and over, and stops at any moment for
        /// any time; `turns` says who makes its next step.
        #[test]
        fn in_any_order_of_reads_and_writes_what_was_acknowledged_stays(turns in vec(1..6_usize, 0..60)) {
            let resource = FencedResource::new(Vec::new());
            let mut seen: [Option<Vec<usize>>; 6] = Default::default();
            let mut acknowledged = Vec::new();
            for holder in turns {
                let own = token(holder as i64);
                match seen[holder].take() {
                    None => seen[holder] = resource.read_with(own, Vec::clone).ok(),
                    Some(mut computed) => {
                        computed.push(holder);
                        if resource.write(own, |value| *value = computed).is_ok() {
                            acknowledged.push(holder);
                        }
                    }
                }
            }
            prop_assert_eq!(resource.into_inner(), acknowledged);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// That a write is one step, on threads.
        #[test]
        fn on_any_threads_none_is_applied_after_a_higher_one(writers in vec(vec(1..1000_i64, 50), 4)) {
            let resource = FencedResource::new(Vec::new());
            let start = Barrier::new(writers.len() + 1);
            let admitted: usize = thread::scope(|scope| {
                let write = |numbers: &Vec<i64>| {
                    start.wait();
                    let write = |number: &i64| {
                        let written = resource.write(token(*number), |applied| {
                            // The others get to the mutex meanwhile.
                            thread::yield_now();
                            applied.push(*number);
                        });
                        written.is_ok()
                    };
                    numbers.iter().filter(|number| write(number)).count()
                };
                let writers: Vec<_> = writers.iter().map(|numbers| scope.spawn(move || write(numbers))).collect();
                start.wait();
                let mut seen = None;
                while writers.iter().any(|writer| !writer.is_finished()) {
                    let highest = resource.highest();
                    assert!(seen <= highest, "{seen:?} fell to {highest:?}");
                    seen = highest;
                }
                writers.into_iter().map(|writer| writer.join().unwrap()).sum()
            });
            let applied = resource.into_inner();
            prop_assert_eq!(applied.len(), admitted);
            prop_assert!(applied.is_sorted(), "{:?}", applied);
            prop_assert_eq!(applied.last(), writers.iter().flatten().max());
        }
    }
}
