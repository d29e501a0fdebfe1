//! The client against a server, embedded or real, through a network that fails on demand.
//!
//! Only this suite finds errors between a whole client and a server: calls, watches, deletes and log lines when the
//! connection, the session, the client or the runtime ends at a chosen message.
//!
//! Each module covers one concept. Tests share one server and use different paths. A test that stops or pauses a
//! server, or counts requests, has a separate server or proxy.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test, a panic is the way to fail")]

/// Tests of the workarounds for `zookeeper-client`.
macro_rules! of_zookeeper_client {
    ($($item:item)*) => { $($item)* };
}

mod acl;
mod bounds;
mod closing;
mod connecting;
mod connections;
mod create;
mod create_or_set;
mod data;
mod deadlines;
mod deletes;
#[cfg(unix)]
mod exhausted;
mod health;
mod joint_deletes;
mod lease;
mod limits;
mod log;
mod multi_read;
mod namespaces;
mod paused_clock;
mod pipeline;
mod printed;
mod recovery;
mod refusals;
mod replaced_sessions;
mod resuming;
mod retries;
mod runtimes;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod sandbox;
mod sasl;
#[cfg(unix)]
mod stalled;
mod starting;
mod states;
#[path = "../support/mod.rs"]
mod support;
mod tls;
mod transactions;
mod transactions_in_session;
mod tree_deletes;
mod watches;
