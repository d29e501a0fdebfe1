//! The kinds of requests that a server knows.

use crate::OpCode;

/// The kinds of requests that a server knows: all of ZooKeeper 3.9, except some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operations {
    /// A bit for each unknown kind.
    unknown: u64,
}

impl Operations {
    pub(crate) const ALL: Self = Self { unknown: 0 };

    /// These operations without some.
    pub(crate) fn without(mut self, kinds: &[OpCode]) -> Self {
        kinds.iter().for_each(|kind| self.set(*kind, false));
        self
    }

    /// Adds or removes a kind.
    pub(crate) fn set(&mut self, kind: OpCode, known: bool) {
        if known {
            self.unknown &= !bit(kind);
        } else {
            self.unknown |= bit(kind);
        }
    }

    pub(crate) fn contain(self, kind: OpCode) -> bool {
        self.unknown & bit(kind) == 0
    }
}

/// The bit of a kind. ZooKeeper numbers its requests from 1 and from 100; other kinds have no bit,
/// and cannot be removed.
fn bit(kind: OpCode) -> u64 {
    match kind.number() {
        number @ 0..32 => 1 << number,
        number @ 100..132 => 1 << (number - 100 + 32),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_removed_kinds_are_unknown() {
        let mut operations = Operations::ALL.without(&[OpCode::Create2, OpCode::AddWatch]);
        assert!(!operations.contain(OpCode::Create2) && !operations.contain(OpCode::AddWatch));
        assert!(operations.contain(OpCode::Create) && operations.contain(OpCode::SetWatches2));
        operations.set(OpCode::Create2, true);
        assert!(operations.contain(OpCode::Create2) && !operations.contain(OpCode::AddWatch));
    }
}
