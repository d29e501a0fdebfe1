//! Finds nodes by their protected names when the reply to their create was lost.
//!
//! The types that operations on nodes take and return are also exported here, as in the crate's
//! root.

pub mod find;

pub use crate::operation::{
    CreateMode, Created, NodeSpec, TransactionOperation, TransactionResult,
};
