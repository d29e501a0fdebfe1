//! A check and a write that are one step.

use std::sync::{Mutex, PoisonError};

use super::{FencingChecker, FencingToken, StaleToken};

/// A resource that only takes writes of the newest holder.
///
/// It stands where the store is, not where the holders are: holders in several processes send their writes and tokens to
/// the one process that has it.
///
/// ```
/// use curator_recipes::FencingToken;
/// use curator_recipes::fencing::FencedResource;
///
/// let orders = FencedResource::new(Vec::new());
/// let (old, new) = (FencingToken::from_i64(33)?, FencingToken::from_i64(34)?);
/// orders.write(old, |orders| orders.push("tea"))?;
/// orders.write(new, |orders| orders.push("coffee"))?;
/// assert!(orders.write(old, |orders| orders.clear()).is_err());
/// assert_eq!(orders.into_inner(), ["tea", "coffee"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Guarantees
///
/// - Check and write are one step: no write is applied after one with a higher token.
/// - [`highest`](Self::highest) never falls.
///
/// # Caveats
///
/// The memory ends with the process. What outlives it is to be stored with its token, and opened with
/// [`starting_at`](Self::starting_at).
///
/// After the storage service of Kleppmann, "How to do distributed locking" (2016). For an asynchronous store see
/// [the module](super#an-asynchronous-store).
#[derive(Debug, Default)]
pub struct FencedResource<T> {
    /// Changes under the mutex of `value` only.
    checker: FencingChecker,
    value: Mutex<T>,
}

impl<T> FencedResource<T> {
    /// Nobody has written yet, so the first token is admitted.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self { checker: FencingChecker::new(), value: Mutex::new(value) }
    }

    /// The last write was made with the token `highest`.
    #[must_use]
    pub fn starting_at(value: T, highest: FencingToken) -> Self {
        Self { checker: FencingChecker::starting_at(highest), value: Mutex::new(value) }
    }

    /// Calls `write` if no higher token has been seen. Waits for writes and reads that are under way, by blocking its
    /// thread.
    ///
    /// The token counts as seen also if `write` fails or panics. After a panic the value is as `write` left it, and the
    /// next holder finds it so.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] when a higher token has been seen; `write` is not called then.
    pub fn write<R>(&self, token: FencingToken, write: impl FnOnce(&mut T) -> R) -> Result<R, StaleToken> {
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the mutex: a token that waits for it could be outrun by a higher one.
        self.checker.admit(token)?;
        Ok(write(&mut value))
    }

    /// Looks at the value, without a token. Waits as [`write`](Self::write) does.
    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.value.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The highest token seen, or `None` if there was none. Does not wait, so the write that it belongs to may be under
    /// way.
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
        FencingToken::from_i64(number).unwrap()
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
        /// A write is one step, so every interleaving of writers is a sequence of writes.
        #[test]
        fn in_any_order_of_writes_none_is_applied_after_a_higher_one(numbers in vec(1..20_i64, 0..50)) {
            let resource = FencedResource::new(Vec::new());
            let mut seen = None;
            for token in numbers.into_iter().map(token) {
                let written = resource.write(token, |applied| applied.push(token));
                prop_assert_eq!(written.is_ok(), seen <= Some(token));
                if let Err(stale) = written {
                    prop_assert_eq!((stale.token, Some(stale.highest)), (token, seen));
                }
                seen = seen.max(Some(token));
                prop_assert_eq!(resource.highest(), seen);
            }
            prop_assert!(resource.into_inner().is_sorted());
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
