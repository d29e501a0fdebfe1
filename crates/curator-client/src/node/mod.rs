//! Finds nodes whose create was not answered, by their protected names.
//!
//! The types that operations on nodes take and return are also exported here, as in the crate's
//! root.

pub(crate) mod containers;
pub mod find;
pub mod protected;
pub(crate) mod tree;

pub use crate::operation::{
    CreateMode, Created, NodeSpec, TransactionOperation, TransactionResult,
};
