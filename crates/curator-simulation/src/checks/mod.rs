//! The properties that workloads check while they run.

mod numbers;
mod owners;
mod store;

pub use numbers::{Counted, Rising, Unique};
pub use owners::{Entry, Kind, Owners};
pub use store::Store;
