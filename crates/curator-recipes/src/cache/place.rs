//! The order of a cache's nodes: the children of a node stand next to each other.

use std::cmp::Ordering;

use curator_client::ZPath;

/// A path as a key: ordered by the parent, then by the name. A parent comes before its children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place(pub(super) ZPath);

impl Place {
    /// The path of the parent, and the name. The root has two empty texts, and its children an empty parent.
    fn parts(&self) -> (&str, &str) {
        self.0.as_str().rsplit_once('/').unwrap_or_default()
    }

    /// Whether it is a child of the node at `parent`.
    pub(super) fn is_child_of(&self, parent: &ZPath) -> bool {
        let (dir, name) = self.parts();
        !name.is_empty() && dir == if parent.is_root() { "" } else { parent.as_str() }
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
