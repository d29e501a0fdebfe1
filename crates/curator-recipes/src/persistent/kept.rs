//! The node that is kept: one look at it, and what follows from that.

mod creating;

use std::sync::Arc;

use curator_client::{
    CuratorClient, Error, ProtectionId, RecipeSupport as _, Result, Session, Stat, Watch, WatchEvent, ZPath,
};
use tokio::sync::watch;

use self::creating::Creating;
use super::builder::PersistentNodeBuilder;
use super::claims::{Claims, InClient, Node, Owner, Recognition};
use super::contents::Contents;
use super::state::{Command, PersistentNodeState, Reporter};
use crate::engine::follow::Followed;

/// How often the node is created and found missing, or set and found changed, before a pause.
const ROUNDS: u32 = 16;

/// The node of a [`PersistentNode`](crate::PersistentNode), whether or not it exists.
///
/// A future of its methods may be dropped at any await: a create that is under way is in here.
pub(super) struct Kept {
    pub(super) client: CuratorClient,
    pub(super) options: PersistentNodeBuilder,
    pub(super) reporter: Arc<Reporter>,
    /// The path with the mark of a protected node, and without the number of a sequential one.
    base: ZPath,
    /// The node, once its name is known: at once, or if it is sequential, when it was created.
    pub(super) path: Option<ZPath>,
    pub(super) claims: Claims,
    contents: Contents,
    /// The create that is under way.
    pub(super) creating: Option<Creating>,
    pub(super) view: View,
}

/// What is known of the node, until something changes.
pub(super) enum View {
    /// Nothing: look.
    Unseen,
    /// It is not there, or probably not: create it.
    Absent,
    /// It exists, and a watch is set.
    Seen(Seen),
}

pub(super) struct Seen {
    pub(super) session: Session,
    pub(super) stat: Stat,
    owner: Owner,
    pub(super) watch: Watch,
}

/// The answer to a look.
type Looked = Result<(Vec<u8>, Stat, Watch)>;

impl Followed for Kept {
    type State = ();

    async fn changed(&mut self) {
        let View::Seen(Seen { session, watch, .. }) = &mut self.view else { return };
        let event = tokio::select! {
            biased;
            // The connection of a session that is over may look open for a while.
            _ = session.ended() => WatchEvent::SessionEnded,
            event = watch.fired() => event,
            () = self.contents.changed() => return,
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
            let step = match &self.view {
                View::Seen(Seen { owner: Owner::Foreign(_), .. }) => return Ok(()),
                View::Seen(Seen { owner: Owner::Ours, .. }) if !self.contents.is_pending() => return Ok(()),
                View::Seen(Seen { owner: Owner::Ours | Owner::Adoptable, .. }) => self.write(&session).await,
                View::Unseen if self.path.is_some() => {
                    let looked = session.watch_data(&self.path()).await;
                    self.take_look(&session, looked)
                }
                View::Seen(Seen { owner: Owner::OursOfAnEndedSession, .. }) | View::Unseen | View::Absent => {
                    self.create(&session).await
                }
            };
            if let Err(error) = step {
                // What may not be created is created by the next attempt, without another look.
                if error.is_retryable() || matches!(self.view, View::Seen(_)) {
                    self.view = View::Unseen;
                }
                return Err(error);
            }
        }
        self.view = View::Unseen;
        Err(Error::BadVersion { operation: "set data of", path: self.path() })
    }

    fn failed(&mut self, error: &Error) {
        // Other clients change the node all the time: its state is the one that was seen last.
        if !matches!(error, Error::BadVersion { .. }) {
            self.reporter.failed(error);
        }
    }
}

impl Kept {
    pub(super) fn new(options: PersistentNodeBuilder, reporter: Reporter, commands: watch::Receiver<Command>) -> Self {
        let PersistentNodeBuilder { client, path, mode, is_protected, adopts, .. } = options.clone();
        let recognition = match (mode.is_ephemeral(), is_protected) {
            (true, _) => Recognition::Ephemeral,
            (false, true) => Recognition::Protected,
            (false, false) => Recognition::Answered { adopts },
        };
        let marked = is_protected.then(|| ProtectionId::new().protect(path.name()));
        // A mark makes no name invalid.
        let marked = path.parent().zip(marked).and_then(|(dir, name)| dir.join(&name).ok());
        let base = marked.unwrap_or(path);
        Self {
            options,
            reporter: Arc::new(reporter),
            path: (!mode.is_sequential()).then(|| base.clone()),
            base,
            claims: Claims::new(recognition, client.extension::<InClient>()),
            contents: Contents::new(commands),
            creating: None,
            view: View::Absent,
            client,
        }
    }

    /// The node, as far as its name is known.
    pub(super) fn path(&self) -> ZPath {
        self.path.as_ref().unwrap_or(&self.base).clone()
    }

    /// Forgets what the event ends.
    fn after(&mut self, event: WatchEvent) {
        let View::Seen(Seen { owner, .. }) = &self.view else { return };
        let is_ours = *owner != Owner::Adoptable && !matches!(owner, Owner::Foreign(_));
        match event {
            WatchEvent::Deleted => {
                if is_ours {
                    let (client, path) = (self.client.name(), &self.options.path);
                    tracing::warn!(client, %path, "persistent node: another client has deleted the node");
                }
                self.missing();
            }
            WatchEvent::Interrupted | WatchEvent::SessionEnded => {
                self.reporter.set(PersistentNodeState::Unknown);
                // An ephemeral node is gone, or soon will be.
                let goes = event == WatchEvent::SessionEnded && is_ours && self.options.mode.is_ephemeral();
                self.view = if goes { View::Absent } else { View::Unseen };
            }
            _ => self.view = View::Unseen,
        }
    }

    fn missing(&mut self) {
        self.reporter.set(PersistentNodeState::Absent);
        self.view = View::Absent;
    }

    /// Decides what the answer to a look means. The next step acts on it.
    fn take_look(&mut self, session: &Session, looked: Looked) -> Result<()> {
        let (data, stat, watch) = match looked {
            Err(Error::NoNode { .. }) => {
                self.claims.was_not_applied(session.id());
                self.missing();
                return Ok(());
            }
            looked => looked?,
        };
        let (path, node, has_data) = (self.path(), Node::of(&stat), *data == **self.contents.wanted());
        let mut owner = match self.claims.owner(node, session.id()) {
            // Nothing is to be written. It is as if the node had just been created.
            Owner::Adoptable if has_data => Owner::Ours,
            owner => owner,
        };
        match owner {
            Owner::Ours if self.claims.confirm(node) => {
                if has_data {
                    self.applied();
                }
                self.reporter.set(PersistentNodeState::Present { path });
            }
            Owner::OursOfAnEndedSession | Owner::Adoptable => {}
            Owner::Foreign(_) | Owner::Ours => {
                owner = Owner::Foreign(node.session);
                self.claims.was_not_applied(session.id());
                self.claims.was_not_adopted();
                self.reporter.set(PersistentNodeState::Foreign { path, owner: node.session });
            }
        }
        self.view = View::Seen(Seen { session: session.clone(), stat, owner, watch });
        Ok(())
    }

    /// Decides what the result of a request means, and the answer to the look that was sent behind it.
    fn take_result(&mut self, session: &Session, result: Result<()>, looked: Looked) -> Result<()> {
        match result {
            Ok(()) | Err(Error::NodeExists { .. } | Error::NoNode { .. } | Error::BadVersion { .. }) => {}
            Err(error @ Error::RequestTooLarge { .. }) if self.contents.can_fall_back() => {
                self.refuse_data(error);
                return Ok(());
            }
            // A foreign node says more than that we may not create one.
            Err(error) if error.is_retryable() || !self.is_foreign(session, &looked) => return Err(error),
            Err(_) => {}
        }
        self.take_look(session, looked)
    }

    fn is_foreign(&self, session: &Session, looked: &Looked) -> bool {
        let owner = looked.as_ref().map(|(_, stat, _)| self.claims.owner(Node::of(stat), session.id()));
        matches!(owner, Ok(Owner::Foreign(_)))
    }

    /// Writes the data to the node that was seen, and looks at it again.
    async fn write(&mut self, session: &Session) -> Result<()> {
        let View::Seen(Seen { stat, owner, .. }) = &self.view else { return Ok(()) };
        let (version, owner, path) = (stat.version, *owner, self.path());
        if owner == Owner::Adoptable {
            self.claims.adopt(Node::of(stat));
        }
        let data = self.contents.wanted();
        let requests = || (session.set_data(&path, data, Some(version)), session.watch_data(&path));
        let (written, looked) = session.pipelined(requests);
        let (written, looked) = (written.await, looked.await);
        let written = match written {
            Ok(stat) => {
                if self.claims.confirm(Node::of(&stat)) {
                    self.applied();
                }
                Ok(())
            }
            Err(Error::BadVersion { .. } | Error::NoNode { .. }) => Ok(()),
            Err(error) if owner == Owner::Ours && !error.is_retryable() && session.end().is_none() => {
                self.refuse_data(error);
                Ok(())
            }
            Err(error) => {
                if !error.is_retryable() {
                    self.claims.was_not_adopted();
                }
                Err(error)
            }
        };
        self.take_result(session, written, looked)
    }

    /// The node has the data.
    fn applied(&mut self) {
        if let Some(number) = self.contents.applied() {
            self.reporter.applied(number);
        }
    }

    fn refuse_data(&mut self, error: Error) {
        let number = self.contents.refused();
        self.reporter.refused(number, error);
    }
}
