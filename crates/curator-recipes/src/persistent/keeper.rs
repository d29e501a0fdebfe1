//! The loop that keeps a node in existence, and deletes it at the end.

use std::convert::Infallible;
use std::mem;
use std::sync::Arc;

use curator_client::source::watch;
use curator_client::{Error as ClientError, Result as ClientResult};

use super::claims::{Adopts, Recognition};
use super::kept::{Kept, Seen, View};
use super::state::{Command, PersistentNodeState, Reporter};
use super::{PersistentNode, PersistentNodeBuilder, PersistentNodeError};
use crate::task::RecipeTask;
use crate::task::follow::Follower;

impl PersistentNodeBuilder {
    /// Starts to create and keep the node. Returns immediately, and works before there is a
    /// connection.
    #[must_use = "the node is deleted when its last handle is dropped"]
    pub fn start(self) -> PersistentNode {
        let Self {
            client, path, mode, ..
        } = self.clone();
        let command = Command {
            data: Arc::clone(&self.data),
            number: 1,
            is_closing: false,
        };
        let (commands_tx, commands_rx) = watch::channel(command);
        let reporter = Reporter::new(&client, &path);
        let states = reporter.states.reported.subscribe();
        let reports = reporter.reports.subscribe();
        let kept = Kept::new(self, reporter, commands_rx.clone());
        let commands = Arc::new(commands_tx);
        let channels = (Arc::clone(&commands), states.clone(), reports.clone());
        let task = RecipeTask::start(&client, path, channels, keep(kept, commands_rx));
        PersistentNode {
            mode,
            commands,
            states,
            reports,
            task,
        }
    }
}

/// Keeps the node until it is closed, its last handle is dropped, or the client ends. Returns the
/// error that the calls return afterwards.
pub(super) async fn keep(
    kept: Kept,
    mut commands: watch::Receiver<Command>,
) -> PersistentNodeError {
    let client = kept.client.clone();
    let path = kept.options.path.clone();
    let reporter = kept.reporter.clone();
    let mut follower = Follower::new(&client, kept);
    let end = tokio::select! {
        biased;
        // An error means that the last handle was dropped.
        _ = commands.wait_for(|command| command.is_closing) => None,
        error = client.closing() => Some(error),
        never = follow(&mut follower) => match never {},
        never = reporter.states.follow_connection() => match never {},
        never = reporter.log_lasting_failures() => match never {},
    };
    match end {
        None => {
            reporter.states.report(PersistentNodeState::Closed);
            let left = follower.node.leave().await;
            reporter.left(left);
            PersistentNodeError::Closed { path }
        }
        Some(error) => {
            // Closing the client deletes an ephemeral node with its session.
            follower.node.claims.forget();
            error.into()
        }
    }
}

async fn follow(follower: &mut Follower<Kept>) -> Infallible {
    loop {
        follower.next_lasting().await;
    }
}

impl Kept {
    /// Deletes the claimed node, if any, through the client's janitor, which retries the delete.
    async fn leave(mut self) -> Result<(), PersistentNodeError> {
        if self.creating.is_some() {
            // The result is recorded in the claims.
            let _ = self.finish_create().await;
        }
        if self.claims.is_in_doubt() {
            self.resolve().await?;
        }
        let path = self.path();
        let Some(deleted) = self.delete() else {
            return Ok(());
        };
        match deleted.await {
            Ok(()) => Ok(()),
            Err(ClientError::Closed) => Err(self.client.closing().await.into()),
            Err(cause) => Err(PersistentNodeError::DeleteRefused { path, cause }),
        }
    }

    /// Determines whether a create whose reply was lost was applied.
    async fn resolve(&mut self) -> ClientResult<()> {
        // The node of such a create cannot be recognized. (If it may be adopted, the node at the
        // path is deleted, even if another client has created it.)
        if matches!(self.claims.recognition, Recognition::Confirmed { adopts } if adopts == Adopts::Nothing || self.path.is_none())
        {
            let client = self.client.name();
            let path = &self.options.path;
            tracing::warn!(client, %path, "persistent node: closed after a lost reply to a create; a node may remain");
            return Ok(());
        }
        let mut retrier = self.client.persistent_retrier();
        loop {
            let found = match self.client.session().await {
                Ok(session) => self.find(&session).await,
                Err(error) => Err(error),
            };
            let Err(error) = found else { return Ok(()) };
            retrier.pause(error).await?;
        }
    }

    /// Gives the claimed node to the janitor. Returns `None` if there is none, or if the node is
    /// deleted with an ended session.
    pub(super) fn delete(
        &mut self,
    ) -> Option<impl Future<Output = ClientResult<()>> + Send + use<>> {
        self.close_delay = None;
        let node = self.claims.forget()?;
        let session = self
            .client
            .current_session()
            .filter(|session| session.id() == node.session);
        if node.session != 0 && session.is_none() {
            return None;
        }
        let mut seen = None;
        let mut keep_alive: Option<Box<dyn Send>> = None;
        match mem::replace(&mut self.view, View::Unseen) {
            View::Seen(Seen {
                session,
                stat,
                mut watch,
                ..
            }) if stat.czxid == node.czxid && session.is_connected() => {
                // After an unprocessed event, another node may be at the path: then the janitor
                // reads it first.
                if !watch.may_have_fired() {
                    seen = Some((stat.version, session));
                }
                keep_alive = Some(Box::new(watch));
            }
            _ => {}
        }
        Some(self.client.janitor().delete_created(
            session.as_ref(),
            &node.path,
            node.czxid,
            seen.as_ref().map(|(version, session)| (*version, session)),
            keep_alive,
        ))
    }
}

/// Deletes the node, if that is still possible, however the task ends.
impl Drop for Kept {
    fn drop(&mut self) {
        drop(self.delete());
    }
}
