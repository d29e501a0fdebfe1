//! Unique paths for tests.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A path that no other call in this process returns, such as `/orders-3` for `orders`.
///
/// Tests that share a server use different nodes with it. The path is a child of the root, unless
/// `name` contains a `/`, so the node can be created without its parents.
#[must_use]
pub fn unique_path(name: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("/{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
