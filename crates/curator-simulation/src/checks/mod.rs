//! The properties that workloads check while they run.

mod moments;
mod numbers;
mod owners;
mod store;

pub use moments::{Moments, State, states};
pub use numbers::{Counted, Rising, Unique};
pub use owners::{Entry, Kind, Owners};
pub use store::Store;
