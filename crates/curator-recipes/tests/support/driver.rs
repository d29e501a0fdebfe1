//! A user-defined node layout.

use curator_recipes::driver::{LockInternalsDriver, Queue, Uuid, Verdict, sequence_after};

/// Grants the lock in order of arrival, with node names that differ from Curator's.
#[derive(Debug)]
pub(crate) struct Plain {
    /// The prefix of node names. `ID` stands for the id of the contender.
    pub(crate) prefix: &'static str,
    /// The text before the sequence number in node names.
    pub(crate) mark: &'static str,
}

impl LockInternalsDriver for Plain {
    fn node_prefix(&self, id: &Uuid) -> String {
        self.prefix.replace("ID", &id.to_string())
    }
    fn sequence(&self, child: &str) -> Option<i32> {
        sequence_after(child, self.mark)
    }
    fn verdict(&self, _queue: &Queue, own: usize) -> Verdict {
        own.checked_sub(1).map_or(Verdict::Owns, Verdict::WaitsFor)
    }
}
