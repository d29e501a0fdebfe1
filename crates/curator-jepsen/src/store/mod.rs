//! The store that workers write to: sets of strings, in the memory of the process that conducts a run.
//!
//! It has what a store behind a lock can have: it applies requests one at a time, and compares fencing tokens, if they are
//! sent. No nemesis touches it, so an update that is lost in it was lost by the lock.

mod client;
mod server;
mod sets;

pub use self::client::{StoreClient, StoreError};
pub use self::server::Store;
