//! The task of a cache: sends its reads, reports why it is stale, and removes its watch at the end.

use std::collections::{BTreeSet, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use curator_client::source::watch;
use curator_client::{
    ConnectionStates, CuratorClient, Deadline, Error, FailureLog, Recovery, RecursiveWatch, Result,
    TreeEvent, WatchingClient, WatchingSession, source,
};
use futures_util::FutureExt as _;
use tokio::sync::broadcast;

use super::live::{Calls, Event, Limits, LiveTree, Step};
use super::publisher::{Publisher, StaleCount};
use super::scope::Scope;
use super::snapshot::{CacheState, Snapshot};
use super::tree::Tree;
use super::{CacheError, CuratorCache, CuratorCacheBuilder};
use crate::task::RecipeTask;
use crate::task::follow::{Followed, Follower};
use crate::task::report::Truncated;

/// The most changed nodes that a small cache records. If there are more, everything is read again.
const MAX_CHANGES: usize = 65_536;

/// The commands of the handles.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Command {
    pub(super) is_closed: bool,
    /// The number of calls of `caught_up` so far.
    pub(super) catch_up: u64,
}

impl CuratorCache {
    pub(crate) fn started(options: CuratorCacheBuilder) -> Self {
        let scope = Arc::new(options.scope.clone());
        let client = options.client.clone();
        let path = scope.root.clone();
        let (commands_tx, commands_rx) = watch::channel(Command::default());
        let (caught_up_tx, caught_up_rx) = watch::channel(0);
        let (snapshots_tx, snapshots_rx) = watch::channel(Snapshot::empty(&scope));
        let (states_tx, states_rx) = watch::channel(CacheState::Loading);
        let (errors_tx, errors_rx) = watch::channel(None);
        let (events_tx, _) = broadcast::channel(options.event_capacity);
        let weak_events_tx = events_tx.downgrade();
        let stale_count = Arc::new(StaleCount::begin(options.meter.clone()));
        let has_wrong_names = Arc::new(AtomicBool::new(false));
        let publisher = Publisher {
            snapshots: snapshots_tx,
            states: states_tx,
            events: events_tx,
            errors: errors_tx,
            stale_count: Arc::clone(&stale_count),
        };
        let work = run(
            options,
            scope,
            Arc::new(publisher),
            commands_rx,
            caught_up_tx,
            Arc::clone(&has_wrong_names),
        );
        let commands_tx = Arc::new(commands_tx);
        let channels = (
            Arc::clone(&commands_tx),
            caught_up_rx.clone(),
            snapshots_rx.clone(),
            states_rx.clone(),
            errors_rx.clone(),
            Arc::clone(&stale_count),
        );
        let task = RecipeTask::start(&client, path, channels, work);
        Self {
            commands: commands_tx,
            caught_up: caught_up_rx,
            snapshots: snapshots_rx,
            states: states_rx,
            errors: errors_rx,
            events: weak_events_tx,
            stale_count,
            has_wrong_names,
            task,
        }
    }
}

async fn run(
    options: CuratorCacheBuilder,
    scope: Arc<Scope>,
    publisher: Arc<Publisher>,
    mut commands: watch::Receiver<Command>,
    caught_up: watch::Sender<u64>,
    has_wrong_names: Arc<AtomicBool>,
) -> CacheError {
    let client = options.client.clone();
    let watching = match client.watching_client() {
        Ok(watching) => watching,
        Err(error) => {
            let error = CacheError::from(error);
            publisher.errors.send_replace(Some(error.clone()));
            return error;
        }
    };
    let limits = Limits {
        nodes: options.max_nodes,
        bytes: options.max_bytes,
        changes: MAX_CHANGES,
    };
    let tree = Tree::new(&scope, options.with_data, options.decode);
    let task = CacheTask {
        client: client.clone(),
        connection: watching.connection_states(),
        watching,
        live: LiveTree::new(tree, limits, options.resync_every),
        publisher: Arc::clone(&publisher),
        commands: commands.clone(),
        caught_up,
        watch: None,
        session: None,
        failures: FailureLog::default(),
        has_wrong_names,
        servers_with_wrong_names: BTreeSet::new(),
    };
    let mut task = Follower::new(&client, task);
    let (error, has_failed) = tokio::select! {
        biased;
        error = client.closing() => (error.into(), false),
        () = until_closed(&mut commands) => (CacheError::Closed { path: scope.root.clone() }, false),
        () = publisher.unused() => (CacheError::Closed { path: scope.root.clone() }, false),
        error = until_failed(&mut task) => (error, true),
    };
    publisher.errors.send_replace(Some(error.clone()));
    // The session is known even while its watch is being set.
    let session = task.node.session.take();
    drop(task);
    // The last reference: reports the end of the cache to its users.
    drop(publisher);
    // Logged after that, because a log subscriber may read the state and the error.
    let client_name = client.name();
    let path = &scope.root;
    if has_failed {
        tracing::warn!(client = client_name, error = %Truncated(&error), "a cache has ended");
    } else {
        tracing::debug!(client = client_name, path = %Truncated(path), error = %Truncated(&error), "a cache ends");
    }
    if let Some(session) = session {
        remove_watch(&session, &client).await;
    }
    error
}

/// Waits until a handle closes the cache.
async fn until_closed(commands: &mut watch::Receiver<Command>) {
    if commands
        .wait_for(|command| command.is_closed)
        .await
        .is_err()
    {
        // The last handle was dropped, but there may be receivers or streams.
        std::future::pending::<()>().await;
    }
}

/// Keeps the cache up to date until an error ends it.
async fn until_failed(task: &mut Follower<CacheTask>) -> CacheError {
    loop {
        if let Some(error) = task.next_lasting().await {
            return error;
        }
    }
}

/// Waits until the watch of an ended cache is removed from the server.
async fn remove_watch(session: &WatchingSession, client: &CuratorClient) {
    tokio::select! {
        biased;
        _ = client.closing() => {}
        () = session.remove_dropped_watches(client.sleep_until(Deadline::after(client.close_timeout()))) => {}
    }
}

/// Does the I/O of a [`LiveTree`].
struct CacheTask {
    client: CuratorClient,
    watching: WatchingClient,
    connection: ConnectionStates,
    live: LiveTree,
    publisher: Arc<Publisher>,
    commands: watch::Receiver<Command>,
    /// The number of the latest call for which the cache has caught up.
    caught_up: watch::Sender<u64>,
    /// `None` before a watch is set, and once its connection has ended.
    watch: Option<RecursiveWatch>,
    /// The last session that a watch was requested in.
    session: Option<WatchingSession>,
    failures: FailureLog,
    /// Whether events of the current watch have named the wrong nodes. For the handles.
    has_wrong_names: Arc<AtomicBool>,
    /// The servers of which a warning was logged. Each is in the client's connect
    /// string, or a member of the ensemble that the client follows.
    servers_with_wrong_names: BTreeSet<String>,
}

impl Followed for CacheTask {
    /// The error that ends the cache, if any.
    type State = Option<CacheError>;

    async fn changed(&mut self) {
        if self.live.is_resync_due(self.calls(), source::now()) {
            self.step(Event::Resync);
        }
        while !self.is_due() {
            // The connection may have been confirmed again.
            if !self.live.may_miss_changes() {
                self.publish_current();
            }
            let resync = self.client.sleep_until(self.resync_at());
            let pause = self.client.sleep_until(self.paused_until());
            let mut commands = self.commands.clone();
            tokio::select! {
                biased;
                () = self.observe_next() => {}
                Ok(()) = commands.changed() => self.commands.mark_unchanged(),
                () = resync => {
                    self.step(Event::Resync);
                }
                () = pause => {}
            }
        }
    }

    async fn read(&mut self) -> Result<Self::State> {
        match self.round().await {
            Err(cause @ Error::Unimplemented { .. }) => Ok(Some(CacheError::WatchesRefused {
                path: self.live.tree.root().clone(),
                cause,
            })),
            // The session for recursive watches has ended. The client may continue without it.
            Err(error @ Error::ClientEnded { .. }) => Ok(Some(error.into())),
            Ok(end) => {
                if let Some(Recovery {
                    lasted, failures, ..
                }) = self.failures.recovered(source::now())
                {
                    let client = self.client.name();
                    let path = Truncated(self.live.tree.root());
                    tracing::info!(client, %path, ?lasted, failures, "cache: reads again");
                }
                Ok(end)
            }
            Err(error) => Err(error),
        }
    }

    fn failed(&mut self, error: &Error) {
        // Set before the state, because a reader of the state looks for its error.
        self.publisher
            .errors
            .send_replace(Some(error.clone().into()));
        self.publisher.stale();
        let client = self.client.name();
        let path = Truncated(self.live.tree.root());
        // The client logs its outages.
        if !error.is_retryable() && self.failures.failed(error, source::now()) {
            tracing::warn!(client, %path, error = %Truncated(error), "cache: cannot read, and will try again");
        } else {
            tracing::debug!(client, %path, error = %Truncated(error), "a cache cannot read");
        }
    }
}

impl CacheTask {
    /// Sends the requests of one round of reads, and applies the replies. Returns the error that
    /// ends the cache, if any.
    async fn round(&mut self) -> Result<Option<CacheError>> {
        let session = self.session().await?;
        let mut requests = VecDeque::new();
        let mut step = self.step(Event::Ready);
        loop {
            step = match step {
                Step::CatchUp => {
                    // No call is missed: the calls that this catch-up does not cover stay pending.
                    self.commands.mark_unchanged();
                    let reply = self.reply(session.catch_up()).await;
                    self.step(Event::CaughtUp(reply))
                }
                Step::Read => {
                    while let Some(reads) = self.live.next_request(session.max_request_size()) {
                        requests.push_back(session.read_all(reads));
                    }
                    let Some(request) = requests.pop_front() else {
                        return Ok(None);
                    };
                    let reply = self.reply(request).await;
                    let step = self.step(Event::Read(reply));
                    self.report_naming();
                    self.publisher.publish(&mut self.live.tree);
                    step
                }
                Step::Current { caught_up } => {
                    let is_current = self.publish_current();
                    if is_current && let Some(call_number) = caught_up {
                        self.caught_up.send_replace(call_number);
                    }
                    return Ok(None);
                }
                Step::Pause(error) => return Err(error),
                Step::End(error) => return Ok(Some(error)),
                // Continues in the next round.
                Step::Continue | Step::Watch | Step::Stale | Step::Wait => return Ok(None),
            }
        }
    }

    /// Returns the session, with a recursive watch on the root.
    async fn session(&mut self) -> Result<WatchingSession> {
        if let (Some(_), Some(session)) = (&self.watch, &self.session) {
            return Ok(session.clone());
        }
        let session = self.watching.session().await?;
        // Discards state changes of earlier connections.
        while let Some(Some(_)) = self.connection.next().now_or_never() {}
        self.session = Some(session.clone());
        self.watch = Some(session.watch_recursive(self.live.tree.root()).await?);
        self.step(Event::Watched);
        self.report_naming();
        Ok(session)
    }

    /// Waits for a reply, and reports the events that arrived before it.
    async fn reply<T>(&mut self, request: impl Future<Output = Result<T>>) -> Result<T> {
        let mut request = pin!(request);
        let reply = loop {
            tokio::select! {
                biased;
                reply = &mut request => break reply,
                () = self.observe_next() => {}
            }
        };
        while let Some(event) = self
            .watch
            .as_mut()
            .and_then(|watch| watch.next().now_or_never())
        {
            self.observe(Event::Reported(event));
        }
        if matches!(reply, Err(Error::SessionEnded { .. })) {
            self.observe(Event::Reported(TreeEvent::Interrupted));
        }
        reply
    }

    /// Waits for an event of the watch, or a change of the connection, and reports it.
    async fn observe_next(&mut self) {
        let Self {
            watch, connection, ..
        } = self;
        let event = tokio::select! {
            biased;
            event = next_event(watch) => Event::Reported(event),
            Some(state) = connection.next() => Event::Connection(state),
            // The client is closing, which ends this task.
            else => std::future::pending().await,
        };
        self.observe(event);
    }

    fn observe(&mut self, event: Event) {
        match self.step(event) {
            Step::Watch => {
                self.watch = None;
                self.publisher.stale();
            }
            Step::Stale => self.publisher.stale(),
            _ => {}
        }
    }

    fn step(&mut self, event: Event) -> Step {
        self.live.step(event, self.calls(), source::now())
    }

    /// Reports whether the events of the current watch have named the wrong nodes.
    fn report_naming(&mut self) {
        let is_wrong = self.live.has_wrong_names();
        let was_wrong = self.has_wrong_names.swap(is_wrong, Ordering::AcqRel);
        if !is_wrong || was_wrong {
            return;
        }
        let Some(session) = &self.session else {
            return;
        };
        let server = session.server();
        if self.servers_with_wrong_names.insert(server.clone()) {
            let client = self.client.name();
            let path = Truncated(self.live.tree.root());
            let server = Truncated(server);
            tracing::warn!(client, %path, %server, "cache: the server's events name the root in place of the changed nodes; reads everything after each event");
        }
    }

    fn calls(&self) -> Calls {
        Calls {
            made: self.commands.borrow().catch_up,
            done: *self.caught_up.borrow(),
        }
    }

    /// Publishes `Current` if the connection is confirmed. Returns whether it is. Call this only
    /// after everything was read.
    fn publish_current(&self) -> bool {
        // The client may be connected again although the end of the watch's connection was not
        // processed yet.
        let is_watched = self.watch.as_ref().is_some_and(RecursiveWatch::is_alive);
        let is_current = is_watched && self.watching.is_connected();
        if is_current {
            self.publisher.current();
        }
        is_current
    }

    /// Whether there is something to send.
    fn is_due(&self) -> bool {
        let now = source::now();
        let may_catch_up = self.watching.is_connected() && self.live.paused_until(now).is_none();
        !self.live.is_idle(now) || (self.calls().are_pending() && may_catch_up)
    }

    fn paused_until(&self) -> Deadline {
        let now = source::now();
        match self.live.paused_until(now) {
            Some(until) => Deadline::after(until.saturating_duration_since(now)),
            None => Deadline::NEVER,
        }
    }

    fn resync_at(&self) -> Deadline {
        match self.live.resync_at() {
            Some(at) => Deadline::after(at.saturating_duration_since(source::now())),
            None => Deadline::NEVER,
        }
    }
}

/// Waits for the next event of the watch; forever if there is none.
async fn next_event(watch: &mut Option<RecursiveWatch>) -> TreeEvent {
    match watch {
        Some(watch) => watch.next().await,
        None => std::future::pending().await,
    }
}
