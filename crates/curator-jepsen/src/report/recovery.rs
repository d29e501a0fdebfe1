//! The recovery after each nemesis, and what was left at the end.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The measurements after one nemesis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// The name of the nemesis on the command line.
    pub nemesis: String,
    /// The time from the end of the nemesis until the first acquire of any of our clients; `None`
    /// without an acquire within a minute.
    pub first_acquire: Option<Duration>,
    /// The time from the end of the nemesis until every part of each of our clients had acquired
    /// its lock; `None` if a part did not acquire its lock within a minute.
    pub all_progress: Option<Duration>,
    /// The number of our clients with a part that did not acquire its lock within a minute.
    #[serde(rename = "never")]
    pub not_recovered: usize,
    /// The number of nodes of locks, one session timeout later, whose session no running client has
    /// reported within another session timeout and a little more.
    pub nodes_left: usize,
    /// The number of watches of such sessions, without watches on children; `None` if a server did
    /// not reply.
    pub watches_left: Option<usize>,
}

/// What is left after all our clients had to rest, and then to finish. In a clean run, all numbers
/// but `unclosed` are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftovers {
    /// The number of our clients that did not rest or finish in time, or did not exit with status
    /// 0.
    pub clients: usize,
    /// The number of our clients whose close of the session was not confirmed. Such a session
    /// expires, so the run can be clean.
    pub unclosed: usize,
    /// Counted while our clients rest: they have released all locks, and their sessions are open.
    pub at_rest: LeftoverCounts,
    /// Counted after our clients have closed their sessions and ended.
    pub at_end: LeftoverCounts,
}

/// The nodes and watches on the servers. They are counted repeatedly until both numbers are 0, or
/// for a little longer than a session timeout; these are the last numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftoverCounts {
    /// The nodes of our locks that belong to a session.
    pub nodes: usize,
    /// The watches on all servers, including watches on children; `None` if a server did not reply.
    pub watches: Option<u64>,
}

impl Leftovers {
    /// Whether all clients have finished, and certainly nothing is left.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.clients == 0
            && [self.at_rest, self.at_end]
                .iter()
                .all(|it| it.nodes == 0 && it.watches == Some(0))
    }
}

/// Formats the counts, one line each.
pub(crate) fn lines(left: &Leftovers) -> String {
    let Leftovers {
        clients,
        unclosed,
        at_rest,
        at_end,
    } = left;
    let counted = |LeftoverCounts { nodes, watches }: &LeftoverCounts| {
        let watches = watches.map_or("an unknown number of".to_owned(), |watches| {
            watches.to_string()
        });
        format!("{nodes} nodes of locks and {watches} watches")
    };
    format!(
        "Left at rest, while the sessions are open: {}.\nLeft at the end: {}. Clients that did not finish: {clients}. \
         Unconfirmed closes: {unclosed}.\n",
        counted(at_rest),
        counted(at_end)
    )
}

impl Recovery {
    /// Whether every client recovered, and certainly nothing was left behind.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.not_recovered == 0 && self.nodes_left == 0 && self.watches_left == Some(0)
    }
}
