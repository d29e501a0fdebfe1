//! Remembers the highest token that a store has seen, and rejects lower ones.

use std::sync::atomic::{AtomicI64, Ordering};

use super::FencingToken;

use crate::debug::debug_as_text;

/// Less than any token.
const NONE: i64 = 0;

/// Remembers the highest token seen for one resource, and rejects lower ones.
///
/// ```
/// use curator_recipes::FencingToken;
/// use curator_recipes::fencing::FencingChecker;
///
/// let checker = FencingChecker::new();
/// let (old, new) = (FencingToken::try_from(33)?, FencingToken::try_from(34)?);
/// checker.admit(old)?;
/// checker.admit(old)?; // the same holder writes again
/// checker.admit(new)?; // the next one reads, and writes later
/// assert_eq!(checker.admit(old).unwrap_err().highest, new);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Guarantees
///
/// - The highest token never decreases, even if many threads admit tokens at the same time.
/// - Of two tokens, the lower one is rejected once the higher one has been admitted.
///
/// # Caveats
///
/// - The check and the read or write after it are separate steps. Hold the store's lock from before
///   [`admit`](Self::admit) to the end of the read or write, or use
///   [`FencedResource`](super::FencedResource), which does this.
/// - The checker knows only the tokens passed to it. If a holder's write depends on a read, admit
///   the token before the read too; otherwise an older holder's write can be admitted between the
///   read and the write, and be lost.
///
/// After Kleppmann, "How to do distributed locking" (2016).
#[derive(Debug)]
pub struct FencingChecker {
    highest: AtomicI64,
}

impl FencingChecker {
    /// Makes a checker that has seen no token, and so admits the first.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            highest: AtomicI64::new(NONE),
        }
    }

    /// Makes a checker that has seen `highest`: the token that a store has kept across a restart.
    #[must_use]
    pub fn starting_at(highest: FencingToken) -> Self {
        Self {
            highest: AtomicI64::new(highest.as_i64()),
        }
    }

    /// Checks whether a write with this token, or a read on which a write will depend, is allowed
    /// now. If so, remembers the token.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] when a higher token has been seen. An equal token is admitted: a holder reads
    /// and writes many times.
    pub fn admit(&self, token: FencingToken) -> Result<(), StaleToken> {
        // `Relaxed` suffices: all threads see the changes of one variable in one order, and this
        // one publishes no other data.
        let before = self.highest.fetch_max(token.as_i64(), Ordering::Relaxed);
        if before <= token.as_i64() {
            Ok(())
        } else {
            Err(StaleToken {
                token,
                highest: FencingToken::new(before),
            })
        }
    }

    /// The highest token seen, which a store must persist. `None` if there was none.
    #[must_use]
    pub fn highest(&self) -> Option<FencingToken> {
        let highest = self.highest.load(Ordering::Relaxed);
        (highest != NONE).then(|| FencingToken::new(highest))
    }
}

impl Default for FencingChecker {
    fn default() -> Self {
        Self::new()
    }
}

/// A write or a read by a holder that has lost its lock: the store has seen the token of a newer
/// holder.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the fencing token {token} is stale: {highest} has been seen")]
#[non_exhaustive]
pub struct StaleToken {
    /// The rejected token.
    pub token: FencingToken,
    /// The highest token seen before it.
    pub highest: FencingToken,
}

debug_as_text!(StaleToken);

#[cfg(test)]
mod tests {
    use super::*;

    fn token(number: i64) -> FencingToken {
        FencingToken::try_from(number).unwrap()
    }

    #[test]
    fn equal_and_higher_tokens_are_admitted_and_lower_ones_are_not() {
        let checker = FencingChecker::new();
        assert_eq!(checker.highest(), None);
        for number in [1, 1, 5, 5, i64::MAX, i64::MAX] {
            checker.admit(token(number)).unwrap();
            assert_eq!(checker.highest(), Some(token(number)));
        }
        let stale = checker.admit(token(i64::MAX - 1)).unwrap_err();
        assert_eq!(
            stale,
            StaleToken {
                token: token(i64::MAX - 1),
                highest: token(i64::MAX)
            }
        );
        assert_eq!(checker.highest(), Some(token(i64::MAX)));
    }
}
