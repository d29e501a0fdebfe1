//! Leader election: one participant leads until it resigns or loses its session. Also runs a job in
//! the leader, and observes the leader.

mod campaign;
mod latch;
mod leadership;
mod observer;
mod selector;

pub use self::latch::{LeaderLatch, LeaderLatchBuilder};
pub(crate) use self::leadership::another_waits;
pub use self::leadership::{LeaderState, Leadership};
pub use self::observer::{LeaderObserver, ObservedLeader};
pub use self::selector::{LeaderSelector, LeaderSelectorBuilder, LeaderSelectorError};

/// The lock name of a latch's nodes.
const LATCH_NAME: &str = "latch-";
/// The lock name of a selector's nodes, the same as a mutex's.
const SELECTOR_NAME: &str = "lock-";
