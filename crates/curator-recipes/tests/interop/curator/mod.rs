//! Java Curator's recipes together with ours.

mod barriers;
mod counters;
mod discovery;
mod failover;
mod groups;
mod killed;
mod kinds;
mod leader_latch;
mod leader_selector;
mod multi_lock;
mod mutex;
mod nodes;
mod read_write;
mod replica;
mod revocation;
mod semaphore;
mod stage;

use test_support::java;
