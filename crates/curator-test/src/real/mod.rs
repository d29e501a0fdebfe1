//! Apache ZooKeeper servers, in separate processes.

mod files;
mod partition;
mod process;
mod server;
mod snapshot;

pub(crate) use partition::{InternalPorts, Network};
pub(crate) use server::RealServer;
