//! Leadership: one leader among all participants, until it resigns or loses its session; and a job that only the leader runs.

mod campaign;
mod latch;
mod leadership;
mod selector;
mod state;

pub use self::latch::{LeaderLatch, LeaderLatchBuilder};
pub use self::leadership::Leadership;
pub use self::selector::{LeaderSelector, LeaderSelectorBuilder, LeaderSelectorError};
pub use self::state::LeaderState;
