//! A contender's operation, as a task that can be observed and dropped.

use std::time::Duration;

use curator_recipes::{LossReason, Result};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::neighbour::joined;
use super::stage::Stage;
use super::support::subjects::Held;

/// The output of a contender's future.
#[derive(Debug)]
pub(crate) enum Ended {
    Held(Held),
    Done,
    Lost(LossReason),
}

/// How long a contender waits for the lock.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Waits {
    Forever,
    For(Duration),
    Not,
}

/// A contender's future, as a task.
#[derive(Debug)]
pub(crate) struct Operation {
    task: JoinHandle<Result<Ended>>,
    /// Closed when the future has ended.
    ended_rx: watch::Receiver<()>,
}

impl Operation {
    pub(crate) fn spawn(future: impl Future<Output = Result<Ended>> + Send + 'static) -> Self {
        let (ended_tx, ended_rx) = watch::channel(());
        let task = tokio::spawn(async move {
            let _ended_tx = ended_tx;
            future.await
        });
        Self { task, ended_rx }
    }

    /// Acquires the lock, and records for the witness that the contender holds it.
    pub(crate) fn acquire(stage: &Stage, waits: Waits) -> Self {
        let lock = stage.lock();
        let enter = stage.entrance();
        let janitor = stage.actor.janitor().clone();
        Self::spawn(async move {
            let held = match waits {
                Waits::Forever => Some(lock.acquire().await?),
                Waits::For(limit) => lock.acquire_timeout(limit).await?,
                Waits::Not => lock.try_acquire().await?,
            };
            let Some(held) = held else {
                if let Waits::For(_) = waits {
                    // The queue node is deleted in the background.
                    janitor.idle().await;
                }
                return Ok(Ended::Done);
            };
            enter(&held, lock.shares());
            Ok(Ended::Held(held))
        })
    }

    /// Waits until the future has ended.
    pub(crate) async fn finished(&self) {
        // No value is ever sent: this returns when the sender is dropped.
        let _closed = self.ended_rx.clone().changed().await;
    }

    /// Waits for the output of the future.
    pub(crate) async fn join(&mut self) -> Result<Ended> {
        joined((&mut self.task).await)
    }

    /// Drops the future. Returns its output if it had ended already.
    pub(crate) async fn cancel(&mut self) -> Option<Result<Ended>> {
        self.task.abort();
        match (&mut self.task).await {
            Err(error) if error.is_cancelled() => None,
            result => Some(joined(result)),
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        self.task.abort();
    }
}
