//! The store's side of the fencing token: how a late write of an old holder is refused, and how no write is lost.
//!
//! A process can be stopped at any moment, for any length of time: by the scheduler, by a garbage collector, by the
//! migration of its virtual machine. If that happens between the holder's last call of
//! [`LockGuard::is_valid`](crate::LockGuard::is_valid) and its write, another holder may have the lock when the write goes
//! out. No lock can help there. The store can: each holder sends its [`FencingToken`] along, the tokens rise from holder to
//! holder, and the store refuses a token that is lower than one it has seen.
//!
//! From Martin Kleppmann, "How to do distributed locking" (2016), and the sequencers of Burrows, "The Chubby lock service"
//! (2006).
//!
//! # What a token in the write protects, and what it does not
//!
//! *A token in writes alone* gives you one thing: no write is applied after one with a higher token. So what the newest
//! writer has written stays. That is enough for a holder that writes without having read.
//!
//! *It does not protect what a holder has read.* The store learns of a new holder only by its first write:
//!
//! ```text
//! old holder, token 33   reads [] │ stopped                            │ writes [a]: applied │
//! new holder, token 34            │ has the lock and reads []          │                     │ writes [b]: applied
//! ```
//!
//! The store has not seen 34 when 33 writes, so it tells the old holder that its write is applied, and `a` is lost. A holder
//! that reads, computes and writes needs one of these:
//!
//! - *The read brings the token too*, and the store remembers it: [`FencedResource::read_with`], or
//!   [`FencingChecker::admit`] before the read. The late write of 33 is refused, and what 34 has read stays until it writes.
//! - *The write compares a version as well*: the one of the value that was read. The late write is applied, and the newer
//!   holder's is refused; it still has the lock, so it reads and computes again.
//! - *Read and write are one step of the store*: in one [`FencedResource::write`], or in one transaction of a database that
//!   locks the row when it reads.
//!
//! The same is true of everything that a holder reads to decide what to write, even elsewhere: each is a separate resource,
//! and its read has to register the token there.
//!
//! *Nor does it make several writes atomic.* The first write of an old holder may be applied and its next refused. The next
//! holder finds that state, as after a crash.
//!
//! If several holders hold at the same time (readers of a read-write lock, leases of a semaphore with several), their reads
//! must not register a token: the highest would shut out the others. Writers and single holders come one after another.
//!
//! # What a store must do
//!
//! - *Compare and write in one step.* Between a check and a later write, a newer holder may check and write too, and the
//!   older write would be the last. [`FencedResource`] does both under one mutex; a database does both in one statement.
//! - *Compare, remember and read in one step*, where a write follows from the read, and before the reader has the answer.
//! - *Remember the highest token as durably as the data*, and in the same transaction, so that a restart does not forget it:
//!   that of a read too. [`FencingChecker::starting_at`] and [`FencedResource::starting_at`] start from what was stored.
//! - *Remember a token for each resource separately.* Tokens of different locks of one ensemble can be compared, but the
//!   comparison means nothing: the holder of one lock is not late because another lock has changed hands.
//! - *Admit equal tokens.* A holder reads and writes many times with one token.
//! - *Trust its writers.* A token is neither a secret nor a signature. A client that sends a very large one shuts out all
//!   later holders.
//!
//! # A database
//!
//! The table stores the token next to the data, 0 for a row that no holder has used yet. Check and write are one statement,
//! which also stores the token:
//!
//! ```sql
//! UPDATE orders
//!    SET state = $2, fencing_token = $3
//!  WHERE id = $1 AND fencing_token <= $3
//! ```
//!
//! `$3` is [`FencingToken::as_i64`], a `BIGINT`. If the statement finds no row, the write was refused, or there is no such
//! row. (Some databases count only the rows that have really changed. Ask for those that were found.)
//!
//! Where the state that is written follows from the state that was read, the read stores the token, in one statement again:
//!
//! ```sql
//! UPDATE orders
//!    SET fencing_token = $2
//!  WHERE id = $1 AND fencing_token <= $2
//! RETURNING state
//! ```
//!
//! It must be committed before the answer is used. Without `RETURNING`, an `UPDATE` and then a `SELECT` in one transaction
//! do the same. Or leave the read as it is, and let the write compare a version that every write increments:
//!
//! ```sql
//! UPDATE orders
//!    SET state = $2, fencing_token = $3, version = version + 1
//!  WHERE id = $1 AND fencing_token <= $3 AND version = $4
//! ```
//!
//! If it finds no row, read the row again. If it has a higher token, the lock is lost. Otherwise an older holder has written
//! since: compute again.
//!
//! If the row may be missing, use this for the write. A read that stores the token is the same, but with a state that means
//! "nothing yet", without `state` in the `SET`, and with `RETURNING state`:
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
//! The client sends the token as it is printed, `Fencing-Token: 4294967299`. The server parses it, and answers 400 if it is
//! missing or invalid and 409 (Conflict) if it is stale; 412 (Precondition Failed) says the same to clients that know it
//! from `If-Match`. A client must not retry after that: the lock is lost.
//!
//! A client whose next write follows from a `GET` sends the token there too; the answer must come from the server itself,
//! not from a cache (`Cache-Control: no-store`). The alternative is a version: an `ETag` in the answer to the `GET`, and
//! `If-Match` beside the token in the `PUT`. Then 412 means that the client reads and computes again, and only 409 that the
//! lock is lost.
//!
//! ```
//! use curator_recipes::FencingToken;
//! use curator_recipes::fencing::FencedResource;
//!
//! /// The status and the body of an answer.
//! type Answer = (u16, String);
//!
//! fn token(header: Option<&str>) -> Result<FencingToken, Answer> {
//!     let text = header.ok_or((400, "expected a header Fencing-Token".to_owned()))?;
//!     text.parse().map_err(|invalid| (400, format!("{invalid}")))
//! }
//!
//! /// What a server does with a holder's `GET /orders/7`. Others may look without a token.
//! fn get(order: &FencedResource<String>, fencing_token: Option<&str>) -> Result<Answer, Answer> {
//!     let body = match fencing_token {
//!         Some(_) => order.read_with(token(fencing_token)?, String::clone).map_err(|stale| (409, stale.to_string()))?,
//!         None => order.read(String::clone),
//!     };
//!     Ok((200, body))
//! }
//!
//! /// What it does with `PUT /orders/7`.
//! fn put(order: &FencedResource<String>, fencing_token: Option<&str>, body: &str) -> Result<Answer, Answer> {
//!     let write = |order: &mut String| body.clone_into(order);
//!     order.write(token(fencing_token)?, write).map_err(|stale| (409, stale.to_string()))?;
//!     Ok((204, String::new()))
//! }
//!
//! # fn main() -> Result<(), Answer> {
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
//! The store has to stay locked from the check to the end of the read or write: first lock the store's own mutex, then call
//! [`FencingChecker::admit`], then read or write, and only then unlock the mutex.
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
//!     /// For a holder that appends what follows from it.
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
//! This is for the program that *is* the store. In front of a store in another process it is not enough: a request that was
//! abandoned may still be applied there later, when a newer holder has read or written. Send the token to that store.

mod checker;
mod resource;
mod token;

pub use self::checker::{FencingChecker, StaleToken};
pub use self::resource::FencedResource;
pub use self::token::{FencingToken, InvalidFencingToken};
