//! The read node that stands in the place of its holder's write node.
//!
//! It has the number of the write node, so whoever waits for the one, waits for the other too.

use curator_client::node::find::NodeFinder;
use curator_client::{CreateMode, Deadline, NodeSpec, Session, TransactionOperation, ZPath};

use super::Sides;
use crate::error::{Error, LockLost, LossReason, Result};
use crate::lock::contender::Contender;
use crate::lock::driver::{ContenderId, downgraded_read_name};
use crate::lock::guard::{Part, Releasing};
use crate::lock::hold::{Hold, Owned};
use crate::lock::internals::LockInternals;
use crate::lock::patience::Patience;

/// What becomes of the write node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteNode {
    Stays,
    Goes,
}

/// Takes the read lock, while the write lock is held.
///
/// # Errors
///
/// [`Error::Lost`] when the write lock is not held any more.
pub(super) async fn take(sides: &Sides, write: &Hold, patience: Patience) -> Result<Hold> {
    create(sides.read.internals(), write, WriteNode::Stays, patience).await
}

/// Turns a share in the write lock into the read lock. The write node goes if it was the last share.
pub(super) async fn downgrade(sides: &Sides, mut write: Part) -> Result<Hold> {
    let internals = sides.read.internals();
    let patience = Patience::Until(Deadline::NEVER);
    match write.leave_if_last() {
        Some(releasing) => replace(internals, releasing, patience).await,
        None => create(internals, write.hold(), WriteNode::Stays, patience).await,
    }
}

async fn replace(internals: &LockInternals, write: Releasing, patience: Patience) -> Result<Hold> {
    let hold = create(internals, write.hold(), WriteNode::Goes, patience).await?;
    write.disarm();
    Ok(hold)
}

/// In one transaction with what becomes of the write node: so the read node is never there without having had its place.
async fn create(internals: &LockInternals, write: &Hold, write_node: WriteNode, patience: Patience) -> Result<Hold> {
    let (client, session, dir) = (internals.client(), write.session(), internals.dir());
    let number = internals.driver().sequence(write.path().name());
    let number = number.ok_or_else(|| internals.protocol(format!("{} has no number", write.path())))?;
    let name = downgraded_read_name(&ContenderId::new(), number);
    let path = dir.join(&name).map_err(curator_client::Error::from)?;
    let node = NodeSpec {
        path: path.clone(),
        data: internals.data().clone(),
        mode: CreateMode::Ephemeral,
        acl: client.default_acl().clone(),
    };
    let written = write.path().clone();
    let operations = vec![
        match write_node {
            WriteNode::Stays => TransactionOperation::Check { path: written, version: None },
            WriteNode::Goes => TransactionOperation::Delete { path: written, version: None },
        },
        TransactionOperation::Create(node),
    ];
    let mut contender = Contender::new(client, session, [NodeFinder::by_name(dir, name)]);
    let mut retrier = client.retrier();
    let mut in_doubt = false;
    loop {
        if patience != Patience::OneFlight {
            // The end of the session is told below.
            let _ = session.connected().await;
        }
        if let Some(lost) = write.session_loss() {
            return Err(lost.into());
        }
        let tried = if in_doubt { is_there(session, &path).await } else { Ok(false) };
        let tried = match tried {
            Ok(false) => {
                in_doubt = false;
                contender.arm();
                session.transact(operations.clone()).await.map(|_| true)
            }
            tried => tried,
        };
        // The clock is read last: what came before may have taken longer than the lease.
        if let Some(lost) = write.session_loss() {
            return Err(lost.into());
        }
        let error = match tried {
            Ok(_) => {
                contender.disarm();
                let hold = Hold::new(client, session, Owned::node(path, write.token()));
                if write_node == WriteNode::Goes && write.is_revoked() {
                    hold.note_revocation();
                }
                return Ok(hold);
            }
            Err(error) => error,
        };
        match error {
            curator_client::Error::TransactionFailed { index: 0, cause }
                if matches!(*cause, curator_client::Error::NoNode { .. }) =>
            {
                write.note_deletion(write.path());
                return Err(LockLost { path: write.path().clone(), reason: LossReason::NodeDeleted }.into());
            }
            error if patience == Patience::OneFlight => return Err(error.into()),
            error => {
                in_doubt |= error.outcome() == curator_client::Outcome::Unknown;
                retrier.pause(error).await.map_err(Error::from)?;
            }
        }
    }
}

/// Whether the node was created after all.
async fn is_there(session: &Session, path: &ZPath) -> curator_client::Result<bool> {
    // One flight. The `sync` makes a server that we have just moved to catch up with the leader.
    let (synced, found) = (session.sync(path), session.exists(path));
    synced.await?;
    Ok(found.await?.is_some_and(|stat| stat.ephemeral_owner == session.id()))
}
