//! Reports the leader of an election to a client that does not take part.

use std::pin::pin;

use curator_client::source::watch;
use curator_client::{
    CuratorClient, Error as ClientError, FailureLog, NodePath, Recovery, Session, Watch,
    WatchEvent, ZPath, debug_line, source,
};
use curator_protocol::StandardLockInternalsDriver;
use futures_core::Stream;
use futures_util::{poll, stream};

use super::{LATCH_NAME, SELECTOR_NAME};
use crate::changes::Latest;
use crate::engine::watched_node::is_revoke_request;
use crate::error::{Error, Result};
use crate::lock::Participant;
use crate::lock::participants::{Listed, Numbers};
use crate::task::RecipeTask;
use crate::task::follow::fired;
use crate::task::report::Truncated;

/// The leader, as reported by a [`LeaderObserver`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObservedLeader {
    /// The leader is not known: there is no connection, or the session is suspended; nothing has
    /// been read yet, or the read fails (see [`LeaderObserver::last_error`]); or the observer has
    /// ended.
    Unknown,
    /// There is no participant.
    NoLeader,
    /// This participant leads: it is the first in the queue.
    Leader(Participant),
}

/// Observes the leader of an election, without taking part.
///
/// Reports the first participant, and each change. A task on the client's runtime reads the
/// participant, through outages of any length and lost sessions, until the client closes, or the
/// last handle, receiver and stream of this observer are dropped.
///
/// ```no_run
/// use curator_recipes::client::CuratorClient;
/// use curator_recipes::{LeaderObserver, ObservedLeader};
///
/// # async fn example() -> Result<(), curator_recipes::Error> {
/// let client = CuratorClient::builder("127.0.0.1:2181").connect().await?;
/// let observer = LeaderObserver::observe_latch(&client, "/leaders/reports")?;
/// let mut state = observer.state();
/// while state.changed().await.is_ok() {
///     match state.get_and_update() {
///         ObservedLeader::Leader(leader) => println!("{} leads", leader.id()),
///         ObservedLeader::NoLeader => println!("there is no leader"),
///         _ => println!("no connection"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - *Never backwards*: no leader is reported after one with a higher
///   [token](Participant::fencing_token), even when a new session connects to a server that lags
///   behind.
/// - *Unknown while disconnected*: the last leader is not reported as the present one.
/// - A leader whose term begins and ends between two reads is not reported. An observer watches
///   only the leader's node: participants that join behind it cause no requests.
///
/// # Caveats
///
/// An observer reports the state of the servers. A disconnected leader stops leading before the
/// servers expire its session; and another participant may have been elected since the read. A
/// participant that acts as the leader must check
/// [`LeaderLatch::has_leadership`](super::LeaderLatch::has_leadership), and send its token with
/// each write.
///
/// An observer, a receiver or a stream of it keeps the client open. An observer that starts after
/// [`revoke`](crate::revoke) was called on the leader reports the id `__REVOKE__`.
///
/// An ensemble that was restored from an old backup has lower tokens than before: the observer then
/// reports [`Unknown`](ObservedLeader::Unknown), and [`last_error`](Self::last_error) returns the
/// cause. Start another observer.
///
/// After etcd's `Observe`. Curator has no equivalent: `getLeader` reads once.
#[derive(Clone)]
pub struct LeaderObserver {
    values: watch::Receiver<ObservedLeader>,
    errors: watch::Receiver<Option<Error>>,
    task: RecipeTask,
}

debug_line!(LeaderObserver, |observer| path: observer.path(), connection: observer.task.client.connection_state());

impl LeaderObserver {
    /// Observes the leader among the [`LeaderLatch`](super::LeaderLatch)es at `path`, including
    /// Java's. Returns immediately, even before there is a connection.
    ///
    /// It ignores the nodes of selectors and locks: on their path it reports
    /// [`NoLeader`](ObservedLeader::NoLeader), and lists the path after each change.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn observe_latch(client: &CuratorClient, path: impl NodePath) -> Result<Self> {
        Self::observe(client, path, LATCH_NAME)
    }

    /// Observes the leader among the [`LeaderSelector`](super::LeaderSelector)s at `path`,
    /// including Java's. Returns immediately, even before there is a connection.
    ///
    /// The queue is the same as for an [`InterProcessMutex`](crate::InterProcessMutex), so this
    /// also observes the holder of a mutex.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn observe_selector(client: &CuratorClient, path: impl NodePath) -> Result<Self> {
        Self::observe(client, path, SELECTOR_NAME)
    }

    fn observe(
        client: &CuratorClient,
        path: impl NodePath,
        lock_name: &'static str,
    ) -> Result<Self> {
        let path = client.resolve(path)?;
        let (values_tx, values_rx) = watch::channel(ObservedLeader::Unknown);
        let (errors_tx, errors_rx) = watch::channel(None);
        let driver = StandardLockInternalsDriver::with_lock_name(lock_name);
        let head = QueueHead::new(client, path.clone(), driver);
        let reporter = Reporter {
            client: client.clone(),
            path: path.clone(),
            values: values_tx,
            errors: errors_tx,
        };
        let task = RecipeTask::start(
            client,
            path,
            (values_rx.clone(), errors_rx.clone()),
            observe(head, reporter),
        );
        Ok(Self {
            values: values_rx,
            errors: errors_rx,
            task,
        })
    }

    /// Returns the leader; `None` if there is no participant. Waits while the leader is
    /// [unknown](ObservedLeader::Unknown). Sends nothing.
    ///
    /// # Errors
    ///
    /// [`Client`](Error::Client) when the client is closed, or has ended;
    /// [`RecipePanicked`](Error::RecipePanicked).
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn leader(&self) -> Result<Option<Participant>> {
        tokio::select! {
            biased;
            // Checked first: after the client has closed, the last state is outdated.
            error = self.task.client.closing() => Err(error.into()),
            leader = self.task.until(&self.values, |value| match value {
                ObservedLeader::Unknown => None,
                ObservedLeader::NoLeader => Some(None),
                ObservedLeader::Leader(leader) => Some(Some(leader.clone())),
            }) => leader,
        }
    }

    /// The leader and its changes. The first [`changed`](Latest::changed) of each result returns
    /// immediately if the leader was ever known.
    ///
    /// When the client closes, the state becomes [`Unknown`](ObservedLeader::Unknown), and no
    /// longer changes; in a forked child it no longer changes either.
    #[must_use]
    pub fn state(&self) -> Latest<ObservedLeader> {
        Latest::new(&self.values)
    }

    /// Returns [`state`](Self::state) as a stream: the first item is the present state. It ends
    /// when the client closes.
    ///
    /// # Cancel safety
    ///
    /// No state is lost when the future of the stream's next item is dropped.
    #[must_use = "nothing is yielded before the stream is polled"]
    pub fn changes(&self) -> impl Stream<Item = ObservedLeader> + Send + Unpin + use<> {
        let mut values = self.values.clone();
        values.mark_changed();
        Box::pin(stream::unfold(values, |mut values| async move {
            values.changed().await.ok()?;
            let value = values.borrow_and_update().clone();
            Some((value, values))
        }))
    }

    /// Why the leader cannot be read, for example because a permission is missing. `None` after a
    /// successful read.
    #[must_use]
    pub fn last_error(&self) -> Option<Error> {
        self.errors.borrow().clone()
    }

    /// The path on the server, including chroot and namespace.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        &self.task.path
    }
}

/// The senders of the task.
struct Reporter {
    client: CuratorClient,
    path: ZPath,
    values: watch::Sender<ObservedLeader>,
    errors: watch::Sender<Option<Error>>,
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.report(&ObservedLeader::Unknown);
    }
}

impl Reporter {
    /// Reports the state that was read, or [`Unknown`](ObservedLeader::Unknown) if there is no
    /// connection.
    fn report(&self, read: &ObservedLeader) {
        let value = if self.client.check_connected().is_ok() {
            read
        } else {
            &ObservedLeader::Unknown
        };
        self.values.send_if_modified(|reported| {
            let is_new = reported != value;
            if is_new {
                reported.clone_from(value);
            }
            is_new
        });
    }
}

/// Reports the leader until the client closes or all receivers are dropped.
async fn observe(mut head: QueueHead, reporter: Reporter) -> Error {
    let client = reporter.client.clone();
    tokio::select! {
        biased;
        error = client.closing() => error.into(),
        () = reporter.values.closed() => Error::RecipeClosed { path: reporter.path.clone() },
        never = follow(&mut head, &reporter) => match never {},
    }
}

async fn follow(head: &mut QueueHead, reporter: &Reporter) -> std::convert::Infallible {
    let mut connection = reporter.client.connection_states();
    let mut retrier = reporter.client.persistent_retrier();
    let mut failures = FailureLog::default();
    // The leader with the highest token so far.
    let mut latest: Option<Participant> = None;
    loop {
        let read = {
            let mut reading = pin!(head.read());
            loop {
                tokio::select! {
                    biased;
                    read = &mut reading => break read,
                    // The state read before may be outdated.
                    Some(_) = connection.next() => reporter.report(&ObservedLeader::Unknown),
                }
            }
        };
        match read.and_then(|first| check_order(&mut latest, first, &reporter.path)) {
            Ok(first) => {
                retrier.reset();
                reporter.errors.send_replace(None);
                if let Some(Recovery {
                    lasted, failures, ..
                }) = failures.recovered(source::now())
                {
                    tracing::info!(client = reporter.client.name(), path = %Truncated(&reporter.path), ?lasted, failures, "leader observer: reads the leader again");
                }
                let leader = first.map_or(ObservedLeader::NoLeader, ObservedLeader::Leader);
                let mut changed = pin!(head.changed());
                // A reply that was processed late may belong to a session that has ended.
                if poll!(&mut changed).is_ready() {
                    continue;
                }
                reporter.report(&leader);
                loop {
                    tokio::select! {
                        biased;
                        () = &mut changed => break,
                        // The state that was read is current until the watch fires.
                        Some(_) = connection.next() => reporter.report(&leader),
                    }
                }
            }
            Err(error) => {
                reporter.errors.send_replace(Some(error.clone()));
                reporter.report(&ObservedLeader::Unknown);
                let client = reporter.client.name();
                let path = Truncated(&reporter.path);
                // The client logs its outages.
                if !error.is_retryable() && failures.failed(&error, source::now()) {
                    tracing::warn!(client, %path, error = %Truncated(&error), "leader observer: cannot read the leader, and will try again");
                } else {
                    tracing::debug!(client, %path, error = %Truncated(&error), "the leader cannot be read");
                }
                if retrier.again().await.is_err() {
                    // The client is closing, which ends this task.
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

/// Returns the leader that was read, or an error if a leader with a higher token was read before.
fn check_order(
    latest: &mut Option<Participant>,
    mut first: Option<Participant>,
    path: &ZPath,
) -> Result<Option<Participant>> {
    if let (Some(latest), Some(first)) = (latest.as_ref(), &mut first) {
        let token = first.fencing_token;
        let known = latest.fencing_token;
        if token < known {
            let cause =
                format!("the leader has token {token}, after one with token {known} was observed");
            return Err(Error::Protocol {
                dir: path.clone(),
                cause,
            });
        }
        if first.path == latest.path && is_revoke_request(&first.data) {
            // `revoke` has overwritten the leader's id: keep the id read before.
            first.data.clone_from(&latest.data);
        }
    }
    if first.is_some() {
        latest.clone_from(&first);
    }
    Ok(first)
}

/// Reads the first node of a queue, and watches only that node: no other node can be first before
/// it is deleted.
///
/// A read is never older than an earlier read, even in a new session: a session counts as connected
/// only once a server has replied to its probe, and a server that lags behind cannot reply to a
/// probe.
struct QueueHead {
    client: CuratorClient,
    dir: ZPath,
    driver: StandardLockInternalsDriver,
    /// The first two nodes of the last list, without those known to be deleted. Nodes that are
    /// created later are behind them.
    first: Vec<Listed>,
    watch: Option<(Session, Watch)>,
}

impl QueueHead {
    fn new(client: &CuratorClient, dir: ZPath, driver: StandardLockInternalsDriver) -> Self {
        Self {
            client: client.clone(),
            dir,
            driver,
            first: Vec::new(),
            watch: None,
        }
    }

    /// Waits until the watch has fired, or its session has ended; returns immediately if no watch
    /// is set.
    async fn changed(&mut self) {
        if fired(&mut self.watch).await == Some(WatchEvent::Deleted) && !self.first.is_empty() {
            self.first.remove(0);
        }
    }

    /// Reads the first participant, and sets a watch.
    ///
    /// Sends one request if the head is the same, or is the node after the last head; otherwise,
    /// lists the queue and reads the head.
    async fn read(&mut self) -> Result<Option<Participant>> {
        let session = self.client.session().await?;
        loop {
            while let Some(head) = self.first.first_mut() {
                match session.watch_data(&head.path).await {
                    Ok((data, stat, watch)) => {
                        self.watch = Some((session, watch));
                        head.owns = true;
                        return Ok(Some(head.participant(data, &stat)));
                    }
                    Err(ClientError::NoNode { .. }) => drop(self.first.remove(0)),
                    Err(error) => return Err(error.into()),
                }
            }
            if let Some(children) = unless_missing(session.get_children(&self.dir).await)? {
                self.keep_first(children)?;
                if !self.first.is_empty() {
                    continue;
                }
            }
            if let Some(watch) = self.watch_empty_queue(&session).await? {
                self.watch = Some((session, watch));
                return Ok(None);
            }
        }
    }

    fn keep_first(&mut self, children: Vec<String>) -> Result<()> {
        self.first = Listed::from_children(&self.dir, children, &self.driver, Numbers::Order)?;
        self.first.truncate(2);
        Ok(())
    }

    /// Returns a watch that fires when a participant joins; `None` if one has joined already.
    async fn watch_empty_queue(&mut self, session: &Session) -> Result<Option<Watch>> {
        let Some((children, watch)) = unless_missing(session.watch_children(&self.dir).await)?
        else {
            let (stat, watch) = session.watch_exists(&self.dir).await?;
            return Ok(stat.is_none().then_some(watch));
        };
        self.keep_first(children)?;
        Ok(self.first.is_empty().then_some(watch))
    }
}

/// The reply about a node; `None` if there is no such node.
fn unless_missing<T>(answer: curator_client::Result<T>) -> Result<Option<T>> {
    match answer {
        Err(ClientError::NoNode { .. }) => Ok(None),
        answer => Ok(Some(answer?)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use curator_protocol::ParticipantKind;

    use super::*;
    use crate::fencing::FencingToken;

    fn participant(token: i64, data: &str) -> Participant {
        Participant {
            path: ZPath::on_server(&format!("/leaders/latch-{token:010}")).unwrap(),
            sequence: 1,
            kind: ParticipantKind::Exclusive,
            owns: true,
            session_id: 1,
            created: SystemTime::UNIX_EPOCH,
            fencing_token: FencingToken::new(token),
            data: data.into(),
        }
    }

    /// An ensemble that was restored from a backup has lower tokens than before.
    #[test]
    fn a_leader_with_a_lower_token_is_refused_and_a_revoked_one_keeps_its_id() {
        let path = ZPath::on_server("/leaders").unwrap();
        let mut latest = None;
        let mut read = |first: Option<Participant>| check_order(&mut latest, first, &path);
        assert_eq!(read(None).unwrap(), None);
        let seven = participant(7, "a");
        assert_eq!(read(Some(seven.clone())).unwrap(), Some(seven.clone()));
        assert_eq!(
            read(Some(participant(7, "__REVOKE__"))).unwrap(),
            Some(seven.clone())
        );
        assert_eq!(read(None).unwrap(), None);
        let error = read(Some(participant(6, "b"))).unwrap_err().to_string();
        assert!(
            error.contains("has token 6, after one with token 7"),
            "{error}"
        );
        // The data of another node, or new data of the same node, is kept.
        for next in [
            participant(7, "c"),
            participant(8, "__REVOKE__"),
            participant(9, ""),
        ] {
            assert_eq!(read(Some(next.clone())).unwrap(), Some(next));
        }
    }
}
