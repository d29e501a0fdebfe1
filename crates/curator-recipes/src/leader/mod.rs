//! Leadership: one leader among all participants, until it resigns or loses its session.

mod campaign;
mod latch;
mod leadership;
mod state;

pub use self::latch::{LeaderLatch, LeaderLatchBuilder};
pub use self::leadership::Leadership;
pub use self::state::LeaderState;
