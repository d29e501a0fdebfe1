//! Decides which nodes belong to a cache, and records which of them its client cannot read.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use curator_client::ZPath;
use rpds::RedBlackTreeSetSync;

/// The root of a cache, its depth, and its filter.
#[derive(Clone)]
pub(super) struct Scope {
    pub(super) root: ZPath,
    /// The levels below the root; 0 for the root alone.
    pub(super) max_depth: usize,
    /// Whether users see the root. The cache always reads it, for the names of its children.
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
        // From the top down, because the filter can exclude an ancestor. The ancestors share the
        // text of `path`.
        path.ancestors()
            .chain([path.clone()])
            .filter(|node| node.as_str().len() > self.root.as_str().len())
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

/// A path as text. A trait, so that tests can count how often a text is read.
pub(super) trait Text: Clone {
    fn text(&self) -> &str;
}

impl Text for ZPath {
    fn text(&self) -> &str {
        self.as_str()
    }
}

/// The unreadable nodes of a cache, none of which is above another one. Clones share the set.
///
/// A path has at most one of these nodes at or above it. In pre-order, the nodes below a node
/// follow it directly. So if one of these nodes is at or above the path, it is the last one that is
/// not after the path, and one look-up finds it, however deep the path is.
#[derive(Clone)]
pub(super) struct Denied<P: Text = ZPath> {
    nodes: RedBlackTreeSetSync<InTreeOrder<P>>,
}

impl<P: Text> Denied<P> {
    pub(super) fn none() -> Self {
        Self {
            nodes: RedBlackTreeSetSync::new_sync(),
        }
    }

    /// Adds a node. No other node of the set must be at, above or below it.
    pub(super) fn insert(&mut self, node: P) {
        self.nodes.insert_mut(InTreeOrder(node));
    }

    pub(super) fn remove(&mut self, node: &P) {
        if !self.nodes.is_empty() {
            self.nodes.remove_mut(&InTreeOrder(node.clone()));
        }
    }

    /// The node that is at or above `path`, if there is one.
    pub(super) fn at_or_above(&self, path: &P) -> Option<&P> {
        if self.nodes.is_empty() {
            return None;
        }
        let until = Bound::Included(InTreeOrder(path.clone()));
        let InTreeOrder(last) = self.nodes.range((Bound::Unbounded, until)).next_back()?;
        is_at_or_below(path.text(), last.text()).then_some(last)
    }
}

fn is_at_or_below(path: &str, above: &str) -> bool {
    above == "/"
        || path
            .strip_prefix(above)
            .is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// A path, ordered by its parts. If paths were ordered by their bytes, `/a-b` would be between `/a`
/// and `/a/b`.
#[derive(Clone)]
struct InTreeOrder<P>(P);

impl<P: Text> Ord for InTreeOrder<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.text().split('/').cmp(other.0.text().split('/'))
    }
}

impl<P: Text> PartialOrd for InTreeOrder<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P: Text> PartialEq for InTreeOrder<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<P: Text> Eq for InTreeOrder<P> {}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use proptest::collection::vec;
    use proptest::prelude::*;

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

    /// Copies for all ancestors of a deep path would take quadratic time.
    #[test]
    fn the_filter_gets_each_ancestor_once_and_without_a_copy_of_the_text() {
        let deep = path(&"/a".repeat(1_000));
        let text = deep.as_str().as_ptr() as usize;
        let seen = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&seen);
        let filter: Filter = Arc::new(move |path| {
            assert_eq!(path.as_str().as_ptr() as usize, text);
            count.fetch_add(1, Relaxed);
            true
        });
        assert!(scope_of("/a", usize::MAX, Some(filter)).contains(&deep));
        assert_eq!(seen.load(Relaxed), 999);
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

    impl Text for String {
        fn text(&self) -> &str {
            self
        }
    }

    /// Counts how often paths are read.
    #[derive(Clone)]
    struct Counted(Arc<str>, Arc<AtomicUsize>);

    impl Text for Counted {
        fn text(&self) -> &str {
            self.1.fetch_add(1, Relaxed);
            &self.0
        }
    }

    /// The path has denied siblings at each level, which sort before it (`A-…`) and after it
    /// (`a-…`).
    #[test]
    fn a_look_up_reads_few_paths_however_deep_the_path_is() {
        for depth in [2, 1_000] {
            let reads = Arc::new(AtomicUsize::new(0));
            let counted = |text: String| Counted(text.into(), Arc::clone(&reads));
            let mut denied = Denied::none();
            for number in 0..500 {
                let above = "/a".repeat(number % (depth - 1));
                denied.insert(counted(format!("{above}/a-{number}")));
                denied.insert(counted(format!("{above}/A-{number}")));
            }
            let path = counted("/a".repeat(depth));
            let parent = "/a".repeat(depth - 1);
            for expected in [None, Some(&*parent)] {
                reads.store(0, Relaxed);
                let found = denied.at_or_above(&path);
                // Each comparison reads two, and a search of 1,000 nodes needs at most 20
                // comparisons.
                assert!(
                    reads.load(Relaxed) <= 100,
                    "{} reads for {depth} parts",
                    reads.load(Relaxed)
                );
                assert_eq!(found.map(|node| &*node.0), expected);
                denied.insert(counted(parent.clone()));
            }
        }
    }

    proptest! {
        #[test]
        fn the_node_at_or_above_a_path_is_found(
            texts in vec("(/[ !\\-.0a~é]{1,2}){1,4}", 0..12),
            path in "(/[ !\\-.0a~é]{1,2}){1,5}",
            has_root in any::<bool>(),
        ) {
            let root = has_root.then(|| "/".to_owned());
            let mut denied = Denied::none();
            let mut nodes = Vec::<String>::new();
            for node in texts.into_iter().chain(root) {
                if !nodes.iter().any(|other| {
                    is_at_or_below(other, &node) || is_at_or_below(&node, other)
                }) {
                    denied.insert(node.clone());
                    nodes.push(node);
                }
            }
            let expected = nodes.iter().find(|node| is_at_or_below(&path, node));
            prop_assert_eq!(denied.at_or_above(&path), expected);
            for node in &nodes {
                denied.remove(node);
            }
            prop_assert_eq!(denied.at_or_above(&path), None);
        }
    }
}
