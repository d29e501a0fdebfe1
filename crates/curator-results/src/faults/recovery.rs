//! The table of the recovery after each nemesis.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Times, optional_count, seconds};
use crate::Table;

/// The recovery after all strikes of one nemesis.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Recoveries {
    /// The number of strikes.
    pub times: usize,
    /// The time until the first acquire of any of our clients.
    pub first_acquire: Times,
    /// The time until every part of each of our clients had acquired its lock.
    pub all_clients: Times,
    /// The number of our clients with a part that did not acquire its lock within a minute.
    #[serde(rename = "never")]
    pub not_recovered: usize,
    /// The number of lock nodes, one session timeout later, whose session does not belong to a running client.
    pub nodes_left: usize,
    /// The number of watches of such sessions; `None` if a server did not reply.
    pub watches_left: Option<usize>,
}

/// One row for each kind of nemesis.
pub(super) fn table(recovery: &BTreeMap<String, Recoveries>) -> Table {
    let mut table = Table::new(&[
        "Nemesis",
        "times",
        "first acquire, median",
        "worst",
        "all clients, median",
        "worst",
        "not recovered",
        "orphaned nodes",
        "orphaned watches",
    ]);
    for (nemesis, of) in recovery {
        table.row([
            nemesis.clone(),
            of.times.to_string(),
            seconds(of.first_acquire.median),
            seconds(of.first_acquire.worst),
            seconds(of.all_clients.median),
            seconds(of.all_clients.worst),
            of.not_recovered.to_string(),
            of.nodes_left.to_string(),
            optional_count(of.watches_left),
        ]);
    }
    table
}
