//! Follows a node: reads it and sets a watch, waits until the watch fires, and reads again.

use curator_client::{CuratorClient, Error, Result, Retrier, Session, Watch, WatchEvent};

/// A node that can be followed.
///
/// The implementation keeps the watch, so that other code can check it too.
pub(crate) trait Followed: Send {
    type State: Send;

    /// Waits until the current watch has fired; returns immediately if no watch is set.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;

    /// Reads the node once, and sets a watch.
    fn read(&mut self) -> impl Future<Output = Result<Self::State>> + Send;

    /// Called after a read has failed.
    fn failed(&mut self, _error: &Error) {}
}

/// Follows a node across lost connections, and across lost sessions if the node reads in the
/// client's current session.
///
/// # Cancel safety
///
/// If a future of [`next`](Self::next) is dropped, the following call reads again.
pub(crate) struct Follower<F> {
    pub(crate) node: F,
    /// Retries without a limit, however long an outage lasts.
    retrier: Retrier,
}

impl<F: Followed> Follower<F> {
    pub(crate) fn new(client: &CuratorClient, node: F) -> Self {
        Self {
            node,
            retrier: client.persistent_retrier(),
        }
    }

    /// Returns the node's state: immediately if no watch is set, otherwise after the next change.
    /// Several changes may be reported as one.
    ///
    /// # Errors
    ///
    /// Errors that a retry cannot help, and [`Closed`](Error::Closed).
    pub(crate) async fn next(&mut self) -> Result<F::State> {
        self.node.changed().await;
        loop {
            match self.node.read().await {
                Ok(state) => {
                    self.retrier.reset();
                    return Ok(state);
                }
                Err(error) => {
                    self.node.failed(&error);
                    self.retrier.pause(error).await?;
                }
            }
        }
    }

    /// Like [`next`](Self::next), for a task that ends with its client: continues after every
    /// error, in case its cause is repaired.
    pub(crate) async fn next_lasting(&mut self) -> F::State {
        loop {
            if let Ok(state) = self.next().await {
                return state;
            }
            if self.retrier.again().await.is_err() {
                // The client is closing, which ends the task.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Waits until the watch fires or its session ends, and removes the watch. Returns `None`
/// immediately if there is no watch. The session can end while its connection still looks open.
pub(crate) async fn fired(watch: &mut Option<(Session, Watch)>) -> Option<WatchEvent> {
    let (session, set) = watch.as_mut()?;
    let event = tokio::select! {
        biased;
        _ = session.ended() => WatchEvent::SessionEnded,
        event = set.fired() => event,
    };
    *watch = None;
    Some(event)
}
