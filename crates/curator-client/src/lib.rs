//! One ZooKeeper session, kept alive.
//!
//! A [`CuratorClient`] connects, retries by a [`RetryPolicy`], reports every [`ConnectionState`], and replaces its
//! [`Session`] when that is lost. Each session has a [`SessionLease`], which says for how long the session is *certainly* alive,
//! whatever the network does. The locks of `curator-recipes` are built on this crate.
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
//! | How does my client prove who it is? | `SaslOptions`, with the feature `sasl-digest-md5` or `sasl-gssapi`; [`CuratorClientBuilder::authorization`] |
//! | How do I connect by TLS? | `TlsOptions`, with the feature `tls` |
//! | Can my service start before its ensemble? | [`CuratorClientBuilder::start`] |
//! | What do I tell a readiness probe? | [`CuratorClient::health`] |
//! | What is logged? | [below](#log) |
//! | Is the session alive? Was it lost? | [`SessionLease`], [`ConnectionStates`], [`Session::ended`] |
//! | What is retried, and how often? | [`RetryPolicy`] |
//! | Can I repeat a failed call? May it have been applied? | [`Error::is_retryable`], [`Error::outcome`] |
//! | How do several requests cost one round trip? | [`Session`] |
//! | What became of a delete whose connection broke? | [`Janitor`] |
//! | How is a node found whose create was not answered? | [`node::find`], by its protected name: [`ProtectionId`] |
//!
//! # Log
//!
//! By [`tracing`]. Every event has the field `client`: the [name](CuratorClientBuilder::name) of the client. At `info` there is one
//! event for each thing that becomes of the client's session. Session ids are written as ZooKeeper's own log has them.
//!
//! | Event at `info` | Fields | What has happened |
//! |---|---|---|
//! | `connecting` | `servers` | the client was started |
//! | `session opened` | `session`, `server`, `timeout`, `lasted` | the client has its first session. `timeout` is what the server granted, `lasted` how long it took |
//! | `session suspended` | `session`, `why` | [`Suspended`](ConnectionState::Suspended): the connection broke, or the server is slow to answer |
//! | `not connected` | `lasted`, `cause` | the first attempt to connect has failed; then once a minute. `cause` names each server, and what is wrong with it |
//! | `session resumed over another connection` | `session`, `server`, `lasted` | [`Reconnected`](ConnectionState::Reconnected): the session goes on, with its nodes and locks |
//! | `session confirmed` | `session`, `lasted` | the same, over the connection that it had |
//! | `session lost` | `session`, `why`, `suspended_for`, `cause` | [`Lost`](ConnectionState::Lost): the session is over, and its nodes and locks are gone |
//! | `session opened in place of the lost one` | `session`, `server`, `timeout`, `lasted` | [`Reconnected`](ConnectionState::Reconnected), in a new session |
//! | `client closed` | `confirmed` | the client was closed; whether the server has confirmed the end of the session |
//!
//! `warn` means that a node could not be deleted, or that the runtime ended before the client was closed. `debug` has each attempt to connect, each probe that fails and each retry;
//! `trace` has each request, with its path and size. No data, credentials or session passwords are logged.
//!
//! The client crate `zookeeper-client` logs every connection by itself, at `info` and `warn`. A filter such as
//! `info,zookeeper_client=error` leaves that out.
//!
//! # Features
//!
//! - `backoff`, on by default: `BackoffRetry`, which makes policies of the curves of the crate `backoff`.
//!   That crate and its dependency `instant` are no longer maintained (RUSTSEC-2025-0012, RUSTSEC-2024-0384). With
//!   `default-features = false` neither is compiled, and nothing but that adapter is missing.
//! - `serde`: [`ConnectionState`], [`SessionEnd`], [`ZPath`] and [`ConnectString`] in messages and files;
//!   [`CuratorClientBuilder`] and `ConfiguredRetryPolicy`, a client and a policy from a configuration file.
//! - `sasl-digest-md5` and `sasl-gssapi`: `SaslOptions` and `CuratorClientBuilder::sasl`, by which a client proves who it is: with
//!   a user and a password, or with a Kerberos ticket. `sasl-gssapi` needs the system's Kerberos library and libclang (Debian:
//!   `libkrb5-dev`, `libclang-dev`).
//! - `tls`: connections by TLS, with `TlsOptions` and `CuratorClientBuilder::tls`. It builds `aws-lc-rs`, which needs a C
//!   compiler.
//!
//! # Versions
//!
//! Which types of other crates are part of this one's interface, and what a new version may change:
//! [Stability](https://github.com/curator-rs/curator-rs/blob/main/docs/stability.md).

#![cfg_attr(docsrs, feature(doc_cfg))]
// Whether a type may grow is decided when it is written: it is `non_exhaustive`, or says why not.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod acl;
#[cfg(test)]
mod auto_traits;
mod client;
mod clock;
mod closing;
mod connect_string;
mod connection;
mod error;
mod extensions;
mod janitor;
mod journal;
mod local_address;
mod meter;
pub mod node;
mod node_path;
mod operation;
mod options;
mod outage;
mod panicked;
mod path;
mod process;
mod retrier;
mod retry_policy;
#[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
mod sasl;
mod session;
mod session_lease;
mod sessions;
mod silence;
mod state;
mod supervisor;
#[cfg(feature = "serde")]
mod text;
mod timer;
mod tls;
mod truncated;
mod zk;

pub use crate::acl::{Acl, AclProvider, AuthId, Permission, digest_id};
pub use crate::client::{
    ClientHealth, ConnectionFailure, CreateBuilder, CuratorClient, CuratorClientBuilder, DeleteBuilder, RecipeSupport,
    Transaction, WatchingClient,
};
pub use crate::clock::ClockInstant;
pub use crate::connect_string::{ConnectString, ConnectStringProblem, HostPort, InvalidConnectString};
pub use crate::error::{ClientEnd, Error, Outcome, Result, SessionEnd};
pub use crate::janitor::{Janitor, PendingDelete, Refusals};
#[doc(inline)]
pub use crate::node::protected::ProtectionId;
pub use crate::node_path::NodePath;
pub use crate::operation::{
    CreateMode, Created, NodeSpec, ReadOperation, ReadResult, Stat, TransactionOperation, TransactionResult,
};
pub use crate::path::{InvalidPath, PathProblem, ZPath};
pub use crate::retrier::Retrier;
#[cfg(feature = "backoff")]
pub use crate::retry_policy::BackoffRetry;
#[cfg(feature = "serde")]
pub use crate::retry_policy::ConfiguredRetryPolicy;
pub use crate::retry_policy::{
    BoundedExponentialBackoffRetry, ExponentialBackoffRetry, InvalidRetryPolicy, RetryForever, RetryNTimes,
    RetryOneTime, RetryPolicy, RetryUntilElapsed,
};
#[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
pub use crate::sasl::SaslOptions;
pub use crate::session::{HeldNode, Request, Session, Turn, WatchingSession};
pub use crate::session_lease::SessionLease;
pub use crate::state::{ConnectionState, ConnectionStates};
pub use crate::timer::Deadline;
#[cfg(feature = "tls")]
pub use crate::tls::{InvalidTlsOptions, TlsOptions, TlsText};
pub use crate::tls::{TlsFailure, TlsProblem};
pub use crate::zk::recursive_watch::{RecursiveWatch, TreeEvent};
pub use crate::zk::watch::{Watch, WatchEvent};

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
