//! Keeps the nodes of a cache up to date: sets a recursive watch, reads everything, and then reads
//! each changed node again.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;

use curator_client::source::watch;
use curator_client::{
    ConnectionState, ConnectionStates, Deadline, Error, FailureLog, ReadResult, RecipeSupport as _,
    Recovery, RecursiveWatch, Result, TreeEvent, WatchingClient, WatchingSession, ZPath, source,
};
use futures_util::FutureExt as _;

use super::batches::{Batch, Batches, Wanted, reads, want, want_all};
use super::builder::CuratorCacheBuilder;
use super::error::CacheError;
use super::publisher::Publisher;
use super::tree::{Found, Listing, Next, Tree};
use crate::engine::follow::Followed;
use crate::engine::log::Truncated;

/// The most requests in flight.
const IN_FLIGHT: usize = 4;

/// The factor by which a cache may exceed its limits while it reads, because it may find the new
/// nodes of a moved subtree before it removes the old ones.
const FACTOR_DURING_READS: usize = 2;

/// The commands of the handles.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Command {
    pub(super) is_closed: bool,
    /// The number of calls of `caught_up` so far.
    pub(super) catch_up: u64,
}

/// The state of a cache's task.
pub(super) struct LiveTree {
    pub(super) options: CuratorCacheBuilder,
    pub(super) watching: WatchingClient,
    pub(super) connection: ConnectionStates,
    pub(super) tree: Tree,
    pub(super) publisher: Arc<Publisher>,
    pub(super) commands: watch::Receiver<Command>,
    /// The number of the latest call for which the cache has caught up.
    pub(super) caught_up: watch::Sender<u64>,
    /// `None` before a watch is set, and once its connection has ended.
    pub(super) watch: Option<RecursiveWatch>,
    /// The session in which a watch was requested last.
    pub(super) session: Option<WatchingSession>,
    pub(super) batches: Batches,
    /// What remains to be read: everything, or the changes recorded before, with all new
    /// descendants.
    pub(super) scan: Wanted,
    /// The nodes named by events since the scan began. They are only recorded, so that the scan
    /// ends.
    pub(super) changed: Wanted,
    /// Whether there were too many changes to record since the last request was sent.
    pub(super) has_overflowed: bool,
    /// Whether the scan is one of everything.
    pub(super) is_full: bool,
    /// The number of the call for which the cache has caught up once the scan ends.
    pub(super) catching_up: Option<u64>,
    pub(super) resync_at: Deadline,
    /// The next resync waits until the cache has caught up for this call.
    pub(super) resync_after: u64,
    pub(super) failures: FailureLog,
}

/// Why a round stopped before all its reads were applied.
enum Stopped {
    /// Too many changes were recorded, and everything is read again. Changes of the nodes in flight
    /// are forgotten, so their replies may be outdated.
    Overflowed,
    Failed(Error),
}

impl Followed for LiveTree {
    /// The error that ends the cache, if any.
    type State = Option<CacheError>;

    async fn changed(&mut self) {
        // A resync waits until the cache has caught up for earlier calls: the interval may be
        // shorter than a catch-up.
        if self.resync_at.has_passed() && *self.caught_up.borrow() >= self.resync_after {
            self.rescan();
        }
        while !self.is_due() {
            // The connection may have been confirmed again.
            self.publish_current();
            let resync = self.options.client.sleep_until(self.resync_at);
            let mut commands = self.commands.clone();
            tokio::select! {
                biased;
                () = self.record_next_event() => {}
                Ok(()) = commands.changed() => self.commands.mark_unchanged(),
                () = resync => self.rescan(),
            }
        }
    }

    async fn read(&mut self) -> Result<Self::State> {
        match self.advance().await {
            Err(cause @ Error::Unimplemented { .. }) => Ok(Some(CacheError::WatchesRefused {
                path: self.tree.scope.root.clone(),
                cause,
            })),
            // The session for recursive watches has ended. The client may continue without it.
            Err(error @ Error::ClientEnded { .. }) => Ok(Some(error.into())),
            Ok(end) => {
                if let Some(Recovery {
                    lasted, failures, ..
                }) = self.failures.recovered(source::now())
                {
                    let (client, path) =
                        (self.options.client.name(), Truncated(&self.tree.scope.root));
                    tracing::info!(client, %path, ?lasted, failures, "cache: reads again");
                }
                Ok(end)
            }
            Err(error) => Err(error),
        }
    }

    fn failed(&mut self, error: &Error) {
        // Before the state: a reader of the state looks for its error.
        self.publisher
            .errors
            .send_replace(Some(error.clone().into()));
        self.publisher.stale();
        let (client, path) = (self.options.client.name(), Truncated(&self.tree.scope.root));
        // The client logs its outages.
        if !error.is_retryable() && self.failures.failed(error, source::now()) {
            tracing::warn!(client, %path, error = %Truncated(error), "cache: cannot read, and will try again");
        } else {
            tracing::debug!(client, %path, error = %Truncated(error), "a cache cannot read");
        }
    }
}

impl LiveTree {
    /// Reads the wanted nodes. Returns the error that ends the cache, if any.
    async fn advance(&mut self) -> Result<Option<CacheError>> {
        let session = self.watch().await?;
        let round = async {
            if !self.is_full && self.scan.is_empty() {
                if self.is_catch_up_pending() {
                    let call_number = self.commands.borrow_and_update().catch_up;
                    self.reply(session.catch_up()).await?;
                    self.catching_up = Some(call_number);
                }
                self.scan_changed();
            }
            self.round(&session).await
        };
        match round.await {
            Ok(()) => {}
            Err(Stopped::Overflowed) => return Ok(None),
            Err(Stopped::Failed(error)) => return Err(error),
        }
        let is_complete = self.scan.is_empty() && self.changed.is_empty();
        if let Some(error) = self.too_large(if is_complete { 1 } else { FACTOR_DURING_READS }) {
            return Ok(Some(error));
        }
        if !self.scan.is_empty() {
            return Ok(None);
        }
        if std::mem::take(&mut self.is_full) && !self.changed.is_empty() {
            self.scan_changed();
            return Ok(None);
        }
        // The interval starts at the end of a re-read, not of a catch-up.
        if self.resync_at == Deadline::NEVER {
            self.resync_at = self
                .options
                .resync_every
                .map_or(Deadline::NEVER, Deadline::after);
            self.resync_after = self.commands.borrow().catch_up;
        }
        let is_current = self.publish_current();
        if let Some(call_number) = self.catching_up.take()
            && is_current
        {
            self.caught_up.send_replace(call_number);
        }
        Ok(None)
    }

    /// Publishes `Current`, after the scan, if the connection is confirmed. Returns whether it is.
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

    /// Whether there is something to read.
    fn is_due(&self) -> bool {
        let is_idle = !self.is_full && self.scan.is_empty() && self.changed.is_empty();
        self.watch.is_none()
            || !is_idle
            || (self.is_catch_up_pending() && self.watching.is_connected())
    }

    /// Whether a call of `caught_up` is waiting.
    fn is_catch_up_pending(&self) -> bool {
        self.commands.borrow().catch_up > *self.caught_up.borrow()
    }

    /// Returns the session, with a recursive watch on the root. Setting a new watch starts a
    /// rescan.
    async fn watch(&mut self) -> Result<WatchingSession> {
        if let (Some(_), Some(session)) = (&self.watch, &self.session) {
            return Ok(session.clone());
        }
        let session = self.watching.session().await?;
        // Discards state changes of earlier connections.
        while let Some(Some(_)) = self.connection.next().now_or_never() {}
        self.session = Some(session.clone());
        self.watch = Some(session.watch_recursive(&self.tree.scope.root).await?);
        self.rescan();
        Ok(session)
    }

    /// Starts to read everything.
    fn rescan(&mut self) {
        self.is_full = true;
        self.catching_up = None;
        want_all(&mut self.scan, &self.tree);
        // The interval starts at the end of the rescan, which may take longer than the interval.
        self.resync_at = Deadline::NEVER;
    }

    /// Reads the wanted nodes, and records further nodes to read as a result.
    async fn round(&mut self, session: &WatchingSession) -> Result<(), Stopped> {
        let mut wanted = std::mem::take(&mut self.scan);
        let mut in_flight = VecDeque::new();
        loop {
            while in_flight.len() < IN_FLIGHT {
                let max_request = session.max_request_size();
                let batch =
                    self.batches
                        .take(&mut wanted, &self.tree, max_request, in_flight.len());
                if batch.is_empty() {
                    break;
                }
                let request = session.read_all(reads(&batch));
                in_flight.push_back((batch, request));
            }
            let Some((batch, request)) = in_flight.pop_front() else {
                return Ok(());
            };
            let applied = match self.reply(request).await {
                Ok(replies) => self.apply(&batch, replies),
                Err(stopped) => Err(stopped),
            };
            self.publisher.publish(&mut self.tree);
            if let Err(stopped) = applied {
                if !matches!(stopped, Stopped::Overflowed) {
                    self.batches.fail();
                }
                let unread = batch
                    .into_iter()
                    .chain(in_flight.into_iter().flat_map(|(batch, _)| batch));
                for (path, listing) in unread {
                    want(&mut wanted, path, listing);
                }
                for (path, listing) in wanted {
                    want(&mut self.scan, path, listing);
                }
                return Err(stopped);
            }
            if self.too_large(FACTOR_DURING_READS).is_some() {
                return Ok(());
            }
        }
    }

    /// Waits for a reply, and records the events that arrived before it.
    async fn reply<T>(&mut self, request: impl Future<Output = Result<T>>) -> Result<T, Stopped> {
        let mut request = pin!(request);
        self.has_overflowed = false;
        let reply = loop {
            tokio::select! {
                biased;
                reply = &mut request => break reply,
                () = self.record_next_event() => {}
            }
        };
        while let Some(event) = self
            .watch
            .as_mut()
            .and_then(|watch| watch.next().now_or_never())
        {
            self.record_event(event);
        }
        if matches!(reply, Err(Error::SessionEnded { .. })) {
            self.record_event(TreeEvent::Interrupted);
        }
        // Without the watch, the reply may have come over another connection.
        if self.watch.is_none() {
            return Err(self.interrupted());
        }
        if self.has_overflowed {
            return Err(Stopped::Overflowed);
        }
        reply.map_err(Stopped::Failed)
    }

    /// The connection broke during a read. The error makes the task pause, because a reply that was
    /// too large may be the reason.
    fn interrupted(&self) -> Stopped {
        let (path, cause) = (
            self.tree.scope.root.clone(),
            "the watch has ended".to_owned(),
        );
        Stopped::Failed(Error::ConnectionLost {
            operation: "read below",
            path,
            cause,
        })
    }

    /// Applies the replies to the reads of a batch.
    fn apply(&mut self, batch: &Batch, replies: Vec<Result<ReadResult>>) -> Result<(), Stopped> {
        let mut replies = replies.into_iter();
        let (mut unread, mut bytes) = (0, 0);
        for (path, listing) in batch {
            let is_unread = self.tree.known_length(path).is_none();
            unread += usize::from(is_unread);
            let found = match replies.next() {
                Some(Ok(ReadResult::Data { data, stat })) => {
                    bytes += if is_unread { data.len() } else { 0 };
                    Found::Node(data, stat)
                }
                Some(Err(Error::NoNode { .. })) => Found::NoNode,
                Some(Err(Error::NoAuth { .. })) => Found::Denied,
                Some(Err(error)) => return Err(Stopped::Failed(error)),
                _ => return Err(self.interrupted()),
            };
            match self.tree.found(path, found, *listing, batch) {
                Next::List => want(&mut self.scan, path.clone(), Listing::Now),
                Next::ListParent => path
                    .parent()
                    .into_iter()
                    .for_each(|it| want(&mut self.scan, it, Listing::Now)),
                Next::ParentFirst => {
                    for node in path.parent().into_iter().chain([path.clone()]) {
                        want(&mut self.scan, node, Listing::IfChanged.min(*listing));
                    }
                }
                Next::Nothing => {}
            }
            if *listing == Listing::Now {
                let names = match replies.next() {
                    Some(Ok(ReadResult::Children(names))) => names,
                    // The node was deleted since it was read, which causes an event.
                    Some(Err(Error::NoNode { .. })) => continue,
                    // The node became unreadable since it was read, which causes none.
                    Some(Err(Error::NoAuth { .. })) => {
                        self.tree.found(path, Found::Denied, *listing, batch);
                        continue;
                    }
                    Some(Err(error)) => return Err(Stopped::Failed(error)),
                    _ => return Err(self.interrupted()),
                };
                for child in self.tree.listed(path, &names) {
                    want(&mut self.scan, child, Listing::IfNew);
                }
            }
        }
        self.batches.learn(unread, bytes);
        Ok(())
    }

    /// Waits for an event of the watch, or a change of the connection, and records it.
    async fn record_next_event(&mut self) {
        let Self {
            watch, connection, ..
        } = self;
        let event = async {
            match watch {
                Some(watch) => watch.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            event = event => self.record_event(event),
            Some(state) = connection.next() => match state {
                ConnectionState::Connected | ConnectionState::Reconnected => {}
                // The connection of an ended session may look open for a while.
                ConnectionState::Lost => self.record_event(TreeEvent::Interrupted),
                _ => self.publisher.stale(),
            },
            // The client is closing, which ends this task.
            else => std::future::pending().await,
        }
    }

    fn record_event(&mut self, event: TreeEvent) {
        match event {
            TreeEvent::DataChanged(path) => self.record_change(path),
            TreeEvent::Created(path) | TreeEvent::Deleted(path) => {
                // The parent's stat has changed, for which there is no event.
                if let Some(parent) = path.parent().filter(|_| self.tree.scope.contains(&path)) {
                    self.record_change(parent);
                }
                self.record_change(path);
            }
            _ => {
                self.watch = None;
                self.publisher.stale();
            }
        }
        if self.changed.len() > self.tree.max_changes() {
            self.changed.clear();
            self.rescan();
            self.has_overflowed = true;
        }
    }

    /// Begins to read what has changed. A node above may have been found unreadable since the
    /// change was recorded.
    fn scan_changed(&mut self) {
        for (path, listing) in std::mem::take(&mut self.changed) {
            let is_hidden = self.tree.denied.at_or_above(&path).is_some();
            let (path, listing) = if is_hidden {
                self.tree.after_change(path)
            } else {
                (path, listing)
            };
            want(&mut self.scan, path, listing);
        }
    }

    fn record_change(&mut self, path: ZPath) {
        if self.tree.scope.contains(&path) {
            let (path, listing) = self.tree.after_change(path);
            want(&mut self.changed, path, listing);
        }
    }

    /// Returns an error if the nodes or bytes exceed `factor` times their limit.
    fn too_large(&self, factor: usize) -> Option<CacheError> {
        // A listing may name more nodes than the limit before any of them is read.
        let (nodes, bytes) = self.tree.shown_size();
        let found = [
            ("nodes", nodes.max(self.scan.len()), self.options.max_nodes),
            ("bytes", bytes, self.options.max_bytes),
        ];
        let (what, _, limit) = found
            .into_iter()
            .find(|(_, found, limit)| *found > limit.saturating_mul(factor))?;
        Some(CacheError::TooLarge {
            path: self.tree.scope.root.clone(),
            what,
            limit,
        })
    }
}
