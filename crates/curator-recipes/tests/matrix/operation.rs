//! What a contender does, as a task that can be watched and dropped.

use std::time::Duration;

use curator_recipes::{LossReason, Result};
use tokio::task::JoinHandle;

use super::neighbour::joined;
use super::stage::Stage;
use super::subjects::Held;

/// What a contender's future has come to.
#[derive(Debug)]
pub(crate) enum Ended {
    Held(Held),
    Done,
    Lost(LossReason),
}

/// A contender's future, as a task.
#[derive(Debug)]
pub(crate) struct Operation(JoinHandle<Result<Ended>>);

impl Operation {
    pub(crate) fn spawn(future: impl Future<Output = Result<Ended>> + Send + 'static) -> Self {
        Self(tokio::spawn(future))
    }

    /// Acquires the lock, or asks for it; whoever gets it holds it from then on, for the witness too.
    pub(crate) fn acquire(stage: &Stage, waits: bool) -> Self {
        let (lock, enter) = (stage.lock(), stage.entrance());
        Self::spawn(async move {
            let held = if waits { Some(lock.acquire().await?) } else { lock.try_acquire().await? };
            let Some(held) = held else { return Ok(Ended::Done) };
            enter(&held, lock.shares());
            Ok(Ended::Held(held))
        })
    }

    pub(crate) async fn finished(&self) {
        while !self.0.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(crate) async fn join(&mut self) -> Result<Ended> {
        joined((&mut self.0).await)
    }

    /// Drops the future. What it has come to, if it was too late for that.
    pub(crate) async fn cancel(&mut self) -> Option<Result<Ended>> {
        self.0.abort();
        match (&mut self.0).await {
            Err(error) if error.is_cancelled() => None,
            result => Some(joined(result)),
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        self.0.abort();
    }
}
