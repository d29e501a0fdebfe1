//! Who holds a lock, and who waits for it.

use std::time::{Duration, SystemTime};

use curator_client::{Session, ZPath};
use curator_protocol::{LockInternalsDriver, ParticipantKind, Queue, Verdict};

use super::internals::LockInternals;
use crate::error::{Error, Result};

/// One node in a lock's queue.
///
/// After Curator's `getParticipantNodes`, which returns only the paths.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Participant {
    /// The path of the node on the server.
    pub path: ZPath,
    /// Its sequence number.
    pub sequence: i32,
    /// What the node contends for.
    pub kind: ParticipantKind,
    /// Whether it owned the lock when the queue was read.
    pub owns: bool,
    /// The id of the session that owns the node.
    pub session_id: i64,
    /// When it was created, by the servers' clock.
    pub created: SystemTime,
    /// Its data: by default the address of its client. If a driver keeps the contender's id in the data
    /// ([`ContenderIdentity::Data`](crate::ContenderIdentity::Data)), the data starts with its 36 characters.
    pub data: Vec<u8>,
}

impl LockInternals {
    /// Reads the queues, each in the order of arrival. Two round trips.
    ///
    /// A participant that leaves between the two is omitted.
    pub(crate) async fn participants(&self) -> Result<Vec<Participant>> {
        let queues: Vec<_> = self.dirs().iter().map(|dir| (dir, self.driver(), Numbers::Order)).collect();
        self.client().retry(|session| read_queues(session, &queues)).await?
    }
}

/// What the sequence numbers of a directory's children mean.
#[derive(Clone, Copy)]
pub(crate) enum Numbers {
    /// The order of the contenders.
    Order,
    /// Nothing: leases are only counted.
    Nothing,
}

/// Reads the queues of several directories. An overflow is not a failure of the connection, so it is passed through.
pub(crate) async fn read_queues(
    session: Session,
    queues: &[(&ZPath, &dyn LockInternalsDriver, Numbers)],
) -> curator_client::Result<Result<Vec<Participant>>> {
    let lists: Vec<_> = queues.iter().map(|(dir, ..)| session.get_children(dir)).collect();
    let mut requests = Vec::new();
    for ((dir, driver, numbers), list) in queues.iter().copied().zip(lists) {
        let children = match list.await {
            Err(curator_client::Error::NoNode { .. }) => Vec::new(),
            children => children?,
        };
        let queue = match numbers {
            Numbers::Nothing => Queue::in_any_order(children, driver),
            Numbers::Order => match Queue::of(children, driver) {
                Ok(queue) => queue,
                Err(overflow) => return Ok(Err(Error::SequenceOverflow { dir: dir.clone(), node: overflow.name })),
            },
        };
        for (index, entry) in queue.iter().enumerate() {
            let path = dir.join(&entry.name)?;
            let request = session.get_data(&path);
            let owns = driver.verdict(&queue, index) == Verdict::Owns;
            requests.push((path, entry.sequence, driver.kind(&entry.name), owns, request));
        }
    }
    let mut participants = Vec::with_capacity(requests.len());
    for (path, sequence, kind, owns, request) in requests {
        match request.await {
            Ok((data, stat)) => participants.push(Participant {
                path,
                sequence,
                kind,
                owns,
                session_id: stat.ephemeral_owner,
                created: SystemTime::UNIX_EPOCH + Duration::from_millis(stat.ctime.try_into().unwrap_or(0)),
                data,
            }),
            Err(curator_client::Error::NoNode { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Ok(participants))
}
