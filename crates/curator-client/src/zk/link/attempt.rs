//! An attempt to connect that continues while the client's runtime is blocked.
//!
//! A server may grant a shorter session timeout, which must end the session's lease as soon as the
//! reply is read. So the attempt is polled inline, and does not wait for the task that started it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;
use zookeeper_client::Error as ZkError;

use super::Link;
use crate::transport::Granted;
use crate::zk::in_place::InPlace;

/// Waits for a connection that is opened inline.
///
/// Dropping it ends the attempt. A connection that is open by then is [abandoned](Link::abandon).
pub(super) struct Attempt {
    running: Arc<InPlace>,
    outcome: oneshot::Receiver<Result<Unclaimed, ZkError>>,
}

impl Attempt {
    /// Starts to poll `connect`, which must not block, and must not panic. Calls `granted` when the
    /// connection is open, and when a poll of the attempt already returns it: a task that `granted`
    /// notifies finds the connection.
    pub(super) fn start(
        connect: impl Future<Output = Result<Link, ZkError>> + Send + 'static,
        granted: Granted,
    ) -> Self {
        let (sender, outcome) = oneshot::channel();
        let (mut sender, mut connect) = (Some(sender), Box::pin(connect));
        let work = poll_fn(move |cx| {
            if sender.as_ref().is_none_or(oneshot::Sender::is_closed) {
                return Poll::Ready(());
            }
            let connected = ready!(connect.as_mut().poll(cx));
            if let Some(sender) = sender.take() {
                let session = connected
                    .as_ref()
                    .ok()
                    .map(|link| (link.session_id(), link.session_timeout()));
                // If the receiver was dropped meanwhile, so is the connection.
                drop(sender.send(connected.map(Unclaimed::new)));
                if let Some((session_id, timeout)) = session {
                    granted.tell(session_id, timeout);
                }
            }
            Poll::Ready(())
        });
        let running = InPlace::new(Box::pin(work));
        running.run();
        Self { running, outcome }
    }
}

impl Future for Attempt {
    type Output = Result<Link, ZkError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(Pin::new(&mut self.outcome).poll(cx));
        let ended = || ZkError::UnexpectedError("the attempt to connect has ended".to_owned());
        Poll::Ready(
            outcome
                .unwrap_or_else(|_| Err(ended()))
                .and_then(|link| link.claim().ok_or_else(ended)),
        )
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.outcome.close();
        self.running.run();
    }
}

/// A connection that the waiting task may never receive.
struct Unclaimed(Option<Link>);

impl Unclaimed {
    fn new(link: Link) -> Self {
        Self(Some(link))
    }

    fn claim(mut self) -> Option<Link> {
        self.0.take()
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(link) = self.0.take() {
            link.abandon();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use curator_test::{EmbeddedServer, FaultProxy, OpCode, until};
    use zookeeper_client::Client;

    use super::*;
    use crate::connect_string::ConnectString;
    use crate::pass::Target;
    use crate::zk::link::Unverified;

    const LONG: Duration = Duration::from_secs(30);

    /// An attempt that no task polls.
    fn start(proxy: &FaultProxy) -> Attempt {
        let connector = Client::connector()
            .with_session_timeout(LONG)
            .with_connection_timeout(LONG)
            .with_fail_eagerly();
        let servers = ConnectString::parse(&proxy.connect_string()).unwrap();
        let target = Target {
            name: proxy.connect_string(),
            addresses: vec![proxy.address()],
        };
        let unverified = Unverified {
            freshness: false,
            identity: false,
        };
        let server = servers.hosts()[0].clone();
        Attempt::start(
            Link::connect(connector, server, target, unverified),
            Granted::unused(),
        )
    }

    #[tokio::test]
    async fn a_session_stays_open_when_the_attempt_that_opened_it_is_dropped() {
        let server = EmbeddedServer::start().unwrap();
        let proxy = FaultProxy::start(server.address()).unwrap();
        let attempt = start(&proxy);
        until(async || !attempt.outcome.is_empty()).await;
        drop(attempt);
        proxy.wait_for_connections(0).await.unwrap();
        assert_eq!(server.requests().get(&OpCode::CloseSession), None);
        assert_eq!(server.session_ids().len(), 1);
    }

    #[tokio::test]
    async fn a_dropped_attempt_closes_its_connection() {
        let server = EmbeddedServer::start().unwrap();
        let proxy = FaultProxy::start(server.address()).unwrap();
        proxy.hold_replies(OpCode::CreateSession);
        let attempt = start(&proxy);
        proxy
            .wait_for_request(OpCode::CreateSession, 1)
            .await
            .unwrap();
        drop(attempt);
        proxy.wait_for_connections(0).await.unwrap();
    }
}
