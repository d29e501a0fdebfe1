//! The table of the recovery after each nemesis.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Times, known, seconds};
use crate::Table;

/// The recovery after all strikes of one nemesis.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Recoveries {
    /// The number of strikes.
    pub times: usize,
    /// Until the first acquire of any of our clients.
    pub first_acquire: Times,
    /// Until every part of each of our clients had acquired its lock.
    pub all_clients: Times,
    /// The number of our clients with a part that did not within a minute.
    pub never: usize,
    /// Nodes of locks, a session timeout later, whose session belongs to no client.
    pub nodes_left: usize,
    /// Watches of such sessions; `None` if a server did not answer.
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
        "never",
        "nodes of nobody",
        "watches of nobody",
    ]);
    for (nemesis, of) in recovery {
        table.row([
            nemesis.clone(),
            of.times.to_string(),
            seconds(of.first_acquire.median),
            seconds(of.first_acquire.worst),
            seconds(of.all_clients.median),
            seconds(of.all_clients.worst),
            of.never.to_string(),
            of.nodes_left.to_string(),
            known(of.watches_left),
        ]);
    }
    table
}
