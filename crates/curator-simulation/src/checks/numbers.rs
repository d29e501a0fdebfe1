//! Checks numbers that rise, occur once, or are counted, and a number in a store outside of
//! ZooKeeper that compares fencing tokens.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::sync::Mutex;

use curator_recipes::FencingToken;
use curator_recipes::fencing::FencedResource;

use crate::mutex::lock;
use crate::world::World;

/// Values that never fall.
#[derive(Debug, Default)]
pub struct Rising<T>(Mutex<Option<T>>);

impl<T: PartialOrd + Copy + Display> Rising<T> {
    /// Fails if the value is less than the highest so far.
    pub fn note(&self, world: &World, what: &str, value: T) {
        let mut highest = lock(&self.0);
        if let Some(highest) = *highest
            && value < highest
        {
            world.fail(format!("{what}: {value} after {highest}"));
        }
        if highest.is_none_or(|highest| highest < value) {
            *highest = Some(value);
        }
    }
}

/// Values that occur once.
#[derive(Debug, Default)]
pub struct Unique<T>(Mutex<BTreeSet<T>>);

impl<T: Ord + Clone + Debug> Unique<T> {
    /// Fails if the value has occurred before.
    pub fn note(&self, world: &World, what: &str, value: T) {
        let is_new = lock(&self.0).insert(value.clone());
        world.check(is_new, || format!("{what}: {value:?} occurs twice"));
    }
}

/// Changes of a number whose outcomes may be unknown.
#[derive(Debug, Default)]
pub struct Counted(Mutex<Interval>);

#[derive(Debug, Default, Clone, Copy)]
struct Interval {
    low: i64,
    high: i64,
}

impl Counted {
    /// Records a change that was applied once.
    pub fn applied(&self, delta: i64) {
        let mut interval = lock(&self.0);
        interval.low += delta;
        interval.high += delta;
    }

    /// Records the beginning of a change. The change may have been applied from now on, until
    /// [`was_applied`](Self::was_applied) or [`not_applied`](Self::not_applied) decides.
    pub fn maybe_applied(&self, delta: i64) {
        let mut interval = lock(&self.0);
        interval.low += delta.min(0);
        interval.high += delta.max(0);
    }

    /// Records that a change that had begun was applied.
    pub fn was_applied(&self, delta: i64) {
        let mut interval = lock(&self.0);
        interval.low += delta.max(0);
        interval.high += delta.min(0);
    }

    /// Records that a change that had begun was not applied, and will not be.
    pub fn not_applied(&self, delta: i64) {
        let mut interval = lock(&self.0);
        interval.low -= delta.min(0);
        interval.high -= delta.max(0);
    }

    /// Fails if the number cannot be the sum of the changes.
    pub fn check(&self, world: &World, what: &str, number: i64) {
        let Interval { low, high } = *lock(&self.0);
        world.check((low..=high).contains(&number), || {
            format!("{what}: {number} is not between {low} and {high}, the changes that were and may have been applied")
        });
    }
}

/// A number that each holder reads and increases by one. No increase may be lost.
#[derive(Debug)]
pub struct Store {
    name: String,
    resource: FencedResource<u64>,
}

impl Store {
    /// Creates a store with the number 0, which no token has written yet.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            resource: FencedResource::new(0),
        }
    }

    /// Reads the number for a holder. `None` if a later holder has used the store.
    pub fn read(&self, token: FencingToken) -> Option<u64> {
        self.resource.read_with(token, |number| *number).ok()
    }

    /// Writes one more than the holder has read. Returns `false` if a later holder has used the
    /// store.
    ///
    /// The holders of one token must not write at the same time.
    pub fn write(&self, world: &World, who: &str, token: FencingToken, read: u64) -> bool {
        let written = self.resource.write(token, |number| {
            let before = *number;
            *number = read + 1;
            before
        });
        match written {
            Ok(before) => {
                world.check(before == read, || {
                    format!(
                        "{}: {who} with token {token} replaces {before}, but has read {read}",
                        self.name
                    )
                });
                true
            }
            Err(_) => false,
        }
    }
}
