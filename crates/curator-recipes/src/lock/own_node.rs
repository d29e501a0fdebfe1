//! What a holder wants to know of its own nodes: whether somebody has deleted one, or asks for the lock back.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;

use curator_client::{CuratorClient, Session, Watch, WatchEvent, ZPath};
use futures_util::future::{FutureExt as _, Shared, select_all};
use tokio::sync::watch;

use super::revoke::is_revoke_request;

/// A watch on a node of ours, and what was read when it was set.
#[derive(Debug)]
pub(crate) struct OwnWatch {
    pub(crate) watch: Watch,
    /// Whether somebody had asked for the lock back by then.
    pub(crate) revoked: bool,
}

impl OwnWatch {
    pub(crate) fn new(data: &[u8], watch: Watch) -> Self {
        Self { watch, revoked: is_revoke_request(data) }
    }
}

/// Comes with the path of a node that somebody has deleted; never when the session ends first, which is to be watched
/// beside it.
///
/// Shared, so that whoever polls it drives it for all: one who asks and then looks elsewhere blinds nobody.
pub(crate) type Deleted = Shared<Pin<Box<dyn Future<Output = ZPath> + Send>>>;

/// Watches the nodes of one hold. What has no watch yet is given one when the result is first polled.
///
/// `revoked` becomes true when the data of one of them says that somebody asks for the lock back.
pub(crate) fn watch_own_nodes(
    client: &CuratorClient,
    session: &Session,
    nodes: Vec<(ZPath, Option<OwnWatch>)>,
    revoked: &Arc<watch::Sender<bool>>,
) -> Deleted {
    let watching = nodes.into_iter().map(|(path, own)| {
        Box::pin(watch_node(client.clone(), session.clone(), path, own, Arc::clone(revoked))) as Pin<Box<_>>
    });
    let watching = select_all(watching.collect::<Vec<_>>());
    let deleted: Pin<Box<dyn Future<Output = ZPath> + Send>> = Box::pin(async move { watching.await.0 });
    deleted.shared()
}

async fn watch_node(
    client: CuratorClient,
    session: Session,
    path: ZPath,
    mut own: Option<OwnWatch>,
    revoked: Arc<watch::Sender<bool>>,
) -> ZPath {
    let mut retrier = client.persistent_retrier();
    loop {
        if let Some(mut own) = own.take() {
            if own.revoked {
                revoked.send_replace(true);
            }
            match own.watch.fired().await {
                WatchEvent::Deleted => return path,
                WatchEvent::SessionEnded => pending().await,
                // The data was changed, and a one-shot watch is used up by that.
                _ => {}
            }
        }
        if session.connected().await.is_err() {
            pending::<()>().await;
        }
        match session.watch_data(&path).await {
            Ok((data, _, watch)) => {
                retrier.reset();
                own = Some(OwnWatch::new(&data, watch));
            }
            Err(curator_client::Error::NoNode { .. }) => return path,
            Err(error) => {
                tracing::debug!(%error, %path, "cannot watch a lock's own node");
                // Nor will it ever, or the client closes, which is told as the end of the session.
                if !error.is_retryable() || retrier.again().await.is_err() {
                    pending::<()>().await;
                }
            }
        }
    }
}
