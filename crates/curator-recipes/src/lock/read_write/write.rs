//! The write lock, and the read lock that its holder can add or downgrade to.
//!
//! The read node is created in the queue position of the write node: it has the same number, so
//! every contender that waits for one also waits for the other.

use std::ops::Deref;
use std::time::Duration;

use curator_client::{
    CreateMode, CuratorClient, Error as ClientError, NodeSpec, Outcome, Session,
    TransactionOperation, ZPath, debug_line, source,
};
use curator_protocol::{ParticipantKind, downgraded_read_name};
use tracing::Instrument as _;

use super::Sides;
use crate::engine::hold::Hold;
use crate::engine::internals::LockInternals;
use crate::engine::log::AcquireLog;
use crate::engine::release::LockNodes;
use crate::error::{Error, LockLost, LossReason, Result};
use crate::lock::guard::LockGuard;
use crate::lock::holds::{Holds, Share};
use crate::lock::inter_process_lock::{
    acquire_methods, holder_methods, implement_inter_process_lock,
};
use crate::lock::participants::Participant;
use crate::owner::OwnerId;
use crate::wait::Wait;

/// The writing side of an [`InterProcessReadWriteLock`](super::InterProcessReadWriteLock): one
/// holder at a time.
///
/// Every acquire method fails immediately with [`UpgradeRefused`](crate::Error::UpgradeRefused) if
/// the owner holds only the read lock, because the owner would wait for itself.
#[derive(Clone)]
pub struct WriteLock {
    sides: Sides,
}

debug_line!(WriteLock, |lock| path: lock.sides.write.internals().dir(), held: lock.is_acquired_in_this_process(), connection: lock.client().connection_state());

impl WriteLock {
    pub(super) fn new(sides: Sides) -> Self {
        Self { sides }
    }

    acquire_methods!(
        WriteGuard,
        "If the lock is reentrant, the current task (or thread, see [`OwnerId`](crate::OwnerId)) re-enters immediately when it \
         already holds the lock: futures that share a task then do not exclude each other. If it holds only the read lock, it \
         gets [`UpgradeRefused`](crate::Error::UpgradeRefused). With a \
         [`non_reentrant`](crate::InterProcessReadWriteLock::non_reentrant) lock, each acquire waits for all others."
    );
    holder_methods!();

    /// Lists the writer that holds the lock and the writers that wait for it, in all processes, in
    /// the order of arrival. One round trip for the list, and one for each 64 nodes that it names.
    ///
    /// # Errors
    ///
    /// Errors of the client when its retry policy permits no more retries.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        let mut participants = self.sides.write.internals().participants().await?;
        participants.retain(|participant| participant.kind == ParticipantKind::Write);
        Ok(participants)
    }

    pub(super) fn sides(&self) -> &Sides {
        &self.sides
    }

    fn paths(&self) -> Vec<ZPath> {
        vec![self.sides.write.internals().dir().clone()]
    }

    fn client(&self) -> &CuratorClient {
        self.sides.write.internals().client()
    }

    fn holds(&self) -> &Holds {
        self.sides.write.holds()
    }

    async fn enter(&self, owner: &OwnerId, wait: Wait) -> Result<Option<WriteGuard>> {
        let Sides { read, write } = &self.sides;
        let guard = write
            .enter(owner, wait, || {
                if read.holds().is_held_by(owner) {
                    return Err(Error::UpgradeRefused {
                        dir: write.internals().dir().clone(),
                        owner: owner.clone(),
                    });
                }
                Ok(())
            })
            .await?;
        Ok(guard.map(|guard| WriteGuard {
            guard,
            sides: self.sides.clone(),
        }))
    }
}

implement_inter_process_lock!(WriteLock);

/// A held write lock: a [`LockGuard`] that can also [downgrade](Self::downgrade) to a read lock.
#[must_use = "an unused guard is dropped, which releases the lock immediately"]
pub struct WriteGuard {
    guard: LockGuard,
    sides: Sides,
}

debug_line!(
    WriteGuard,
    |lock| node: lock.node(), fencing_token: lock.fencing_token(), owner: lock.owner(), is_valid: lock.is_valid()
);

impl Deref for WriteGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

impl From<WriteGuard> for LockGuard {
    fn from(guard: WriteGuard) -> Self {
        guard.guard
    }
}

impl WriteGuard {
    /// Converts the write lock to a read lock, with one request: other readers can enter, and no
    /// other writer gets the lock in between.
    ///
    /// If the owner has other guards of the write lock, it holds both locks until those guards are
    /// released. If it already holds the read lock, this returns another guard of it. The [fencing
    /// token](LockGuard::fencing_token) stays the same, and is lower than the token of any waiting
    /// writer.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] when the lock had already been lost; [`Error::AcquireFailed`] when the
    /// client's retry policy permits no more retries; [`Error::Client`] for an error that a retry
    /// cannot help. If the owner already holds the read lock, the errors of [`LockGuard::release`].
    /// On any error this guard is released, if necessary in the background.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lock, in the background.
    pub async fn downgrade(self) -> Result<LockGuard> {
        let Self { guard, sides } = self;
        // After a loss, do not wait for the gate: another future of the owner may hold it while it
        // waits in the queue.
        if let Some(lost) = guard.known_loss() {
            return Err(lost.into());
        }
        let owner = guard.owner().clone();
        let is_reentry = guard.is_reentry();
        let Sides { read, write } = &sides;
        let _passed = match write.gates(&owner)? {
            // Nothing else acquires the lock for this owner.
            None => None,
            Some(gates) => match gates.try_pass(&owner) {
                Some(passed) => Some(passed),
                None => tokio::select! {
                    biased;
                    // After a loss there is nothing to downgrade, and the future that has passed
                    // may wait in the queue.
                    lost = guard.lost() => return Err(lost.into()),
                    passed = gates.pass(&owner) => Some(passed),
                },
            },
        };
        if let Some(reading) = read.reenter(&owner) {
            guard.release().await?;
            return Ok(reading);
        }
        let downgrading = Box::pin(async {
            downgrade(read.internals(), guard.into_share())
                .await
                .map(Some)
        });
        let hold = Wait::FOREVER
            .bound(read.internals().client(), downgrading)
            .await?;
        Ok(read
            .hold(hold.ok_or(curator_client::Error::Closed)?)
            .with_reentry(is_reentry))
    }

    /// Releases this guard, and reports the result: see [`LockGuard::release`].
    ///
    /// # Errors
    ///
    /// The same as [`LockGuard::release`].
    ///
    /// # Cancel safety
    ///
    /// A dropped release continues in the background.
    pub async fn release(self) -> Result<()> {
        self.guard.release().await
    }

    /// Releases this guard, and waits at most `timeout` for the result: see
    /// [`LockGuard::release_timeout`].
    ///
    /// # Errors
    ///
    /// The same as [`LockGuard::release_timeout`].
    ///
    /// # Cancel safety
    ///
    /// A dropped release continues in the background.
    pub async fn release_timeout(self, timeout: Duration) -> Result<()> {
        self.guard.release_timeout(timeout).await
    }

    /// Releases this guard on a plain thread: see [`LockGuard::blocking_release`].
    ///
    /// # Errors
    ///
    /// The same as [`LockGuard::release`].
    ///
    /// # Panics
    ///
    /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does.
    pub fn blocking_release(self) -> Result<()> {
        self.guard.blocking_release()
    }
}

/// Whether the transaction keeps or deletes the write node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteNode {
    Kept,
    Deleted,
}

/// Takes the read lock for the owner of the write lock, which stays held.
///
/// # Errors
///
/// [`Error::Lost`](crate::Error::Lost) when the write lock is no longer held.
pub(super) async fn add_read_lock(
    reader: &LockInternals,
    write: &Hold,
    wait: Wait,
    log: &AcquireLog<'_>,
) -> Result<Hold> {
    create(reader, write, WriteNode::Kept, wait, log).await
}

/// Turns a share in the write lock into the read lock. If it was the last share, the write node is
/// deleted.
async fn downgrade(reader: &LockInternals, write: Share) -> Result<Hold> {
    let owner = write.owner().clone();
    let mut log = reader.start_log(&owner, Wait::FOREVER);
    let span = log.span.clone();
    let created = downgrade_share(reader, write, &log).instrument(span).await;
    log.ended(created.as_ref().map(|_| true));
    created
}

async fn downgrade_share(
    reader: &LockInternals,
    mut write: Share,
    log: &AcquireLog<'_>,
) -> Result<Hold> {
    let Some(write_nodes) = write.leave_if_last() else {
        return create(reader, write.hold(), WriteNode::Kept, Wait::FOREVER, log).await;
    };
    let hold = create(reader, write.hold(), WriteNode::Deleted, Wait::FOREVER, log).await?;
    write_nodes.forget_all();
    Ok(hold)
}

/// Creates the read node in one transaction with a check or the deletion of the write node, so that
/// the read node is created only while the owner holds the write lock.
async fn create(
    reader: &LockInternals,
    write: &Hold,
    write_node: WriteNode,
    wait: Wait,
    log: &AcquireLog<'_>,
) -> Result<Hold> {
    let client = reader.client();
    let session = write.session();
    let dir = reader.dir();
    let number = reader
        .driver()
        .sequence(write.path().name())
        .ok_or_else(|| reader.protocol_error(format!("{} has no number", write.path())))?;
    let name = downgraded_read_name(&source::new_uuid(), number);
    let path = dir.join(&name).map_err(ClientError::from)?;
    let node = NodeSpec {
        path: path.clone(),
        data: reader.data().clone(),
        mode: CreateMode::Ephemeral,
        acl: client.acl_for(&path),
    };
    let written = write.path().clone();
    let operations = vec![
        match write_node {
            WriteNode::Kept => TransactionOperation::Check {
                path: written,
                version: None,
            },
            WriteNode::Deleted => TransactionOperation::Delete {
                path: written,
                version: None,
            },
        },
        TransactionOperation::Create(node),
    ];
    // Set before the create is sent, so that a drop deletes the node; `None` if the node is known
    // not to exist.
    let mut nodes = None;
    let mut attempts = reader.attempts();
    let mut in_doubt = false;
    loop {
        if wait != Wait::No {
            // The end of the session is reported below.
            let _ = session.connected().await;
        }
        if let Some(lost) = write.session_loss() {
            return Err(lost.into());
        }
        attempts.begin();
        let connection = session.connections();
        let tried = if in_doubt {
            was_created(session, &path).await
        } else {
            Ok(false)
        };
        let tried = match tried {
            Ok(false) => {
                in_doubt = false;
                nodes.get_or_insert_with(|| LockNodes::new(client, session, vec![path.clone()]));
                session.transact(operations.clone()).await.map(|_| true)
            }
            tried => tried,
        };
        // Read the clock last: the previous steps may have outlasted the session's lease.
        if let Some(lost) = write.session_loss() {
            return Err(lost.into());
        }
        let error = match tried {
            Ok(_) => {
                let nodes =
                    nodes.unwrap_or_else(|| LockNodes::new(client, session, vec![path.clone()]));
                let hold = Hold::new(nodes, write.token(), [], log, write.owner());
                if session.connections() != connection
                    && !hold.is_there(wait, &mut attempts).await?
                {
                    return Err(LockLost {
                        path,
                        reason: LossReason::NodeDeleted,
                    }
                    .into());
                }
                if write_node == WriteNode::Deleted && write.is_revoked() {
                    hold.note_revocation();
                }
                return Ok(hold);
            }
            Err(error) => error,
        };
        in_doubt |= error.outcome() == Outcome::Unknown;
        if !in_doubt && let Some(nodes) = nodes.take() {
            nodes.forget_all();
        }
        match error {
            ClientError::TransactionFailed { index: 0, cause }
                if matches!(*cause, ClientError::NoNode { .. }) =>
            {
                write.note_deletion(write.path());
                return Err(LockLost {
                    path: write.path().clone(),
                    reason: LossReason::NodeDeleted,
                }
                .into());
            }
            error if wait == Wait::No => return Err(attempts.without_retry(error)),
            error => attempts.pause(error).await?,
        }
    }
}

/// Whether the node was created despite the error.
async fn was_created(session: &Session, path: &ZPath) -> curator_client::Result<bool> {
    // One pipeline. After a reconnect, the `sync` makes the new server catch up with the leader.
    let synced = session.sync(path);
    let found = session.exists(path);
    synced.await?;
    Ok(found
        .await?
        .is_some_and(|stat| stat.ephemeral_owner == session.id()))
}
