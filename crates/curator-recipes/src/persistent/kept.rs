//! The node that is kept: one look at it, and what follows from that.

mod creating;

use std::sync::Arc;

use curator_client::{
    Acl, CreateMode, CuratorClient, Error, ProtectionId, RecipeSupport as _, Result, Retrier, Session, Stat, Watch,
    WatchEvent, ZPath,
};

use self::creating::{Creating, Name};
use super::claims::{Claims, Node, Owner};
use super::contents::Contents;
use super::state::{PersistentNodeState, Reporter};
use crate::engine::follow::Followed;

/// How often the node is created and found missing, or set and found changed, before a pause.
const ROUNDS: u32 = 16;

/// The node of a [`PersistentNode`](crate::PersistentNode), whether or not it exists.
///
/// A future of its methods may be dropped at any await: a create that is under way is in here.
pub(super) struct Kept {
    pub(super) client: CuratorClient,
    pub(super) reporter: Arc<Reporter>,
    pub(super) name: Name,
    pub(super) acl: Option<Arc<[Acl]>>,
    pub(super) claims: Claims,
    pub(super) contents: Contents,
    /// The create that is under way.
    pub(super) creating: Option<Creating>,
    pub(super) view: View,
    /// Paces what is refused.
    retrier: Retrier,
}

/// What is known of the node, until something changes.
pub(super) enum View {
    /// Nothing: look.
    Unseen,
    /// It is not there, or probably not: create it.
    Absent,
    /// It exists, and a watch is set.
    Seen(Seen),
    /// Try again after a pause.
    Paused,
}

pub(super) struct Seen {
    pub(super) session: Session,
    pub(super) stat: Stat,
    owner: Owner,
    pub(super) watch: Watch,
}

/// What comes after a step.
pub(super) enum Step {
    /// Another step.
    Again,
    /// Something must change first.
    Wait,
}

impl Followed for Kept {
    type State = ();

    async fn changed(&mut self) {
        let event = match &mut self.view {
            View::Unseen | View::Absent => return,
            View::Paused => {
                tokio::select! {
                    biased;
                    () = self.contents.changed() => {}
                    paused = self.retrier.again() => if paused.is_err() {
                        // The client closes, and this task with it.
                        std::future::pending::<()>().await;
                    },
                }
                self.view = View::Absent;
                return;
            }
            View::Seen(Seen { session, watch, .. }) => tokio::select! {
                biased;
                // The connection of a session that is over may look open for a while.
                _ = session.ended() => WatchEvent::SessionEnded,
                event = watch.fired() => event,
                () = self.contents.changed() => return,
            },
        };
        self.after(event);
    }

    async fn read(&mut self) -> Result<()> {
        let session = self.client.session().await?;
        if matches!(&self.view, View::Seen(seen) if !seen.session.is_same(&session)) {
            self.after(WatchEvent::SessionEnded);
        }
        self.contents.update();
        for _ in 0..ROUNDS {
            match self.step(&session).await? {
                Step::Again => {}
                Step::Wait => return Ok(()),
            }
        }
        self.view = View::Paused;
        Ok(())
    }

    fn failed(&mut self, error: &Error) {
        tracing::debug!(client = self.client.name(), path = %self.name.configured, %error, "persistent node");
        self.reporter.error(error);
    }
}

impl Kept {
    #[expect(clippy::too_many_arguments, reason = "called once, by the builder")]
    pub(super) fn new(
        client: &CuratorClient,
        path: &ZPath,
        mode: CreateMode,
        acl: Option<Arc<[Acl]>>,
        protection: Option<ProtectionId>,
        claims: Claims,
        contents: Contents,
        reporter: Arc<Reporter>,
    ) -> Self {
        Self {
            client: client.clone(),
            reporter,
            name: Name::new(path, mode, protection),
            acl,
            claims,
            contents,
            creating: None,
            view: View::Absent,
            retrier: client.persistent_retrier(),
        }
    }

    /// Forgets what the event ends.
    fn after(&mut self, event: WatchEvent) {
        let View::Seen(Seen { owner, .. }) = &self.view else { return };
        let is_ours = *owner != Owner::Adoptable && !matches!(owner, Owner::Foreign(_));
        match event {
            WatchEvent::Deleted => {
                if is_ours {
                    let (client, path) = (self.client.name(), &self.name.configured);
                    tracing::warn!(client, %path, "persistent node: another client has deleted the node");
                }
                self.missing();
            }
            WatchEvent::Interrupted | WatchEvent::SessionEnded => {
                self.reporter.set(PersistentNodeState::Unknown);
                // An ephemeral node is gone, or soon will be.
                let goes = event == WatchEvent::SessionEnded && is_ours && self.name.mode.is_ephemeral();
                self.view = if goes { View::Absent } else { View::Unseen };
            }
            _ => self.view = View::Unseen,
        }
    }

    fn missing(&mut self) {
        self.reporter.set(PersistentNodeState::Absent);
        self.view = View::Absent;
    }

    async fn step(&mut self, session: &Session) -> Result<Step> {
        let Some(path) = self.name.path.clone() else { return self.create_numbered(session).await };
        match &self.view {
            View::Absent | View::Paused => self.create(session, path).await,
            View::Unseen => {
                let looked = session.watch_data(&path).await;
                self.take_look(session, &path, looked).await
            }
            View::Seen(Seen { owner: Owner::Adoptable, .. }) => self.write(session, path).await,
            View::Seen(Seen { owner: Owner::Ours, .. }) if self.contents.is_pending() => {
                self.write(session, path).await
            }
            View::Seen(Seen { owner: Owner::OursOfAnEndedSession, .. }) => self.replace(session, path).await,
            View::Seen(Seen { .. }) => Ok(Step::Wait),
        }
    }

    /// Decides what the answer to a look means. The next step acts on it.
    pub(super) async fn take_look(
        &mut self,
        session: &Session,
        path: &ZPath,
        looked: Result<(Vec<u8>, Stat, Watch)>,
    ) -> Result<Step> {
        let (data, stat, watch) = match looked {
            Ok(looked) => looked,
            Err(Error::NoNode { .. }) => {
                self.claims.was_not_applied(session.id());
                self.contents.was_not_applied();
                self.missing();
                return Ok(Step::Again);
            }
            Err(error) => return self.unless_refused(error),
        };
        let mut owner = self.claims.owner(Node::of(&stat), session.id());
        if owner == Owner::Adoptable && data == *self.contents.wanted().data {
            // Nothing is to be written. It is as if the node had just been created.
            self.contents.send();
            self.reporter.applied(self.contents.was_applied());
            owner = Owner::Ours;
        }
        if owner == Owner::Ours {
            self.claims.confirm(Node::of(&stat));
            if self.contents.has_arrived(&data) {
                self.reporter.applied(self.contents.was_applied());
            }
            self.retrier.reset();
            self.reporter.set(PersistentNodeState::Present { path: path.clone() });
        } else if let Owner::Foreign(owner) = owner {
            self.claims.was_not_applied(session.id());
            self.reporter.set(PersistentNodeState::Foreign { path: path.clone(), owner });
        }
        self.contents.was_not_applied();
        self.view = View::Seen(Seen { session: session.clone(), stat, owner, watch });
        Ok(Step::Again)
    }

    /// Writes the data to the node that was seen, and looks at it again.
    async fn write(&mut self, session: &Session, path: ZPath) -> Result<Step> {
        let View::Seen(Seen { stat, owner, .. }) = &self.view else { return Ok(Step::Again) };
        let (version, owner) = (stat.version, *owner);
        let wanted = self.contents.send();
        let requests = || (session.set_data(&path, &wanted.data, Some(version)), session.watch_data(&path));
        let (written, looked) = session.pipelined(requests);
        let (written, looked) = (written.await, looked.await);
        match written {
            Ok(stat) => {
                self.claims.confirm(Node::of(&stat));
                self.reporter.applied(self.contents.was_applied());
            }
            Err(error) if error.is_retryable() => {
                self.view = View::Unseen;
                return Err(error);
            }
            // It was changed since, or is another node.
            Err(Error::BadVersion { .. } | Error::NoNode { .. }) => self.contents.was_not_applied(),
            Err(error) if owner == Owner::Adoptable || is_end(&error) => return self.unless_refused(error),
            Err(error) => self.refuse_data(error),
        }
        self.take_look(session, &path, looked).await
    }

    /// An error that a retry cannot help is a state, and a later attempt may show that it was repaired.
    pub(super) fn unless_refused(&mut self, error: Error) -> Result<Step> {
        if error.is_retryable() || is_end(&error) {
            if matches!(self.view, View::Seen(_)) {
                self.view = View::Unseen;
            }
            return Err(error);
        }
        if matches!(error, Error::RequestTooLarge { .. }) && self.contents.can_fall_back() {
            self.refuse_data(error);
            return Ok(Step::Again);
        }
        self.contents.was_not_applied();
        self.reporter.set(PersistentNodeState::Refused { error });
        self.view = View::Paused;
        Ok(Step::Wait)
    }

    fn refuse_data(&mut self, error: Error) {
        let number = self.contents.was_refused();
        self.reporter.refused(number, error);
    }
}

/// Whatever ends the task, the node is deleted if that is still possible.
impl Drop for Kept {
    fn drop(&mut self) {
        drop(self.delete());
    }
}

/// Whether the client has ended, and the task with it.
fn is_end(error: &Error) -> bool {
    matches!(error, Error::Closed | Error::ClientEnded { .. } | Error::Forked | Error::SessionEnded { .. })
}
