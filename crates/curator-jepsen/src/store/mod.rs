//! The store that workers write to: sets of strings, in the memory of the process that conducts a
//! run.
//!
//! It behaves like a store behind a lock: it applies requests one at a time, and compares fencing
//! tokens, if they are sent. No nemesis affects it, and it loses no write. So an update is lost
//! only if a client wrote without the lock.

mod client;
mod server;
mod sets;

pub use self::client::{StoreClient, StoreError};
pub use self::server::Store;
