//! The receipt of a writer: a node that says which of its changes was applied last.
//!
//! It is set in the transaction of the change, on condition of its version: of all changes that expect the same version, at most one
//! is applied, however late. Its data is the number of changes that were applied, the name of the handle that has made the last one,
//! and the number of that attempt: `7 6ba7b810-9dad-11d1-80b4-00c04fd430c8 9`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use curator_client::{
    CreateMode, CuratorClient, Error, NodeSpec, ProtectionId, RecipeSupport as _, Result, Session,
    TransactionOperation, ZPath,
};
use tokio::sync::{Semaphore, SemaphorePermit};

/// See the module.
#[derive(Debug)]
pub(super) struct Receipt {
    pub(super) path: ZPath,
    /// The name of this handle.
    handle: String,
    turns: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What was read or written last; `None` before that.
    last: Option<Last>,
    attempts: u64,
    /// Whether the answer to an attempt has not arrived.
    is_in_doubt: bool,
    /// Whether an attempt without an answer was not applied when the receipt was read, and may be applied yet.
    may_be_late: bool,
}

/// What the receipt was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Last {
    /// `None` if it did not exist.
    version: Option<i32>,
    /// How many changes were applied.
    number: u64,
}

/// What the receipt says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// This attempt of ours was applied, and nothing since.
    Applied(u64),
    /// Nothing was applied since it was read last. Should an attempt be applied later, the next one is refused.
    Unchanged,
    /// Another handle has changed it since.
    InUse {
        /// Whether an attempt of ours may have been applied before.
        is_in_doubt: bool,
    },
}

impl Receipt {
    pub(super) fn new(path: ZPath) -> Self {
        let handle = ProtectionId::new().to_string();
        Self { path, handle, turns: Semaphore::new(1), state: Mutex::default() }
    }

    /// Waits until no other change of this handle is under way.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.turns.acquire().await.ok()
    }

    /// Whether the receipt must be read before the next attempt.
    pub(super) fn is_to_be_read(&self) -> bool {
        let state = self.state();
        state.is_in_doubt || state.last.is_none()
    }

    /// Whether the answer to an attempt has not arrived.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.state().is_in_doubt
    }

    /// Whether it must be read after an attempt that was refused: because this receipt was another one, or if an earlier attempt may
    /// have been applied since.
    pub(super) fn explains(&self, is_about_receipt: bool) -> bool {
        is_about_receipt || self.state().may_be_late
    }

    /// Begins an attempt: its number, and the operation that goes into its transaction.
    pub(super) fn attempt(&self, client: &CuratorClient) -> (u64, TransactionOperation) {
        let mut state = self.state();
        let last = state.last.unwrap_or(Last { version: None, number: 0 });
        state.attempts += 1;
        state.is_in_doubt = true;
        let data = format!("{} {} {}", last.number + 1, self.handle, state.attempts).into_bytes().into();
        let path = self.path.clone();
        let operation = match last.version {
            Some(version) => TransactionOperation::SetData { path, data, version: Some(version) },
            None => {
                let acl = client.acl_for(&path);
                TransactionOperation::Create(NodeSpec { path, data, mode: CreateMode::Persistent, acl })
            }
        };
        (state.attempts, operation)
    }

    /// The attempt was applied.
    pub(super) fn applied(&self) {
        let mut state = self.state();
        let last = state.last.unwrap_or(Last { version: None, number: 0 });
        // The server's counter wraps around.
        let version = last.version.map_or(0, |version| version.wrapping_add(1));
        state.last = Some(Last { version: Some(version), number: last.number + 1 });
        (state.is_in_doubt, state.may_be_late) = (false, false);
    }

    /// The attempt was certainly not applied.
    pub(super) fn refused(&self) {
        self.state().is_in_doubt = false;
    }

    /// Reads it, behind all that was written before.
    pub(super) async fn read(&self, session: &Session) -> Result<Said> {
        let (synced, read) = session.pipelined(|| (session.sync(&self.path), session.get_data(&self.path)));
        synced.await?;
        let found = match read.await {
            Ok((data, stat)) => Some((data, stat.version)),
            Err(Error::NoNode { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(self.take(found.as_ref().map(|(data, version)| (&data[..], *version))))
    }

    /// Compares what was read with what was there last.
    fn take(&self, found: Option<(&[u8], i32)>) -> Said {
        let text = found.map(|(data, _)| String::from_utf8_lossy(data)).unwrap_or_default();
        let mut words = text.split(' ');
        let number = words.next().and_then(|number| number.parse().ok()).unwrap_or_default();
        let is_ours = words.next() == Some(self.handle.as_str());
        let attempt = words.next().and_then(|attempt| attempt.parse().ok()).filter(|_| is_ours);
        let now = Last { version: found.map(|(_, version)| version), number };
        let mut state = self.state();
        let is_in_doubt = std::mem::take(&mut state.is_in_doubt);
        let before = state.last.replace(now);
        // Once the version is another one, no earlier attempt can be applied.
        state.may_be_late = before == Some(now) && (is_in_doubt || state.may_be_late);
        match (before, attempt) {
            (before, _) if before == Some(now) => Said::Unchanged,
            (_, Some(attempt)) => Said::Applied(attempt),
            // Whoever has used it before this handle does not matter.
            (None, None) => Said::Unchanged,
            (Some(_), None) => Said::InUse { is_in_doubt },
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt() -> (CuratorClient, Receipt) {
        let client = CuratorClient::builder("127.0.0.1:1").start().unwrap();
        (client, Receipt::new(ZPath::on_server("/receipts/w1").unwrap()))
    }

    /// What an attempt writes.
    fn data(operation: TransactionOperation) -> (Vec<u8>, Option<i32>) {
        match operation {
            TransactionOperation::SetData { data, version, .. } => (data.to_vec(), version),
            TransactionOperation::Create(node) => (node.data.to_vec(), None),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_lost_answer_is_found_by_the_number_of_the_attempt() {
        let (client, receipt) = receipt();
        assert!(receipt.is_to_be_read());
        assert_eq!(receipt.take(None), Said::Unchanged);
        assert!(!receipt.is_to_be_read());
        let (first, operation) = receipt.attempt(&client);
        let (written, version) = data(operation);
        assert!(version.is_none() && written.starts_with(b"1 ") && written.ends_with(b" 1"));
        assert!(receipt.is_to_be_read());
        assert_eq!(receipt.take(Some((&written, 0))), Said::Applied(first));
        let (_, operation) = receipt.attempt(&client);
        let (written, version) = data(operation);
        assert!(version == Some(0) && written.starts_with(b"2 ") && written.ends_with(b" 2"));
        receipt.applied();
        // The same state again says nothing.
        assert_eq!(receipt.take(Some((&written, 1))), Said::Unchanged);
    }

    #[tokio::test]
    async fn an_attempt_that_is_applied_late_is_known_by_its_number() {
        let (client, receipt) = receipt();
        receipt.take(None);
        let (late, operation) = receipt.attempt(&client);
        let (written, _) = data(operation);
        assert_eq!(receipt.take(None), Said::Unchanged);
        let (next, operation) = receipt.attempt(&client);
        assert_eq!(data(operation).1, None, "both expect the same");
        receipt.refused();
        assert!(receipt.explains(false), "it may be the earlier one");
        assert_eq!(receipt.take(Some((&written, 0))), Said::Applied(late));
        assert!(receipt.explains(true) && !receipt.explains(false));
        assert!(late < next);
    }

    #[tokio::test]
    async fn a_receipt_of_the_last_run_is_taken_over_and_one_in_use_is_reported() {
        let (client, receipt) = receipt();
        assert_eq!(receipt.take(Some((b"7 another 3", 9))), Said::Unchanged);
        let (written, version) = data(receipt.attempt(&client).1);
        assert!(version == Some(9) && written.starts_with(b"8 "));
        assert_eq!(receipt.take(Some((b"8 another 4", 10))), Said::InUse { is_in_doubt: true });
        assert_eq!(receipt.take(Some((b"9 another 5", 11))), Said::InUse { is_in_doubt: false });
        let (written, version) = data(receipt.attempt(&client).1);
        assert!(version == Some(11) && written.starts_with(b"10 "));
        // Whatever is in it.
        assert_eq!(receipt.take(Some((b"\xff", 12))), Said::InUse { is_in_doubt: true });
    }
}
