//! The store's side of fencing tokens: how a store rejects late writes of old holders, and prevents
//! lost writes.
//!
//! A process can be paused at any moment, for any length of time: by the scheduler, by a garbage
//! collector, by the migration of its virtual machine. If that happens between the holder's last
//! call of [`LockGuard::is_valid`](crate::LockGuard::is_valid) and its write, another holder may
//! have the lock when the write is sent. A lock cannot prevent this. The store can: each holder
//! sends its [`FencingToken`] with each write, the tokens increase from holder to holder, and the
//! store rejects a token that is lower than one it has seen.
//!
//! Based on Martin Kleppmann, "How to do distributed locking" (2016), and the sequencers of
//! Burrows, "The Chubby lock service" (2006).
//!
//! # What a token in the write protects, and what it does not
//!
//! *A token in writes alone* guarantees only this: no write is applied after one with a higher
//! token. So an older holder cannot overwrite the newest write. That suffices for a holder that
//! writes without reading.
//!
//! *It does not protect what a holder has read.* The store first sees the token of a new holder in
//! its first write:
//!
//! ```text
//! old holder, token 33   reads [] │ stopped                            │ writes [a]: applied │
//! new holder, token 34            │ has the lock and reads []          │                     │ writes [b]: applied
//! ```
//!
//! The store has not seen 34 when 33 writes, so it applies and confirms the write of the old
//! holder, and `a` is lost. A holder that reads, computes and writes needs one of these:
//!
//! - *The read sends the token too*, and the store remembers it: [`FencedResource::read_with`], or
//!   [`FencingChecker::admit`] before the read. The late write of 33 is rejected, and the value
//!   that 34 has read stays until it writes.
//! - *The write also compares a version*: the version of the value that was read. The late write is
//!   applied, and the newer holder's write is rejected; it still has the lock, so it reads and
//!   computes again.
//! - *The store reads and writes atomically*: in one [`FencedResource::write`], or in one
//!   transaction of a database that locks the row when it reads.
//!
//! The same applies to everything that a holder reads to decide what to write, even in another
//! store: each is a separate resource, and the read must register the token there.
//!
//! *It does not make several writes atomic.* The first write of an old holder may be applied and
//! its next rejected. The next holder finds that partial state, as after a crash.
//!
//! If there are several holders at the same time (readers of a read-write lock, several leases of a
//! semaphore), their reads must not register a token: the holder with the highest token would lock
//! out the others. Writers and exclusive holders have the lock one after another.
//!
//! # What a store must do
//!
//! - *Compare and write atomically.* Between a check and a later write, a newer holder may check
//!   and write too, and the older write would overwrite it. [`FencedResource`] does both under one
//!   mutex; a database does both in one statement.
//! - *Compare, remember and read atomically*, before the reader gets the reply, if a write depends
//!   on the read.
//! - *Store the highest token as durably as the data*, and in the same transaction, so that it
//!   survives a restart; this includes tokens of reads. [`FencingChecker::starting_at`] and
//!   [`FencedResource::starting_at`] start from the stored token.
//! - *Remember a token for each resource separately.* A comparison of tokens of different locks has
//!   no meaning: a new holder of one lock does not make the token of another lock's holder stale.
//! - *Admit equal tokens.* A holder reads and writes many times with one token.
//! - *Trust its writers.* A token is neither a secret nor a signature. A client that sends a very
//!   large token locks out all later holders.
//!
//! # A database
//!
//! The table stores the token next to the data; in a row that no holder has used yet, the token is
//! 0. One statement checks, writes and stores the token:
//!
//! ```sql
//! UPDATE orders
//!    SET state = $2, fencing_token = $3
//!  WHERE id = $1 AND fencing_token <= $3
//! ```
//!
//! `$3` is [`FencingToken::as_i64`], a `BIGINT`. If the statement matches no row, the write was
//! rejected, or there is no such row. (Some databases count only rows whose contents changed. Use
//! the number of matched rows.)
//!
//! If the written state depends on the state that was read, the read also stores the token, again
//! in one statement:
//!
//! ```sql
//! UPDATE orders
//!    SET fencing_token = $2
//!  WHERE id = $1 AND fencing_token <= $2
//! RETURNING state
//! ```
//!
//! It must be committed before the result is used. Without `RETURNING`, an `UPDATE` and then a
//! `SELECT` in one transaction do the same. Alternatively, use a plain read, and let the write
//! compare a version that every write increments:
//!
//! ```sql
//! UPDATE orders
//!    SET state = $2, fencing_token = $3, version = version + 1
//!  WHERE id = $1 AND fencing_token <= $3 AND version = $4
//! ```
//!
//! If this matches no row, read the row again. If the row has a higher token, the lock is lost.
//! Otherwise an older holder has written in the meantime: compute again.
//!
//! If the row may be missing, write with the statement below. For a read that stores the token,
//! insert a state that means "nothing yet", omit `state` from the `SET`, and add `RETURNING state`:
//!
//! ```sql
//! INSERT INTO orders (id, state, fencing_token) VALUES ($1, $2, $3)
//!     ON CONFLICT (id) DO UPDATE
//!    SET state = excluded.state, fencing_token = excluded.fencing_token
//!  WHERE orders.fencing_token <= excluded.fencing_token
//! ```
//!
//! # An HTTP header
//!
//! The client sends the token in its `Display` form, `Fencing-Token: 4294967299`. The server parses
//! it, and replies 400 if it is missing or invalid and 409 (Conflict) if it is stale, or 412
//! (Precondition Failed) for clients that know that status from `If-Match`. A client must not retry
//! after that: the lock is lost.
//!
//! A client whose next write depends on a `GET` sends the token there too; the reply must come from
//! the server itself, not from a cache (`Cache-Control: no-store`). The alternative is a version:
//! an `ETag` in the reply to the `GET`, and `If-Match` together with the token in the `PUT`. Then,
//! after 412, the client reads and computes again, and only 409 means that the lock is lost.
//!
//! ```
//! use curator_recipes::FencingToken;
//! use curator_recipes::fencing::FencedResource;
//!
//! /// The status and the body of a reply.
//! type Reply = (u16, String);
//!
//! fn token(header: Option<&str>) -> Result<FencingToken, Reply> {
//!     let text = header.ok_or((400, "expected a header Fencing-Token".to_owned()))?;
//!     text.parse().map_err(|invalid| (400, format!("{invalid}")))
//! }
//!
//! /// Handles a holder's `GET /orders/7`. Other clients may read without a token.
//! fn get(order: &FencedResource<String>, fencing_token: Option<&str>) -> Result<Reply, Reply> {
//!     let body = match fencing_token {
//!         Some(_) => order.read_with(token(fencing_token)?, String::clone).map_err(|stale| (409, stale.to_string()))?,
//!         None => order.read(String::clone),
//!     };
//!     Ok((200, body))
//! }
//!
//! /// Handles a holder's `PUT /orders/7`.
//! fn put(order: &FencedResource<String>, fencing_token: Option<&str>, body: &str) -> Result<Reply, Reply> {
//!     order
//!         .write(token(fencing_token)?, |order| body.clone_into(order))
//!         .map_err(|stale| (409, stale.to_string()))?;
//!     Ok((204, String::new()))
//! }
//!
//! # fn main() -> Result<(), Reply> {
//! let order = FencedResource::new("new".to_owned());
//! assert_eq!(get(&order, Some("4294967299"))?.1, "new");
//! assert_eq!(put(&order, Some("4294967299"), "paid")?.0, 204);
//! // The next holder has read, but not yet written, when the first one resumes.
//! assert_eq!(get(&order, Some("4294967305"))?.1, "paid");
//! let (status, why) = put(&order, Some("4294967299"), "cancelled").unwrap_err();
//! assert_eq!(status, 409);
//! assert_eq!(why, "the fencing token 4294967299 is stale: 4294967305 has been seen");
//! assert_eq!(put(&order, Some("4294967305"), "paid and sent")?.0, 204);
//! assert_eq!(get(&order, Some("4294967299")).unwrap_err().0, 409);
//! assert_eq!(put(&order, Some("newest"), "cancelled").unwrap_err().0, 400);
//! assert_eq!(put(&order, None, "cancelled").unwrap_err().0, 400);
//! assert_eq!(order.into_inner(), "paid and sent");
//! # Ok(())
//! # }
//! ```
//!
//! # An asynchronous store
//!
//! The store must stay locked from the check to the end of the read or write: first lock the
//! store's mutex, then call [`FencingChecker::admit`], then read or write, and only then unlock the
//! mutex.
//!
//! ```
//! use curator_recipes::FencingToken;
//! use curator_recipes::fencing::{FencingChecker, StaleToken};
//! use tokio::sync::Mutex;
//!
//! # struct File;
//! # impl File { async fn append(&mut self, _line: &str) {} async fn last(&self) -> String { String::new() } }
//! struct Journal {
//!     file: Mutex<File>,
//!     checker: FencingChecker,
//! }
//!
//! impl Journal {
//!     async fn append(&self, token: FencingToken, line: &str) -> Result<(), StaleToken> {
//!         let mut file = self.file.lock().await;
//!         self.checker.admit(token)?;
//!         file.append(line).await;
//!         Ok(())
//!     }
//!
//!     /// For a holder whose next append depends on the last line.
//!     async fn last(&self, token: FencingToken) -> Result<String, StaleToken> {
//!         let file = self.file.lock().await;
//!         self.checker.admit(token)?;
//!         Ok(file.last().await)
//!     }
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let journal = Journal { file: Mutex::new(File), checker: FencingChecker::new() };
//! journal.last(FencingToken::try_from(34)?).await?;
//! assert!(journal.append(FencingToken::try_from(33)?, "late").await.is_err());
//! journal.append(FencingToken::try_from(34)?, "written").await?;
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
//! ```
//!
//! This is for the program that *is* the store. As a proxy for a store in another process it does
//! not suffice: an abandoned request may still be applied there later, after a newer holder has
//! read or written. Send the token to that store.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use curator_client::debug_as_text;

/// A number that strictly increases from holder to holder of a lock with one holder at a time.
///
/// It is the `czxid` of the lock's node: the id of the transaction that created it. It needs no
/// extra request, and keeps increasing when the lock's directory is deleted and created again. Send
/// it with every write, and with every read that a write depends on, and let the store reject a
/// token that is lower than one that it has seen. Then a holder that was paused, lost its lock
/// without noticing, and resumed, neither overwrites what a newer holder has written nor changes
/// what the newer holder has read. The module [`fencing`](crate::fencing) explains how a store does
/// this, and what a token in the write alone does not protect.
///
/// `Display` writes the wire format, the number in decimal digits, and `FromStr` parses it.
/// `TryFrom<i64>` converts a number, such as one from a database.
///
/// ```
/// use curator_recipes::FencingToken;
///
/// let token: FencingToken = "4294967299".parse()?;
/// assert_eq!(token.as_i64(), 4_294_967_299);
/// assert_eq!(FencingToken::try_from(4_294_967_299)?, token);
/// assert_eq!(token.to_string(), "4294967299");
/// assert_eq!(
///     "-1".parse::<FencingToken>().unwrap_err().to_string(),
///     r#"invalid fencing token "-1": expected a whole number from 1 to 9223372036854775807, in decimal digits only"#,
/// );
/// # Ok::<(), curator_recipes::fencing::InvalidFencingToken>(())
/// ```
///
/// Based on Martin Kleppmann, "How to do distributed locking" (2016); the `czxid` is ZooKeeper's
/// counterpart of the sequencers in the Chubby paper (2006).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "i64", into = "i64")
)]
pub struct FencingToken(i64);

impl FencingToken {
    pub(crate) fn new(czxid: i64) -> Self {
        Self(czxid)
    }

    /// The number. Positive, and increasing from holder to holder.
    #[must_use]
    pub fn as_i64(self) -> i64 {
        self.0
    }
}

/// Converts a token received over the wire, or read from a store.
impl TryFrom<i64> for FencingToken {
    type Error = InvalidFencingToken;

    /// # Errors
    ///
    /// [`InvalidFencingToken`] when the number is not positive.
    fn try_from(number: i64) -> Result<Self, InvalidFencingToken> {
        if number > 0 {
            Ok(Self(number))
        } else {
            Err(InvalidFencingToken {
                value: number.to_string(),
            })
        }
    }
}

impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for FencingToken {
    type Err = InvalidFencingToken;

    fn from_str(text: &str) -> Result<Self, InvalidFencingToken> {
        // Checks the digits, because the integer parser also accepts a `+`, which `Display` never
        // writes.
        text.bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| text.parse().ok())
            .flatten()
            .and_then(|number: i64| Self::try_from(number).ok())
            .ok_or_else(|| InvalidFencingToken {
                value: text.to_owned(),
            })
    }
}

/// The text or number is not a valid fencing token.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid fencing token {value:?}: expected a whole number from 1 to {max}, in decimal digits only", max = i64::MAX)]
#[non_exhaustive]
pub struct InvalidFencingToken {
    /// The invalid text or number.
    pub value: String,
}

debug_as_text!(InvalidFencingToken);

/// Less than any token.
const NONE: i64 = 0;

/// Remembers the highest token seen for one resource, and rejects lower ones.
///
/// ```
/// use curator_recipes::FencingToken;
/// use curator_recipes::fencing::FencingChecker;
///
/// let checker = FencingChecker::new();
/// let old = FencingToken::try_from(33)?;
/// let new = FencingToken::try_from(34)?;
/// checker.admit(old)?;
/// checker.admit(old)?; // the same holder writes again
/// checker.admit(new)?; // the next holder reads, and writes later
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
///   [`admit`](Self::admit) to the end of the read or write, or use [`FencedResource`], which does
///   this.
/// - The checker knows only the tokens passed to it. If a holder's write depends on a read, admit
///   the token before the read too; otherwise an older holder's write can be admitted between the
///   read and the write, and be lost.
///
/// Based on Kleppmann, "How to do distributed locking" (2016).
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

    /// Checks whether a write with this token, or a read that a write will depend on, is allowed
    /// now. If so, remembers the token.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] when a higher token has been seen. An equal token is admitted: a holder reads
    /// and writes many times.
    pub fn admit(&self, token: FencingToken) -> Result<(), StaleToken> {
        // `Relaxed` suffices: all threads see the changes of one variable in one order, and this
        // variable publishes no other data.
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

    /// The highest token seen, which a store must persist; `None` if no token has been seen.
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
/// let old = FencingToken::try_from(33)?;
/// let new = FencingToken::try_from(34)?;
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
/// - The resource exists only in memory. To keep the value across restarts, store it with the
///   highest token, including tokens of reads, and restore it with
///   [`starting_at`](Self::starting_at).
///
/// Based on the storage service of Kleppmann, "How to do distributed locking" (2016). For an
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

    /// Calls `read` if no higher token has been seen, for a holder whose next write depends on the
    /// value. The token counts as seen afterwards: a holder with a lower token cannot change the
    /// value. Blocks like [`write`](Self::write).
    ///
    /// Not for concurrent holders (readers of a read-write lock, several leases of a semaphore):
    /// the holder with the highest token would lock out the others. If no write depends on the
    /// read, use [`read`](Self::read).
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
    /// A later write must not depend on this value: see [`read_with`](Self::read_with).
    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.value.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The highest token seen, or `None` if no token has been seen. Does not block, so the write or
    /// read with this token may still be in progress.
    #[must_use]
    pub fn highest(&self) -> Option<FencingToken> {
        self.checker.highest()
    }

    /// Returns the value.
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

    #[test]
    fn a_token_that_is_not_a_positive_number_is_rejected_with_its_value() {
        for text in [
            "",
            "0",
            "00",
            "-1",
            "+1",
            " 1",
            "1 ",
            "1.0",
            "1e3",
            "0x1",
            "1_000",
            "٣",
            "9223372036854775808",
            "one",
        ] {
            let error = text.parse::<FencingToken>().unwrap_err();
            assert_eq!(error.value, text);
            assert!(
                error.to_string().contains(&format!("{text:?}: expected")),
                "{error}"
            );
        }
        for number in [0, -1, i64::MIN] {
            assert_eq!(
                FencingToken::try_from(number).unwrap_err().value,
                number.to_string()
            );
        }
        assert_eq!("0007".parse(), FencingToken::try_from(7));
    }

    proptest! {
        #[test]
        fn a_printed_token_parses_to_the_same_token(number in 1..=i64::MAX) {
            let token = FencingToken::try_from(number).unwrap();
            prop_assert_eq!(token.to_string().parse(), Ok(token));
            prop_assert_eq!((token.as_i64(), i64::from(token)), (number, number));
        }
    }

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
        let resource = FencedResource::new(Vec::new());
        let old = token(33);
        let new = token(34);
        let seen_by_old = read(&resource, old);
        let seen_by_new = read(&resource, new);
        let mut acknowledged = Vec::new();
        for (token, seen, holder) in [(old, seen_by_old, "old"), (new, seen_by_new, "new")] {
            let computed = [seen, vec![holder]].concat();
            if resource.write(token, |value| *value = computed).is_ok() {
                acknowledged.push(holder);
            }
        }
        (acknowledged, resource.into_inner())
    }

    #[test]
    fn no_acknowledged_write_of_an_old_holder_is_lost_when_the_new_one_has_read_with_its_token() {
        assert_eq!(
            late_between_read_and_write(|resource: &FencedResource<Vec<_>>, token| {
                resource.read_with(token, Vec::clone).unwrap()
            }),
            (vec!["new"], vec!["new"])
        );
    }

    #[test]
    fn a_token_in_the_write_alone_loses_an_acknowledged_write_of_an_old_holder() {
        assert_eq!(
            late_between_read_and_write(
                |resource: &FencedResource<Vec<_>>, _| resource.read(Vec::clone)
            ),
            (vec!["old", "new"], vec!["new"])
        );
    }

    #[test]
    fn a_panicking_write_raises_the_highest_token_and_the_resource_stays_usable() {
        let resource = FencedResource::new(0);
        let panicked = thread::scope(|scope| {
            scope
                .spawn(|| {
                    resource.write(token(2), |value| {
                        *value = 1;
                        panic!("half done");
                    })
                })
                .join()
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
                let holder_token = token(holder as i64);
                match seen[holder].take() {
                    None => seen[holder] = resource.read_with(holder_token, Vec::clone).ok(),
                    Some(mut computed) => {
                        computed.push(holder);
                        if resource.write(holder_token, |value| *value = computed).is_ok() {
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
                let write_all = |numbers: &Vec<i64>| {
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
                let writers: Vec<_> = writers.iter().map(|numbers| scope.spawn(move || write_all(numbers))).collect();
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

    #[test]
    fn a_token_serializes_as_a_number_and_rejects_zero_and_strings() {
        let token: FencingToken = serde_json::from_str("4294967299").unwrap();
        assert_eq!(serde_json::to_string(&token).unwrap(), "4294967299");
        for (text, reason) in [
            ("0", "invalid fencing token \"0\": expected"),
            ("\"7\"", "invalid type: string \"7\""),
        ] {
            let error = serde_json::from_str::<FencingToken>(text)
                .unwrap_err()
                .to_string();
            assert!(error.starts_with(reason), "{error}");
        }
    }
}
