//! The leader latch: a participant in an election.

use std::sync::Arc;

use curator_client::source::watch;
use curator_client::{
    CuratorClient, Deadline, Error as ClientError, FailureLog, NodePath, ZPath, debug_line,
};

use super::LATCH_NAME;
use super::campaign::{Campaign, Command, Intent, Report, Reporter};
use super::leadership::{LeaderState, Leadership, Pauses};
use crate::changes::Latest;
use crate::engine::watched_node::is_revoke_request;
use crate::error::{Error, Result};
use crate::lock::{InterProcessMutex, Participant};
use crate::task::RecipeTask;

/// A participant in the election of one leader among all processes that use the same path.
///
/// Curator's `LeaderLatch`: Java and Rust programs elect one leader together.
///
/// A latch takes part from [`start`](LeaderLatchBuilder::start) until it is closed: through outages
/// of any length, lost sessions, deleted nodes and missing permissions that are repaired later. A
/// background task on the client's runtime does this; the user need not poll anything.
///
/// ```no_run
/// use curator_recipes::LeaderLatch;
/// use curator_recipes::client::CuratorClient;
///
/// # async fn example() -> Result<(), curator_recipes::Error> {
/// let client = CuratorClient::builder("127.0.0.1:2181").connect().await?;
/// let latch = LeaderLatch::builder(&client, "/leaders/reports")?.id("replica-1").start();
/// loop {
///     let leadership = latch.leadership().await?;
///     println!("leading with token {}", leadership.fencing_token());
///     // The future is dropped when the term ends.
///     match leadership.run(async { /* the job */ }).await {
///         Ok(()) => break,
///         Err(lost) => println!("{lost}"),
///     }
/// }
/// latch.close().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - *One leader*: no two participants have a [valid](Leadership::is_valid) term at the same time,
///   unless a client deletes the leader's node. The leader's clock ends the term when the session
///   may have ended, before another participant can lead.
/// - *Fair*: participants lead in the order in which they joined.
/// - *Herd-free*: the end of a term wakes the next participant, and one more, which prepares to
///   lead.
/// - A leader whose node was deleted is notified, and joins the end of the queue again.
///
/// # Caveats
///
/// To move leadership, call [`resign`](Self::resign), or [`revoke`](crate::revoke) with the
/// leader's node: then the leader resigns. Deleting that node moves leadership as well, but the old
/// leader's term stays valid until the notification arrives. `revoke` overwrites the id of the
/// participant until it has joined again.
///
/// A participant that is not among the first three detects a deletion of its node only when the
/// queue moves, or after a reconnect.
///
/// The latch does not take part while the client's retry policy pauses after a failure: configure
/// short pauses.
///
/// Clones are handles to one participant. It leaves when the last handle is dropped: its node is
/// deleted in the background.
#[derive(Clone)]
pub struct LeaderLatch {
    mutex: InterProcessMutex,
    commands: Arc<watch::Sender<Command>>,
    states: watch::Receiver<LeaderState>,
    reports: watch::Receiver<Report>,
    task: RecipeTask,
}

debug_line!(LeaderLatch, |latch| path: latch.path(), state: *latch.states.borrow(), connection: latch.mutex.client().connection_state());

/// Configures and starts a [`LeaderLatch`].
#[must_use = "nothing happens before `start`"]
pub struct LeaderLatchBuilder {
    mutex: InterProcessMutex,
    queued: Arc<watch::Sender<bool>>,
    is_revocable: bool,
}

debug_line!(LeaderLatchBuilder, |builder| path: builder.mutex.path());

impl LeaderLatchBuilder {
    /// Sets the id of this participant, the data of its node, which [`LeaderLatch::participants`]
    /// returns in every process. Defaults to none, as in Curator.
    ///
    /// A participant with the id `__REVOKE__` cannot be revoked, because [`revoke`](crate::revoke)
    /// writes this text.
    pub fn id(self, id: impl AsRef<str>) -> Self {
        let id = id.as_ref().as_bytes();
        Self {
            mutex: self.mutex.with_lock_data(id),
            is_revocable: !is_revoke_request(id),
            ..self
        }
    }

    /// Sets the label `lock` of the metrics `curator_lock_*`, which count a term as a hold.
    /// Defaults to none.
    #[cfg(feature = "metrics")]
    pub fn metrics_name(self, name: impl Into<Arc<str>>) -> Self {
        Self {
            mutex: self.mutex.with_metrics_name(name),
            ..self
        }
    }

    /// Starts to take part. Returns immediately, even before there is a connection.
    #[must_use = "the participant leaves when its latch is dropped"]
    pub fn start(self) -> LeaderLatch {
        let Self {
            mutex,
            queued,
            is_revocable,
        } = self;
        let (commands_tx, commands_rx) = watch::channel(Command {
            intent: Intent::TakePart,
            number: 0,
        });
        let (states_tx, states_rx) = watch::channel(LeaderState::Unknown);
        let (reports_tx, reports_rx) = watch::channel(Report {
            term: None,
            error: None,
            done: (0, Ok(())),
        });
        let campaign = Campaign {
            client: mutex.client().clone(),
            mutex: mutex.clone(),
            commands: commands_rx,
            queued,
            is_revocable,
            reporter: Reporter {
                client: mutex.client().clone(),
                states: states_tx,
                reports: reports_tx,
            },
            pauses: Pauses::default(),
            failures: FailureLog::default(),
            participation: Some(mutex.participates()),
        };
        let commands = Arc::new(commands_tx);
        let channels = (Arc::clone(&commands), states_rx.clone(), reports_rx.clone());
        let task = RecipeTask::start(
            mutex.client(),
            mutex.path().clone(),
            channels,
            campaign.run(),
        );
        LeaderLatch {
            mutex,
            commands,
            states: states_rx,
            reports: reports_rx,
            task,
        }
    }
}

impl LeaderLatch {
    /// Makes a participant in the election at `path`. Nothing is sent before
    /// [`start`](LeaderLatchBuilder::start).
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn builder(client: &CuratorClient, path: impl NodePath) -> Result<LeaderLatchBuilder> {
        let queued = Arc::default();
        let mutex = InterProcessMutex::of_leaders(
            client,
            path,
            "leader latch",
            LATCH_NAME,
            Arc::clone(&queued),
        )?;
        Ok(LeaderLatchBuilder {
            mutex: mutex.with_lock_data([]),
            queued,
            is_revocable: true,
        })
    }

    /// Waits until this participant leads, and returns the term. Returns immediately if it leads
    /// now.
    ///
    /// # Errors
    ///
    /// [`RecipeClosed`](Error::RecipeClosed) when the latch is closed; [`Client`](Error::Client)
    /// when the client is closed, or has ended; [`RecipePanicked`](Error::RecipePanicked). There
    /// are no other errors: the wait continues through outages and denied requests, which are
    /// logged; [`last_error`](Self::last_error) returns the latest failure.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped: the participant keeps its place.
    pub async fn leadership(&self) -> Result<Leadership> {
        // When the state is set, the report already contains the term.
        self.task
            .until(&self.states, |state| {
                if !state.is_leader() {
                    return None;
                }
                self.reports
                    .borrow()
                    .term
                    .clone()
                    .filter(Leadership::is_valid)
            })
            .await
    }

    /// Whether this participant certainly leads now. Reads the clock, and sends nothing.
    #[must_use]
    pub fn has_leadership(&self) -> bool {
        if self.task.has_forked() {
            return false;
        }
        let term = self.reports.borrow().term.clone();
        term.is_some_and(|term| term.is_valid())
    }

    /// The state of this participant, and its changes.
    ///
    /// It changes only when the task of the latch runs. To decide whether to act, call
    /// [`has_leadership`](Self::has_leadership) or [`Leadership::is_valid`], which read the clock.
    /// When the latch has ended, the state is [`Unknown`](LeaderState::Unknown), and no longer
    /// changes. Nor does it change in a forked child.
    #[must_use]
    pub fn state(&self) -> Latest<LeaderState> {
        Latest::new(&self.states)
    }

    /// Why this participant cannot take part now, for example because a permission is missing.
    /// `None` while it is in the queue, or leads. It tries again, after pauses of up to 10 s.
    #[must_use]
    pub fn last_error(&self) -> Option<Error> {
        self.reports.borrow().error.clone()
    }

    /// Lists all participants, in all processes, in the order in which they will lead, each with
    /// its [id](Participant::id). [`owns`](Participant::owns) is true for the leader; if the leader
    /// leaves while the list is read, it is false for all.
    ///
    /// # Errors
    ///
    /// Errors of the client when its retry policy permits no more retries.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        self.mutex.participants().await
    }

    /// Reads the leader with two requests, a list and one node; `None` if there is no participant.
    /// To follow changes, use a [`LeaderObserver`](super::LeaderObserver).
    ///
    /// # Errors
    ///
    /// Errors of the client when its retry policy permits no more retries.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn leader(&self) -> Result<Option<Participant>> {
        self.mutex.first_participant().await
    }

    /// Ends the term, if this participant leads, and joins the end of the queue again. Returns when
    /// the node of the term is deleted, or its session has ended.
    ///
    /// The term ends for all its [views](Leadership) before the release is sent.
    ///
    /// # Errors
    ///
    /// [`ReleaseRefused`](Error::ReleaseRefused) when the server denies the deletion of this
    /// participant's node, or of the node of another participant of this client on the path; the
    /// errors of [`leadership`](Self::leadership).
    ///
    /// # Cancel safety
    ///
    /// Once polled, the command is executed even if the future is dropped.
    pub async fn resign(&self) -> Result<()> {
        self.command(|intent| intent).await
    }

    /// Leaves the queue, and ends the term, until [`stand_by`](Self::stand_by): for a replica that
    /// is being drained. Returns when its node is deleted, or its session has ended. If another
    /// command follows in the meantime, only the latest one is executed.
    ///
    /// # Errors
    ///
    /// The same as [`resign`](Self::resign).
    ///
    /// # Cancel safety
    ///
    /// The same as [`resign`](Self::resign).
    pub async fn stand_aside(&self) -> Result<()> {
        self.command(|_| Intent::StandAside).await
    }

    /// Joins the end of the queue again after [`stand_aside`](Self::stand_aside). Otherwise does
    /// nothing.
    pub fn stand_by(&self) {
        if self.task.has_forked() {
            return;
        }
        self.commands.send_if_modified(|command| {
            let is_aside = command.intent == Intent::StandAside;
            if is_aside {
                *command = Command {
                    intent: Intent::TakePart,
                    number: command.number + 1,
                };
            }
            is_aside
        });
    }

    /// Leaves permanently, for all clones. Returns when its node is deleted, or after the client's
    /// close timeout. A second call is harmless.
    ///
    /// # Errors
    ///
    /// [`ReleasePending`](Error::ReleasePending) at the timeout: the deletion continues in the
    /// background. [`ReleaseRefused`](Error::ReleaseRefused) when the server denies it: the node
    /// stays until its session ends, and once it is first, no other participant can lead.
    /// [`Client`](Error::Client) if the client's runtime has ended, or the process was forked;
    /// [`RecipePanicked`](Error::RecipePanicked). If the client is closed, so is the latch, and
    /// there is no error.
    ///
    /// # Cancel safety
    ///
    /// Once polled, the command is executed even if the future is dropped.
    pub async fn close(&self) -> Result<()> {
        let client = self.mutex.client();
        let after = client.close_timeout();
        let path = self.path().clone();
        let deadline = Deadline::after(after);
        tokio::select! {
            biased;
            closed = self.command(|_| Intent::Close) => match closed {
                Err(Error::RecipeClosed { .. } | Error::Client(ClientError::Closed)) => Ok(()),
                closed => closed,
            },
            () = client.sleep_until(deadline) => {
                let cause = ClientError::OperationTimeout { operation: "close", path: path.clone(), after };
                Err(Error::ReleasePending { path, cause })
            }
        }
    }

    /// The path on the server, including chroot and namespace.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        self.mutex.path()
    }

    /// Sends a command to the task, and waits until it is executed.
    async fn command(&self, intent: impl FnOnce(Intent) -> Intent) -> Result<()> {
        let mut number = 0;
        self.task.command(&self.commands, |command| {
            // A closed latch stays closed.
            if command.intent != Intent::Close {
                command.intent = intent(command.intent);
            }
            command.number += 1;
            number = command.number;
        });
        self.task
            .until(&self.reports, |report| {
                (report.done.0 >= number).then(|| report.done.1.clone())
            })
            .await?
    }
}
