//! The client against a server, embedded or real, through a network that fails on demand.
//!
//! Only this suite finds errors between a whole client and a server: calls, watches, deletes and
//! log lines when the connection, the session, the client or the runtime ends at a chosen message.
//!
//! Each module covers one concept. Tests share one server and use different paths. A test that
//! stops or pauses a server, or counts requests, has a separate server or proxy.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test, a panic is the way to fail"
)]

mod acl;
mod auto_traits;
mod bounds;
mod closing;
mod connecting;
mod connections;
mod data;
mod deadlines;
mod deletes;
mod embedded;
#[cfg(unix)]
mod exhausted;
mod health;
mod lease;
mod log;
mod namespaces;
mod paused_clock;
mod pipeline;
mod printed;
mod recovery;
mod refusals;
mod releases;
mod replaced_sessions;
mod retries;
mod runtimes;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod sandbox;
mod sasl;
#[cfg(unix)]
mod stalled;
mod starting;
mod states;
#[path = "../support/mod.rs"]
mod support;
mod unused_sessions;
