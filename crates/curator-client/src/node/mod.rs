//! Finding nodes whose create was not answered, and the protected names that this needs.
//!
//! The types that operations on nodes take and return are here too, as in the crate's root.

pub(crate) mod containers;
pub mod find;
pub mod protected;
pub(crate) mod tree;

pub use crate::operation::{CreateMode, Created, NodeSpec, TransactionOperation, TransactionResult};
