//! Copy-on-write parts of a state.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A part of a state: states that were derived from each other share it until one of them changes
/// it. A search clones each state for each of its actions, and most actions change one client only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Part<T>(Arc<T>);

impl<T> Part<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Deref for Part<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Part<T> {
    /// Copies the value if another state shares it.
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}
