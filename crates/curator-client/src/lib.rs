//! One ZooKeeper session, kept alive.
//!
//! A [`CuratorClient`] connects, retries by a [`RetryPolicy`], tells every [`ConnectionState`], and replaces its
//! [`Session`] when that is lost. Each session has a [`Lease`]: for how long it is *certainly* alive, whatever the
//! network does. The recipes of `curator-recipes` are built on this crate.
//!
//! ```no_run
//! use std::time::Duration;
//! use curator_client::{CuratorClient, ExponentialBackoffRetry};
//!
//! # async fn example() -> Result<(), curator_client::Error> {
//! let client = CuratorClient::builder("127.0.0.1:2181")
//!     .session_timeout(Duration::from_secs(10))
//!     .retry_policy(ExponentialBackoffRetry::new(Duration::from_millis(100), 3)?)
//!     .connect()
//!     .await?;
//! client.create().creating_parent_containers().for_path("/config/colour", "blue").await?;
//! let (colour, _stat) = client.get_data("/config/colour").await?;
//! assert_eq!(colour, b"blue");
//! client.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Where to look
//!
//! | question | answer |
//! |---|---|
//! | How do I connect, and with which options? | [`CuratorClientBuilder`] |
//! | Is the session alive? Was it lost? | [`Lease`], [`ConnectionStates`], [`Session::ended`] |
//! | How often is what tried again? | [`retry`] |
//! | Can a failed call be made again? May it have been applied? | [`Error::is_retryable`], [`Error::outcome`] |
//! | How do I make several requests cost one round trip? | [`Session`] |
//! | What became of a delete whose connection broke? | [`Janitor`] |

#[cfg(test)]
mod auto_traits;
mod builder;
mod client;
mod clock;
mod connect_string;
mod connection;
mod error;
mod extensions;
mod janitor;
mod lease;
pub mod node;
mod path;
pub mod retry;
mod session;
mod shared;
mod state;
mod supervisor;
mod timer;
mod zk;

pub use crate::builder::CuratorClientBuilder;
pub use crate::client::CuratorClient;
pub use crate::clock::ClockInstant;
pub use crate::connect_string::{ConnectString, ConnectStringProblem, HostPort, InvalidConnectString};
pub use crate::error::{Error, Outcome, Result, SessionEnd};
pub use crate::janitor::{Janitor, PendingDelete, Refusals};
pub use crate::lease::Lease;
pub use crate::node::create::CreateBuilder;
pub use crate::node::delete::DeleteBuilder;
pub use crate::node::multi_read::{ReadOperation, ReadResult};
pub use crate::node::protected::ProtectionId;
pub use crate::node::transaction::Transaction;
pub use crate::node::{CreateMode, Created, NodeSpec, TransactionOperation, TransactionResult};
pub use crate::path::{InvalidPath, PathProblem, ZPath};
pub use crate::retry::{
    BackoffRetry, BoundedExponentialBackoffRetry, ExponentialBackoffRetry, InvalidRetryPolicy, Retrier, RetryForever,
    RetryNTimes, RetryOneTime, RetryPolicy, RetryUntilElapsed,
};
pub use crate::session::{Request, Session, Turn};
pub use crate::state::{ConnectionState, ConnectionStates};
pub use crate::timer::Deadline;
pub use crate::zk::watch::{Watch, WatchEvent};
pub use crate::zk::{Acl, AuthId, Permission, Stat};
