//! The properties that workloads check while they run.

mod moments;
mod numbers;
mod owners;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

pub use moments::{Moments, State, states};
pub use numbers::{Counted, Rising, Store, Unique};
pub use owners::{Entry, Kind, Owners};

use crate::mutex::lock;

/// The checks that all processes of a schedule share.
#[derive(Debug, Default)]
pub struct Checks {
    owners: Mutex<BTreeMap<String, Arc<Owners>>>,
    stores: Mutex<BTreeMap<String, Arc<Store>>>,
}

impl Checks {
    /// Returns the record of the owners of the lock in this directory.
    pub fn owners(&self, directory: &str) -> Arc<Owners> {
        Arc::clone(
            lock(&self.owners)
                .entry(directory.to_owned())
                .or_insert_with(|| Arc::new(Owners::new(directory))),
        )
    }

    /// Returns the store of this name. The store is outside of ZooKeeper, and compares fencing
    /// tokens.
    pub fn store(&self, name: &str) -> Arc<Store> {
        Arc::clone(
            lock(&self.stores)
                .entry(name.to_owned())
                .or_insert_with(|| Arc::new(Store::new(name))),
        )
    }
}
