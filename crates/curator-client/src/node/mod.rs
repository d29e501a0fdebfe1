//! Finds nodes whose create was not answered, by their protected names.
//!
//! The types that operations on nodes take and return are also exported here, as in the crate's
//! root.

pub mod find;

pub use crate::operation::{
    CreateMode, Created, NodeSpec, TransactionOperation, TransactionResult,
};
