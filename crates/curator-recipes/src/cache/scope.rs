//! Decides which nodes belong to a cache.

use std::sync::Arc;

use curator_client::ZPath;

/// The root of a cache, its depth, and its filter.
#[derive(Clone)]
pub(super) struct Scope {
    pub(super) root: ZPath,
    /// The levels below the root; 0 for the root alone.
    pub(super) max_depth: usize,
    /// Whether users see the root. The cache reads it in any case, for the names of its children.
    pub(super) shows_root: bool,
    pub(super) filter: Option<Filter>,
}

/// Whether a node belongs to the cache. The descendants of an excluded node are excluded too.
pub(super) type Filter = Arc<dyn Fn(&ZPath) -> bool + Send + Sync>;

impl Scope {
    /// How many levels `path` is below the root; `None` if it is not below the root.
    fn depth(&self, path: &ZPath) -> Option<usize> {
        let root = if self.root.is_root() {
            ""
        } else {
            self.root.as_str()
        };
        match path.as_str().strip_prefix(root)? {
            "" | "/" => Some(0),
            below => below.starts_with('/').then(|| below.matches('/').count()),
        }
    }

    pub(super) fn contains(&self, path: &ZPath) -> bool {
        if self.depth(path).is_none_or(|depth| depth > self.max_depth) {
            return false;
        }
        let Some(filter) = &self.filter else {
            return true;
        };
        let is_below_root = |node: &ZPath| node.as_str().len() > self.root.as_str().len();
        // From the top down, because the filter can exclude an ancestor. The ancestors share the
        // text of `path`.
        path.ancestors()
            .chain([path.clone()])
            .filter(is_below_root)
            .all(|node| filter(&node))
    }

    /// Whether users see the node at `path`, if it exists.
    pub(super) fn shows(&self, path: &ZPath) -> bool {
        (self.shows_root || *path != self.root) && self.contains(path)
    }

    /// Whether the children of a node of the cache belong to it too.
    pub(super) fn goes_below(&self, path: &ZPath) -> bool {
        self.depth(path).is_some_and(|depth| depth < self.max_depth)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn path(text: &str) -> ZPath {
        ZPath::on_server(text).unwrap()
    }

    fn scope_of(root: &str, max_depth: usize, filter: Option<Filter>) -> Scope {
        Scope {
            root: path(root),
            max_depth,
            shows_root: true,
            filter,
        }
    }

    fn contained(scope: &Scope, paths: &[&str]) -> Vec<bool> {
        paths
            .iter()
            .map(|text| scope.contains(&path(text)))
            .collect()
    }

    #[test]
    fn the_depth_counts_from_the_root_of_the_cache() {
        let scope = scope_of("/a", 1, None);
        assert_eq!(
            contained(&scope, &["/a", "/a/b", "/a/b/c", "/ab", "/", "/b"]),
            [true, true, false, false, false, false]
        );
        assert_eq!(
            ["/a", "/a/b", "/b"].map(|text| scope.goes_below(&path(text))),
            [true, false, false]
        );
        let all = scope_of("/", usize::MAX, None);
        assert_eq!(contained(&all, &["/", "/a", "/a/b/c"]), [true; 3]);
        let top = scope_of("/", 1, None);
        assert_eq!(contained(&top, &["/", "/a", "/a/b"]), [true, true, false]);
    }

    /// Otherwise, the bytes of all ancestors of a deep path would be copied.
    #[test]
    fn the_filter_gets_each_ancestor_once_and_without_a_copy_of_the_text() {
        let deep = path(&"/a".repeat(1_000));
        let (text, seen) = (
            deep.as_str().as_ptr() as usize,
            Arc::new(AtomicUsize::new(0)),
        );
        let count = Arc::clone(&seen);
        let filter: Filter = Arc::new(move |path| {
            assert_eq!(path.as_str().as_ptr() as usize, text);
            count.fetch_add(1, Ordering::Relaxed);
            true
        });
        assert!(scope_of("/a", usize::MAX, Some(filter)).contains(&deep));
        assert_eq!(seen.load(Ordering::Relaxed), 999);
    }

    #[test]
    fn the_filter_excludes_whole_subtrees_and_never_the_root() {
        let filter: Filter = Arc::new(|path| path.name() != "hidden");
        for root in ["/hidden", "/"] {
            let scope = scope_of(root, usize::MAX, Some(Arc::clone(&filter)));
            let below = |rest: &str| path(&format!("{}{rest}", root.trim_end_matches('/')));
            assert!(scope.contains(&path(root)));
            assert!(scope.contains(&below("/a")) && scope.contains(&below("/a/b")));
            assert!(!scope.contains(&below("/a/hidden")) && !scope.contains(&below("/a/hidden/b")));
            assert!(!scope.contains(&below("/hidden/hidden")));
        }
    }
}
