//! A value in memory that checks the token and reads or writes under one mutex.

use std::sync::{Mutex, PoisonError};

use super::{FencingChecker, FencingToken, StaleToken};

/// A resource that rejects holders older than the newest one that it has seen.
///
/// If a write depends on a read, use [`read_with`](Self::read_with): afterwards no older holder can
/// change the value. A read and a write within one [`write`](Self::write) are atomic, and need no
/// `read_with`.
///
/// The resource belongs in the store, not in the holders: holders in several processes send their
/// writes and tokens to the one process that has the resource.
///
/// ```
/// use curator_recipes::FencingToken;
/// use curator_recipes::fencing::FencedResource;
///
/// let stock = FencedResource::new(10);
/// let (old, new) = (FencingToken::try_from(33)?, FencingToken::try_from(34)?);
/// let seen_by_old = stock.read_with(old, |stock| *stock)?;
/// let seen_by_new = stock.read_with(new, |stock| *stock)?;
/// // The old holder resumes before the new one writes. The value that the new holder has read is not changed.
/// assert!(stock.write(old, |stock| *stock = seen_by_old - 1).is_err());
/// stock.write(new, |stock| *stock = seen_by_new - 1)?;
/// assert_eq!(stock.into_inner(), 9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Guarantees
///
/// - Check and write are atomic, as are check and read: no write is applied after a write or a
///   [`read_with`](Self::read_with) with a higher token.
/// - So if every holder uses `read_with` before it writes, no applied write is lost: a later writer
///   has read it.
/// - [`highest`](Self::highest) never decreases.
///
/// # Caveats
///
/// - A [`read`](Self::read) without the token does not exclude older holders. An older holder may
///   write between this read and the next write: its write is confirmed, and then overwritten by a
///   holder that has not read it.
/// - Each write is a separate step. If an old holder makes several writes, the first may be applied
///   and the next rejected.
/// - It exists only in memory. To keep the value across restarts, store it with the highest token,
///   including tokens of reads, and open it with [`starting_at`](Self::starting_at).
///
/// After the storage service of Kleppmann, "How to do distributed locking" (2016). For an
/// asynchronous store see [the module](super#an-asynchronous-store).
#[derive(Debug, Default)]
pub struct FencedResource<T> {
    /// Changes only under the mutex of `value`.
    checker: FencingChecker,
    value: Mutex<T>,
}

impl<T> FencedResource<T> {
    /// Makes a resource that has seen no token, and so admits the first.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self {
            checker: FencingChecker::new(),
            value: Mutex::new(value),
        }
    }

    /// Makes a resource that has seen `highest`: the token of the last write, or of a
    /// [`read_with`](Self::read_with) since.
    #[must_use]
    pub fn starting_at(value: T, highest: FencingToken) -> Self {
        Self {
            checker: FencingChecker::starting_at(highest),
            value: Mutex::new(value),
        }
    }

    /// Calls `write` if no higher token has been seen. Blocks the thread during other writes and
    /// reads.
    ///
    /// The token counts as seen even if `write` fails or panics. After a panic the value stays as
    /// `write` left it.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] when a higher token has been seen; `write` is not called then.
    pub fn write<R>(
        &self,
        token: FencingToken,
        write: impl FnOnce(&mut T) -> R,
    ) -> Result<R, StaleToken> {
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        // Checked under the mutex: otherwise a higher token could be admitted and written before
        // this write.
        self.checker.admit(token)?;
        Ok(write(&mut value))
    }

    /// Calls `read` if no higher token has been seen, for a holder whose next write depends on it.
    /// The token counts as seen afterwards: a holder with a lower token cannot change the value.
    /// Blocks like [`write`](Self::write).
    ///
    /// Not for concurrent holders (readers of a read-write lock, several leases of a semaphore):
    /// the one with the highest token would lock out the others. If no write depends on the read,
    /// use [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// [`StaleToken`] when a higher token has been seen; `read` is not called then. The lock is
    /// lost.
    pub fn read_with<R>(
        &self,
        token: FencingToken,
        read: impl FnOnce(&T) -> R,
    ) -> Result<R, StaleToken> {
        self.write(token, |value| read(value))
    }

    /// Reads the value, without a token. Blocks like [`write`](Self::write).
    ///
    /// No later write may depend on it: see [`read_with`](Self::read_with).
    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.value.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The highest token seen, or `None` if there was none. Does not block, so the write or read
    /// with this token may still be in progress.
    #[must_use]
    pub fn highest(&self) -> Option<FencingToken> {
        self.checker.highest()
    }

    /// The value.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.value
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
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
    fn a_write_with_a_stale_token_is_rejected_before_its_closure_runs() {
        let resource = FencedResource::starting_at(0, token(34));
        let stale = resource
            .write(token(33), |_| panic!("the closure was called"))
            .unwrap_err();
        assert_eq!(
            stale,
            StaleToken {
                token: token(33),
                highest: token(34)
            }
        );
        assert_eq!(
            resource.write(token(34), |value| std::mem::replace(value, 7)),
            Ok(0)
        );
        assert_eq!(resource.read(|value| *value), 7);
        assert_eq!(resource.highest(), Some(token(34)));
        assert_eq!(resource.into_inner(), 7);
    }

    #[test]
    fn a_read_with_a_stale_token_is_rejected_before_its_closure_runs() {
        let resource = FencedResource::starting_at(7, token(34));
        let stale = resource
            .read_with(token(33), |_| panic!("the closure was called"))
            .unwrap_err();
        assert_eq!(
            stale,
            StaleToken {
                token: token(33),
                highest: token(34)
            }
        );
        assert_eq!(resource.read_with(token(35), |value| *value), Ok(7));
        assert_eq!(resource.highest(), Some(token(35)));
    }

    /// An old holder, paused between its read and its write, resumes after the new holder has read
    /// and before the new holder writes. Each adds an element. Returns the holders whose writes
    /// were confirmed, and the final elements.
    fn late_between_read_and_write(
        read: impl Fn(&FencedResource<Vec<&'static str>>, FencingToken) -> Vec<&'static str>,
    ) -> (Vec<&'static str>, Vec<&'static str>) {
        let (resource, old, new) = (FencedResource::new(Vec::new()), token(33), token(34));
        let seen_by_old = read(&resource, old);
        let seen_by_new = read(&resource, new);
        let mut acknowledged = Vec::new();
        for (token, seen, own) in [(old, seen_by_old, "old"), (new, seen_by_new, "new")] {
            let computed = [seen, vec![own]].concat();
            acknowledged.extend(
                resource
                    .write(token, |value| *value = computed)
                    .is_ok()
                    .then_some(own),
            );
        }
        (acknowledged, resource.into_inner())
    }

    #[test]
    fn no_acknowledged_write_of_an_old_holder_is_lost_when_the_new_one_has_read_with_its_token() {
        let read = |resource: &FencedResource<Vec<_>>, token| {
            resource.read_with(token, Vec::clone).unwrap()
        };
        assert_eq!(
            late_between_read_and_write(read),
            (vec!["new"], vec!["new"])
        );
    }

    #[test]
    fn a_token_in_the_write_alone_loses_an_acknowledged_write_of_an_old_holder() {
        let read = |resource: &FencedResource<Vec<_>>, _| resource.read(Vec::clone);
        assert_eq!(
            late_between_read_and_write(read),
            (vec!["old", "new"], vec!["new"])
        );
    }

    #[test]
    fn a_panicking_write_raises_the_highest_token_and_the_resource_stays_usable() {
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
        /// Each holder repeatedly reads, and then writes the value with its number added; it can
        /// pause between any steps. `turns` is the order in which the holders make their steps.
        #[test]
        fn acknowledged_writes_are_kept_in_any_order_of_reads_and_writes(turns in vec(1..6_usize, 0..60)) {
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

        /// A write is atomic across threads.
        #[test]
        fn no_thread_applies_a_write_after_one_with_a_higher_token(writers in vec(vec(1..1000_i64, 50), 4)) {
            let resource = FencedResource::new(Vec::new());
            let start = Barrier::new(writers.len() + 1);
            let admitted: usize = thread::scope(|scope| {
                let write = |numbers: &Vec<i64>| {
                    start.wait();
                    let write = |number: &i64| {
                        let written = resource.write(token(*number), |applied| {
                            // Lets the other threads reach the mutex.
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
