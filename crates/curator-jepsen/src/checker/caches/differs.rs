//! After quiet, the replay of a stream, the content of its cache and the nodes of the servers are the same.

use super::nodes::{Nodes, show};

/// The paths that are not the same in both, with what each has there.
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
