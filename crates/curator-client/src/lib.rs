//! A ZooKeeper client that keeps a session alive.
//!
//! A [`CuratorClient`] connects, retries failed operations with a [`RetryPolicy`], reports every
//! [`ConnectionState`], and replaces its [`Session`] when the session is lost. Each session has a
//! [`SessionLease`]: how long the session is *certainly* alive, even without a connection. The
//! locks of `curator-recipes` are built on this crate.
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
//! | Question | Answer |
//! |---|---|
//! | How do I connect, and with which options? | [`CuratorClientBuilder`] |
//! | How does my client authenticate? | `SaslOptions`, with the feature `sasl-digest-md5` or `sasl-gssapi`; [`CuratorClientBuilder::authorization`] |
//! | How do I connect over TLS? | `TlsOptions`, with the feature `tls` |
//! | Does my client follow `reconfig`? | [`EnsembleTracker`] |
//! | Can my service start before its ensemble? | [`CuratorClientBuilder::start`] |
//! | What does a readiness probe check? | [`CuratorClient::health`] |
//! | What is logged? | [below](#log) |
//! | Is the session alive? Was it lost? | [`SessionLease`], [`ConnectionStates`], [`Session::ended`] |
//! | What is retried, and how often? | [`RetryPolicy`] |
//! | Can I repeat a failed call? Could it have been applied? | [`Error::is_retryable`], [`Error::outcome`] |
//! | How do several requests share one round trip? | [`Session`] |
//! | Which deletes are still pending after a connection loss? | [`Janitor`] |
//! | How is a node found after the reply to its create was lost? | [`node::find`], by its protected name: [`ProtectionId`] |
//!
//! # Log
//!
//! Events are emitted with [`tracing`]. They have the field `client`, the
//! [name](CuratorClientBuilder::name) of the client, except events about a single socket. At `info`
//! there is one event for each change of the client's session. Session ids are written as in
//! ZooKeeper's own log.
//!
//! | Event at `info` | Fields | What has happened |
//! |---|---|---|
//! | `connecting` | `servers`, `transport` | the client was started |
//! | `session opened` | `session`, `server`, `timeout`, `lasted` | the client has its first session. `timeout`: the granted session timeout; `lasted`: the time since the client was started |
//! | `session suspended` | `session`, `why` | [`Suspended`](ConnectionState::Suspended): the connection broke, or the server is slow to answer |
//! | `session resumed over another connection` | `session`, `server`, `lasted` | [`Reconnected`](ConnectionState::Reconnected): the session continues, with its nodes and locks |
//! | `session confirmed` | `session`, `lasted` | [`Reconnected`](ConnectionState::Reconnected) over the same connection |
//! | `session lost` | `session`, `why`, `suspended_for`, `cause` | [`Lost`](ConnectionState::Lost): the session has ended, and its nodes and locks are gone |
//! | `session opened in place of the lost one` | `session`, `server`, `timeout`, `lasted` | [`Reconnected`](ConnectionState::Reconnected), in a new session |
//! | `following the ensemble` | `servers`, `version` | the servers that the next connect tries have changed, because the client [follows](EnsembleTracker) the ensemble's configuration of this version |
//! | `client closed` | `confirmed` | the client was closed; `confirmed`: whether the server has confirmed the end of the session |
//!
//! `not connected`, at `warn`, means that the first pass over the servers in an outage has failed;
//! it is repeated once a minute. Its fields are `lasted` and `cause`, which names each server and
//! its failure. The other events at `warn` mean that a node could not be deleted, that the runtime
//! ended before the client was closed, or that a server sends faster than the client can read;
//! `error` means that the client's task has panicked. `debug` has each attempt to connect that
//! fails with a new cause, each failed probe and each retry; `trace` has the other failed attempts
//! to connect, and each request, with its path and size. Data, credentials and session passwords
//! are never logged.
//!
//! The crate `zookeeper-client` also logs every connection, at `info` and `warn`. A filter such as
//! `info,zookeeper_client=error` hides these events.
//!
//! # Features
//!
//! `zookeeper-client` is enabled by default. At least one of the two transports, `native` and
//! `zookeeper-client`, must be enabled.
//!
//! - `backoff`: `BackoffRetry`, which makes retry policies from the curves of the crate `backoff`.
//!   That crate and its dependency `instant` are no longer maintained (RUSTSEC-2025-0012,
//!   RUSTSEC-2024-0384). [`ExponentialBackoffRetry`] needs neither.
//! - `metrics`: metrics of the session and of pending deletes, through the crate `metrics`; see
//!   `describe_metrics`.
//! - `native`: `CuratorClientBuilder::transport`, and this crate's own implementation of the
//!   protocol, in addition to `zookeeper-client` or instead of it.
//! - `serde`: [`ConnectionState`], [`SessionEnd`], [`ZPath`] and [`ConnectString`] can be
//!   serialized; a [`CuratorClientBuilder`] and a `ConfiguredRetryPolicy` can be read from a
//!   configuration file.
//! - `sasl-digest-md5` and `sasl-gssapi`: `SaslOptions` and `CuratorClientBuilder::sasl`, which
//!   authenticate the client with a user and a password, or with a Kerberos ticket. `sasl-gssapi`
//!   needs the system's Kerberos library and libclang (Debian: `libkrb5-dev`, `libclang-dev`).
//! - `simulation`: the module `simulation`, for test kits.
//! - `tls`: connections over TLS, with `TlsOptions` and `CuratorClientBuilder::tls`. It builds
//!   `aws-lc-rs`, which needs a C compiler.
//! - `zookeeper-client`: the transport of the crate `zookeeper-client`.
//!
//! # Versions
//!
//! `docs/stability.md` in the repository lists the types of other crates in the public API, and
//! describes what a new version may change.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Every public type is `non_exhaustive`, or states why it is exhaustive.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]
// Simulated runs must be reproducible, so direct use of clocks, randomness and threads is
// disallowed.
#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::iter_over_hash_type
    )
)]

#[cfg(not(any(feature = "native", feature = "zookeeper-client")))]
compile_error!(
    "curator-client needs a transport: enable its default feature `zookeeper-client`, or `native`"
);

mod acl;
mod client;
mod closing;
#[cfg(all(feature = "native", not(feature = "codec")))]
#[allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "only `curator-test` uses the server's half"
)]
mod codec;
#[cfg(feature = "codec")]
#[allow(
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "the protocol defines these types"
)]
#[doc(hidden)]
pub mod codec;
mod connect_string;
#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "sockets, which a simulation does not have"
)]
mod diagnosis;
mod ensemble;
mod error;
mod failure_log;
mod janitor;
mod journal;
mod link;
mod meter;
pub mod node;
mod operation;
mod options;
mod pass;
mod path;
pub mod process;
mod retrier;
mod retry_policy;
mod runtime;
#[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
mod sasl;
mod server_operations;
mod session;
mod session_lease;
mod sessions;
#[cfg(feature = "simulation")]
pub mod simulation;
pub mod source;
mod state;
mod supervisor;
#[doc(hidden)]
pub mod text;
mod time;
mod tls;
mod transport;
#[cfg(feature = "native")]
mod wire;
#[cfg(feature = "zookeeper-client")]
#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "sockets, which a simulation does not have"
)]
mod zk;

pub use crate::acl::{Acl, AclProvider, AuthId, Permission, digest_id};
pub use crate::client::{
    ClientHealth, ConnectionFailure, CreateBuilder, CuratorClient, CuratorClientBuilder,
    DeleteBuilder, Transaction, WatchingClient,
};
pub use crate::connect_string::{
    ConnectString, ConnectStringProblem, HostPort, InvalidConnectString,
};
pub use crate::ensemble::EnsembleTracker;
pub use crate::error::{ClientEnd, Error, InvalidRetryPolicy, Outcome, Result, SessionEnd};
pub use crate::failure_log::{FailureLog, Recovery};
pub use crate::janitor::{Deleted, Deletion, Janitor, PendingDelete, Refusals};
pub use crate::link::{RecursiveWatch, Watch};
#[cfg(feature = "metrics")]
pub use crate::meter::describe_metrics;
#[doc(inline)]
pub use crate::node::find::ProtectionId;
pub use crate::operation::{
    CreateMode, Created, NodeSpec, ReadOperation, ReadResult, Stat, TransactionOperation,
    TransactionResult,
};
#[cfg(feature = "native")]
#[cfg_attr(docsrs, doc(cfg(feature = "native")))]
pub use crate::options::Transport;
pub use crate::path::{InvalidPath, NodePath, PathProblem, ZPath};
pub use crate::retrier::Retrier;
#[cfg(feature = "backoff")]
pub use crate::retry_policy::BackoffRetry;
#[cfg(feature = "serde")]
pub use crate::retry_policy::ConfiguredRetryPolicy;
pub use crate::retry_policy::{
    BoundedExponentialBackoffRetry, ExponentialBackoffRetry, RetryContext, RetryFn, RetryForever,
    RetryNTimes, RetryOneTime, RetryPolicy, RetryUntilElapsed, retry_fn,
};
#[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
pub use crate::sasl::SaslOptions;
pub use crate::server_operations::ServerOperation;
pub use crate::session::{CloseDelay, HeldNode, Request, Session, Turn, WatchingSession};
pub use crate::session_lease::SessionLease;
pub use crate::state::{ConnectionState, ConnectionStates};
pub use crate::time::{ClockInstant, Deadline};
#[cfg(feature = "tls")]
pub use crate::tls::{InvalidTlsOptions, TlsOptions, TlsText};
pub use crate::tls::{TlsFailure, TlsProblem};
pub use crate::transport::{TreeEvent, WatchEvent};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
