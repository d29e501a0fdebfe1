//! Proof under faults: clients in processes of their own do work under locks while servers, networks and clients fail, and
//! a checker reads afterwards what they have seen.

pub mod checker;
pub mod history;
pub mod nemesis;
pub mod peer;
mod recovery;
pub mod report;
pub mod run;
mod scene;
pub mod store;
pub mod store_protocol;
pub mod work;
pub mod worker;

pub use scene::{Process, boottime_offset, counter_value, exec_tied};
