//! Apache ZooKeeper itself, in processes of its own.

mod cluster;
mod distribution;
mod files;
mod process;
mod server;
mod snapshot;

pub use cluster::{TestingCluster, TestingClusterBuilder};
pub use distribution::{Distribution, NotFound, Origin, PINNED_VERSION};
pub(crate) use server::RealServer;
