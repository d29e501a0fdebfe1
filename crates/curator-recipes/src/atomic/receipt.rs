//! The receipt of a writer: a node that records its last applied change, to determine the outcome
//! of a change whose reply is lost.
//!
//! The transaction of a change also writes the receipt, on the condition that it has the version
//! that was last read or written. The receipt's data is the number of applied changes, the id of
//! the handle that wrote it, and the number of the attempt, such as
//! `7 6ba7b810-9dad-11d1-80b4-00c04fd430c8 9`.
//!
//! If the reply to a change is lost, the writer reads the receipt. If the change was not applied,
//! the writer first writes the receipt alone: its version increases, so that the lost change cannot
//! be applied later. Without this write, the lost change could still be applied while the writer
//! retries: a `compare_and_set` would then read its own new value, and decline.

use curator_client::{
    CreateMode, CuratorClient, Error, NodeSpec, ProtectionId, Result, Session, Stat,
    TransactionOperation, TransactionResult, ZPath,
};

use crate::error::{UnsuitableNode, is_conflict};
use crate::shared::{ANY_VERSION, MayBeEmpty, unsuitable};

/// The receipt of one handle. The mutex around it is locked during a change.
#[derive(Debug)]
pub(super) struct Receipt {
    pub(super) path: ZPath,
    /// The id of this handle.
    handle: String,
    state: State,
    /// The number of attempts to write the receipt, including the writes of the receipt alone.
    attempts: u64,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// The receipt has not been read yet.
    Unread,
    /// The receipt has this content, and no attempt is in doubt.
    Settled(Content),
    /// The receipt had this content before the attempt with this number, whose reply has not
    /// arrived.
    InDoubt(Content, u64),
}

/// The content of the receipt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Content {
    /// The `czxid` and version of the receipt's node; `None` if the node did not exist.
    node: Option<(i64, i32)>,
    /// The number of applied changes.
    number: u64,
}

/// The outcome of the attempt in doubt, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settlement {
    /// The node cannot keep a receipt. Nothing was written to it.
    Unsuitable(UnsuitableNode),
    /// This attempt was applied.
    Applied(u64),
    /// No attempt was applied, and none can be applied later.
    NotApplied,
    /// Another handle has written the receipt since it was last read.
    InUse {
        /// Whether an attempt of this handle may have been applied before.
        is_in_doubt: bool,
    },
}

impl Receipt {
    pub(super) fn new(path: ZPath) -> Self {
        Self {
            path,
            handle: ProtectionId::new().to_string(),
            state: State::Unread,
            attempts: 0,
        }
    }

    /// Whether a change may begin. Otherwise, call [`settle`](Self::settle) first.
    pub(super) fn is_settled(&self) -> bool {
        matches!(self.state, State::Settled(_))
    }

    /// Whether the reply to an attempt has not arrived.
    pub(super) fn is_in_doubt(&self) -> bool {
        matches!(self.state, State::InDoubt(..))
    }

    /// Begins an attempt. Returns its number, and the operation for its transaction; `None` if the
    /// receipt is not settled.
    pub(super) fn attempt(
        &mut self,
        client: &CuratorClient,
    ) -> Option<(u64, TransactionOperation)> {
        let State::Settled(content) = self.state else {
            return None;
        };
        self.attempts += 1;
        self.state = State::InDoubt(content, self.attempts);
        Some((
            self.attempts,
            self.write(
                client,
                content,
                content.number.saturating_add(1),
                self.attempts,
            ),
        ))
    }

    /// Records the reply to the attempt: the result of the receipt's operation, or `None` if an
    /// error shows that the attempt was not applied.
    pub(super) fn answered(&mut self, result: Option<&TransactionResult>) {
        let State::InDoubt(content, _) = self.state else {
            return;
        };
        let written = |stat: &Stat| {
            State::Settled(Content {
                node: Some((stat.czxid, stat.version)),
                number: content.number.saturating_add(1),
            })
        };
        self.state = match result {
            Some(TransactionResult::DataSet(stat)) => written(stat),
            Some(TransactionResult::Created(created)) => written(&created.stat),
            // Unexpected result: read the receipt again.
            Some(_) => State::Unread,
            None => State::Settled(content),
        };
    }

    /// Whether servers would treat the expected version as any version.
    pub(super) fn is_exhausted(&self) -> bool {
        let (State::Settled(content) | State::InDoubt(content, _)) = self.state else {
            return false;
        };
        content
            .node
            .is_some_and(|(_, version)| version == ANY_VERSION)
    }

    /// Reads the receipt after a `sync`. If an attempt was not applied, ensures that it cannot be
    /// applied later.
    pub(super) async fn settle(
        &mut self,
        client: &CuratorClient,
        session: &Session,
    ) -> Result<Settlement> {
        loop {
            let (synced, read) =
                session.pipelined(|| (session.sync(&self.path), session.get_data(&self.path)));
            synced.await?;
            let found = match read.await {
                Ok(read) => Some(read),
                Err(Error::NoNode { .. }) => None,
                Err(error) => return Err(error),
            };
            let found = found.as_ref().map(|(data, stat)| (&data[..], stat));
            // While an attempt is in doubt, such a node is `InUse` instead: the outcome is unknown.
            if !self.is_in_doubt()
                && let Some((data, stat)) = found
                && let Some(cause) = not_for_receipts(data, stat)
            {
                return Ok(Settlement::Unsuitable(cause));
            }
            if let Some(settled) = self.evaluate(found) {
                return Ok(settled);
            }
            let Some(fence) = self.fence(client) else {
                continue;
            };
            match session.transact(vec![fence]).await {
                Ok(_) => {}
                Err(Error::TransactionFailed { cause, .. })
                    if matches!(*cause, Error::NoNode { .. }) =>
                {
                    if let Some(parent) = self.path.parent() {
                        client.ensure_containers(session, &parent).await?;
                    }
                }
                Err(Error::TransactionFailed { cause, .. }) if is_conflict(&cause) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Evaluates a read of the receipt. Returns `None` if the attempt in doubt has not been applied
    /// yet, but may still be.
    fn evaluate(&mut self, found: Option<(&[u8], &Stat)>) -> Option<Settlement> {
        let text = found
            .map(|(data, _)| String::from_utf8_lossy(data))
            .unwrap_or_default();
        let mut words = text.split(' ');
        let number = words
            .next()
            .and_then(|number| number.parse().ok())
            .unwrap_or_default();
        let is_ours = words.next() == Some(self.handle.as_str());
        let attempt: Option<u64> = words.next().and_then(|attempt| attempt.parse().ok());
        let now = Content {
            node: found.map(|(_, stat)| (stat.czxid, stat.version)),
            number,
        };
        let before = self.state;
        let settled = match before {
            State::InDoubt(content, _) if content == now => return None,
            State::InDoubt(_, ours) if is_ours && attempt == Some(ours) => {
                Settlement::Applied(ours)
            }
            // Written by `fence`, whose reply may have been lost.
            State::InDoubt(..) if is_ours => Settlement::NotApplied,
            State::InDoubt(..) => Settlement::InUse { is_in_doubt: true },
            // Earlier writes of other handles do not matter.
            State::Unread => Settlement::NotApplied,
            State::Settled(content) if content == now => Settlement::NotApplied,
            State::Settled(_) => Settlement::InUse { is_in_doubt: false },
        };
        self.state = State::Settled(now);
        Some(settled)
    }

    /// Returns a write of the receipt alone, which makes the attempt in doubt fail; `None` if no
    /// attempt is in doubt.
    fn fence(&mut self, client: &CuratorClient) -> Option<TransactionOperation> {
        let State::InDoubt(content, _) = self.state else {
            return None;
        };
        self.attempts += 1;
        Some(self.write(client, content, content.number, self.attempts))
    }

    fn write(
        &self,
        client: &CuratorClient,
        content: Content,
        number: u64,
        attempt: u64,
    ) -> TransactionOperation {
        let data = format!("{number} {} {attempt}", self.handle)
            .into_bytes()
            .into();
        let path = self.path.clone();
        match content.node {
            Some((_, version)) => TransactionOperation::SetData {
                path,
                data,
                version: Some(version),
            },
            None => {
                let acl = client.acl_for(&path);
                TransactionOperation::Create(NodeSpec {
                    path,
                    data,
                    mode: CreateMode::Persistent,
                    acl,
                })
            }
        }
    }
}

/// Returns what the node is, if it cannot keep a receipt. A node without data is accepted: it may
/// have been created for the receipt.
fn not_for_receipts(data: &[u8], stat: &Stat) -> Option<UnsuitableNode> {
    if let Some(cause) = unsuitable(stat, || MayBeEmpty::No) {
        return Some(cause);
    }
    if data.is_empty() || is_receipt(data) {
        None
    } else {
        Some(UnsuitableNode::NotAReceipt)
    }
}

fn is_receipt(data: &[u8]) -> bool {
    let words: Vec<_> = str::from_utf8(data)
        .unwrap_or_default()
        .split(' ')
        .collect();
    matches!(words[..], [number, _, attempt] if number.parse::<u64>().is_ok() && attempt.parse::<u64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt() -> (CuratorClient, Receipt) {
        let client = CuratorClient::builder("127.0.0.1:1").start().unwrap();
        (
            client,
            Receipt::new(ZPath::on_server("/receipts/w1").unwrap()),
        )
    }

    /// The stat of a node with this version.
    fn stat(version: i32) -> Stat {
        let mut stat = Stat::default();
        stat.czxid = 5;
        stat.version = version;
        stat
    }

    /// The data that an operation writes, and the version that it requires.
    fn data(operation: TransactionOperation) -> (String, Option<i32>) {
        let (data, version) = match operation {
            TransactionOperation::SetData { data, version, .. } => (data, version),
            TransactionOperation::Create(node) => (node.data, None),
            other => panic!("{other:?}"),
        };
        (String::from_utf8(data.to_vec()).unwrap(), version)
    }

    #[tokio::test]
    async fn a_node_whose_data_is_not_a_receipt_is_rejected() {
        let (client, mut receipt) = receipt();
        receipt.evaluate(None);
        let (written, _) = data(receipt.attempt(&client).unwrap().1);
        let check = |data: &[u8]| not_for_receipts(data, &stat(3));
        assert_eq!(
            [check(b""), check(written.as_bytes()), check(b"7 another 3")],
            [None; 3]
        );
        for data in [
            &[0; 8][..],
            &7_i64.to_be_bytes(),
            b"\xff",
            b"seven",
            b"7 another",
            b"7 another 3 4",
            b"x another 3",
        ] {
            assert_eq!(check(data), Some(UnsuitableNode::NotAReceipt), "{data:?}");
        }
    }

    #[tokio::test]
    async fn a_receipt_of_an_earlier_run_is_adopted_and_one_in_use_is_reported() {
        let (client, mut receipt) = receipt();
        assert_eq!(
            receipt.evaluate(Some((b"7 another 3", &stat(9)))),
            Some(Settlement::NotApplied)
        );
        let (written, version) = data(receipt.attempt(&client).unwrap().1);
        assert!(version == Some(9) && written.starts_with("8 "));
        let in_use = |is_in_doubt| Some(Settlement::InUse { is_in_doubt });
        assert_eq!(
            receipt.evaluate(Some((b"8 another 4", &stat(10)))),
            in_use(true)
        );
        assert_eq!(
            receipt.evaluate(Some((b"9 another 5", &stat(11)))),
            in_use(false)
        );
        let (written, version) = data(receipt.attempt(&client).unwrap().1);
        assert!(version == Some(11) && written.starts_with("10 "));
        // First, data that is not a receipt; then, a recreated node with the same version.
        assert_eq!(receipt.evaluate(Some((b"\xff", &stat(12)))), in_use(true));
        let mut other = stat(12);
        other.czxid = 6;
        assert_eq!(receipt.evaluate(Some((b"\xff", &other))), in_use(false));
        assert!(!receipt.is_exhausted());
        receipt.evaluate(Some((b"18446744073709551615 another 5", &stat(-1))));
        assert!(receipt.is_exhausted());
        // The number of changes, now the greatest, does not overflow.
        drop(receipt.attempt(&client));
    }
}
