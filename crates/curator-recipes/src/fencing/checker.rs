//! The memory of a store: the highest token that it has seen.

use std::sync::atomic::{AtomicI64, Ordering};

use super::FencingToken;

/// Less than any token.
const NONE: i64 = 0;

/// Remembers the highest token seen for one resource, and refuses lower ones.
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
/// - The highest token never falls, however many threads admit tokens at the same time.
/// - Of two tokens, the lower one is refused once the higher one has been admitted.
///
/// # Caveats
///
/// - The check is one step, and the read or write that follows is another. Hold the store's lock from before
///   [`admit`](Self::admit) to the end of the read or write, or use [`FencedResource`](super::FencedResource), which does
///   that.
/// - It knows only what it is shown. If a holder's write follows from a read, admit the read too, before it is done;
///   otherwise an older holder's write can be admitted between the two, and be lost.
///
/// After Kleppmann, "How to do distributed locking" (2016).
#[derive(Debug)]
pub struct FencingChecker {
    highest: AtomicI64,
}

impl FencingChecker {
    /// Nothing has been seen yet, so the first token is admitted.
    #[must_use]
    pub const fn new() -> Self {
        Self { highest: AtomicI64::new(NONE) }
    }

    /// `highest` has been seen: the token that a store has kept across a restart.
    #[must_use]
    pub fn starting_at(highest: FencingToken) -> Self {
        Self { highest: AtomicI64::new(highest.as_i64()) }
    }

    /// Checks whether a write with this token may be applied now, or a read may be done that a write will follow from.
    /// Remembers the token if so.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] when a higher one has been seen. An equal one is admitted: a holder reads and writes many times.
    pub fn admit(&self, token: FencingToken) -> Result<(), StaleToken> {
        // All threads see the changes of one variable in one order, and nothing else is published by this one.
        let before = self.highest.fetch_max(token.as_i64(), Ordering::Relaxed);
        if before <= token.as_i64() { Ok(()) } else { Err(StaleToken { token, highest: FencingToken::new(before) }) }
    }

    /// The highest token seen, which a store has to keep. `None` if there was none.
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

/// A write or a read came from a holder that has lost its lock: a holder with a newer token has come since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the fencing token {token} is stale: {highest} has been seen")]
#[non_exhaustive]
pub struct StaleToken {
    /// The token that was refused.
    pub token: FencingToken,
    /// The highest token seen before it.
    pub highest: FencingToken,
}

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
        assert_eq!(stale, StaleToken { token: token(i64::MAX - 1), highest: token(i64::MAX) });
        assert_eq!(checker.highest(), Some(token(i64::MAX)));
    }
}
