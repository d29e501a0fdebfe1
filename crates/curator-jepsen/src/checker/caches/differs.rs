//! Compares the replay of a stream with the content of its cache, and this content with the
//! servers' nodes, while all clients pause their writes.

use super::nodes::{Nodes, show};

/// The paths at which the two differ, with the node of each side.
pub(super) fn differences(one: &Nodes, other: &Nodes) -> Vec<String> {
    let missing = one.iter().filter(|(path, _)| !other.contains_key(*path));
    let missing = missing.map(|(_, node)| format!("{} instead of no node", show(node)));
    let others = other.iter().filter_map(|(path, node)| match one.get(path) {
        None => Some(format!("no node instead of {}", show(node))),
        Some(found) if found != node => Some(format!("{} instead of {}", show(found), show(node))),
        Some(_) => None,
    });
    missing.chain(others).collect()
}
