//! The state that crates built on top of this one keep for each client.

#![expect(clippy::disallowed_types, reason = "looks up one value at a time")]

use std::any::{Any, TypeId};
use std::sync::Arc;

use dashmap::DashMap;

/// One value of each type.
#[derive(Debug, Default)]
pub(crate) struct Extensions {
    values: DashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl Extensions {
    /// Returns the value of this type; the first call creates it.
    pub(crate) fn get<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        let value = Arc::clone(
            &*self
                .values
                .entry(TypeId::of::<T>())
                .or_insert_with(|| Arc::new(T::default())),
        );
        // The value stored under a type's id is of that type.
        value.downcast().unwrap_or_default()
    }
}
