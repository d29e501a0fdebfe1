//! Decides what a cache reads, from the events of its watch and the replies to its reads. Does no
//! I/O, and reads no clock.

use std::mem;
use std::time::{Duration, Instant};

use curator_client::{ConnectionState, Error, ReadOperation, ReadResult, Result, TreeEvent, ZPath};

use super::CacheError;
use super::naming::{Naming, Verdict};
use super::reads::{Batches, Reads, Wanted, interrupted, want, want_all};
use super::snapshot::CachedNode;
use super::tree::Tree;

/// The factor by which a cache may exceed its limits while it reads, because it may find the new
/// nodes of a moved subtree before it removes the old ones.
const FACTOR_DURING_READS: usize = 2;

/// The nodes of a cache, and what remains to be read.
///
/// The task of the cache reports each [`Event`] to [`step`](Self::step), and does what the returned
/// [`Step`] says.
pub(super) struct LiveTree {
    pub(super) tree: Tree,
    state: State,
    /// The nodes named by events, until their read begins. Events during a read only add to these
    /// nodes, so that the read can end.
    changed: Wanted,
    /// Whether the events of the current watch name the changed nodes.
    naming: Naming,
    full_read: FullRead,
    batches: Batches,
    limits: Limits,
    resync_every: Option<Duration>,
}

/// What a cache is doing.
///
/// ```text
///              watch is set             nothing changed meanwhile
///  Unwatched ──────────────► ReadingAll ─────────────────────────► Watching ──► CatchingUp
///                              │  ▲                                ▲  ▲   │         │
///                              │  └─ from all below: resync,       │  │   │ changes │ reply
///                              ▼     or too many changes           │  │   ▼         ▼
///                         ReadingMissed ───────────────────────────┘  └── ReadingChanges
/// ```
///
/// When the connection of the watch ends, each state is followed by `Unwatched`. If the events of the
/// watch name the [wrong nodes](Naming::is_wrong), the changes are all nodes.
#[derive(Debug)]
enum State {
    /// No watch is set: before the first one, and once its connection has ended.
    Unwatched {
        /// What remained to be read. A listing has named these nodes, and will not do so again.
        unread: Wanted,
    },
    /// Reads the root and all known nodes; their listings name the others.
    ReadingAll { reads: Reads },
    /// Everything was read. Reads what changed meanwhile.
    ReadingMissed { reads: Reads },
    /// Reads what has changed since everything was read.
    ReadingChanges {
        reads: Reads,
        /// The call of `caught_up` that this read completes.
        catching_up: Option<u64>,
        resync: Resync,
    },
    /// Waits for the reply to a transaction, for this call of `caught_up`. The events of all
    /// changes before the call arrive before the reply.
    CatchingUp { call: u64, resync: Resync },
    /// Nothing is being read. What has changed is read next.
    Watching { resync: Resync },
}

/// Whether a state that reads includes a full read, because of events that may have named the wrong
/// nodes. There is at most one, so that the state ends although the root changes all the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FullRead {
    None,
    /// It begins at the end of this round.
    Wanted,
    /// It has begun in this state, and covers all events before that.
    Begun,
}

/// What the servers, the connection, the clock and the task report to a cache.
#[derive(Debug)]
pub(super) enum Event {
    /// The task can send requests again: at the start, after a round of reads, after a pause.
    Ready,
    /// A watch was set.
    Watched,
    /// The watch reports a change, or its end.
    Reported(TreeEvent),
    /// The state of the connection has changed.
    Connection(ConnectionState),
    /// The oldest request in flight was answered, or has failed.
    Read(Result<Vec<Result<ReadResult>>>),
    /// The transaction was answered, or has failed.
    CaughtUp(Result<()>),
    /// It is time to read everything again.
    Resync,
}

/// What the task of a cache does after an event.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing: it continues to wait for a reply or an event.
    Wait,
    /// Drops the old watch, and sets a new one. Until everything is read, the cache is stale.
    Watch,
    /// Sends a transaction that changes nothing, and waits for the reply.
    CatchUp,
    /// Sends the [next requests](LiveTree::next_request), and waits for the reply to the oldest one
    /// in flight.
    Read,
    /// Begins the next round.
    Continue,
    /// Reports the cache as stale: the connection is not confirmed.
    Stale,
    /// Reports the cache as current, and as caught up for this call.
    Current { caught_up: Option<u64> },
    /// Abandons the requests in flight, and pauses.
    Pause(Error),
    /// Ends the cache.
    End(CacheError),
}

/// The numbers of calls of `caught_up`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Calls {
    pub(super) made: u64,
    /// The latest call for which the cache has caught up.
    pub(super) done: u64,
}

impl Calls {
    pub(super) fn are_pending(self) -> bool {
        self.made > self.done
    }
}

/// What a cache may contain, and how many changes it records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) nodes: usize,
    pub(super) bytes: usize,
    /// The most changed nodes that a small cache records. A large cache records as many as it has
    /// nodes, so that changes during a read of all nodes do not restart the read again and again.
    pub(super) changes: usize,
}

/// When everything is read again.
#[derive(Debug, Clone, Copy)]
struct Resync {
    /// The end of the interval, if one is set.
    at: Option<Instant>,
    /// The re-read waits until the cache has caught up for this call, because the interval may be
    /// shorter than a catch-up.
    after: u64,
}

impl LiveTree {
    pub(super) fn new(tree: Tree, limits: Limits, resync_every: Option<Duration>) -> Self {
        Self {
            tree,
            state: State::default(),
            changed: Wanted::new(),
            naming: Naming::default(),
            full_read: FullRead::None,
            batches: Batches::new(),
            limits,
            resync_every,
        }
    }

    /// Applies an event, and returns what the task does next.
    pub(super) fn step(&mut self, event: Event, calls: Calls, now: Instant) -> Step {
        match event {
            Event::Ready => self.ready(calls, now),
            Event::Watched => {
                self.naming = Naming::default();
                self.read_all(now)
            }
            Event::Reported(event) => self.reported(event, now),
            Event::Connection(ConnectionState::Connected | ConnectionState::Reconnected) => {
                Step::Wait
            }
            // The connection of an ended session may look open for a while.
            Event::Connection(ConnectionState::Lost) => self.unwatched(),
            Event::Connection(_) => Step::Stale,
            Event::Read(reply) => self.answered(reply, calls, now),
            Event::CaughtUp(reply) => self.caught_up(reply, calls, now),
            Event::Resync if self.state.resync().is_some() => self.read_all(now),
            Event::Resync => Step::Wait,
        }
    }

    /// The next request, if it need not wait for the reply to another one.
    pub(super) fn next_request(&mut self, max_request: usize) -> Option<Vec<ReadOperation>> {
        let request = self
            .state
            .reads()?
            .next_request(&self.batches, &self.tree, max_request)?;
        // A parent comes before its children.
        if matches!(request.first(), Some(ReadOperation::Data(path)) if path == self.tree.root()) {
            self.naming.requested();
        }
        Some(request)
    }

    /// Whether there is nothing to read now. Full reads on a server whose events name the wrong
    /// nodes may wait [until later](Self::paused_until).
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        matches!(self.state, State::Watching { .. })
            && self.changed.is_empty()
            && !self.naming.is_full_read_due(now)
    }

    /// Whether the server's events have named the root in place of other nodes, so that everything
    /// is read after each of them.
    pub(super) fn has_wrong_names(&self) -> bool {
        self.naming.is_wrong()
    }

    /// Whether any node may have changed since the last full read, on a server whose events name
    /// the wrong nodes.
    pub(super) fn may_miss_changes(&self) -> bool {
        self.naming.may_miss_changes()
    }

    /// Until when neither a full read nor a catch-up begins; `None` if both may begin now.
    pub(super) fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.naming.paused_until(now)
    }

    /// When to report [`Event::Resync`] at the latest.
    pub(super) fn resync_at(&self) -> Option<Instant> {
        self.state.resync()?.at
    }

    /// Whether to report [`Event::Resync`] before the next round.
    pub(super) fn is_resync_due(&self, calls: Calls, now: Instant) -> bool {
        self.state.resync().is_some_and(|resync| {
            resync.at.is_some_and(|at| at <= now) && calls.done >= resync.after
        })
    }

    fn ready(&mut self, calls: Calls, now: Instant) -> Step {
        if let Some(reads) = self.state.reads() {
            reads.start_over();
            return self.proceed(calls, now);
        }
        let Some(resync) = self.state.resync() else {
            return Step::Watch;
        };
        if calls.are_pending() && self.paused_until(now).is_none() {
            let call = calls.made;
            self.state = State::CatchingUp { call, resync };
            return Step::CatchUp;
        }
        self.read_changes(None, resync, calls, now)
    }

    /// Starts to read everything.
    fn read_all(&mut self, now: Instant) -> Step {
        self.begin_full_read(now);
        let mut unread = mem::take(&mut self.state).unread();
        want_all(&mut unread, &self.tree);
        self.state = State::ReadingAll {
            reads: Reads::new(unread),
        };
        Step::Read
    }

    fn begin_full_read(&mut self, now: Instant) {
        self.naming.begin_full_read(now);
        self.full_read = FullRead::Begun;
    }

    /// Starts to read what has changed.
    fn read_changes(
        &mut self,
        catching_up: Option<u64>,
        resync: Resync,
        calls: Calls,
        now: Instant,
    ) -> Step {
        self.full_read = FullRead::None;
        self.state = State::ReadingChanges {
            reads: self.reads_of_changes(now),
            catching_up,
            resync,
        };
        self.proceed(calls, now)
    }

    /// Takes the changed nodes. If an ancestor of a node was found unreadable since its change was
    /// recorded, the ancestor is read instead.
    ///
    /// Takes all nodes if any node may have changed, unless full reads pause.
    fn reads_of_changes(&mut self, now: Instant) -> Reads {
        let mut unsent = Wanted::new();
        for (path, listing) in mem::take(&mut self.changed) {
            if self.tree.denied.at_or_above(&path).is_some() {
                let (path, listing) = self.tree.after_change(path);
                want(&mut unsent, path, listing);
            } else {
                want(&mut unsent, path, listing);
            }
        }
        if self.naming.is_full_read_due(now) {
            self.begin_full_read(now);
            want_all(&mut unsent, &self.tree);
        }
        Reads::new(unsent)
    }

    fn reported(&mut self, event: TreeEvent, now: Instant) -> Step {
        if matches!(self.state, State::Unwatched { .. }) {
            return Step::Watch;
        }
        if let TreeEvent::Created(path) | TreeEvent::Deleted(path) | TreeEvent::DataChanged(path) =
            &event
            && path == self.tree.root()
        {
            let is_data_change = matches!(event, TreeEvent::DataChanged(_));
            if self.naming.reported(is_data_change) {
                // The next full read includes the root.
                return Step::Wait;
            }
        }
        match event {
            TreeEvent::DataChanged(path) => self.record(path),
            TreeEvent::Created(path) | TreeEvent::Deleted(path) => {
                // The parent's stat has changed, which causes no event.
                if self.tree.scope.contains(&path)
                    && let Some(parent) = path.parent()
                {
                    self.record(parent);
                }
                self.record(path);
            }
            _ => return self.unwatched(),
        }
        if self.changed.len() > self.limits.changes.max(self.tree.nodes.size()) {
            // The replies in flight are not applied: they may lack the changes that are forgotten.
            self.changed.clear();
            self.read_all(now);
        }
        Step::Wait
    }

    fn record(&mut self, path: ZPath) {
        if self.tree.scope.contains(&path) {
            let (path, listing) = self.tree.after_change(path);
            want(&mut self.changed, path, listing);
        }
    }

    fn unwatched(&mut self) -> Step {
        self.state = State::Unwatched {
            unread: mem::take(&mut self.state).unread(),
        };
        Step::Watch
    }

    fn answered(
        &mut self,
        reply: Result<Vec<Result<ReadResult>>>,
        calls: Calls,
        now: Instant,
    ) -> Step {
        let Some(reads) = self.state.reads() else {
            self.batches.fail();
            return Step::Pause(interrupted(&self.tree));
        };
        let has_read_root = reads.oldest_in_flight_begins_with(self.tree.root());
        match reads.answered(reply, &mut self.batches, &mut self.tree) {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                self.naming.read_failed();
                return Step::Pause(error);
            }
            // Too many changes were recorded since the request was sent.
            None => return Step::Continue,
        }
        let found = reads.found();
        if has_read_root {
            let root = self.tree.nodes.get(self.tree.root());
            let stat = root.and_then(Option::as_ref).map(CachedNode::stat);
            match self.naming.answered(stat) {
                Verdict::Consistent | Verdict::Unsettled => {}
                // After the pause: the full read in progress covers all events before it.
                Verdict::Unchecked if self.full_read == FullRead::Begun => {
                    self.naming.want_full_read();
                }
                Verdict::Unchecked | Verdict::Wrong => self.full_read = FullRead::Wanted,
            }
        }
        match self.too_large(found, FACTOR_DURING_READS) {
            Some(error) => Step::End(error),
            None => self.proceed(calls, now),
        }
    }

    fn caught_up(&mut self, reply: Result<()>, calls: Calls, now: Instant) -> Step {
        match (self.state.catching_up(), reply) {
            (Some((call, resync)), Ok(())) => self.read_changes(Some(call), resync, calls, now),
            (Some((_, resync)), Err(error)) => {
                self.state = State::Watching { resync };
                Step::Pause(error)
            }
            (None, _) if matches!(self.state, State::Unwatched { .. }) => {
                Step::Pause(interrupted(&self.tree))
            }
            // Too many changes were recorded since the request was sent.
            (None, _) => Step::Continue,
        }
    }

    /// Continues the round. At its end begins the next one, unless everything is read.
    fn proceed(&mut self, calls: Calls, now: Instant) -> Step {
        let Some(reads) = self.state.reads() else {
            return Step::Continue;
        };
        if !reads.have_ended() {
            return Step::Read;
        }
        let found = reads.found();
        if self.full_read == FullRead::Wanted {
            reads.want_all(&self.tree);
            self.full_read = FullRead::Begun;
            self.naming.begin_full_read(now);
        }
        let is_next_round = reads.next_round();
        let has_missed = !self.changed.is_empty() || self.naming.may_miss_changes();
        // If each event leads to a full read, a busy tree never comes to rest.
        let is_full = self.naming.is_wrong() && self.naming.is_reading_all();
        let is_complete = !is_next_round && (is_full || !has_missed);
        let factor = if is_complete { 1 } else { FACTOR_DURING_READS };
        if let Some(error) = self.too_large(found, factor) {
            return Step::End(error);
        }
        if is_next_round {
            return Step::Continue;
        }
        let (caught_up, resync) = match self.state {
            State::ReadingAll { .. } if has_missed => {
                self.full_read = FullRead::None;
                let reads = self.reads_of_changes(now);
                self.state = State::ReadingMissed { reads };
                return Step::Continue;
            }
            // An event of a change before the call may have been meant for another node. The root
            // is read again: the event that hides it has named the root.
            State::ReadingChanges {
                catching_up: catching_up @ Some(_),
                resync,
                ..
            } if self.full_read == FullRead::None
                && self.naming.is_unsettled()
                && self.changed.contains_key(self.tree.root()) =>
            {
                self.state = State::ReadingChanges {
                    reads: self.reads_of_changes(now),
                    catching_up,
                    resync,
                };
                return Step::Continue;
            }
            State::ReadingChanges {
                catching_up,
                resync,
                ..
            } => (catching_up, resync),
            // The next interval starts only when everything was read, and at the end of that read,
            // which may take longer than the interval.
            _ => (None, Resync::every(self.resync_every, calls, now)),
        };
        let was_full = self.naming.is_reading_all();
        self.naming.end_reads(now);
        self.state = State::Watching { resync };
        if self.naming.may_miss_changes() && !was_full && caught_up.is_none() {
            // The cache is not current again before the full read that follows the pause.
            return Step::Continue;
        }
        Step::Current { caught_up }
    }

    /// Returns an error if the nodes or bytes exceed `factor` times their limit. Checks the number
    /// of `named` nodes too, because listings may name too many before any of them is read.
    fn too_large(&self, named: usize, factor: usize) -> Option<CacheError> {
        let (nodes, bytes) = self.tree.shown_size();
        let (what, limit) = if nodes.max(named) > self.limits.nodes.saturating_mul(factor) {
            ("nodes", self.limits.nodes)
        } else if bytes > self.limits.bytes.saturating_mul(factor) {
            ("bytes", self.limits.bytes)
        } else {
            return None;
        };
        Some(CacheError::TooLarge {
            path: self.tree.root().clone(),
            what,
            limit,
        })
    }
}

impl State {
    fn reads(&mut self) -> Option<&mut Reads> {
        match self {
            Self::ReadingAll { reads }
            | Self::ReadingMissed { reads }
            | Self::ReadingChanges { reads, .. } => Some(reads),
            Self::Unwatched { .. } | Self::CatchingUp { .. } | Self::Watching { .. } => None,
        }
    }

    /// What remains to be read.
    fn unread(self) -> Wanted {
        match self {
            Self::Unwatched { unread } => unread,
            Self::ReadingAll { reads }
            | Self::ReadingMissed { reads }
            | Self::ReadingChanges { reads, .. } => reads.unread(),
            Self::CatchingUp { .. } | Self::Watching { .. } => Wanted::new(),
        }
    }

    fn catching_up(&self) -> Option<(u64, Resync)> {
        match *self {
            Self::CatchingUp { call, resync } => Some((call, resync)),
            _ => None,
        }
    }

    /// `None` while everything is being read: the interval has not begun.
    fn resync(&self) -> Option<Resync> {
        match *self {
            Self::ReadingChanges { resync, .. }
            | Self::CatchingUp { resync, .. }
            | Self::Watching { resync } => Some(resync),
            Self::Unwatched { .. } | Self::ReadingAll { .. } | Self::ReadingMissed { .. } => None,
        }
    }
}

impl Default for State {
    fn default() -> Self {
        Self::Unwatched {
            unread: Wanted::new(),
        }
    }
}

impl Resync {
    fn every(interval: Option<Duration>, calls: Calls, now: Instant) -> Self {
        Self {
            at: interval.and_then(|interval| now.checked_add(interval)),
            after: calls.made,
        }
    }
}

#[cfg(test)]
mod tests;
