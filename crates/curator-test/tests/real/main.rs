//! Features of a real ZooKeeper only: processes, and ensembles of them.
//!
//! Only this suite finds a process or directory that outlives its owner, and a partition that does
//! not cut or heal.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's failure")]

mod cluster;
mod process;
#[path = "../support/mod.rs"]
mod support;
mod watchdog;
