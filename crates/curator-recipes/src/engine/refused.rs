//! Finds nodes of this client whose deletion the server refuses. A contender behind such a node
//! would wait for a node that its own client cannot delete.

use curator_client::{Error as ClientError, PendingDelete, Refusals, Session, ZPath};
use curator_protocol::{Contest, LockInternalsDriver};

use super::contender::Contender;
use crate::error::Error;

/// Returns the error for a node that the server does not let this session delete and that blocks
/// `contest`. Call it before the contest starts or while it waits.
pub(crate) async fn blocked_by_refused(
    driver: &dyn LockInternalsDriver,
    contest: &Contest,
    contender: &mut Contender<'_>,
    refusals: &mut Refusals,
) -> Option<Error> {
    let ours =
        |(path, cause): (ZPath, ClientError)| Some((contender.directory_of(&path)?, path, cause));
    let refused: Vec<_> = refusals
        .current()
        .into_iter()
        .filter_map(named)
        .filter_map(ours)
        .collect();
    if refused.is_empty() {
        return None;
    }
    let blocking = |nodes: &[(usize, ZPath, ClientError)]| {
        let nodes: Vec<_> = nodes
            .iter()
            .map(|(directory, path, _)| (*directory, path.name()))
            .collect();
        contest.blocked_by(driver, &nodes)
    };
    blocking(&refused)?;
    let mut stuck = Vec::new();
    for node in refused {
        if is_stuck(&node.1, contender.session, refusals).await {
            stuck.push(node);
            if let Some(index) = blocking(&stuck) {
                let (_, path, cause) = stuck.swap_remove(index);
                return Some(Error::ReleaseRefused { path, cause });
            }
        }
    }
    None
}

/// The node of a refused delete, and the error.
fn named(delete: PendingDelete) -> Option<(ZPath, ClientError)> {
    Some((ZPath::on_server(&delete.path).ok()?, delete.last_error?))
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
            refusals.forget(path.as_str());
            false
        }
        // The state of the node is unknown; the contest meets the same connection failure, and
        // fails or reads again.
        Err(ClientError::Disconnected { .. } | ClientError::ConnectionLost { .. }) => false,
        // When the session ends, so does the node.
        Err(_) => session.end().is_none(),
    }
}
