//! Operations on nodes.

pub(crate) mod containers;
pub mod find;
pub mod protected;

pub use crate::operation::{CreateMode, Created, NodeSpec, TransactionOperation, TransactionResult};
