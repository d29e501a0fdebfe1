//! Who holds a lock, and who waits for it.

use std::time::{Duration, SystemTime};

use curator_client::{Session, ZPath};

use super::driver::Verdict;
use super::internals::LockInternals;
use super::queue::Queue;
use crate::error::Result;

/// One node in a lock's queue.
///
/// After Curator's `getParticipantNodes`, which has the paths only.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Participant {
    /// The node, as it is called on the server.
    pub path: ZPath,
    /// Its sequence number.
    pub sequence: i32,
    /// Whether it owned the lock when the queue was read.
    pub owns: bool,
    /// The id of its session.
    pub session_id: i64,
    /// When it was created, by the servers' clock.
    pub created: SystemTime,
    /// Its data: by default the address of its client. Where a driver keeps the contender's id in the data
    /// ([`ContenderIdentity::Data`](super::ContenderIdentity::Data)), its 36 characters come first.
    pub data: Vec<u8>,
}

impl LockInternals {
    /// The queue, first comer first. Two round trips.
    ///
    /// A participant that leaves between the two is left out.
    pub(crate) async fn participants(&self) -> Result<Vec<Participant>> {
        self.client().retry(|session| self.read_participants(session)).await?
    }

    /// An overflow is no failure of the connection, so it is passed through.
    async fn read_participants(&self, session: Session) -> curator_client::Result<Result<Vec<Participant>>> {
        let children = match session.get_children(self.dir()).await {
            Err(curator_client::Error::NoNode { .. }) => Vec::new(),
            children => children?,
        };
        let queue = match Queue::of(children, self.driver()) {
            Ok(queue) => queue,
            Err(overflow) => return Ok(Err(self.overflow(overflow.name))),
        };
        let mut requests = Vec::with_capacity(queue.len());
        for (index, entry) in queue.iter().enumerate() {
            let path = self.dir().join(&entry.name)?;
            let owns = self.driver().verdict(&queue, index) == Verdict::Owns;
            let request = session.get_data(&path);
            requests.push((path, entry.sequence, owns, request));
        }
        let mut participants = Vec::with_capacity(requests.len());
        for (path, sequence, owns, request) in requests {
            match request.await {
                Ok((data, stat)) => participants.push(Participant {
                    path,
                    sequence,
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
}
