//! How long a session is certainly alive.
//!
//! # Why this holds
//!
//! A client that is cut off cannot see its session expire; it has to know in advance until when that cannot have
//! happened. Let T be the negotiated session timeout.
//!
//! *What the servers do.* Only the leader expires sessions, and never earlier than T after it last heard of one (it
//! rounds up to its next tick). It hears of its own clients' sessions at every request. It hears of a follower's
//! clients' sessions when the session is created, when it moves to another server, and in the follower's answers to the
//! leader's pings: each of these *reports* names the sessions that the follower has heard of since its last report.
//! Nothing else counts. In particular, requests that a follower passes on do not count, and neither does `sync`, so an
//! answered request by itself proves nothing about when the session ends.
//!
//! *What a probe proves.* A probe is a `sync`. The follower passes it on to the leader in the same stream as its
//! reports, and the answer comes back from there. So when the answer to probe k arrives, the leader has read every
//! report that the follower made before it passed on k. Reports are less than G apart; therefore the last of them was
//! made later than sₖ - G, where sₖ is the time at which k was sent. If an earlier probe j had been *answered* by then,
//! the follower had also heard of it by then, and the first report after that, which is one of those that the leader has
//! read, named the session. That report was made after sⱼ, and so the leader has heard of the session later than sⱼ:
//!
//! > Once probe k is answered, no server expires the session before sⱼ + T, for every probe j whose answer had arrived
//! > before sₖ - G.
//!
//! The connect counts as a probe that was sent when the connect was sent, and that is proven at once, because the leader
//! itself creates the session, and starts its T then. A probe j that was answered over an earlier connection is covered
//! as well: a server that a session moves to asks the leader before it accepts the session, and the leader starts a new
//! T.
//!
//! *What a new connection proves.* When a server has accepted the session over a connection that was requested at c, the
//! leader has heard of it later than c. But that leader may be deposed, and so the lease counts from c - G: that leaves as
//! much time for a deposed leader as the rule for probes does, see below. Without this, a session that resumes near the end
//! of its lease loses it before a second probe can prove anything.
//!
//! It takes two probes. The last one alone says nothing about how recent the leader's knowledge is: with probes at 0,
//! 0.28 T and 0.46 T and reports just after 0, at 0.24 T and at 0.48 T, the second report names no session, and if the
//! follower is cut off just after it passed on the third probe, the session ends at T. A rule such as "sₖ + ¾ T, and at
//! most sₖ₋₁ + T" would promise 1.21 T.
//!
//! *The safety margin.* The lease ends T/16 before that bound. The margin covers the time between looking at the lease
//! and doing what it allows, and clocks that do not run equally fast.
//!
//! # Where the assumptions are used
//!
//! [`SessionLease`] states them. The leader asks for reports every `tickTime`/2, which is at most T/4. G is 5/16 T: in
//! the worst case that leaves T/16 for reports that are delayed on the way, and with T of at least 4 `tickTime`, at
//! least 3/16 T. A probe that is answered by a deposed leader proves nothing about its successor; but the successor
//! gives every session a new T, and the probe that proves something must have been sent G after an earlier one was
//! answered. So nothing is lost as long as the deposed leader stops answering within G + T/16 = 3/8 T.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::ClockInstant;
use crate::process::Process;

/// How long a session is certainly alive.
///
/// ZooKeeper lets a client find out that its session has expired only when it reaches a server again, and client
/// libraries give a session up some time *after* the servers may have done so: in the meantime two processes can hold
/// one lock. (Curator has the same gap; see its `ConnectionStateErrorPolicy` and its tech note on lost locks.) The lease
/// ends before any server can have expired the session. Chubby gave its clients such a lease; ZooKeeper does not, so it
/// is computed here from the times at which probes were sent and answered.
///
/// # Guarantees
///
/// While [`is_valid`](Self::is_valid) returns `true`, no server has expired the session: what it owns still exists,
/// unless someone has deleted it.
///
/// Once over, it never becomes valid again, even if the session turns out to be alive. It can be over early: slow
/// answers shorten it, and when a client is cut off, it ends 0.4 to 0.6 of the session timeout later.
///
/// Reading takes no lock and can be done at any time from any thread. The clock is [`ClockInstant`]'s, so a process that
/// was stopped, or whose machine was asleep, sees the truth the first time it looks.
///
/// # Assumptions
///
/// - If a server grants a session a shorter timeout than the server before it, its answer is read before that time is over. The
///   timeout is negotiated again at every reconnect, and a session that is granted less than it was opened with is over as
///   soon as the server has answered the handshake and the first ping, even while the client's runtime is blocked. The session
///   can end on the servers while the lease is still valid if, for as long as the shorter timeout, the connection is broken or the
///   attempt given up before these answers arrive, and no other server is reached; if the whole process is stopped between
///   sending the handshake and reading the answers; if the thread of `async-io` is blocked, which reads for all
///   connections of the process; or, with SASL, if the client's runtime is blocked.
/// - The servers' `minSessionTimeout` is at least its default of 2 `tickTime`, and what a follower reports to the leader
///   about its sessions every `tickTime`/2 is delayed by less than 1/16 of the session timeout. Observers that are fed
///   by a follower (an *observer master*) report in two steps: they need a session timeout of at least 4 `tickTime`.
/// - Clocks *run* equally fast on client and leader, to one part in 16. They need not show the same time.
/// - A leader that was deposed without knowing it stops answering `sync`, which no quorum confirms, within 3/8 of the
///   session timeout after its successor took over. Normally followers give up a silent leader at about the same time as
///   the leader gives up silent followers, after `syncLimit` ticks, give or take one or two; so a session timeout of 6
///   `tickTime` is enough.
///
/// Only a fencing token protects against what goes wrong beyond these assumptions, and against requests that were sent
/// while the lease was valid and arrive later.
pub struct SessionLease {
    session_timeout: Duration,
    /// The end that `arithmetic` has computed, for readers; or zero, once the end has been seen.
    valid_until: AtomicU64,
    arithmetic: Mutex<LeaseArithmetic>,
    process: Process,
}

impl std::fmt::Debug for SessionLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionLease")
            .field("session_timeout", &self.session_timeout)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

impl SessionLease {
    /// The lease of a session that was just created; `connect_sent` is a moment before its connect request was sent.
    ///
    /// The leader starts the timeout when it creates the session, which cannot be earlier than `connect_sent`. The
    /// session must be known to exist before this is called.
    pub(crate) fn new(session_timeout: Duration, connect_sent: ClockInstant) -> Self {
        let arithmetic = LeaseArithmetic::new(session_timeout, connect_sent);
        Self {
            session_timeout,
            valid_until: AtomicU64::new(arithmetic.valid_until().as_nanos()),
            arithmetic: Mutex::new(arithmetic),
            process: Process::current(),
        }
    }

    /// Records that a probe that was sent just after `sent` has been answered successfully.
    ///
    /// It does no harm if this is called late, twice, or after the answers to later probes.
    pub(crate) fn probe_answered(&self, sent: ClockInstant) {
        self.update(|arithmetic, now| arithmetic.probe_answered(sent, now));
    }

    /// Records that a server has accepted the session over a new connection; `connect_sent` is a moment before its connect
    /// request was sent.
    pub(crate) fn moved(&self, connect_sent: ClockInstant) {
        self.update(|arithmetic, now| arithmetic.moved(connect_sent, now));
    }

    fn update(&self, update: impl FnOnce(&mut LeaseArithmetic, ClockInstant)) {
        let mut arithmetic = self.lock();
        let before = arithmetic.valid_until();
        // Read inside the lock, so that time moves forward for the arithmetic.
        update(&mut arithmetic, ClockInstant::now());
        let after = arithmetic.valid_until();
        // A reader that has seen the end in the meantime has made it final.
        if !self.replace(before, after) {
            arithmetic.revoke();
        }
    }

    /// Ends the lease now and forever.
    pub(crate) fn revoke(&self) {
        let mut arithmetic = self.lock();
        arithmetic.revoke();
        self.valid_until.store(ClockInstant::ZERO.as_nanos(), Ordering::Release);
    }

    /// The instant at which the lease ends, as things stand. Later probes move it forward, never back, except that it is
    /// [`ClockInstant::ZERO`] for good when the session has ended, and in a forked child of the process that has the session.
    #[must_use]
    pub fn valid_until(&self) -> ClockInstant {
        if self.has_forked() { ClockInstant::ZERO } else { self.published() }
    }

    /// Whether this is a copy in a forked child of the process that has the session.
    pub(crate) fn has_forked(&self) -> bool {
        self.process.has_forked()
    }

    /// Whether the session is certainly alive now. Reads the clock.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// The time until the lease ends, as things stand; zero if it has ended. Reads the clock.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.has_forked() {
            return Duration::ZERO;
        }
        loop {
            let until = self.published();
            let remaining = until.remaining();
            // An end that has been seen is final, even if an answer is about to move it.
            if !remaining.is_zero() || self.replace(until, ClockInstant::ZERO) {
                return remaining;
            }
        }
    }

    /// The time between the sending of two probes: a sixth of the session timeout.
    ///
    /// A probe becomes useful when another one is sent at least 5/16 of the timeout after its answer. At this pace that
    /// is the second one after it, if answers take less than 1/48 of the timeout, and the lease then has between 7/16
    /// and 29/48 (0.44 and 0.6) of the timeout left. With answers of up to 3/16 it is the third: between 13/48 and 7/16.
    /// A late timer only brings the probes closer to what is needed.
    #[must_use]
    pub fn probe_interval(&self) -> Duration {
        self.session_timeout / 6
    }

    fn published(&self) -> ClockInstant {
        ClockInstant::from_nanos(self.valid_until.load(Ordering::Acquire))
    }

    fn replace(&self, old: ClockInstant, new: ClockInstant) -> bool {
        let (old, new) = (old.as_nanos(), new.as_nanos());
        self.valid_until.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, LeaseArithmetic> {
        // Nothing in there panics half-way, and a lease that is not renewed ends soon.
        self.arithmetic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lease without clock and threads: every instant is an argument.
#[derive(Debug)]
struct LeaseArithmetic {
    timeout: Duration,
    /// The leader has heard of the session at this instant or later.
    heard_since: ClockInstant,
    /// When the newest of the answered probes was sent.
    newest_sent: ClockInstant,
    /// Answered probes that prove nothing yet, by the time of sending, which is also the order of their answers. All
    /// were sent after `heard_since` and are at least `MIN_SPACING` apart, so there are at most 31.
    unproven: VecDeque<AnsweredProbe>,
    revoked: bool,
}

#[derive(Debug, Clone, Copy)]
struct AnsweredProbe {
    sent: ClockInstant,
    answered: ClockInstant,
}

/// The number of parts into which the session timeout is divided.
const PARTS: u64 = 32;
/// G: a follower's reports to the leader are less than this apart. T/4, plus T/16 for delays.
const REPORT_GAP: u64 = 10;
/// The lease ends this much before a server may expire the session.
const MARGIN: u64 = 2;
/// Of probes that are closer together than this, not all are kept.
const MIN_SPACING: u64 = 1;

impl LeaseArithmetic {
    fn new(timeout: Duration, connect_sent: ClockInstant) -> Self {
        Self {
            timeout,
            heard_since: connect_sent,
            newest_sent: connect_sent,
            unproven: VecDeque::new(),
            revoked: false,
        }
    }

    /// Records that the probe sent at `sent` was answered at `now` or before. `now` never decreases.
    fn probe_answered(&mut self, sent: ClockInstant, now: ClockInstant) {
        // Anyone who has seen the end of the lease must be able to rely on it.
        let is_over = now >= self.valid_until();
        // A newer probe has already proved whatever an older one can prove; this includes duplicates.
        if is_over || sent <= self.newest_sent || sent > now {
            return;
        }
        self.newest_sent = sent;
        let (gap, spacing) = (self.parts(REPORT_GAP), self.parts(MIN_SPACING));
        while let Some(probe) = self.unproven.front().filter(|probe| probe.answered + gap < sent) {
            self.heard_since = self.heard_since.max(probe.sent);
            self.unproven.pop_front();
        }
        if self.unproven.back().is_none_or(|last| last.sent + spacing <= sent) {
            self.unproven.push_back(AnsweredProbe { sent, answered: now });
        }
    }

    /// Records that a connect of the session which was sent at `sent` was accepted at `now` or before. `now` never decreases.
    fn moved(&mut self, sent: ClockInstant, now: ClockInstant) {
        if now >= self.valid_until() || sent > now {
            return;
        }
        let gap = u64::try_from(self.parts(REPORT_GAP).as_nanos()).unwrap_or(u64::MAX);
        self.heard_since = self.heard_since.max(ClockInstant::from_nanos(sent.as_nanos().saturating_sub(gap)));
        self.unproven.retain(|probe| probe.sent > self.heard_since);
        // It counts as a probe, too.
        self.probe_answered(sent, now);
    }

    fn revoke(&mut self) {
        self.revoked = true;
    }

    fn valid_until(&self) -> ClockInstant {
        if self.revoked { ClockInstant::ZERO } else { self.heard_since + self.parts(PARTS - MARGIN) }
    }

    fn parts(&self, parts: u64) -> Duration {
        let nanos = u64::try_from(self.timeout.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(nanos / PARTS * parts)
    }
}

#[cfg(test)]
mod tests;
