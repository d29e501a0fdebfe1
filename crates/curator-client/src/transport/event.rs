//! What watches report.

use crate::path::ZPath;

/// What a watch saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WatchEvent {
    /// The node was created.
    Created,
    /// The node was deleted.
    Deleted,
    /// The node's data changed.
    DataChanged,
    /// A child of the node was created or deleted.
    ChildrenChanged,
    /// The watch is gone because its connection is broken, and changes may have been missed. The session may continue
    /// over another connection; if so, read the node again, and set a new watch.
    Interrupted,
    /// The session is over, and the watch with it.
    SessionEnded,
}

/// What a [`RecursiveWatch`](crate::RecursiveWatch) saw.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TreeEvent {
    /// This node was created.
    Created(ZPath),
    /// This node was deleted.
    Deleted(ZPath),
    /// The data of this node changed.
    DataChanged(ZPath),
    /// The connection of the watch has ended, and the watch with it. Changes since then are not reported: set a new
    /// watch, then read everything again.
    Interrupted,
}
