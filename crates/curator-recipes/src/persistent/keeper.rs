//! The loop that keeps a node in existence, and leaves it at the end.

use std::mem;
use std::sync::Arc;

use curator_client::{Error as ClientError, RecipeSupport as _, Result as ClientResult};
use tokio::sync::watch;

use super::claims::{Node, Owner, Recognition};
use super::error::PersistentNodeError;
use super::kept::{Kept, Seen, View};
use super::state::{Command, Reporter};
use crate::engine::follow::Follower;

/// Keeps the node until it is closed, its last handle is dropped, or the client ends. Returns what the calls return from then on.
pub(super) async fn keep(
    kept: Kept,
    reporter: Arc<Reporter>,
    mut commands: watch::Receiver<Command>,
) -> PersistentNodeError {
    let (client, path) = (kept.client.clone(), kept.name.configured.clone());
    let mut follower = Follower::new(&client, kept);
    let mut connection = client.connection_states();
    let end = {
        let following = async {
            loop {
                if let Err(error) = follower.next().await {
                    return error;
                }
            }
        };
        let mut following = std::pin::pin!(following);
        // An error means that the last handle was dropped.
        let closing = async { drop(commands.wait_for(|command| command.is_closing).await) };
        let mut closing = std::pin::pin!(closing);
        loop {
            tokio::select! {
                biased;
                () = &mut closing => break None,
                error = client.closing() => break Some(error),
                Some(_) = connection.next() => reporter.refresh(),
                error = &mut following => break Some(error),
            }
        }
    };
    match end {
        None => {
            let left = follower.node.leave().await;
            reporter.left(left);
            PersistentNodeError::Closed { path }
        }
        Some(error) => {
            follower.node.abandon();
            match error {
                // The end of the client shows in its session first.
                ClientError::SessionEnded { .. } => client.closing().await.into(),
                error => error.into(),
            }
        }
    }
}

impl Kept {
    /// Deletes the node, if it is ours: through the client's janitor, which does not give up.
    async fn leave(mut self) -> Result<(), PersistentNodeError> {
        if self.creating.is_some() {
            // What it means is in the claims.
            let _ = self.answered().await;
        }
        let mut retrier = self.client.persistent_retrier();
        while self.claims.is_in_doubt() {
            match self.resolve().await {
                Ok(()) => break,
                Err(error) => retrier.pause(error).await?,
            }
        }
        let path = self.name.path.clone().unwrap_or_else(|| self.name.configured.clone());
        let Some(deleted) = self.delete() else { return Ok(()) };
        match deleted.await {
            Ok(()) => Ok(()),
            Err(ClientError::Closed) => Err(self.client.closing().await.into()),
            Err(cause) => Err(PersistentNodeError::DeleteRefused { path, cause }),
        }
    }

    /// Gives the node to the janitor, if it is ours and does not go with a session that has ended.
    pub(super) fn delete(&mut self) -> Option<impl Future<Output = ClientResult<()>> + Send + use<>> {
        let (path, node) = self.name.path.clone().zip(self.claims.abandon())?;
        let session = self.client.current_session().filter(|session| session.id() == node.session);
        if node.session != 0 && session.is_none() {
            return None;
        }
        let (version, watch) = match mem::replace(&mut self.view, View::Unseen) {
            View::Seen(Seen { session, stat, watch, .. }) if stat.czxid == node.czxid && session.is_connected() => {
                (Some(stat.version), Some(Box::new(watch) as Box<dyn Send>))
            }
            _ => (None, None),
        };
        Some(self.client.janitor().delete_created(session.as_ref(), &path, node.czxid, version, watch))
    }

    /// Leaves the node to its session, which the client closes, if it is ephemeral.
    fn abandon(&mut self) {
        self.claims.abandon();
    }

    /// Finds out whether the create was applied whose answer was lost.
    async fn resolve(&mut self) -> ClientResult<()> {
        if let Recognition::Answered { .. } = self.claims.recognition {
            let (client, path) = (self.client.name(), &self.name.configured);
            tracing::warn!(client, %path, "persistent node: closed after a lost answer; a node may be left");
            return Ok(());
        }
        let session = self.client.session().await?;
        let is_over = self.name.mode.is_ephemeral() && !self.claims.is_in_doubt_in(session.id());
        match &self.name.path {
            // The node goes with its session.
            _ if is_over => {}
            None => drop(self.find(&session).await?),
            Some(path) => {
                if let Some(stat) = session.exists(path).await?
                    && self.claims.owner(Node::of(&stat), session.id()) == Owner::Ours
                {
                    self.claims.confirm(Node::of(&stat));
                }
            }
        }
        Ok(())
    }
}
