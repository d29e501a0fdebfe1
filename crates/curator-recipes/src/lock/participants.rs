//! Lists the participants of a lock, its holders and waiters, and requests the lock back from one.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, SystemTime};

use curator_client::{CuratorClient, Error as ClientError, Session, Stat, ZPath};
use curator_protocol::{LockInternalsDriver, ParticipantKind, Queue, Verdict};

use crate::engine::internals::LockInternals;
use crate::engine::watched_node::REVOKE_MESSAGE;
use crate::error::{Error, Result};
use crate::fencing::FencingToken;

/// One node in a lock's queue.
///
/// After Curator's `getParticipantNodes`, which returns only the paths.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Participant {
    /// The path of the node on the server.
    pub path: ZPath,
    /// The sequence number of the node.
    pub sequence: i32,
    /// What kind of lock the node contends for.
    pub kind: ParticipantKind,
    /// Whether the participant owned the lock when the queue was read.
    pub owns: bool,
    /// The id of the session that owns the node.
    pub session_id: i64,
    /// When the node was created, by the servers' clock.
    pub created: SystemTime,
    /// The token of the participant's current or future hold. A waiter for a semaphore or a
    /// semaphore mutex gets a different token with its lease.
    pub fencing_token: FencingToken,
    /// The data of the node: by default, the address of the client that created it.
    pub data: Vec<u8>,
}

/// Shows the length of the data, not the data itself.
impl fmt::Debug for Participant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            sequence,
            kind,
            owns,
            session_id,
            created,
            fencing_token,
            data,
        } = self;
        let mut fields = f.debug_struct("Participant");
        fields
            .field("path", path)
            .field("sequence", sequence)
            .field("kind", kind)
            .field("owns", owns);
        fields
            .field("session_id", session_id)
            .field("created", created)
            .field("fencing_token", fencing_token);
        fields
            .field("data", &format_args!("{} bytes", data.len()))
            .finish()
    }
}

/// Serializes for status pages. The path and the kind are text. The session's id is text, in
/// hexadecimal digits as in ZooKeeper's logs, because JavaScript cannot represent such large
/// numbers exactly. The time of creation is in milliseconds since 1970. The data is text; bytes
/// that are not UTF-8 are replaced.
#[cfg(feature = "serde")]
impl serde::Serialize for Participant {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;

        let created = self
            .created
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let mut fields = serializer.serialize_struct("Participant", 8)?;
        fields.serialize_field("path", &self.path)?;
        fields.serialize_field("sequence", &self.sequence)?;
        fields.serialize_field("kind", &self.kind.to_string())?;
        fields.serialize_field("owns", &self.owns)?;
        fields.serialize_field("session_id", &format!("{:#x}", self.session_id))?;
        fields.serialize_field(
            "created",
            &u64::try_from(created.as_millis()).unwrap_or(u64::MAX),
        )?;
        fields.serialize_field("fencing_token", &self.fencing_token)?;
        fields.serialize_field("data", &String::from_utf8_lossy(&self.data))?;
        fields.end()
    }
}

impl Participant {
    /// The data as text: in a leader election, the id of the participant. Bytes that are not UTF-8
    /// are replaced.
    #[must_use]
    pub fn id(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.data)
    }
}

impl LockInternals {
    /// Reads the queues, each in the order of arrival.
    ///
    /// A participant that leaves in the meantime is omitted.
    pub(crate) async fn participants(&self) -> Result<Vec<Participant>> {
        let queues: Vec<_> = self
            .dirs()
            .iter()
            .map(|dir| (dir, self.driver(), Numbers::Order))
            .collect();
        read_queues(self.client(), &queues).await
    }

    /// Lists the queue, and reads only its first node.
    pub(crate) async fn first_participant(&self) -> Result<Option<Participant>> {
        loop {
            let queue = [(self.dir(), self.driver(), Numbers::Order)];
            let listed = self
                .client()
                .retry(|session| list(session, &queue))
                .await??;
            let Some(first) = listed.get(..1) else {
                return Ok(None);
            };
            if let Some(first) = self
                .client()
                .retry(|session| read(session, first))
                .await?
                .pop()
            {
                return Ok(Some(first));
            }
            // The node was deleted in the meantime.
        }
    }
}

/// What the sequence numbers of a directory's children mean.
#[derive(Clone, Copy)]
pub(crate) enum Numbers {
    /// The order of the contenders.
    Order,
    /// No meaning: leases are only counted.
    Nothing,
}

/// The maximum number of nodes that are read in one pipeline.
const BATCH_SIZE: usize = 64;

/// Reads the queues of several directories: one pipeline for the lists, and one for each batch of
/// the listed nodes.
///
/// The batches leave room for the client's other requests. Each batch is retried separately,
/// without reading earlier batches again.
pub(crate) async fn read_queues(
    client: &CuratorClient,
    queues: &[(&ZPath, &dyn LockInternalsDriver, Numbers)],
) -> Result<Vec<Participant>> {
    let listed = client.retry(|session| list(session, queues)).await??;
    let mut participants = Vec::with_capacity(listed.len());
    for batch in listed.chunks(BATCH_SIZE.min(client.max_requests_in_flight() / 2)) {
        participants.extend(client.retry(|session| read(session, batch)).await?);
    }
    Ok(participants)
}

/// A node in a list of children.
pub(crate) struct Listed {
    pub(crate) path: ZPath,
    sequence: i32,
    kind: ParticipantKind,
    pub(crate) owns: bool,
}

impl Listed {
    /// The nodes of the queue among these children of `dir`, in the order of the queue.
    ///
    /// # Errors
    ///
    /// [`SequenceOverflow`](Error::SequenceOverflow), or a name that cannot be part of a path.
    pub(crate) fn from_children(
        dir: &ZPath,
        children: Vec<String>,
        driver: &dyn LockInternalsDriver,
        numbers: Numbers,
    ) -> Result<Vec<Self>> {
        let queue = match numbers {
            Numbers::Nothing => Queue::in_any_order(children, driver),
            Numbers::Order => {
                Queue::of(children, driver).map_err(|overflow| Error::SequenceOverflow {
                    dir: dir.clone(),
                    node: overflow.name,
                })?
            }
        };
        queue
            .iter()
            .enumerate()
            .map(|(index, entry)| {
                Ok(Self {
                    path: dir.join(&entry.name)?,
                    sequence: entry.sequence,
                    kind: driver.kind(&entry.name),
                    owns: driver.verdict(&queue, index) == Verdict::Owns,
                })
            })
            .collect()
    }

    pub(crate) fn participant(&self, data: Vec<u8>, stat: &Stat) -> Participant {
        Participant {
            path: self.path.clone(),
            sequence: self.sequence,
            kind: self.kind,
            owns: self.owns,
            session_id: stat.ephemeral_owner,
            created: SystemTime::UNIX_EPOCH
                + Duration::from_millis(stat.ctime.try_into().unwrap_or(0)),
            fencing_token: FencingToken::new(stat.czxid),
            data,
        }
    }
}

/// Lists the queues. The outer error is retried; the inner one, such as an overflow, is not.
async fn list(
    session: Session,
    queues: &[(&ZPath, &dyn LockInternalsDriver, Numbers)],
) -> curator_client::Result<Result<Vec<Listed>>> {
    let lists: Vec<_> = queues
        .iter()
        .map(|(dir, ..)| session.get_children(dir))
        .collect();
    let mut listed = Vec::new();
    for ((dir, driver, numbers), list) in queues.iter().copied().zip(lists) {
        let children = match list.await {
            Err(curator_client::Error::NoNode { .. }) => Vec::new(),
            children => children?,
        };
        match Listed::from_children(dir, children, driver, numbers) {
            Ok(queue) => listed.extend(queue),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(listed))
}

/// Reads the nodes that still exist, in one pipeline.
async fn read(session: Session, nodes: &[Listed]) -> curator_client::Result<Vec<Participant>> {
    let requests: Vec<_> = session.pipelined(|| {
        nodes
            .iter()
            .map(|node| session.get_data(&node.path))
            .collect()
    });
    let mut participants = Vec::with_capacity(nodes.len());
    for (node, request) in nodes.iter().zip(requests) {
        match request.await {
            Ok((data, stat)) => participants.push(node.participant(data, &stat)),
            Err(curator_client::Error::NoNode { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(participants)
}

/// Requests that the contender at `participant` gives back its lock, or its place in the queue.
///
/// `participant` is the [`path`](super::Participant::path) of a
/// [`Participant`](super::Participant), in this process or any other, including Java Curator's.
/// This is only a request: it completes
/// [`LockGuard::revocation_requested`](super::LockGuard::revocation_requested) in the holder, which
/// decides how to react. A contender that still waits for the lock is notified once it holds the
/// lock. A [downgrade](super::WriteGuard::downgrade) keeps a request that the holder has already
/// detected, and loses a later one, because it deletes the write node.
///
/// Curator's `Revoker.attemptToRevoke`: sets the node's data to `__REVOKE__`.
///
/// ```no_run
/// use curator_recipes::{InterProcessMutex, revoke};
/// # async fn example(client: curator_recipes::client::CuratorClient) -> Result<(), curator_recipes::Error> {
/// let mutex = InterProcessMutex::non_reentrant(&client, "/locks/orders")?;
/// for participant in mutex.participants().await?.iter().filter(|participant| participant.owns) {
///     revoke(&client, &participant.path).await?;
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`NoNode`](curator_client::Error::NoNode) when the participant has already left; errors of the
/// client when its retry policy permits no more retries.
///
/// # Cancel safety
///
/// A dropped request may still reach the holder.
pub async fn revoke(client: &CuratorClient, participant: &ZPath) -> Result<()> {
    match client
        .retry_write(|session| session.set_data(participant, REVOKE_MESSAGE, None))
        .await
    {
        // The participant left after an attempt whose reply was lost.
        Err(ClientError::RetryFailed { cause, .. })
            if matches!(*cause, ClientError::NoNode { .. }) =>
        {
            Err((*cause).into())
        }
        revoked => Ok(revoked.map(drop)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_participant_serializes_with_a_hex_session_id_and_its_data_as_text() {
        let participant = Participant {
            path: ZPath::on_server("/locks/a/lock-0000000001").unwrap(),
            sequence: 1,
            kind: ParticipantKind::Exclusive,
            owns: true,
            session_id: 0x1000_0000_0000_000a,
            created: SystemTime::UNIX_EPOCH + Duration::from_millis(1_234),
            fencing_token: FencingToken::new(77),
            data: b"10.0.0.1".to_vec(),
        };
        let expected = concat!(
            r#"{"path":"/locks/a/lock-0000000001","sequence":1,"kind":"exclusive","owns":true,"#,
            r#""session_id":"0x100000000000000a","created":1234,"fencing_token":77,"data":"10.0.0.1"}"#
        );
        assert_eq!(serde_json::to_string(&participant).unwrap(), expected);
    }
}
