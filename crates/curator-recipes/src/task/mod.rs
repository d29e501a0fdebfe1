//! Runs the background task of a recipe, and reports its end or its panic.
//!
//! Also makes calls fail that must not run in a forked child.

pub(crate) mod follow;
pub(crate) mod report;

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use curator_client::process::LeakedInChild;
use curator_client::source::watch;
use curator_client::text::panic_message;
use curator_client::{CuratorClient, ZPath};
use futures_util::future::FutureExt as _;

use self::report::Truncated;
use crate::error::Error;

/// The error that the calls of a recipe with a task return once the task has ended. [`From`]
/// converts the error of a client whose runtime has dropped the task.
pub(crate) trait TaskError:
    From<curator_client::Error> + Clone + Send + Sync + 'static
{
    /// The error after the task of the recipe at `path` has panicked.
    fn panicked(path: ZPath, message: String) -> Self;
}

impl TaskError for Error {
    fn panicked(path: ZPath, message: String) -> Self {
        Self::RecipePanicked { path, message }
    }
}

/// Implements the methods of an error of a recipe that has a task and only reads.
macro_rules! error_of_reads {
    ($error:ident, $cause:ident in $causes:pat, closed: $closed:pat) => {
        impl $error {
            /// Whether the call can succeed if repeated unchanged.
            #[must_use]
            pub fn is_retryable(&self) -> bool {
                matches!(self, $causes if $cause.is_retryable())
            }

            /// Whether the cause is that this program has closed the recipe or the client.
            #[must_use]
            pub fn is_closed(&self) -> bool {
                matches!(self, $closed)
            }

            /// Whether the operation may have been applied. The recipe changes nothing on the
            /// servers.
            #[must_use]
            pub fn outcome(&self) -> curator_client::Outcome {
                curator_client::Outcome::NotApplied
            }
        }

        impl From<curator_client::InvalidPath> for $error {
            fn from(error: curator_client::InvalidPath) -> Self {
                Self::Client(error.into())
            }
        }

        impl crate::task::TaskError for $error {
            fn panicked(path: curator_client::ZPath, message: String) -> Self {
                Self::Panicked { path, message }
            }
        }
    };
}
pub(crate) use error_of_reads;

/// A task on the client's runtime. Clones are handles to the same task and do not keep it running.
///
/// The rules are in `docs/adr/0040`: the task owns no handle of its recipe, and ends when the
/// recipe's command channel closes.
#[derive(Clone)]
pub(crate) struct RecipeTask<E = Error> {
    pub(crate) client: CuratorClient,
    /// The path of the recipe.
    pub(crate) path: ZPath,
    /// The error that the task has ended with. The channel closes without a value if the runtime
    /// has ended.
    end: watch::Receiver<Option<E>>,
    /// Copies of the channels of the handles, including `end`. A forked child leaks them, so none
    /// of its drops closes a channel, which would take a lock.
    channels: Arc<LeakedInChild<Box<dyn Any + Send + Sync>>>,
}

impl<E: TaskError> RecipeTask<E> {
    /// Starts `work` for the recipe at `path`. Once it ends, the recipe's calls return its error.
    /// `channels` are copies of the channels that the handles have.
    pub(crate) fn start(
        client: &CuratorClient,
        path: ZPath,
        channels: impl Send + Sync + 'static,
        work: impl Future<Output = E> + Send + 'static,
    ) -> Self {
        let (end_tx, end_rx) = watch::channel(None);
        let task_path = path.clone();
        let name = client.name().to_owned();
        client.spawn(async move {
            let done = AssertUnwindSafe(work).catch_unwind().await;
            let error = done.unwrap_or_else(|panic| {
                // The message is not logged, because it may contain data.
                tracing::error!(client = name, path = %Truncated(&task_path), "the task of a recipe has panicked, and the recipe has ended");
                E::panicked(task_path, panic_message(&*panic))
            });
            end_tx.send_replace(Some(error));
        });
        let channels: Box<dyn Any + Send + Sync> = Box::new((channels, end_rx.clone()));
        Self {
            client: client.clone(),
            path,
            end: end_rx,
            channels: Arc::new(LeakedInChild::new(channels)),
        }
    }

    /// Whether this is a handle in a forked child.
    pub(crate) fn has_forked(&self) -> bool {
        self.channels.has_forked()
    }

    /// Sends a command to the task. Does nothing in a forked child: another thread may have held
    /// the lock of the channel at the `fork`.
    pub(crate) fn command<C>(&self, commands: &watch::Sender<C>, change: impl FnOnce(&mut C)) {
        if !self.has_forked() {
            commands.send_modify(change);
        }
    }

    /// Waits until `find` returns something for the value of a channel that closes with the task.
    /// If the task has ended before, returns its error.
    pub(crate) async fn until<V, T>(
        &self,
        values: &watch::Receiver<V>,
        mut find: impl FnMut(&V) -> Option<T>,
    ) -> Result<T, E> {
        // A forked child still has the last value of its parent.
        if self.has_forked() {
            return Err(curator_client::Error::Forked.into());
        }
        let mut values = values.clone();
        let mut found = None;
        tokio::select! {
            biased;
            _ = values.wait_for(|value| {
                found = find(value);
                found.is_some()
            }) => {}
            // The process can fork while this waits.
            error = self.client.closing() => return Err(error.into()),
        }
        match found {
            Some(found) => Ok(found),
            None => Err(self.ended().await),
        }
    }

    /// Waits until the task has ended, and returns why.
    pub(crate) async fn ended(&self) -> E {
        if self.has_forked() {
            return curator_client::Error::Forked.into();
        }
        let mut end = self.end.clone();
        tokio::select! {
            biased;
            Some(error) = async { end.wait_for(Option::is_some).await.ok()?.clone() } => error,
            // The runtime has dropped the task.
            error = self.client.closing() => error.into(),
        }
    }
}

/// Returns an error in a forked child. Call this before you lock a mutex.
pub(crate) fn check_fork(client: &CuratorClient) -> curator_client::Result<()> {
    match client.try_session() {
        Err(error @ curator_client::Error::Forked) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_ends_the_recipe_with_its_message() {
        let client = CuratorClient::builder("127.0.0.1:1").start().unwrap();
        let path = ZPath::on_server("/leader").unwrap();
        let task = RecipeTask::start(&client, path.clone(), (), async { panic!("on purpose") });
        let end = task.ended().await;
        assert!(
            matches!(&end, Error::RecipePanicked { path: at, message } if *at == path && message == "on purpose")
        );
        assert!(!end.is_retryable() && !end.is_closed());
        let task = RecipeTask::start(&client, path.clone(), (), async move {
            Error::RecipeClosed { path }
        });
        assert!(task.ended().await.is_closed());
    }
}
