//! The properties that workloads check while they run.

mod moments;
mod numbers;
mod owners;

pub use moments::{Moments, State, states};
pub use numbers::{Counted, Rising, Store, Unique};
pub use owners::{Entry, Kind, Owners};
