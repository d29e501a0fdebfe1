//! Reads the node that is kept, and creates or writes it as needed.

mod creating;

use std::mem;
use std::sync::Arc;

use curator_client::source::watch;
use curator_client::{
    CloseDelay, CuratorClient, Error, FailureLog, Outcome, ProtectionId, Recovery, Result, Session,
    Stat, Watch, WatchEvent, ZPath, source,
};

use self::creating::{Creating, replacement};
use super::PersistentNodeBuilder;
use super::claims::{Adopts, Claims, ConfirmedInClient, Node, Owner, Recognition};
use super::state::{Command, Contents, PersistentNodeState, Reporter};
use crate::task::follow::Followed;
use crate::task::report::Truncated;

/// How many times a create or a write is tried before a pause, while other clients keep deleting or
/// changing the node.
const ROUNDS: u32 = 16;

/// The node of a [`PersistentNode`](crate::PersistentNode), whether or not it exists.
///
/// The futures of its methods can be dropped at any await point, because a create in flight is
/// stored here.
pub(super) struct Kept {
    pub(super) client: CuratorClient,
    pub(super) options: PersistentNodeBuilder,
    pub(super) reporter: Arc<Reporter>,
    /// The path with the protection prefix, if any, and without a sequence number.
    base: ZPath,
    /// The node's path, once known: from the start, or, for a sequential node, after its creation.
    pub(super) path: Option<ZPath>,
    pub(super) claims: Claims,
    contents: Contents,
    /// The zxid of the last known write to the node.
    mzxid: i64,
    /// How many creates in a row found that another node has the number which the server assigned.
    taken_numbers: u32,
    /// The create in flight.
    pub(super) creating: Option<Creating>,
    pub(super) view: View,
    /// Delays the close of a lost session while an ephemeral node exists, so that the next session
    /// can replace the node.
    pub(super) close_delay: Option<CloseDelay>,
    /// Logs writes that the server refuses.
    data_failures: FailureLog,
    /// Logs deletions by other clients, and names that other nodes have.
    losses: FailureLog,
    /// Whether the node was lost. If so, its next creation is logged only if the loss was logged.
    is_lost: bool,
}

/// The last known state of the node.
pub(super) enum View {
    /// Not known: read it.
    Unseen,
    /// It does not exist, or probably not: create it.
    Absent,
    /// It exists, and a watch is set.
    Seen(Seen),
}

/// The last read of a node that exists.
pub(super) struct Seen {
    pub(super) session: Session,
    pub(super) stat: Stat,
    owner: Owner,
    pub(super) watch: Watch,
}

/// The reply to a read.
type ReadReply = Result<(Vec<u8>, Stat, Watch)>;

impl Followed for Kept {
    type State = ();

    async fn changed(&mut self) {
        let View::Seen(Seen { session, watch, .. }) = &mut self.view else {
            return;
        };
        let event = tokio::select! {
            biased;
            // The connection of an ended session may look open for a while.
            _ = session.ended() => WatchEvent::SessionEnded,
            event = watch.fired() => event,
            () = self.contents.changed() => return,
        };
        self.apply_event(event);
    }

    async fn read(&mut self) -> Result<()> {
        let session = self.client.session().await?;
        if matches!(&self.view, View::Seen(seen) if !seen.session.is_same(&session)) {
            self.apply_event(WatchEvent::SessionEnded);
        }
        self.contents.update();
        for _ in 0..ROUNDS {
            let step = match &self.view {
                View::Seen(Seen {
                    owner: Owner::Foreign(_),
                    ..
                }) => return Ok(()),
                View::Seen(Seen {
                    owner: Owner::Ours, ..
                }) if !self.contents.is_pending => return Ok(()),
                View::Seen(Seen {
                    owner: Owner::Ours | Owner::Adoptable,
                    ..
                }) => self.write(&session).await,
                View::Unseen if self.path.is_some() => {
                    let reply = session.watch_data(&self.path()).await;
                    self.apply_read(&session, reply)
                }
                View::Seen(Seen {
                    owner: Owner::OursOfAnEndedSession,
                    ..
                })
                | View::Unseen
                | View::Absent => self.create(&session).await,
            };
            if let Err(error) = step {
                if error.is_retryable() {
                    self.reporter.set(PersistentNodeState::Unknown);
                }
                // If the create was refused, the next attempt creates without reading first.
                if error.is_retryable() || matches!(self.view, View::Seen(_)) {
                    self.view = View::Unseen;
                }
                return Err(error);
            }
        }
        if matches!(
            &self.view,
            View::Seen(Seen {
                owner: Owner::Adoptable,
                ..
            })
        ) {
            // Other clients change the node before each write that would take it over.
            self.set_foreign(0);
        }
        self.view = View::Unseen;
        Err(Error::BadVersion {
            operation: "set data of",
            path: self.path(),
        })
    }

    fn failed(&mut self, error: &Error) {
        // `BadVersion` means that other clients keep changing the node. The last state stays valid.
        if !matches!(error, Error::BadVersion { .. }) {
            self.is_lost &= error.is_retryable();
            self.reporter.failed(error);
        }
    }
}

impl Kept {
    pub(super) fn new(
        options: PersistentNodeBuilder,
        reporter: Reporter,
        commands: watch::Receiver<Command>,
    ) -> Self {
        let PersistentNodeBuilder {
            client,
            path,
            mode,
            is_protected,
            adopts,
            ..
        } = options.clone();
        let recognition = match (mode.is_ephemeral(), is_protected) {
            (true, _) => Recognition::Ephemeral,
            (false, true) => Recognition::Protected,
            (false, false) => Recognition::Confirmed {
                adopts: match (adopts, mode.is_sequential()) {
                    (false, _) => Adopts::Nothing,
                    (true, true) => Adopts::InDoubt,
                    (true, false) => Adopts::Anything,
                },
            },
        };
        let mut base = path;
        // A prefix does not make a name invalid.
        if is_protected
            && let Some(dir) = base.parent()
            && let Ok(protected) = dir.join(&ProtectionId::new().protect(base.name()))
        {
            base = protected;
        }
        Self {
            options,
            path: (!mode.is_sequential()).then(|| base.clone()),
            base,
            claims: Claims::new(recognition, client.extension::<ConfirmedInClient>()),
            contents: Contents::new(commands, reporter.reports.clone()),
            reporter: Arc::new(reporter),
            mzxid: 0,
            taken_numbers: 0,
            creating: None,
            view: View::Absent,
            close_delay: None,
            data_failures: FailureLog::default(),
            losses: FailureLog::default(),
            is_lost: false,
            client,
        }
    }

    /// The node's path, without a sequence number that is not known yet.
    pub(super) fn path(&self) -> ZPath {
        self.path.as_ref().unwrap_or(&self.base).clone()
    }

    /// Updates the view and the reported state after an event.
    fn apply_event(&mut self, event: WatchEvent) {
        let View::Seen(Seen { owner, .. }) = &self.view else {
            return;
        };
        let is_ours = *owner != Owner::Adoptable && !matches!(owner, Owner::Foreign(_));
        match event {
            WatchEvent::Deleted => {
                self.set_absent();
                if is_ours && self.logs_loss("deleted") {
                    let client = self.client.name();
                    let path = &self.options.path;
                    tracing::warn!(client, %path, "persistent node: another client has deleted the node");
                }
            }
            WatchEvent::Interrupted | WatchEvent::SessionEnded => {
                self.reporter.set(PersistentNodeState::Unknown);
                // An ephemeral node is deleted, or soon will be.
                let is_deleted = event == WatchEvent::SessionEnded
                    && is_ours
                    && self.options.mode.is_ephemeral();
                self.view = if is_deleted {
                    View::Absent
                } else {
                    View::Unseen
                };
            }
            _ => self.view = View::Unseen,
        }
    }

    /// Records that another owner's node is neither used nor taken over.
    fn set_foreign(&mut self, owner: i64) {
        self.close_delay = None;
        self.claims.was_not_adopted();
        self.is_lost = false;
        self.reporter.set(PersistentNodeState::Foreign {
            path: self.path(),
            owner,
        });
    }

    fn set_absent(&mut self) {
        self.close_delay = None;
        self.reporter.set(PersistentNodeState::Absent);
        self.view = View::Absent;
    }

    /// Processes the reply to a read. The next step acts on it.
    fn apply_read(&mut self, session: &Session, reply: ReadReply) -> Result<()> {
        let (data, stat, watch) = match reply {
            Err(Error::NoNode { .. }) => {
                self.claims.was_not_applied(session.id());
                self.set_absent();
                return Ok(());
            }
            reply => reply?,
        };
        let path = self.path();
        let has_data = *data == *self.contents.wanted;
        let node = Node::from_stat(&path, &stat);
        let mut owner = match self.claims.owner(&node, session.id()) {
            // The node has the wanted data already, so treat it as just created.
            Owner::Adoptable if has_data => Owner::Ours,
            owner => owner,
        };
        match owner {
            Owner::Ours if self.claims.confirm(&node) => {
                self.close_delay = self
                    .options
                    .mode
                    .is_ephemeral()
                    .then(|| session.delay_close());
                // Either the servers were restored from an older copy, or a write of an ended
                // session has arrived late.
                let is_older =
                    !has_data && (stat.mzxid < self.mzxid || self.contents.is_late(&data));
                self.mzxid = stat.mzxid;
                if has_data {
                    self.contents.applied();
                }
                if is_older {
                    self.rewrite();
                } else {
                    self.reporter.set(PersistentNodeState::Present { path });
                }
            }
            Owner::Foreign(_) | Owner::Ours if self.options.mode.is_sequential() => {
                self.take_another_number();
                return Ok(());
            }
            Owner::OursOfAnEndedSession | Owner::Adoptable => {}
            Owner::Foreign(_) | Owner::Ours => {
                owner = Owner::Foreign(node.session);
                self.claims.was_not_applied(session.id());
                self.set_foreign(node.session);
            }
        }
        self.view = View::Seen(Seen {
            session: session.clone(),
            stat,
            owner,
            watch,
        });
        Ok(())
    }

    /// Processes the result of a request, and the reply to the read that was sent after it.
    fn take_result(
        &mut self,
        session: &Session,
        result: Result<()>,
        reply: ReadReply,
    ) -> Result<()> {
        match result {
            Ok(())
            | Err(Error::NodeExists { .. } | Error::NoNode { .. } | Error::BadVersion { .. }) => {}
            Err(error @ Error::RequestTooLarge { .. }) if self.contents.can_fall_back() => {
                self.refuse_data(error);
                return Ok(());
            }
            // A server checks the permission for a create before it checks whether the node exists.
            Err(error) if error.is_retryable() || !self.is_of_others(session, &reply) => {
                return Err(error);
            }
            Err(_) => {}
        }
        self.apply_read(session, reply)
    }

    /// Whether the refusal of a request does not matter, because the node that was read after it is
    /// foreign or, after a refused create, can be adopted.
    fn is_of_others(&self, session: &Session, reply: &ReadReply) -> bool {
        let is_create = !matches!(self.view, View::Seen(_));
        let Ok((_, stat, _)) = reply else {
            return false;
        };
        match self
            .claims
            .owner(&Node::from_stat(&self.path(), stat), session.id())
        {
            Owner::Foreign(_) => true,
            Owner::Adoptable => is_create,
            Owner::Ours | Owner::OursOfAnEndedSession => false,
        }
    }

    /// Writes the data to the node that was read, and reads it again.
    async fn write(&mut self, session: &Session) -> Result<()> {
        let View::Seen(Seen { stat, owner, .. }) = &self.view else {
            return Ok(());
        };
        let version = stat.version;
        let owner = *owner;
        let path = self.path();
        let node = Node::from_stat(&path, stat);
        if owner == Owner::Adoptable {
            self.claims.adopt(node.clone());
        }
        // The data must also fit into the request that will replace the node in the next session,
        // which is larger.
        let fits = session.check_size(&replacement(&self.spec(), version));
        if let Err(error) = fits
            && owner == Owner::Ours
            && self.contents.can_fall_back()
        {
            self.refuse_data(error);
            return Ok(());
        }
        let data = &self.contents.wanted;
        let (written, read) = session.pipelined(|| {
            (
                session.set_data(&path, data, Some(version)),
                session.watch_data(&path),
            )
        });
        self.contents.sent();
        let written = written.await;
        if written
            .as_ref()
            .err()
            .is_none_or(|error| error.outcome() == Outcome::NotApplied)
        {
            self.contents.answered();
        }
        if matches!(
            written,
            Err(Error::BadVersion { .. } | Error::NoNode { .. })
        ) {
            self.claims.was_not_adopted();
        }
        let reply = read.await;
        let is_unchanged =
            matches!(&reply, Ok((_, stat, _)) if Node::from_stat(&path, stat) == node);
        let written = match written {
            // Another client may have replaced the node by one with the same version.
            Ok(stat) if Node::from_stat(&path, &stat) != node => {
                self.claims.was_not_adopted();
                Ok(())
            }
            Ok(stat) => {
                self.mzxid = stat.mzxid;
                if self.claims.confirm(&node) {
                    self.contents.applied();
                    if let Some(Recovery {
                        lasted, failures, ..
                    }) = self.data_failures.recovered(source::now())
                    {
                        let client = self.client.name();
                        tracing::info!(client, %path, ?lasted, failures, "persistent node: the server accepts its data again");
                    }
                }
                Ok(())
            }
            Err(Error::BadVersion { .. } | Error::NoNode { .. }) => Ok(()),
            Err(error)
                if owner == Owner::Ours && !error.is_retryable() && session.end().is_none() =>
            {
                // If another client has replaced the node, the server may accept the data for the
                // new node.
                if is_unchanged {
                    self.refuse_data(error);
                }
                Ok(())
            }
            Err(error) => {
                if !error.is_retryable() {
                    self.claims.was_not_adopted();
                }
                Err(error)
            }
        };
        self.take_result(session, written, reply)
    }

    /// Requests another write of the data, which the servers have lost.
    fn rewrite(&mut self) {
        self.contents.is_pending = true;
        let client = self.client.name();
        let path = &self.options.path;
        tracing::warn!(client, %path, "persistent node: the servers have older data of the node; writing the latest again");
    }

    /// Abandons the name of a sequential node, because another client's node has it. The node is
    /// then created under the next number.
    fn take_another_number(&mut self) {
        let path = self.path();
        self.claims.abandon();
        self.path = None;
        self.set_absent();
        if self.logs_loss("taken") {
            let client = self.client.name();
            tracing::warn!(client, %path, "persistent node: another owner has the name; taking another number");
        }
    }

    /// Records that the node or its name is lost. Returns whether to log it.
    fn logs_loss(&mut self, loss: &str) -> bool {
        self.is_lost = true;
        self.losses.failed(loss, source::now())
    }

    /// Records that the node was created. Returns whether to log it: yes, unless the node was lost
    /// and the loss was not logged.
    fn logs_creation(&mut self) -> bool {
        let recovery = self.losses.recovered(source::now());
        !mem::take(&mut self.is_lost) || recovery.is_some()
    }

    fn refuse_data(&mut self, error: Error) {
        let is_logged = self.data_failures.failed(&error, source::now());
        self.contents.refused(error.clone());
        if is_logged {
            let client = self.client.name();
            let path = &self.options.path;
            tracing::warn!(client, %path, error = %Truncated(&error), "persistent node: the server refuses its new data");
        }
    }
}
