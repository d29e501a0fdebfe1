//! A server's release.

use std::fmt;

/// A release of ZooKeeper, such as `3.8.0`. Later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a release of ZooKeeper has three numbers"
)]
pub struct ServerVersion {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
    /// The third number.
    pub patch: u32,
}

impl ServerVersion {
    /// The release with these numbers.
    #[must_use]
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }

    /// Whether the reply to a transaction contains the stats of created nodes. Other releases
    /// return only the paths (ZOOKEEPER-4026), except for containers and nodes with a time to live.
    #[must_use]
    pub fn returns_stats_in_transactions(self) -> bool {
        self >= Self::new(3, 8, 2) || (self >= Self::new(3, 7, 2) && self < Self::new(3, 8, 0))
    }

    /// Parses the version that a server reports, without the build id.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(|number| number.parse().ok());
        let version = Self::new(numbers.next()??, numbers.next()??, numbers.next()??);
        numbers.next().is_none().then_some(version)
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}
