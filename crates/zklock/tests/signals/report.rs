//! What rounds have found, and how much they have tried.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// The findings and the counts of a round.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) rounds: u64,
    pub(crate) starts: u64,
    pub(crate) works: u64,
    pub(crate) sent: BTreeMap<String, u64>,
    pub(crate) overlaps: u64,
    pub(crate) left_over: u64,
    pub(crate) innocent: u64,
    /// The bystanders that had the number of a command's group.
    pub(crate) reused: u64,
    /// The rounds whose overlaps do not count, because both zklock and its guardian were disabled,
    /// or because the machine stood still.
    pub(crate) unprotected: u64,
    pub(crate) stalled: u64,
    pub(crate) not_promised: u64,
    pub(crate) findings: Vec<String>,
    /// The log of all events, if there are findings.
    pub(crate) log: String,
}

impl AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.starts += other.starts;
        self.works += other.works;
        other
            .sent
            .into_iter()
            .for_each(|(signal, count)| *self.sent.entry(signal).or_default() += count);
        self.overlaps += other.overlaps;
        self.left_over += other.left_over;
        self.innocent += other.innocent;
        self.reused += other.reused;
        self.unprotected += other.unprotected;
        self.stalled += other.stalled;
        self.not_promised += other.not_promised;
        self.findings.extend(other.findings);
    }
}
