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
//! From Martin Kleppmann, "How to do distributed locking" (2016), and the sequencers of Burrows,
//! "The Chubby lock service" (2006).
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
//! If it matches no row, read the row again. If the row has a higher token, the lock is lost.
//! Otherwise an older holder has written since: compute again.
//!
//! If the row may be missing, use this for the write. A read that stores the token is the same, but
//! with a state that means "nothing yet", without `state` in the `SET`, and with `RETURNING state`:
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
//!     let write = |order: &mut String| body.clone_into(order);
//!     order.write(token(fencing_token)?, write).map_err(|stale| (409, stale.to_string()))?;
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

mod checker;
mod resource;
mod token;

pub use self::checker::{FencingChecker, StaleToken};
pub use self::resource::FencedResource;
pub use self::token::{FencingToken, InvalidFencingToken};
