//! Follows a node: reads it and sets a watch, waits until the watch fires, and reads again.

use curator_client::{CuratorClient, Error, RecipeSupport as _, Result, Retrier, Session, Watch, WatchEvent};

/// A node that can be followed.
///
/// The watch is kept by the implementation, so that others may look at it too.
pub(crate) trait Followed: Send {
    type State: Send;

    /// Waits until the current watch has fired; returns at once if there is none.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;

    /// Reads the node once, and sets a watch.
    fn read(&mut self) -> impl Future<Output = Result<Self::State>> + Send;

    /// Is called after a read has failed.
    fn failed(&mut self, _error: &Error) {}
}

/// Follows a node through lost connections, and through lost sessions if its reads are made in the current one.
///
/// # Cancel safety
///
/// If a future of [`next`](Self::next) is dropped, the following call reads again.
pub(crate) struct Follower<F> {
    pub(crate) node: F,
    /// Never gives up: an outage does not end this.
    retrier: Retrier,
}

impl<F: Followed> Follower<F> {
    pub(crate) fn new(client: &CuratorClient, node: F) -> Self {
        Self { node, retrier: client.persistent_retrier() }
    }

    /// Returns the node's state, at once if no watch is set, and then after each change. Several changes may be reported as one.
    ///
    /// # Errors
    ///
    /// Those that a retry cannot help, and [`Closed`](Error::Closed).
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

    /// As [`next`](Self::next), for a task that ends with its client: goes on after all errors, in case their cause is repaired.
    pub(crate) async fn next_lasting(&mut self) -> F::State {
        loop {
            if let Ok(state) = self.next().await {
                return state;
            }
            if self.retrier.again().await.is_err() {
                // The client closes, and the task with it.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Waits until a watch has fired, or its session is over: the connection of such a session may look open for a while. Returns `None`,
/// at once, if there is no watch, and leaves none.
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
