//! Tests locks under faults: client processes work under locks while servers, networks and clients
//! fail, and afterwards a checker reads the histories that the clients have recorded.

pub mod checker;
pub mod history;
pub mod nemesis;
pub mod peer;
pub mod report;
pub mod run;
mod scene;
pub mod store;
pub mod work;
pub mod worker;

pub use scene::{Process, boottime_offset, counter_value, exec_tied};
