//! The results of the bench and of the runs under faults: their JSON format, and the tables made
//! from it.
//!
//! `curator-bench` and `curator-jepsen` print these tables, and `cargo xtask docs` writes them into
//! the pages.

pub mod bench;
pub mod faults;
mod table;

pub use table::Table;
