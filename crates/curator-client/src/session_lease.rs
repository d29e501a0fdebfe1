//! The lease: how long a session is certainly alive, computed from the times of its probes.
//!
//! # Why this holds
//!
//! A client that is cut off cannot observe that its session expires, so it must know in advance
//! until when the session cannot have expired. Let T be the negotiated session timeout.
//!
//! *Servers.* Only the leader expires sessions, and never earlier than T after it last heard of the
//! session (it rounds up to its next tick). It hears of its own clients' sessions at every request.
//! It hears of a follower's clients' sessions when the session is created, when it moves to another
//! server, and in the follower's replies to the leader's pings: each of these *reports* names the
//! sessions that the follower has heard of since its last report. Nothing else counts: neither the
//! requests that a follower forwards nor `sync`. So an answered request alone does not show when
//! the session ends.
//!
//! *Probes.* A probe is a `sync`. The follower forwards it to the leader in the same stream as its
//! reports, and the reply comes from the leader. So when the reply to probe k arrives, the leader
//! has read every report that the follower made before it forwarded k. Reports are less than G
//! apart, so the last of them was made later than sₖ - G, where sₖ is the time at which k was sent.
//! If an earlier probe j was *answered* before sₖ - G, the follower had heard of it by then, and
//! its next report, which the leader has read, named the session. That report was made after sⱼ, so
//! the leader has heard of the session later than sⱼ:
//!
//! > Once probe k is answered, no server expires the session before sⱼ + T, for every probe j whose answer had arrived
//! > before sₖ - G.
//!
//! The connect counts as a probe sent at the time of the connect. It is proven immediately, because
//! the leader itself creates the session, and then starts the session's T. A probe j that was
//! answered over an earlier connection counts too: a server that a session moves to asks the leader
//! before it accepts the session, and the leader starts a new T.
//!
//! *New connections.* Let c be the time at which a connection was requested. When the leader has
//! answered a request over this connection, the leader has heard of the session later than c:
//! before that request, the follower asked the leader about the session, in the same stream. The
//! accepted connect alone does not prove that: a follower stores such questions by session, so it
//! may accept a connect after the leader's reply about an earlier connect of this session, whose
//! connection was abandoned. Without this rule, a session that resumes near the end of its lease
//! would lose the lease before a second probe is answered.
//!
//! The leader of this connection may be deposed, and its successor may have started the session's T
//! before c. A write excludes that: the first probe over a new connection includes one. If it was
//! committed, each server of a quorum has acknowledged it, later than c, as a follower of that
//! leader. A successor starts its sessions only after a quorum has joined it. Both quorums have a
//! server in common, and a server that has joined a successor acknowledges nothing for the leader
//! before. So the successor started later than that acknowledgement, and gave the session a new T
//! later than c:
//!
//! > Once a write over a connection is committed, no server expires the session before c + T.
//!
//! This holds without an assumption about deposed leaders. A reply proves the commit if it contains
//! the result of the write, even the failure of a check: the leader checks first that the session
//! is alive, and proposes a failed transaction too. Any other reply comes from a server that has
//! refused the write, or has failed before it proposed the write. Then only the leader has
//! confirmed the session, and the lease counts from c - G, so that a deposed leader has as much
//! time to stop answering as under the rule for probes, see below.
//!
//! *Quorums.* The server in common may be the leader itself, whose own acknowledgement counts: it
//! joins a successor only after it has stopped leading. A reconfiguration is acknowledged by
//! quorums of the old and of the new configuration, after every earlier write; until it is
//! committed, later writes and a new leader need both quorums too. So a successor that needs only
//! the new quorum starts after the commit, later than the acknowledgement of a write that needed
//! only the old one. Two oracle quorums (`QuorumOracleMaj`: one server of two) may have no server
//! in common, so [`SessionLease`] assumes that there are none.
//!
//! *Local sessions* (`localSessionsEnabled`) belong to one server, which alone expires them, T
//! after it last heard of them. Such a session cannot move to another server, and owns no nodes:
//! its first ephemeral node upgrades it to a session of the leader, which then starts a new T.
//!
//! Two probes are needed. The last one alone does not show how recent the leader's knowledge is:
//! with probes at 0, 0.28 T and 0.46 T and reports just after 0, at 0.24 T and at 0.48 T, the
//! second report names no session, and if the follower is cut off just after it forwarded the third
//! probe, the session ends at T. A rule such as "sₖ + ¾ T, and at most sₖ₋₁ + T" would promise 1.21
//! T.
//!
//! *The safety margin.* The lease ends T/16 before that bound. The margin covers the time between
//! reading the lease and acting on it, and the difference in clock rates.
//!
//! # Where the assumptions are used
//!
//! [`SessionLease`] states them. The leader asks for reports every `tickTime`/2, which is at most
//! T/4. G is 5/16 T: in the worst case that leaves T/16 for reports that are delayed on the way,
//! and with T of at least 4 `tickTime`, at least 3/16 T. A probe that is answered by a deposed
//! leader proves nothing about its successor; but the successor gives every session a new T, and
//! the proving probe must have been sent G after an earlier one was answered. So the lease holds if
//! the deposed leader stops answering within G + T/16 = 3/8 T.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::process::Process;
use crate::text::debug_line;
use crate::time::ClockInstant;
use crate::transport::{AwaitedGrant, ConfirmedBy};

/// How long a session is certainly alive.
///
/// A ZooKeeper client finds out that its session has expired only when it reaches a server again,
/// and client libraries abandon a session some time *after* the servers may have expired it: in the
/// meantime two processes can hold one lock. (Curator has the same gap; see its
/// `ConnectionStateErrorPolicy` and its tech note on lost locks.) The lease ends before any server
/// can have expired the session. Chubby gave its clients such a lease; ZooKeeper does not, so this
/// crate computes it from the times at which probes were sent and answered.
///
/// # Guarantees
///
/// While [`is_valid`](Self::is_valid) returns `true`, no server has expired the session: its nodes
/// still exist, unless a client has deleted them.
///
/// An ended lease never becomes valid again, even if the session turns out to be alive. The lease
/// can end early: slow replies shorten it, and after a client is cut off, it ends within 0.4 to 0.6
/// of the session timeout, or up to 0.94 if the client has just connected.
///
/// Any thread can read the lease at any time, without taking a lock (with `Transport::Native`,
/// except during the handshake of a connection that resumes the session). The lease uses the clock
/// of [`ClockInstant`], which includes the time during which the process was stopped or its machine
/// asleep.
///
/// # Assumptions
///
/// - If a server grants a session a shorter timeout than the previous server did, the client reads
///   this server's reply before the shorter timeout has passed. The timeout is negotiated again at
///   every reconnect, and a session that is granted less than it was opened with ends as soon as
///   the server has answered the handshake and the first ping, even while the client's runtime is
///   blocked. The session can end on the servers while the lease is still valid if one of these
///   conditions lasts for as long as the shorter timeout: the connection breaks, or the attempt is
///   abandoned, before these replies arrive, and the client reaches no other server after that; the
///   whole process is stopped between sending the handshake and reading the replies; the thread of
///   `async-io`, which reads for all connections of the process, is blocked; or, with SASL, the
///   client's runtime is blocked. With `Transport::Native`, a thread that reads the lease first
///   reads the reply to the handshake; the thread of `async-io` is not involved, and SASL makes no
///   difference.
/// - The servers' `minSessionTimeout` is at least its default of 2 `tickTime`, and what a follower
///   reports to the leader about its sessions every `tickTime`/2 is delayed by less than 1/16 of
///   the session timeout. Observers that are fed by a follower (an *observer master*) report in two
///   steps: they need a session timeout of at least 4 `tickTime`.
/// - Clocks *run* equally fast on client and leader, to one part in 16. They need not show the same
///   time.
/// - A leader that was deposed without knowing it stops answering `sync`, which no quorum confirms,
///   within 3/8 of the session timeout after its successor took over. Normally followers leave a
///   silent leader, and the leader drops silent followers, after `syncLimit` ticks, at most two
///   ticks apart; so a session timeout of 6 `tickTime` is enough.
/// - Any two quorums of the ensemble have a server in common. This excludes an oracle quorum
///   (`oraclePath`), where one of two servers may continue alone.
///
/// If an assumption fails, or a request that was sent while the lease was valid arrives after its
/// end, only a fencing token protects.
pub struct SessionLease {
    session_timeout: Duration,
    /// The end that `arithmetic` has computed, for readers; zero once a reader has seen it pass.
    valid_until: AtomicU64,
    /// When the last reply to a probe arrived.
    last_reply: AtomicU64,
    arithmetic: Mutex<LeaseArithmetic>,
    process: Process,
    awaited_grant: Arc<AwaitedGrant>,
}

debug_line!(
    SessionLease,
    |this| session_timeout: this.session_timeout,
    remaining: this.remaining()
);

impl SessionLease {
    /// The lease of a session that was just created; `connect_sent` is a time before its connect
    /// request was sent.
    ///
    /// The leader starts the timeout when it creates the session, which cannot be earlier than
    /// `connect_sent`. Call this only after the server has confirmed the session.
    pub(crate) fn new(session_timeout: Duration, connect_sent: ClockInstant) -> Self {
        let arithmetic = LeaseArithmetic::new(session_timeout, connect_sent);
        Self {
            session_timeout,
            valid_until: AtomicU64::new(arithmetic.valid_until().as_nanos()),
            last_reply: AtomicU64::new(ClockInstant::now().as_nanos()),
            arithmetic: Mutex::new(arithmetic),
            process: Process::current(),
            awaited_grant: Arc::default(),
        }
    }

    /// Records the successful reply to a probe that was sent just after `sent`.
    ///
    /// Late, repeated and out-of-order calls are harmless.
    pub(crate) fn probe_answered(&self, sent: ClockInstant) {
        self.update(|arithmetic, now| {
            self.last_reply.store(now.as_nanos(), Ordering::Relaxed);
            arithmetic.probe_answered(sent, now);
        });
    }

    /// Records that a new connection of the session was confirmed: by a quorum if it has committed
    /// a write that was sent over this connection, or else by a leader. `connect_sent` is a time
    /// before its connect request was sent.
    pub(crate) fn moved(&self, connect_sent: ClockInstant, by: ConfirmedBy) {
        self.update(|arithmetic, now| arithmetic.moved(connect_sent, now, by));
    }

    fn update(&self, update: impl FnOnce(&mut LeaseArithmetic, ClockInstant)) {
        let mut arithmetic = self.lock();
        let before = arithmetic.valid_until();
        // Read inside the lock, so that the times are in order for the arithmetic.
        update(&mut arithmetic, ClockInstant::now());
        let after = arithmetic.valid_until();
        // This fails if a reader has seen the end of the lease in the meantime, which makes the end
        // final.
        if !self.replace(before, after) {
            arithmetic.revoke();
        }
    }

    /// Ends the lease now and forever.
    pub(crate) fn revoke(&self) {
        let mut arithmetic = self.lock();
        arithmetic.revoke();
        self.valid_until
            .store(ClockInstant::ZERO.as_nanos(), Ordering::Release);
    }

    /// When the lease ends if no further probe is answered. Later probes move this time forward,
    /// never back, except that it is [`ClockInstant::ZERO`] permanently once the session has ended,
    /// and in a forked child of the process that has the session.
    #[must_use]
    pub fn valid_until(&self) -> ClockInstant {
        if self.has_forked() {
            return ClockInstant::ZERO;
        }
        self.awaited_grant.read();
        self.published()
    }

    /// A thread that reads the lease first reads this grant, if it is awaited.
    pub(crate) fn awaited_grant(&self) -> &Arc<AwaitedGrant> {
        &self.awaited_grant
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

    /// The time until [`valid_until`](Self::valid_until); zero if that has passed. Reads the clock.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.has_forked() {
            return Duration::ZERO;
        }
        self.awaited_grant.read();
        loop {
            let until = self.published();
            let remaining = until.remaining();
            // An end that a reader has seen is final, even if a reply is about to move it.
            if !remaining.is_zero() || self.replace(until, ClockInstant::ZERO) {
                return remaining;
            }
        }
    }

    /// When the last reply to a probe arrived; at first, when the session was opened.
    ///
    /// A lease that becomes short has one of two causes: the servers do not reply, or they reply so
    /// slowly that their replies do not extend it in time. In the second case, the last reply is at
    /// most a [`probe_interval`](Self::probe_interval) old.
    #[must_use]
    pub fn last_reply(&self) -> ClockInstant {
        ClockInstant::from_nanos(self.last_reply.load(Ordering::Relaxed))
    }

    /// The time between two probes: a sixth of the session timeout.
    ///
    /// A probe extends the lease once a later probe is answered that was sent more than 5/16 of the
    /// timeout after the reply to the first. At this interval, the later probe is the second after
    /// the first if replies take less than 1/48 of the timeout: the lease then has between 5/12 and
    /// 29/48 (0.42 and 0.6) of the timeout left. If replies take less than 3/16 of the timeout, it
    /// is the third after the first, and more than 1/12 is left. A probe that is sent late does not
    /// make more probes necessary.
    ///
    /// The first reply over a new connection leaves 15/16 of the timeout, counted from the connect.
    /// So a connection that is replaced does not shorten the lease, if the lost reply and the first
    /// one over the next connection together take less than 1/48 of the timeout.
    #[must_use]
    pub fn probe_interval(&self) -> Duration {
        self.session_timeout / 6
    }

    fn published(&self) -> ClockInstant {
        ClockInstant::from_nanos(self.valid_until.load(Ordering::Acquire))
    }

    fn replace(&self, old: ClockInstant, new: ClockInstant) -> bool {
        let old = old.as_nanos();
        let new = new.as_nanos();
        self.valid_until
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, LeaseArithmetic> {
        // A poisoned lock is safe to use: the arithmetic does not panic halfway, and a lease that
        // is not renewed ends soon.
        self.arithmetic
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lease without clock and threads: every instant is an argument.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LeaseArithmetic {
    timeout: Duration,
    /// The leader has heard of the session at this instant or later.
    heard_since: ClockInstant,
    /// When the newest of the answered probes was sent.
    newest_sent: ClockInstant,
    /// Answered probes that prove nothing yet, by the time of sending, which is also the order of
    /// their replies. All were sent after `heard_since` and are at least `MIN_SPACING` apart, so
    /// there are at most 31.
    unproven: VecDeque<AnsweredProbe>,
    revoked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct AnsweredProbe {
    sent: ClockInstant,
    answered: ClockInstant,
}

/// The session timeout is divided into this many parts.
const PARTS: u64 = 32;
/// G: a follower's reports to the leader are less than this apart. T/4, plus T/16 for delays.
const REPORT_GAP: u64 = 10;
/// The lease ends this much before the earliest time at which a server may expire the session.
const MARGIN: u64 = 2;
/// A probe is not kept if it was sent less than this after the last probe that was kept.
const MIN_SPACING: u64 = 1;

impl LeaseArithmetic {
    pub(crate) fn new(timeout: Duration, connect_sent: ClockInstant) -> Self {
        Self {
            timeout,
            heard_since: connect_sent,
            newest_sent: connect_sent,
            unproven: VecDeque::new(),
            revoked: false,
        }
    }

    /// Records that the probe sent at `sent` was answered at `now` or before. `now` never
    /// decreases.
    pub(crate) fn probe_answered(&mut self, sent: ClockInstant, now: ClockInstant) {
        // A caller that has seen the end of the lease relies on it.
        let has_ended = now >= self.valid_until();
        // A newer probe proves everything that an older one can prove. This also skips duplicates.
        if has_ended || sent <= self.newest_sent || sent > now {
            return;
        }
        self.newest_sent = sent;
        let gap = self.parts(REPORT_GAP);
        let spacing = self.parts(MIN_SPACING);
        while let Some(probe) = self
            .unproven
            .front()
            .filter(|probe| probe.answered + gap < sent)
        {
            self.heard_since = self.heard_since.max(probe.sent);
            self.unproven.pop_front();
        }
        if self
            .unproven
            .back()
            .is_none_or(|last| last.sent + spacing <= sent)
        {
            self.unproven.push_back(AnsweredProbe {
                sent,
                answered: now,
            });
        }
    }

    /// Records that a connection whose connect was sent at `sent` was confirmed at `now` or before.
    /// `now` never decreases.
    pub(crate) fn moved(&mut self, sent: ClockInstant, now: ClockInstant, by: ConfirmedBy) {
        // A leader that is about to end the session still accepts its connects: the end of the
        // lease has to be final.
        if now >= self.valid_until() || sent > now {
            return;
        }
        let reserve = match by {
            ConfirmedBy::Quorum => 0,
            ConfirmedBy::Leader => {
                u64::try_from(self.parts(REPORT_GAP).as_nanos()).unwrap_or(u64::MAX)
            }
        };
        self.heard_since = self.heard_since.max(ClockInstant::from_nanos(
            sent.as_nanos().saturating_sub(reserve),
        ));
        self.unproven.retain(|probe| probe.sent > self.heard_since);
    }

    pub(crate) fn revoke(&mut self) {
        self.revoked = true;
    }

    pub(crate) fn valid_until(&self) -> ClockInstant {
        if self.revoked {
            ClockInstant::ZERO
        } else {
            self.heard_since + self.parts(PARTS - MARGIN)
        }
    }

    fn parts(&self, parts: u64) -> Duration {
        let nanos = u64::try_from(self.timeout.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(nanos / PARTS * parts)
    }
}

#[cfg(test)]
mod tests;
