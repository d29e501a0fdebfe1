//! The tests of `server`, with `Transport::Native`: both transports keep the same contract. `cargo xtask test` runs them on
//! simulated servers, which keep that of the other servers.
//!
//! Left out are the tests of what only the other transport does: the workarounds for `zookeeper-client`. Added are those of
//! what only this one does.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test, a panic is the way to fail")]
#![allow(dead_code, unused_imports, reason = "some tests are left out")]

/// Tests of the workarounds for `zookeeper-client`.
macro_rules! of_zookeeper_client {
    ($($item:item)*) => {};
}

#[path = "../server/acl.rs"]
mod acl;
#[path = "../server/bounds.rs"]
mod bounds;
#[path = "../server/closing.rs"]
mod closing;
#[path = "../server/connecting.rs"]
mod connecting;
#[path = "../server/connections.rs"]
mod connections;
#[path = "../server/create.rs"]
mod create;
#[path = "../server/create_or_set.rs"]
mod create_or_set;
#[path = "../server/data.rs"]
mod data;
#[path = "../server/deadlines.rs"]
mod deadlines;
#[path = "../server/deletes.rs"]
mod deletes;
#[path = "../server/exhausted.rs"]
mod exhausted;
#[path = "../server/health.rs"]
mod health;
#[path = "../server/joint_deletes.rs"]
mod joint_deletes;
#[path = "../server/lease.rs"]
mod lease;
#[path = "../server/limits.rs"]
mod limits;
#[path = "../server/log.rs"]
mod log;
#[path = "../server/multi_read.rs"]
mod multi_read;
#[path = "../server/namespaces.rs"]
mod namespaces;
#[path = "../server/paused_clock.rs"]
mod paused_clock;
#[path = "../server/pipeline.rs"]
mod pipeline;
#[path = "../server/printed.rs"]
mod printed;
#[path = "../server/recovery.rs"]
mod recovery;
#[path = "../server/refusals.rs"]
mod refusals;
#[path = "../server/replaced_sessions.rs"]
mod replaced_sessions;
#[path = "../server/resuming.rs"]
mod resuming;
#[path = "../server/retries.rs"]
mod retries;
#[path = "../server/runtimes.rs"]
mod runtimes;
#[path = "../server/sandbox.rs"]
mod sandbox;
#[path = "../server/sasl.rs"]
mod sasl;
#[path = "../server/stalled.rs"]
mod stalled;
#[path = "../server/starting.rs"]
mod starting;
#[path = "../server/states.rs"]
mod states;
#[path = "../support/mod.rs"]
mod support;
#[path = "../server/tls.rs"]
mod tls;
#[path = "../server/transactions.rs"]
mod transactions;
#[path = "../server/transactions_in_session.rs"]
mod transactions_in_session;
#[path = "../server/tree_deletes.rs"]
mod tree_deletes;
mod unused_sessions;
#[path = "../server/watches.rs"]
mod watches;
