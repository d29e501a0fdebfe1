//! Finds nodes of this client whose deletion the server refuses. A contender behind such a node
//! would wait for a node that its own client cannot delete.

use curator_client::{Error as ClientError, Refusals, Session, ZPath};

use futures_util::future::FutureExt as _;

use super::runner::Runner;
use crate::error::Error;

/// Returns the error for a node that the server does not let this session delete and that blocks
/// the contest. Call it before the contest starts or while it waits.
pub(super) async fn blocked_by_refused(
    runner: &mut Runner<'_>,
    refusals: &mut Refusals,
) -> Option<Error> {
    let mut refused = Vec::new();
    for delete in refusals.current() {
        // Without its number, the place of a node is not known.
        if let (Some(directory), Some(error)) =
            (runner.directory_of(&delete.path), delete.last_error)
            && !delete.is_prefix
        {
            refused.push((directory, delete.path, error));
        }
    }
    runner.blocked_by(&refused)?;
    // Boxed, so that the futures of the many waiters stay small.
    blocked_by_stuck(runner, refused, refusals).boxed().await
}

async fn blocked_by_stuck(
    runner: &mut Runner<'_>,
    refused: Vec<(usize, ZPath, ClientError)>,
    refusals: &Refusals,
) -> Option<Error> {
    let mut stuck = Vec::new();
    for node in refused {
        if is_stuck(&node.1, runner.session, refusals).await {
            stuck.push(node);
            if let Some(index) = runner.blocked_by(&stuck) {
                let (_, path, cause) = stuck.swap_remove(index);
                return Some(Error::ReleaseRefused { path, cause });
            }
        }
    }
    None
}

/// Whether the node still exists and still cannot be deleted: another client may have deleted it,
/// or permitted its deletion. Sends requests, and so is called only for refused nodes.
pub(crate) async fn is_stuck(path: &ZPath, session: &Session, refusals: &Refusals) -> bool {
    let deleted = match session.exists(path).await {
        Ok(Some(stat)) if stat.ephemeral_owner == session.id() => session.delete(path, None).await,
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    match deleted {
        Ok(()) | Err(ClientError::NoNode { .. }) => {
            refusals.forget(path);
            false
        }
        // The state of the node is unknown; the contest meets the same connection failure, and
        // fails or reads again.
        Err(ClientError::Disconnected { .. } | ClientError::ConnectionLost { .. }) => false,
        // When the session ends, so does the node.
        Err(_) => session.end().is_none(),
    }
}
