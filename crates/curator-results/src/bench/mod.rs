//! The results of the bench: [`Document`] is their JSON.

mod caches;
mod cells;
mod document;
mod number;
mod peer;
mod statistics;
mod tables;

pub use document::{
    Cache, CaseResults, Counts, Crowd, Document, EnvironmentResults, Floor, Kind, PeerResults,
    Reconnect, Round,
};
pub use number::{NOTHING, number};
pub use peer::Peer;
pub use statistics::Spread;
pub use tables::markdown;
