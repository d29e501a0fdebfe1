//! The store, which is written under the locks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use curator_recipes::fencing::FencedResource;

/// The items of an order, and the highest fencing token of their reads and writes.
pub(crate) type Order = FencedResource<Vec<String>>;

/// The orders, in the memory of this process, so that the example needs no database. A database
/// would be shared by all processes, and would compare tokens in the same way, with the SQL in
/// `curator_recipes::fencing`.
#[derive(Default)]
pub(crate) struct Orders(Mutex<HashMap<String, Arc<Order>>>);

impl Orders {
    /// Returns the order, for the holder of its lock. Creates the order if it is missing.
    pub(crate) fn to_write(&self, key: &str) -> Arc<Order> {
        Arc::clone(self.by_key().entry(key.to_owned()).or_default())
    }

    pub(crate) fn find(&self, key: &str) -> Option<Arc<Order>> {
        self.by_key().get(key).cloned()
    }

    /// The number of items in all orders.
    pub(crate) fn items(&self) -> usize {
        self.by_key()
            .values()
            .map(|order| order.read(Vec::len))
            .sum()
    }

    fn by_key(&self) -> MutexGuard<'_, HashMap<String, Arc<Order>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
