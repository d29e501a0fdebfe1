//! Sets of operations that a server lacks.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

use super::ServerOperation;

/// A set of operations that a server lacks.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MissingOperations(u8);

impl MissingOperations {
    pub(crate) fn contains(self, operation: ServerOperation) -> bool {
        self.0 & operation.bit() != 0
    }

    pub(super) fn insert(&mut self, operation: ServerOperation) {
        self.0 |= operation.bit();
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = ServerOperation> {
        ServerOperation::ALL
            .into_iter()
            .filter(move |operation| self.contains(*operation))
    }
}

impl fmt::Debug for MissingOperations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The operations that the server of a session, or of a connection, lacks, as far as is known.
#[derive(Default)]
pub(crate) struct KnownMissing(AtomicU8);

impl KnownMissing {
    pub(crate) fn get(&self) -> MissingOperations {
        MissingOperations(self.0.load(Ordering::Acquire))
    }

    pub(crate) fn contains(&self, operation: ServerOperation) -> bool {
        self.get().contains(operation)
    }

    /// Adds the operations that a server was found to lack when it was asked.
    pub(crate) fn add(&self, missing: MissingOperations) {
        self.0.fetch_or(missing.0, Ordering::AcqRel);
    }

    /// Records that a server has replied `Unimplemented` to a request.
    pub(crate) fn refused(&self, operation: ServerOperation) {
        if operation.has_substitute() {
            self.0.fetch_or(operation.bit(), Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_operation_is_not_sent_again_if_the_client_has_a_substitute() {
        use ServerOperation::{AddWatch, CreateTtl, MultiRead};
        let known = KnownMissing::default();
        for operation in [AddWatch, CreateTtl, MultiRead] {
            known.refused(operation);
        }
        assert_eq!(known.get().iter().collect::<Vec<_>>(), [MultiRead]);
    }
}
