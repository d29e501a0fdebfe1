//! Asks a server for an operation that it may lack: sends a request that changes nothing, and
//! observes whether a reply arrives.
//!
//! The request may end the session, so the session must be used for nothing else.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, TryFutureExt as _};

use super::Session;
use crate::acl::{Acl, AuthId, Permission};
use crate::link::Link;
use crate::operation::{CreateMode, NodeSpec, ReadOperation};
use crate::path::ZPath;
use crate::server_operations::{Finding, ServerOperation};
use crate::transport::{Answer, ErrorCode, RequestError};

/// The node in the requests. It is never created: its parent does not exist.
const NODE: &str = "/curator-client-asks-what-is-missing/node";

/// Whether a server has replied to a request, in a session that continues.
fn has_reply<T>(answer: &Result<T, RequestError>) -> bool {
    match answer {
        Ok(_) => true,
        Err(error) => error.is_reply(),
    }
}

/// The time to live in the request for a node with one.
const TIME_TO_LIVE: Duration = Duration::from_secs(1);

impl Session {
    /// Asks the server for `operation`. Completes when the server has replied to this request or to
    /// a later one, or when the connection has ended.
    ///
    /// # Errors
    ///
    /// The reply shows nothing: for example, the server has ended the session, refuses its
    /// credentials, or is overloaded.
    ///
    /// # Cancel safety
    ///
    /// The session must not be used again for another question: the reply may arrive later.
    pub(crate) async fn ask(&self, operation: ServerOperation) -> Result<Finding, RequestError> {
        let Some(link) = self.link() else {
            return Ok(Finding::Ended);
        };
        let node =
            ZPath::on_server(NODE).map_err(|error| RequestError::Invalid(error.to_string()))?;
        let task = link.task();
        let (asked, later) = link.together(|| {
            let asked = self.request(&link, operation, &node);
            (asked, link.exists(&node))
        });
        let mut skipped = pin!(async {
            // `zookeeper-client` sends the request to remove a watch only when `asked` is polled after
            // the reply to the request that sets it, which is before the reply to the first of these.
            // That reply may have arrived since the last poll of `asked`, so poll it again. The crate
            // has a separate queue for removals, so the second of these requests may overtake it, but
            // not the third.
            let has_first = has_reply(&later.await);
            tokio::task::yield_now().await;
            if has_first
                && has_reply(&link.exists(&node).await)
                && has_reply(&link.exists(&node).await)
            {
                Finding::Skipped
            } else {
                task.ended().await;
                Finding::Ended
            }
        });
        let answer = tokio::select! {
            biased;
            answer = asked => answer,
            finding = &mut skipped => return Ok(finding),
        };
        match answer {
            Ok(())
            | Err(RequestError::Code(
                ErrorCode::NO_NODE
                | ErrorCode::NO_WATCHER
                | ErrorCode::NO_AUTH
                | ErrorCode::INVALID_ACL,
            )) => Ok(Finding::Replied),
            // Newer versions of RaftKeeper (pull request 400) reply `BadArguments` to a request that
            // they do not know.
            Err(RequestError::Code(
                ErrorCode::UNIMPLEMENTED | ErrorCode::MARSHALLING_ERROR | ErrorCode::BAD_ARGUMENTS,
            )) => Ok(Finding::Refused),
            // Any other error may be about the session, or about the state of the server.
            Err(error @ RequestError::Code(_)) => Err(error),
            // Either the connection has ended, or, with `Transport::Native`, the reply to a later
            // request has arrived.
            Err(_) => Ok(skipped.await),
        }
    }

    /// Whether the server answers requests that every server knows, over a connection that
    /// continues: the control for a question after which a connection has ended.
    pub(crate) async fn answers_known_requests(&self) -> bool {
        let Some(link) = self.link() else {
            return false;
        };
        let Ok(node) = ZPath::on_server(NODE) else {
            return false;
        };
        // As many as follow a question.
        for _ in 0..3 {
            if !has_reply(&link.exists(&node).await) {
                return false;
            }
        }
        link.end().is_none()
    }

    /// Sends a request that needs `operation`.
    fn request(&self, link: &Link, operation: ServerOperation, node: &ZPath) -> Answer<()> {
        let create = |mode| {
            let node = NodeSpec {
                path: node.clone(),
                data: Arc::from([]),
                mode,
                acl: Arc::from([Acl::new(Permission::ALL, AuthId::anyone())]),
            };
            link.create(&node).map_ok(drop).boxed()
        };
        match operation {
            ServerOperation::Create2 => create(CreateMode::Ephemeral),
            ServerOperation::CreateContainer => create(CreateMode::Container),
            ServerOperation::CreateTtl => create(CreateMode::PersistentWithTtl(TIME_TO_LIVE)),
            ServerOperation::MultiRead => link
                .read_all(vec![ReadOperation::Data(node.clone())])
                .map_ok(drop)
                .boxed(),
            ServerOperation::RemoveWatches => link.remove_watches(node),
            ServerOperation::AddWatch => {
                #[cfg(feature = "zookeeper-client")]
                let asked = link.watch_recursive(node, &self.inner.removals);
                #[cfg(not(feature = "zookeeper-client"))]
                let asked = link.watch_recursive(node);
                asked.map_ok(drop).boxed()
            }
        }
    }
}
