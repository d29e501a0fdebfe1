//! The other contenders for the lock that a fault strikes.

use curator_recipes::client::CuratorClient;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::support::subjects::Lock;
use crate::support::Witness;

/// Another contender for the same lock. It keeps the lock until it is told to go.
#[derive(Debug)]
pub(crate) struct Neighbour {
    go: Option<oneshot::Sender<()>>,
    entered: oneshot::Receiver<()>,
    task: JoinHandle<()>,
}

impl Neighbour {
    /// Asks for the lock, as `who`.
    pub(crate) fn begin(who: usize, lock: Lock, witness: Witness, client: CuratorClient) -> Self {
        let (go, told) = oneshot::channel();
        let (enter, entered) = oneshot::channel();
        let task = tokio::spawn(async move {
            let held = lock.acquire().await.unwrap();
            witness.enter(who, lock.shares(), &held);
            // Nobody may wait for it.
            let _ = enter.send(());
            look(&client).await;
            // It is told by the end of the channel.
            let _ = told.await;
            witness.leave(lock.shares());
            held.release().await.unwrap();
        });
        Self { go: Some(go), entered, task }
    }

    /// Lets it give the lock back, as soon as it has had it.
    pub(crate) fn go(&mut self) {
        self.go = None;
    }

    /// Waits until it has the lock. Not to be called again.
    pub(crate) async fn entered(&mut self) {
        // If it has failed, that shows at its end.
        let _ = (&mut self.entered).await;
    }

    /// Waits until it has had the lock and has given it back. May be dropped and called again, until it has returned.
    pub(crate) async fn finish(&mut self) {
        self.go();
        joined((&mut self.task).await);
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a task has returned. Its panic is ours.
pub(crate) fn joined<T>(result: Result<T, tokio::task::JoinError>) -> T {
    result.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// Some round trips, in which one that should not hold the lock would show.
pub(crate) async fn look(client: &CuratorClient) {
    for _ in 0..3 {
        client.check_exists("/").await.unwrap();
    }
}
