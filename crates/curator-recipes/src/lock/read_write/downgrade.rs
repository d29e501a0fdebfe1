//! Creates the read node of an owner that holds the write lock, in the queue position of the write
//! node.
//!
//! The read node has the same number as the write node, so every contender that waits for one also
//! waits for the other.

use curator_client::{
    CreateMode, Error as ClientError, NodeSpec, Outcome, Session, TransactionOperation, ZPath,
    source,
};
use curator_protocol::downgraded_read_name;
use tracing::Instrument as _;

use crate::engine::hold::Hold;
use crate::engine::internals::LockInternals;
use crate::engine::log::AcquireLog;
use crate::engine::release::LockNodes;
use crate::error::{LockLost, LossReason, Result};
use crate::lock::holds::Share;
use crate::wait::Wait;

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
pub(super) async fn take(
    reader: &LockInternals,
    write: &Hold,
    wait: Wait,
    log: &AcquireLog<'_>,
) -> Result<Hold> {
    create(reader, write, WriteNode::Kept, wait, log).await
}

/// Turns a share in the write lock into the read lock. If it was the last share, the write node is
/// deleted.
pub(super) async fn downgrade(reader: &LockInternals, write: Share) -> Result<Hold> {
    let owner = write.owner().clone();
    let mut log = reader.start_log(&owner, Wait::FOREVER);
    let span = log.span().clone();
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
    let number = reader.driver().sequence(write.path().name());
    let number =
        number.ok_or_else(|| reader.protocol_error(format!("{} has no number", write.path())))?;
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
    // Holds the node from before its create is sent, unless it is known not to exist.
    let mut nodes = None;
    let mut failures = reader.failures();
    let mut in_doubt = false;
    loop {
        if wait != Wait::No {
            // The end of the session is reported below.
            let _ = session.connected().await;
        }
        if let Some(lost) = write.session_loss() {
            return Err(lost.into());
        }
        failures.attempt();
        let connection = session.connections();
        let tried = if in_doubt {
            is_there(session, &path).await
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
        // Read the clock last: the steps before may have taken longer than the session's lease.
        if let Some(lost) = write.session_loss() {
            return Err(lost.into());
        }
        let error = match tried {
            Ok(_) => {
                let nodes =
                    nodes.unwrap_or_else(|| LockNodes::new(client, session, vec![path.clone()]));
                let hold = Hold::new(nodes, write.token(), [], log, write.owner());
                if !hold.is_there_since(connection, wait, &mut failures).await? {
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
        if let Some(nodes) = nodes.take_if(|_| !in_doubt) {
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
            error if wait == Wait::No => return Err(failures.without_retry(error)),
            error => failures.pause(error).await?,
        }
    }
}

/// Whether the node was created despite the error.
async fn is_there(session: &Session, path: &ZPath) -> curator_client::Result<bool> {
    // One pipeline. After a reconnect, the `sync` makes the new server catch up with the leader.
    let synced = session.sync(path);
    let found = session.exists(path);
    synced.await?;
    Ok(found
        .await?
        .is_some_and(|stat| stat.ephemeral_owner == session.id()))
}
