//! The store's side of the fencing token: how a late write of an old holder is refused.
//!
//! A process can be stopped at any moment, for any time: by the scheduler, a collector of garbage, a virtual machine that
//! moves. If that happens between the holder's last look at [`LockGuard::is_valid`](crate::LockGuard::is_valid) and its
//! write, the lock may be another's when the write goes out. No lock can help there. The store can: each holder sends
//! its [`FencingToken`] along with every write, the tokens rise from holder to holder, and the store refuses a token that
//! is lower than one it has seen.
//!
//! From Martin Kleppmann, "How to do distributed locking" (2016), and the sequencers of Burrows, "The Chubby lock service"
//! (2006).
//!
//! # What a store must do
//!
//! - *Compare and write in one step.* Between a check and a write that comes after it, a newer holder may check and write
//!   too, and the older write would be the last. [`FencedResource`] does both under one mutex; a database does both in one
//!   statement.
//! - *Remember the highest token as durably as the data*, and in the same transaction, so that a restart does not forget
//!   it. [`FencingChecker::starting_at`] and [`FencedResource::starting_at`] begin with what was stored.
//! - *One memory for each resource.* Tokens of different locks of one ensemble can be compared, but the comparison means
//!   nothing: the holder of one lock is not late because another lock has changed hands.
//! - *Admit equal tokens.* A holder writes many times with one token.
//! - *Trust its writers.* A token is no secret and no signature. Whoever sends a very large one shuts out all holders
//!   to come.
//!
//! # A database
//!
//! The table has the token beside the data, 0 for a row that no holder has written yet. Check and write are one statement,
//! which stores the token too:
//!
//! ```sql
//! UPDATE orders
//!    SET state = $2, fencing_token = $3
//!  WHERE id = $1 AND fencing_token <= $3
//! ```
//!
//! `$3` is [`FencingToken::as_i64`], a `BIGINT`. The statement that changed no row was refused, or there is no such row.
//! Where the row may be missing:
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
//! The client sends the token as it is printed, `Fencing-Token: 4294967299`. The server parses it, and answers 400 where
//! there is none to parse and 409 (Conflict) to a stale one; 412 (Precondition Failed) says the same to clients that know
//! it from `If-Match`. A client must not try again after it: the lock is lost.
//!
//! ```
//! use curator_recipes::FencingToken;
//! use curator_recipes::fencing::FencedResource;
//!
//! /// What a server does with `PUT /orders/7`; the status and the body of its answer.
//! fn put(order: &FencedResource<String>, fencing_token: Option<&str>, body: &str) -> (u16, String) {
//!     let Some(text) = fencing_token else { return (400, "expected a header Fencing-Token".to_owned()) };
//!     let token: FencingToken = match text.parse() {
//!         Ok(token) => token,
//!         Err(invalid) => return (400, invalid.to_string()),
//!     };
//!     match order.write(token, |order| body.clone_into(order)) {
//!         Ok(()) => (204, String::new()),
//!         Err(stale) => (409, stale.to_string()),
//!     }
//! }
//!
//! let order = FencedResource::new("new".to_owned());
//! assert_eq!(put(&order, Some("4294967299"), "paid").0, 204);
//! assert_eq!(put(&order, Some("4294967305"), "sent").0, 204);
//! // The first holder comes back from its pause.
//! let (status, why) = put(&order, Some("4294967299"), "cancelled");
//! assert_eq!(status, 409);
//! assert_eq!(why, "the fencing token 4294967299 is stale: 4294967305 has been seen");
//! assert_eq!(put(&order, Some("newest"), "cancelled").0, 400);
//! assert_eq!(put(&order, None, "cancelled").0, 400);
//! assert_eq!(order.into_inner(), "sent");
//! ```
//!
//! # An asynchronous store
//!
//! Whatever is locked has to stay locked from the check to the end of the write: first the store's own mutex, then
//! [`FencingChecker::admit`], then the write, and only then the mutex is let go.
//!
//! ```
//! use curator_recipes::FencingToken;
//! use curator_recipes::fencing::{FencingChecker, StaleToken};
//! use tokio::sync::Mutex;
//!
//! # struct File;
//! # impl File { async fn append(&mut self, _line: &str) {} }
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
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let journal = Journal { file: Mutex::new(File), checker: FencingChecker::new() };
//! journal.append(FencingToken::from_i64(34)?, "written").await?;
//! assert!(journal.append(FencingToken::from_i64(33)?, "late").await.is_err());
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
//! ```
//!
//! This is for the program that *is* the store. In front of a store in another process it is not enough: a request that was
//! given up there may still be applied later, when a newer holder has written. Send that store the token.

mod checker;
mod resource;
mod token;

pub use self::checker::{FencingChecker, StaleToken};
pub use self::resource::FencedResource;
pub use self::token::{FencingToken, InvalidFencingToken};
