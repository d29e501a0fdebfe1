//! A store outside of ZooKeeper that compares fencing tokens.

use curator_recipes::FencingToken;
use curator_recipes::fencing::FencedResource;

use crate::world::World;

/// A number that holders read, and write one higher. It must never be lost.
#[derive(Debug)]
pub struct Store {
    name: String,
    resource: FencedResource<u64>,
}

impl Store {
    /// The number 0, that no token has written yet.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            resource: FencedResource::new(0),
        }
    }

    /// Reads the number for a holder. `None` if a later holder has been here.
    pub fn read(&self, token: FencingToken) -> Option<u64> {
        self.resource.read_with(token, |number| *number).ok()
    }

    /// Writes one more than the holder has read. False if a later holder has been here.
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
