//! Tests of the recipes against a server, embedded or real: the order of holders, ownership, the
//! reports of guards, refusals, costs and faults. The target `matrix` adds faults at each request
//! of a lock.
//!
//! Most tests share one server, on which each test uses separate paths. `support` has other
//! servers: `QuietServer` for tests that count all watches, `adjusted_server` with other settings,
//! and `overflow_server` for the end of a sequence counter. A test that stops its server starts a
//! separate one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure here is the test's failure"
)]

mod acl;
mod acquire_failed;
mod atomic_faults;
mod background_failures;
mod bad_input;
mod cache_faults;
mod cache_permissions;
mod cancel;
mod cancellation_token;
mod changing_directories;
mod compositions;
mod config_faults;
mod cost_at_rest;
#[expect(
    dead_code,
    reason = "only the documentation uses the numbers of Curator"
)]
mod costs;
mod directory;
mod downgrade;
mod embedded;
mod ends_with_client;
mod exclusive;
mod foreign_executor;
#[cfg(unix)]
mod forked;
mod group_member;
mod in_step;
mod leader_latch_faults;
mod leader_selector;
mod leader_selector_faults;
mod logs;
mod loss;
mod loss_handle;
mod metrics;
mod multi_lock;
mod namespaces;
mod non_reentrant;
mod outages;
mod overflow;
mod participants;
mod persistent_node_faults;
mod persistent_node_replaced;
mod persistent_node_restored;
mod printed;
mod read_write;
mod reentry;
mod refused;
mod release;
mod releases;
mod resumed;
mod retry_policies;
mod revocation;
mod runtime_end;
mod secret_data;
mod semaphore;
mod shards;
mod shared_count;
#[path = "../support/mod.rs"]
mod support;
mod surplus;
mod timeouts;
mod transactions;
mod value_paths;
