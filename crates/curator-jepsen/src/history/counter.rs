//! Events of counters.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::Outcome;

/// The node above all counters. Each kind has a node below it.
pub const COUNTERS: &str = "/jepsen-counters";

/// The node above the receipts of all processes.
pub const RECEIPTS: &str = "/jepsen-receipts";

/// The kinds of counters of our processes. All processes increment one node of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CounterKind {
    /// If the reply to a change is lost, the outcome is reported as unknown.
    Plain,
    /// After a few optimistic tries, an increment acquires a mutex.
    Promoted,
    /// Each process has a receipt, so that every change is applied exactly once.
    Receipt,
}

impl CounterKind {
    /// The key of the kind, in histories and reports.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Plain => "counter-plain",
            Self::Promoted => "counter-promoted",
            Self::Receipt => "counter-receipt",
        }
    }

    /// The kind with this key; `None` for the key of a peer's counter, and for other keys.
    #[must_use]
    pub fn of(key: &str) -> Option<Self> {
        Self::value_variants()
            .iter()
            .copied()
            .find(|kind| kind.key() == key)
    }

    /// The node of the counter with this key.
    #[must_use]
    pub fn path(key: &str) -> String {
        format!("{COUNTERS}/{key}")
    }
}

/// The number of applied increments by receipt. The name of a receipt's node is `w` and the number
/// of its client.
pub type Receipts = BTreeMap<String, u64>;

/// One event of a process that increments counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "counter", rename_all = "kebab-case")]
pub enum CounterSeen {
    /// An increment by one is about to begin.
    Counting {
        /// Its number in this life of the process, for this counter.
        number: u64,
    },
    /// The increment has ended.
    Counted {
        /// Its number.
        number: u64,
        /// The value after it, if it is acknowledged.
        value: Option<i64>,
        /// Whether it was applied.
        outcome: Outcome,
    },
    /// By the conductor, after all clients have ended: the content of the counter's node.
    AtEnd {
        /// The value; 0 if the node does not exist.
        value: i64,
        /// The receipts, if the counter has any.
        receipts: Option<Receipts>,
    },
}
