//! The order of a cache's nodes: by parent, then by name, so that siblings are adjacent.

use std::cmp::Ordering;

use curator_client::ZPath;

/// A path as a map key, ordered by the parent, then by the name. A parent comes before its children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    path: ZPath,
    /// The length of the parent's path without a trailing slash. Stored, because a tree compares far more often than it
    /// inserts.
    parent: usize,
}

impl Place {
    pub(super) fn new(path: ZPath) -> Self {
        let parent = path.as_str().rfind('/').unwrap_or(0);
        Self { path, parent }
    }

    pub(super) fn path(&self) -> &ZPath {
        &self.path
    }

    pub(super) fn into_path(self) -> ZPath {
        self.path
    }

    /// The path of the parent, and the rest. The root has an empty parent, like its children, and comes before them.
    fn parts(&self) -> (&str, &str) {
        self.path.as_str().split_at_checked(self.parent).unwrap_or_default()
    }

    /// Whether it is a child of the node at `parent`.
    pub(super) fn is_child_of(&self, parent: &ZPath) -> bool {
        let (dir, _) = self.parts();
        !self.path.is_root() && dir == if parent.is_root() { "" } else { parent.as_str() }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_sort_parents_first_and_siblings_together() {
        let paths = ["/", "/a", "/a!", "/b", "/a/ ", "/a/c", "/a!/b", "/a/c/d"];
        let places = paths.map(|path| Place::new(ZPath::on_server(path).unwrap()));
        let mut sorted = places.to_vec();
        sorted.sort();
        assert_eq!(sorted, places);
        let children = |parent: &str| {
            let parent = ZPath::on_server(parent).unwrap();
            places
                .iter()
                .filter(|place| place.is_child_of(&parent))
                .map(|place| place.path().as_str())
                .collect::<Vec<_>>()
        };
        assert_eq!(children("/"), ["/a", "/a!", "/b"]);
        assert_eq!(children("/a"), ["/a/ ", "/a/c"]);
        assert_eq!(children("/a/c/d"), [""; 0]);
    }
}
