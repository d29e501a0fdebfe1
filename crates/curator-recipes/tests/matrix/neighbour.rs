//! The other contenders for the lock.

use curator_recipes::client::CuratorClient;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::support::subjects::Lock;
use crate::support::Witness;

/// Another contender for the same lock. It holds the lock until `go` is called.
#[derive(Debug)]
pub(crate) struct Neighbour {
    /// Dropped by `go`.
    go_tx: Option<oneshot::Sender<()>>,
    entered_rx: oneshot::Receiver<()>,
    task: JoinHandle<()>,
}

impl Neighbour {
    /// Spawns a task that acquires the lock as the contender `who`.
    pub(crate) fn begin(who: usize, lock: Lock, witness: Witness, client: CuratorClient) -> Self {
        let (go_tx, go_rx) = oneshot::channel();
        let (entered_tx, entered_rx) = oneshot::channel();
        let task = tokio::spawn(async move {
            let held = lock.acquire().await.unwrap();
            witness.enter(who, lock.shares(), &held);
            // Fails if the neighbour was dropped.
            let _ = entered_tx.send(());
            make_round_trips(&client).await;
            // Fails, because `go` drops the sender.
            let _ = go_rx.await;
            witness.leave(lock.shares());
            held.release().await.unwrap();
        });
        Self {
            go_tx: Some(go_tx),
            entered_rx,
            task,
        }
    }

    /// Lets the neighbour release the lock, once it has held it.
    pub(crate) fn go(&mut self) {
        self.go_tx = None;
    }

    /// Waits until the neighbour has the lock. Must not be called again.
    pub(crate) async fn entered(&mut self) {
        // `finish` reports a failure.
        let _ = (&mut self.entered_rx).await;
    }

    /// Waits until the neighbour has held and released the lock. Cancel safe, but must not be
    /// called again after it has returned.
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

/// The output of a task. Propagates its panic.
pub(crate) fn joined<T>(result: Result<T, tokio::task::JoinError>) -> T {
    result.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// Makes some round trips, during which a second holder would be detected.
pub(crate) async fn make_round_trips(client: &CuratorClient) {
    for _ in 0..3 {
        client.check_exists("/").await.unwrap();
    }
}
