//! The other contenders for the lock that a fault strikes.

use curator_recipes::client::CuratorClient;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::support::subjects::Lock;
use crate::support::Witness;

/// Another contender for the same lock. It holds the lock until `go` is called.
#[derive(Debug)]
pub(crate) struct Neighbour {
    go: Option<oneshot::Sender<()>>,
    entered: oneshot::Receiver<()>,
    task: JoinHandle<()>,
}

impl Neighbour {
    /// Acquires the lock, as `who`.
    pub(crate) fn begin(who: usize, lock: Lock, witness: Witness, client: CuratorClient) -> Self {
        let (go, may_release) = oneshot::channel();
        let (enter, entered) = oneshot::channel();
        let task = tokio::spawn(async move {
            let held = lock.acquire().await.unwrap();
            witness.enter(who, lock.shares(), &held);
            // The receiver may be gone.
            let _ = enter.send(());
            make_round_trips(&client).await;
            // The end of the channel is the signal.
            let _ = may_release.await;
            witness.leave(lock.shares());
            held.release().await.unwrap();
        });
        Self {
            go: Some(go),
            entered,
            task,
        }
    }

    /// Lets the neighbour release the lock, once it has held it.
    pub(crate) fn go(&mut self) {
        self.go = None;
    }

    /// Waits until the neighbour has the lock. Must not be called again.
    pub(crate) async fn entered(&mut self) {
        // `finish` reports a failure.
        let _ = (&mut self.entered).await;
    }

    /// Waits until the neighbour has held and released the lock. May be dropped and called again,
    /// until it has returned.
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
