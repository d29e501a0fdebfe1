//! Apache ZooKeeper servers, in separate processes.

mod cluster;
mod distribution;
mod files;
mod logging;
mod partition;
mod process;
mod server;
mod snapshot;

pub use cluster::{TestingCluster, TestingClusterBuilder};
pub use distribution::{Distribution, NotFound, Origin, PINNED_VERSION};
pub(crate) use server::RealServer;
