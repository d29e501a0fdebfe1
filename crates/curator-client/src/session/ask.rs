//! Asks a server for an operation that it may lack: sends a request that changes nothing, and
//! observes whether a reply arrives.
//!
//! The request may end the session, so the session must be used for nothing else.

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
        let (asked, later) = link.together(|| {
            let asked = self.request(&link, operation, &node);
            (asked, link.exists(&node))
        });
        let error = match reply_or_later(asked, later, || link.exists(&node)).await {
            Observed::Answer(Ok(())) => return Ok(Finding::Replied),
            Observed::Answer(Err(error)) => error,
            Observed::Skipped => return Ok(Finding::Skipped),
            Observed::Ended => {
                link.task().ended().await;
                return Ok(Finding::Ended);
            }
        };
        let finding = match error {
            RequestError::Code(code) => {
                return finding_of(code).ok_or(RequestError::Code(code));
            }
            // `zookeeper-client` reports the reply `BadArguments` so.
            RequestError::Invalid(_) => return Ok(Finding::Refused),
            RequestError::Unreadable(_) => Finding::Replied,
            RequestError::Unexpected(_) => Finding::Unclear,
            // With `Transport::Native`, a request that may have set a watch fails when the reply to
            // a later request has arrived.
            RequestError::Lost(_) | RequestError::Closed => Finding::Skipped,
        };
        // The connection may have ended instead.
        if session_continues(&link.exists(&node).await) {
            return Ok(finding);
        }
        link.task().ended().await;
        Ok(Finding::Ended)
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
        for _ in 0..2 {
            if !session_continues(&link.exists(&node).await) {
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

/// What happened after a request was sent.
#[derive(Debug, PartialEq, Eq)]
enum Observed {
    /// The request has failed or succeeded: the server has replied, or the connection has ended.
    Answer(Result<(), RequestError>),
    /// The server has replied to a later request, and not to this one.
    Skipped,
    /// The session has ended, or its connection.
    Ended,
}

/// Waits for the answer to `asked`, or for the reply to a later request, which shows that there is
/// none: replies arrive in order. `later` is the answer to a request that was sent after `asked`;
/// `known` sends another one. Every server replies to these.
async fn reply_or_later<T>(
    mut asked: Answer<()>,
    later: Answer<T>,
    known: impl FnOnce() -> Answer<T>,
) -> Observed {
    if let Some(observed) = until_reply(&mut asked, later).await {
        return observed;
    }
    // `zookeeper-client` can only remove a watch that was set, and sends the request to remove it in
    // a poll of `asked` after the reply to the request that sets it. That poll was the last one, so
    // only a request that is sent after it shows that the removal was skipped.
    until_reply(&mut asked, known())
        .await
        .unwrap_or(Observed::Skipped)
}

/// Waits for the answer to `asked`, or for the one to `later`. `None` if the server has replied to
/// `later`, and not to `asked`.
async fn until_reply<T>(asked: &mut Answer<()>, later: Answer<T>) -> Option<Observed> {
    let reply = tokio::select! {
        biased;
        answer = &mut *asked => return Some(Observed::Answer(answer)),
        reply = later => reply,
    };
    // Both replies may have arrived since the last poll of `asked`: on another thread, or on this
    // one, because `zookeeper-client` reads from the connection when a request is sent.
    match asked.now_or_never() {
        Some(answer) => Some(Observed::Answer(answer)),
        None => (!session_continues(&reply)).then_some(Observed::Ended),
    }
}

/// Whether the server has replied to a request, in a session that continues.
fn session_continues<T>(answer: &Result<T, RequestError>) -> bool {
    match answer {
        Ok(_) | Err(RequestError::Unreadable(_)) => true,
        Err(error @ RequestError::Code(_)) => !error.ends_session() && !error.is_auth_failed(),
        Err(_) => false,
    }
}

/// What an error in the reply to a question shows; `None` if it is about the session, its
/// credentials, or the state of the server.
fn finding_of(code: ErrorCode) -> Option<Finding> {
    match code {
        // About the node: the server has read the request.
        ErrorCode::NO_NODE
        | ErrorCode::NO_AUTH
        | ErrorCode::BAD_VERSION
        | ErrorCode::NO_CHILDREN_FOR_EPHEMERALS
        | ErrorCode::NODE_EXISTS
        | ErrorCode::NOT_EMPTY
        | ErrorCode::INVALID_ACL
        | ErrorCode::EPHEMERAL_ON_LOCAL_SESSION
        | ErrorCode::NO_WATCHER
        | ErrorCode::QUOTA_EXCEEDED => Some(Finding::Replied),
        // Newer versions of RaftKeeper (pull request 400) reply `BadArguments` to a request that
        // they do not know.
        ErrorCode::UNIMPLEMENTED | ErrorCode::MARSHALLING_ERROR | ErrorCode::BAD_ARGUMENTS => {
            Some(Finding::Refused)
        }
        ErrorCode::SESSION_EXPIRED
        | ErrorCode::SESSION_MOVED
        | ErrorCode::UNKNOWN_SESSION
        | ErrorCode::AUTH_FAILED
        | ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH
        // The server is overloaded or read-only, or has no quorum. These pass.
        | ErrorCode::CONNECTION_LOSS
        | ErrorCode::OPERATION_TIMEOUT
        | ErrorCode::OUT_OF_MEMORY
        | ErrorCode::NOT_READ_ONLY
        | ErrorCode::REQUEST_TIMEOUT
        | ErrorCode::THROTTLED => None,
        _ => Some(Finding::Unclear),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, poll_fn, ready};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Poll;

    use curator_test::soon;

    use super::*;

    /// A reply that has arrived once the result is true.
    fn arriving() -> (Arc<AtomicBool>, Answer<()>) {
        let has_arrived = Arc::new(AtomicBool::new(false));
        let read = Arc::clone(&has_arrived);
        let answer = poll_fn(move |_| {
            if read.load(Ordering::Relaxed) {
                Poll::Ready(Ok(()))
            } else {
                Poll::Pending
            }
        });
        (has_arrived, answer.boxed())
    }

    fn replied() -> Answer<()> {
        ready(Ok(())).boxed()
    }

    const REPLIED: Observed = Observed::Answer(Ok(()));

    #[tokio::test]
    async fn a_reply_that_arrives_while_a_later_request_is_sent_or_polled_is_found() {
        // As when `zookeeper-client` sends the later request and reads both replies in one call.
        let (has_arrived, asked) = arriving();
        let sent = || {
            has_arrived.store(true, Ordering::Relaxed);
            replied()
        };
        assert_eq!(soon(reply_or_later(asked, replied(), sent)).await, REPLIED);
        // As when another thread reads both replies between two polls.
        for is_first in [true, false] {
            let (has_arrived, asked) = arriving();
            let polled = poll_fn(move |_| {
                has_arrived.store(true, Ordering::Relaxed);
                Poll::Ready(Ok(()))
            });
            let (later, known) = if is_first {
                (polled.boxed(), pending().boxed())
            } else {
                (replied(), polled.boxed())
            };
            assert_eq!(soon(reply_or_later(asked, later, || known)).await, REPLIED);
        }
    }

    #[tokio::test]
    async fn the_request_that_proves_a_skipped_one_is_sent_after_the_poll_that_may_send_that_one() {
        let polls = Arc::new(AtomicBool::new(false));
        let is_later_answered = Arc::new(AtomicBool::new(false));
        let (polled, answered) = (Arc::clone(&polls), Arc::clone(&is_later_answered));
        let asked = poll_fn(move |_| {
            if answered.load(Ordering::Relaxed) {
                polled.store(true, Ordering::Relaxed);
            }
            Poll::Pending
        });
        let later = poll_fn(move |_| {
            is_later_answered.store(true, Ordering::Relaxed);
            Poll::Ready(Ok(()))
        });
        let was_polled = Cell::new(false);
        let known = || {
            was_polled.set(polls.load(Ordering::Relaxed));
            replied()
        };
        let observed = soon(reply_or_later(asked.boxed(), later.boxed(), known)).await;
        assert_eq!(observed, Observed::Skipped);
        assert!(was_polled.get());
    }

    #[tokio::test]
    async fn without_a_reply_to_later_requests_the_session_has_ended() {
        let lost = || ready(Err(RequestError::Lost("?".to_owned()))).boxed();
        let expired = || ready(Err(RequestError::Code(ErrorCode::SESSION_EXPIRED))).boxed();
        for (later, known) in [
            (lost(), replied()),
            (replied(), lost()),
            (expired(), replied()),
        ] {
            let observed = soon(reply_or_later(pending().boxed(), later, || known)).await;
            assert_eq!(observed, Observed::Ended);
        }
        // An error of a known request is a reply, too.
        let unknown = || ready(Err(RequestError::Code(ErrorCode::new(-77).unwrap()))).boxed();
        let observed = reply_or_later::<()>(pending().boxed(), unknown(), unknown);
        assert_eq!(soon(observed).await, Observed::Skipped);
    }

    #[test]
    fn only_errors_about_the_session_or_the_state_of_the_server_end_the_attempt() {
        for (number, finding) in [
            (-101, Some(Finding::Replied)),
            (-110, Some(Finding::Replied)),
            (-121, Some(Finding::Replied)),
            (-6, Some(Finding::Refused)),
            (-8, Some(Finding::Refused)),
            (-1, Some(Finding::Unclear)),
            (-77, Some(Finding::Unclear)),
            (-112, None),
            (-115, None),
            (-7, None),
            (-10, None),
            (-127, None),
        ] {
            let code = ErrorCode::new(number).unwrap();
            assert_eq!(finding_of(code), finding, "{code}");
        }
    }
}
