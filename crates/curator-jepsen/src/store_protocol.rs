//! The protocol between workers and the store, over TCP: each request and each reply is one line of
//! JSON.
//!
//! The store is a process that no nemesis affects. It keeps sets of strings, and for each set the
//! highest fencing token that it has received.

use serde::{Deserialize, Serialize};

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Request {
    /// Reads all elements of a set. A set that was never written is empty.
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
        /// The new elements.
        elements: Vec<String>,
        /// The writer's fencing token.
        token: Option<i64>,
    },
}

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Answer {
    /// The reply to a read.
    Elements {
        /// The elements, in the order in which they were added.
        elements: Vec<String>,
    },
    /// The set was written.
    Written,
    /// The token is stale: a newer holder has used the set.
    Stale,
    /// The request is malformed; nothing was changed.
    Invalid {
        /// What is wrong with it.
        why: String,
    },
}
