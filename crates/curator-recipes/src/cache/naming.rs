//! Detects a server whose events name a cache's root in place of the changed nodes, and paces the
//! full reads that the cache makes there. Does no I/O, and reads no clock.
//!
//! Each event of a recursive watch on ClickHouse Keeper has the path of the watch (its issue
//! 115475). So the cache compares the events that name its root with its reads of the root ([ADR
//! 0051](../../../../docs/adr/0051-events-are-checked-against-the-root.md)). If two reads show the
//! same node, it was neither created nor deleted between them, and its data changed at most as
//! often as its version shows.
//!
//! Events can be reported before a reply that arrived earlier, but never after a reply that arrived
//! later. So an event is certainly
//!
//! - after a read if it was reported after the reply;
//! - before a read if it was reported before the request was sent.
//!
//! Only such events prove that the names are wrong. The others, reported between a request and its
//! reply, are counted by the next read, because each event that names the root causes one. But if
//! the root changes during each read, there are always others, and they can hide events that were
//! meant for other nodes. No number of such reads proves anything: a correct server's events can be
//! reported early each time. So after [`MAX_UNSETTLED`] of them everything is read once more.

use std::mem;
use std::time::{Duration, Instant};

use curator_client::Stat;

/// What `Stat::version` shows if a node's changes are not counted. ZooKeeper sets it in each change
/// of `/zookeeper/config`; a counter passes it only on its way from `i32::MIN` to 0.
const NOT_COUNTED: i32 = -1;

/// After this many reads of the root in a row that may hide events, everything is read once more. A
/// lower number costs more full reads on correct servers, where a read is rarely unsettled.
const MAX_UNSETTLED: u32 = 3;

/// Whether the events of a watch name the changed nodes, and the full reads that this requires.
#[derive(Debug, Default)]
pub(super) struct Naming {
    names: Names,
    reads: FullReads,
}

#[derive(Debug)]
enum Names {
    /// No event contradicts a read of the root so far.
    Checked(RootCheck),
    /// An event named the root although another node had changed. From now on, each event that
    /// names the root means that any node may have changed.
    Wrong,
}

/// What a read of the root shows about the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Each event is explained by a change of the root, or is counted by the next read.
    Consistent,
    /// An event between the request and the reply belongs to a later change of the root, or hides
    /// an event that was meant for another node. The next read of the root may show which.
    Unsettled,
    /// Earlier events cannot be checked. Everything must be read once more, in case they were meant
    /// for other nodes.
    Unchecked,
    /// The server names the root for other nodes. Everything must be read once more.
    Wrong,
}

impl Default for Names {
    fn default() -> Self {
        Self::Checked(RootCheck::default())
    }
}

impl Naming {
    pub(super) fn is_wrong(&self) -> bool {
        matches!(self.names, Names::Wrong)
    }

    /// Records an event that names the root. Returns whether it means that any node may have
    /// changed.
    pub(super) fn reported(&mut self, is_data_change: bool) -> bool {
        match &mut self.names {
            Names::Checked(check) => check.reported(is_data_change),
            Names::Wrong => self.reads.are_due = true,
        }
        self.is_wrong()
    }

    /// Records that a read of the root is being sent.
    pub(super) fn requested(&mut self) {
        if let Names::Checked(check) = &mut self.names {
            check.at_request = check.reported;
        }
    }

    /// Records the reply to the last read of the root: its stat, or `None` if it is missing or
    /// unreadable.
    pub(super) fn answered(&mut self, stat: Option<&Stat>) -> Verdict {
        let Names::Checked(check) = &mut self.names else {
            return Verdict::Consistent;
        };
        let verdict = check.answered(stat);
        if verdict == Verdict::Wrong {
            self.names = Names::Wrong;
        }
        verdict
    }

    /// Whether the next read of the root may show that an earlier event was meant for another node.
    pub(super) fn is_unsettled(&self) -> bool {
        matches!(&self.names, Names::Checked(check) if check.unsettled > 0)
    }

    /// Requires a full read after the pause.
    pub(super) fn want_full_read(&mut self) {
        self.reads.are_due = true;
    }

    /// Whether everything is to be read, because any node may have changed, and the pause after the
    /// last full read is over.
    pub(super) fn is_full_read_due(&self, now: Instant) -> bool {
        self.reads.are_due && self.paused_until(now).is_none()
    }

    /// Whether any node may have changed since the last full read began.
    pub(super) fn may_miss_changes(&self) -> bool {
        self.reads.are_due
    }

    /// Whether everything is being read.
    pub(super) fn is_reading_all(&self) -> bool {
        self.reads.are_running
    }

    /// Records that everything is being read.
    pub(super) fn begin_full_read(&mut self, now: Instant) {
        self.reads.begin(now);
    }

    /// Records that a read has failed. The full read in progress is not measured, because it includes
    /// the pause after the failure.
    pub(super) fn read_failed(&mut self) {
        self.reads.began = None;
    }

    /// Records that everything wanted was read.
    pub(super) fn end_reads(&mut self, now: Instant) {
        self.reads.end(now);
    }

    /// The end of the pause before the next full read, if it is not over. There is none if no full
    /// read is to follow.
    pub(super) fn paused_until(&self, now: Instant) -> Option<Instant> {
        if !self.is_wrong() && !self.reads.are_due {
            return None;
        }
        self.reads.paused_until.filter(|until| *until > now)
    }
}

/// Compares the events of one watch that name its root with the reads of the root.
#[derive(Debug, Default)]
pub(super) struct RootCheck {
    reported: Reported,
    /// What was reported when the last read was sent. At most one read is in flight.
    at_request: Reported,
    /// `None` while nothing below the root is known over this watch: the root was not read, is
    /// missing, or is unreadable. All nodes below it are then read after the next read of the root.
    seen: Option<Seen>,
    /// How many of the last reads in a row were [`Verdict::Unsettled`].
    unsettled: u32,
}

/// The numbers of events that named the root since the watch was set. They wrap around.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Reported {
    data_changes: u32,
    creations_and_deletions: u32,
}

/// The root as an earlier read has shown it, and the events reported until the reply.
#[derive(Debug)]
struct Seen {
    /// The `czxid` and the `ctime`: they differ if the root was deleted and created again.
    node: (i64, i64),
    /// The creations and deletions reported until the reply to the first read of this node.
    creations_and_deletions: u32,
    version: i32,
    data_changes: u32,
    /// Whether the events until the reply are certainly those of the changes until this read: none
    /// was reported between the request and the reply, or all are explained by the changes since a
    /// read that is exact. Otherwise the event of a later change may have been counted too early, and
    /// that change can hide an event that is meant for another node.
    is_exact: bool,
}

impl RootCheck {
    fn reported(&mut self, is_data_change: bool) {
        let number = if is_data_change {
            &mut self.reported.data_changes
        } else {
            &mut self.reported.creations_and_deletions
        };
        *number = number.wrapping_add(1);
    }

    fn answered(&mut self, stat: Option<&Stat>) -> Verdict {
        let unsettled = mem::take(&mut self.unsettled);
        let is_exact = self.at_request == self.reported;
        let Some(stat) = stat else {
            self.seen = None;
            return Verdict::Consistent;
        };
        let node = (stat.czxid, stat.ctime);
        let Some(seen) = self.seen.as_mut().filter(|seen| seen.node == node) else {
            self.seen = Some(Seen {
                node,
                creations_and_deletions: self.reported.creations_and_deletions,
                version: stat.version,
                data_changes: self.reported.data_changes,
                is_exact,
            });
            return Verdict::Consistent;
        };
        if self.at_request.creations_and_deletions != seen.creations_and_deletions {
            return Verdict::Wrong;
        }
        let is_counted = seen.version != NOT_COUNTED && stat.version != NOT_COUNTED;
        let changes = stat.version.wrapping_sub(seen.version).cast_unsigned();
        let since = |reported: Reported| reported.data_changes.wrapping_sub(seen.data_changes);
        if is_counted && since(self.at_request) > changes {
            return Verdict::Wrong;
        }
        // If there are more events than changes, some may be later than this read, and the earlier
        // read stays the better one to count from. There may be fewer events than changes: servers
        // send none of a node that the client may not read.
        let are_too_many = is_counted && since(self.reported) > changes;
        let is_unsettled = are_too_many || !(is_exact || seen.is_exact);
        if is_unsettled && unsettled + 1 < MAX_UNSETTLED {
            self.unsettled = unsettled + 1;
            return Verdict::Unsettled;
        }
        let is_unchecked = is_unsettled || !seen.is_exact;
        // All events until now are covered by the read of everything that follows, so that the
        // events are counted from here.
        seen.version = stat.version;
        seen.data_changes = self.reported.data_changes;
        seen.is_exact = !is_unsettled;
        if is_unchecked {
            Verdict::Unchecked
        } else {
            Verdict::Consistent
        }
    }
}

/// The longest pause after a full read. A read takes long if the connection or the servers stall;
/// that must not leave the cache behind for as long again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The full reads of a cache that cannot rely on the names of the events. After each one follows a
/// pause as long as it took, up to [`LONGEST_PAUSE`], so that a busy tree takes about half of the
/// time.
#[derive(Debug, Default)]
pub(super) struct FullReads {
    /// Whether any node may have changed since the last full read began.
    are_due: bool,
    /// Whether a full read is in progress.
    are_running: bool,
    /// When the full read in progress began, unless one of its requests has failed.
    began: Option<Instant>,
    paused_until: Option<Instant>,
}

impl FullReads {
    fn begin(&mut self, now: Instant) {
        self.are_due = false;
        self.are_running = true;
        self.began = Some(now);
    }

    fn end(&mut self, now: Instant) {
        self.are_running = false;
        if let Some(began) = self.began.take() {
            let took = now.saturating_duration_since(began);
            self.paused_until = now.checked_add(took.min(LONGEST_PAUSE));
        }
    }
}

#[cfg(test)]
mod tests;
