//! Compares, after a quiet period, the replay of a stream with the content of its cache, or that content with the
//! servers' nodes.

use super::nodes::{Nodes, show};

/// The paths at which the two differ, with the node of each side.
pub(super) fn differences(one: &Nodes, other: &Nodes) -> Vec<String> {
    let missing = one.iter().filter(|(path, _)| !other.contains_key(*path));
    let missing = missing.map(|(_, node)| format!("{} in place of nothing", show(node)));
    let others = other.iter().filter_map(|(path, node)| match one.get(path) {
        None => Some(format!("nothing in place of {}", show(node))),
        Some(there) if there != node => Some(format!("{} in place of {}", show(there), show(node))),
        Some(_) => None,
    });
    missing.chain(others).collect()
}
