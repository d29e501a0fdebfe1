//! The recovery after each nemesis, and what was left at the end.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The measurements after one nemesis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// The nemesis by its name on the command line.
    pub nemesis: String,
    /// From its end until the first acquire of any of our clients; `None` if there was none within a minute.
    pub first_acquire: Option<Duration>,
    /// From its end until every part of each of our clients had acquired its lock; `None` if a part did not within a
    /// minute.
    pub all_progress: Option<Duration>,
    /// The number of our clients with a part that did not.
    pub never: usize,
    /// Nodes of locks, a session timeout later, whose session belongs to no client.
    pub nodes_left: usize,
    /// Watches of sessions that belong to no client, a session timeout later, without watches on children; `None` if a
    /// server did not answer.
    pub watches_left: Option<usize>,
}

/// What was left after all our clients had been asked to rest, and then to finish: nothing, in a clean run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Our clients that did not rest or finish in time, or did not exit with status 0.
    pub clients: usize,
    /// Our clients whose close of the session was not confirmed. The session expires, so this is no failure.
    pub unclosed: usize,
    /// While our clients rest: they have released all locks, and their sessions are open.
    pub at_rest: Counted,
    /// After they have closed their sessions, and ended.
    pub at_end: Counted,
}

/// What the servers keep: counted until it is nothing, or for a little longer than a session timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Nodes of our locks, of all sessions.
    pub nodes: usize,
    /// Watches on all servers, including those on children; `None` if a server did not answer.
    pub watches: Option<u64>,
}

impl Left {
    /// Whether all clients have finished, and certainly nothing is left.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.clients == 0 && [self.at_rest, self.at_end].iter().all(|it| it.nodes == 0 && it.watches == Some(0))
    }
}

/// Formats the counts, one line each.
pub(crate) fn lines(left: &Left) -> String {
    let Left { clients, unclosed, at_rest, at_end } = left;
    let counted = |Counted { nodes, watches }: &Counted| {
        let watches = watches.map_or("an unknown number of".to_owned(), |watches| watches.to_string());
        format!("{nodes} nodes of locks and {watches} watches left")
    };
    format!(
        "At rest, in living sessions: {}.\nAt the end: {}; {clients} clients that did not finish, {unclosed} closes \
         unconfirmed.\n",
        counted(at_rest),
        counted(at_end)
    )
}

impl Recovery {
    /// Whether every client recovered, and certainly nothing was left behind.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.never == 0 && self.nodes_left == 0 && self.watches_left == Some(0)
    }
}
