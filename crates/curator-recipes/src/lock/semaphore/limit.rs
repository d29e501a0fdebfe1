//! How many leases there may be.

use super::claim::Limit;
use crate::shared_count::SharedCount;

/// Where the number of leases comes from.
#[derive(Debug, Clone)]
pub(super) enum LimitSource {
    /// Everybody who uses the path has to say the same number.
    Fixed(usize),
    /// A node says it.
    Shared(SharedCount),
}

impl LimitSource {
    /// The node that says the number, if there is one.
    pub(super) fn count(&self) -> Option<&SharedCount> {
        match self {
            Self::Fixed(_) => None,
            Self::Shared(count) => Some(count),
        }
    }

    /// The number, if it is fixed; else none is certain.
    pub(super) fn fixed(&self) -> Limit {
        let leases = match self {
            Self::Fixed(leases) => *leases,
            Self::Shared(_) => 0,
        };
        Limit { leases, version: None }
    }

    /// The most that can ever be given, as far as that is certain.
    pub(super) fn most(&self) -> usize {
        match self {
            Self::Fixed(leases) => *leases,
            Self::Shared(_) => i32::MAX as usize,
        }
    }
}
