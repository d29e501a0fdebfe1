//! How workers talk to the store: a line of JSON each way, over TCP.
//!
//! The store is a process that no nemesis touches. It keeps sets of strings, and for each set the highest fencing token that
//! it has seen.

use serde::{Deserialize, Serialize};

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Request {
    /// All elements of a set. One that was never written is empty.
    Read {
        /// Which set.
        set: String,
        /// The reader's fencing token; the store compares and remembers it.
        token: Option<i64>,
    },
    /// Replaces a set.
    Write {
        /// Which set.
        set: String,
        /// All its elements from now on.
        elements: Vec<String>,
        /// The writer's fencing token.
        token: Option<i64>,
    },
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Answer {
    /// What was read.
    Elements {
        /// In the order of their coming.
        elements: Vec<String>,
    },
    /// The set is written.
    Written,
    /// A newer holder has come.
    Stale,
    /// The request makes no sense, and nothing was done.
    Invalid {
        /// What is wrong with it.
        why: String,
    },
}
