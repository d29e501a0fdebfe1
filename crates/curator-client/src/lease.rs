//! How long a session is certainly alive.
//!
//! # Why this holds
//!
//! A client that is cut off cannot see its session expire; it has to know beforehand until when that cannot have happened.
//! Let T be the session timeout that was negotiated.
//!
//! *What the servers do.* Only the leader expires sessions, and never earlier than T after it last heard of one (it
//! rounds up to its next tick). It hears of a session of its own clients at every request. Of the session of a follower's
//! client it hears when the session is created, when it moves to another server, and in the follower's answers to the
//! leader's pings: each of these *reports* names the sessions that the follower has heard of since its last report.
//! Nothing else counts. In particular the requests that a follower passes on do not, and neither does `sync`, so an
//! answered request proves by itself nothing about when the session ends.
//!
//! *What a probe proves.* A probe is a `sync`. The follower passes it on to the leader in the same stream as its reports,
//! and the answer comes back from there. So when the answer to probe k is here, the leader has read every report that the
//! follower made before it passed on k. Reports are less than G apart; therefore the last of them was made later than
//! sₖ - G, where sₖ is the time at which k was sent. If an earlier probe j had been *answered* by then, the follower had
//! heard of it by then too, and the first report after that, which is one of those that the leader has read, named the
//! session. That report was made after sⱼ, and so the leader has heard of the session later than sⱼ:
//!
//! > Once probe k is answered, no server expires the session before sⱼ + T, for every probe j whose answer was here before
//! > sₖ - G.
//!
//! The connect counts as a probe that was sent when the connect was sent and is proven at once, because the leader itself
//! creates the session, and starts its T then. A probe j that was answered over an earlier connection is covered as well:
//! a server that a session moves to asks the leader before it says yes, and the leader starts a new T.
//!
//! It takes two probes. From the last one alone nothing follows about how fresh the leader's knowledge is: with probes
//! at 0, 0.28 T and 0.46 T and reports just after 0, at 0.24 T and at 0.48 T the second report names nobody, and when
//! the follower is cut off just after it passed on the third probe, the session ends at T. A rule such as "sₖ + ¾ T, and
//! at most sₖ₋₁ + T" would promise 1.21 T.
//!
//! *What is taken off.* The lease ends T/16 before that bound. That is for the time between looking at the lease and
//! doing what it allows, and for clocks that are not equally fast.
//!
//! # Where the assumptions come in
//!
//! [`Lease`] states them. Reports are asked for every `tickTime`/2, which is at most T/4. G is 5/16 T: that leaves T/16
//! in the worst case for reports that are late on the way, and with T of 4 `tickTime` and more at least 3/16 T. A probe
//! that is answered by a deposed leader proves nothing about its successor; but the successor gives every session a
//! new T, and the probe that proves something must have come G after one that was answered already. So nothing is lost
//! while the deposed leader stops answering within G + T/16 = 3/8 T.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::ClockInstant;

/// How long a session is certainly alive.
///
/// ZooKeeper lets a client find out that its session has expired only when it reaches a server again, and client
/// libraries give a session up some time *after* the servers may have: meanwhile two processes can hold one lock. (Curator
/// has the same gap; see its `ConnectionStateErrorPolicy` and its tech note on lost locks.) The lease ends before any
/// server can have expired the session. Chubby gave its clients such a lease; ZooKeeper does not, so it is worked out here
/// from the times at which probes were sent and answered.
///
/// # Guarantees
///
/// While [`is_valid`](Self::is_valid) says yes, no server has expired the session: what it owns is still there, unless
/// somebody deleted it.
///
/// It is never valid again once it was over, although the session may turn out to be alive. It can be over
/// early: slow answers shorten it, and a client that is cut off sees it end 0.4 to 0.6 of the session timeout later.
///
/// Reading takes no lock and can be done at any time from any thread. The clock is [`ClockInstant`]'s, so a process that was
/// stopped, or whose machine was asleep, sees the truth at its first look.
///
/// # Assumptions
///
/// - All servers of the ensemble grant the same session timeout. It is negotiated anew at every reconnect, and the client
///   crate tells only the first result.
/// - The servers' `minSessionTimeout` is at least its default of 2 `tickTime`, and what a follower reports to the leader
///   about its sessions every `tickTime`/2 is late by less than 1/16 of the session timeout. Observers that are fed by a
///   follower (an *observer master*) report in two steps: they need a session timeout of at least 4 `tickTime`.
/// - Clocks *run* equally fast on client and leader, to one part in 16. They need not show the same time.
/// - A leader that was deposed without knowing it stops answering `sync`, which no quorum confirms, within 3/8 of the session
///   timeout after its successor took over. Normally followers give up a silent leader when the leader gives up
///   silent followers, after `syncLimit` ticks, give or take one or two; so a session timeout of 6 `tickTime` is enough.
///
/// What goes wrong beyond them, and what was sent while the lease was valid and arrives later, only a fencing token can
/// catch.
#[derive(Debug)]
pub struct Lease {
    session_timeout: Duration,
    /// What `arithmetic` says, for readers; or zero, once the end was seen.
    valid_until: AtomicU64,
    arithmetic: Mutex<LeaseArithmetic>,
}

impl Lease {
    /// The lease of a session that was just created; `connect_sent` is a moment before its connect request was sent.
    ///
    /// The leader starts the timeout when it creates the session, which cannot be earlier than `connect_sent`. That the
    /// session exists must be known before this is called.
    pub(crate) fn new(session_timeout: Duration, connect_sent: ClockInstant) -> Self {
        let arithmetic = LeaseArithmetic::new(session_timeout, connect_sent);
        Self {
            session_timeout,
            valid_until: AtomicU64::new(arithmetic.valid_until().as_nanos()),
            arithmetic: Mutex::new(arithmetic),
        }
    }

    /// A probe that was sent just after `sent` has been answered with success.
    ///
    /// Harmless when it comes late, twice, or after the answers to later probes.
    pub(crate) fn probe_answered(&self, sent: ClockInstant) {
        let mut arithmetic = self.lock();
        let before = arithmetic.valid_until();
        // Read inside the lock, so that the arithmetic sees time go forward.
        arithmetic.probe_answered(sent, ClockInstant::now());
        let after = arithmetic.valid_until();
        // Whoever has seen the end meanwhile has made it final.
        if !self.replace(before, after) {
            arithmetic.revoke();
        }
    }

    /// Ends the lease now and for ever.
    pub(crate) fn revoke(&self) {
        let mut arithmetic = self.lock();
        arithmetic.revoke();
        self.valid_until.store(ClockInstant::ZERO.as_nanos(), Ordering::Release);
    }

    /// The instant at which the lease is over as things stand. Later probes move it forward, never back, except that it
    /// is [`ClockInstant::ZERO`] for good when the session has ended.
    #[must_use]
    pub fn valid_until(&self) -> ClockInstant {
        ClockInstant::from_nanos(self.valid_until.load(Ordering::Acquire))
    }

    /// Whether the session is certainly alive now. Reads the clock.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// The time until the lease is over as things stand; zero if it is. Reads the clock.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        loop {
            let until = self.valid_until();
            let remaining = until.remaining();
            // An end that somebody has seen is final, although an answer may be about to move it.
            if !remaining.is_zero() || self.replace(until, ClockInstant::ZERO) {
                return remaining;
            }
        }
    }

    /// The time between the sending of two probes: a sixth of the session timeout.
    ///
    /// A probe becomes worth something when another is sent 5/16 of the timeout after its answer. At this pace that is
    /// the second after it, if answers take less than 1/48 of the timeout, and the lease then has between 7/16 and 29/48
    /// (0.44 and 0.6) of the timeout left. Up to 3/16 it is the third: between 13/48 and 7/16. A late timer only brings
    /// the probes nearer to what is needed.
    #[must_use]
    pub fn probe_interval(&self) -> Duration {
        self.session_timeout / 6
    }

    fn replace(&self, old: ClockInstant, new: ClockInstant) -> bool {
        let (old, new) = (old.as_nanos(), new.as_nanos());
        self.valid_until.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, LeaseArithmetic> {
        // Nothing in there panics half-way; and a lease that is not renewed is over soon.
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
    /// Answered probes that prove nothing yet, by the time of sending, which is also the order of their answers.
    /// All were sent after `heard_since` and are apart by `MIN_SPACING`, so they are at most 31.
    unproven: VecDeque<AnsweredProbe>,
    revoked: bool,
}

#[derive(Debug, Clone, Copy)]
struct AnsweredProbe {
    sent: ClockInstant,
    answered: ClockInstant,
}

/// The parts into which the session timeout is divided.
const PARTS: u64 = 32;
/// G: reports of a follower to the leader are less than this apart. T/4, and T/16 for delays.
const REPORT_GAP: u64 = 10;
/// The lease ends this much before a server may expire the session.
const MARGIN: u64 = 2;
/// Probes that are closer together than this are not all kept.
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

    /// The probe sent at `sent` was answered at `now` or before. `now` never decreases.
    fn probe_answered(&mut self, sent: ClockInstant, now: ClockInstant) {
        // Who has seen the end of the lease must be able to rely on it.
        let is_over = now >= self.valid_until();
        // What an older probe can prove has been proved by a newer one; this includes duplicates.
        if is_over || sent <= self.newest_sent || sent > now {
            return;
        }
        self.newest_sent = sent;
        let (gap, spacing) = (self.parts(REPORT_GAP), self.parts(MIN_SPACING));
        while let Some(probe) = self.unproven.front().filter(|probe| probe.answered + gap < sent) {
            self.heard_since = probe.sent;
            self.unproven.pop_front();
        }
        if self.unproven.back().is_none_or(|last| last.sent + spacing <= sent) {
            self.unproven.push_back(AnsweredProbe { sent, answered: now });
        }
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
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    /// The session timeout of the tests, in nanoseconds; divisible by all that we divide it by.
    const T: u64 = 96_000;

    fn at(nanos: u64) -> ClockInstant {
        ClockInstant::from_nanos(nanos)
    }

    fn lease(connect_sent: u64) -> LeaseArithmetic {
        LeaseArithmetic::new(Duration::from_nanos(T), at(connect_sent))
    }

    #[test]
    fn a_new_lease_counts_from_the_connect() {
        assert_eq!(lease(7).valid_until(), at(7 + T / 16 * 15));
    }

    #[test]
    fn one_probe_alone_proves_nothing() {
        let mut lease = lease(0);
        lease.probe_answered(at(T / 2), at(T / 2 + 1));
        assert_eq!(lease.valid_until(), at(T / 16 * 15));
    }

    #[test]
    fn a_probe_from_before_the_connect_proves_nothing() {
        let mut lease = lease(10_000);
        lease.probe_answered(at(1_000), at(11_000));
        lease.probe_answered(at(60_000), at(61_000));
        assert_eq!(lease.valid_until(), at(10_000 + T / 16 * 15));
    }

    #[test]
    fn a_probe_is_proven_by_one_that_is_sent_long_enough_after_its_answer() {
        let gap = T / 16 * 5;
        for (sent, proven) in [(9_000 + gap, false), (9_001 + gap, true)] {
            let mut lease = lease(0);
            lease.probe_answered(at(5_000), at(9_000));
            lease.probe_answered(at(sent), at(sent + 1));
            let heard_since = if proven { 5_000 } else { 0 };
            assert_eq!(lease.valid_until(), at(heard_since + T / 16 * 15), "sent at {sent}");
        }
    }

    #[test]
    fn late_duplicate_and_impossible_answers_change_nothing() {
        let mut lease = lease(0);
        lease.probe_answered(at(5_000), at(9_000));
        lease.probe_answered(at(60_000), at(61_000));
        let expected = at(5_000 + T / 16 * 15);
        assert_eq!(lease.valid_until(), expected);
        for sent in [5_000, 60_000, 59_999, 1, 0, T] {
            lease.probe_answered(at(sent), at(62_000));
            assert_eq!(lease.valid_until(), expected, "sent at {sent}");
        }
    }

    #[test]
    fn what_is_over_stays_over() {
        let mut over = lease(0);
        over.probe_answered(at(10_000), at(10_001));
        let end = over.valid_until();
        over.probe_answered(at(80_000), end);
        assert_eq!(over.valid_until(), end);

        let mut in_time = lease(0);
        in_time.probe_answered(at(10_000), at(10_001));
        in_time.probe_answered(at(80_000), at(end.as_nanos() - 1));
        assert!(in_time.valid_until() > end);
        in_time.revoke();
        in_time.probe_answered(at(88_000), at(89_000));
        assert_eq!(in_time.valid_until(), ClockInstant::ZERO);
    }

    #[test]
    fn a_storm_of_probes_is_not_kept() {
        let mut storm = lease(0);
        for sent in 1..10 * T {
            storm.probe_answered(at(sent), at(sent + 2));
            assert!(storm.unproven.len() <= 31);
            assert!(storm.valid_until() > at(sent + T / 2));
        }
        // Slow answers: none proves anything before the lease is over.
        let mut slow = lease(0);
        for sent in 1..T {
            slow.probe_answered(at(sent), at(sent + T / 4 * 3));
            assert!(slow.unproven.len() <= 31);
        }
    }

    #[test]
    fn strange_timeouts_are_harmless() {
        let mut none = LeaseArithmetic::new(Duration::ZERO, at(5));
        none.probe_answered(at(6), at(7));
        assert_eq!(none.valid_until(), at(5));
        let mut long = LeaseArithmetic::new(Duration::MAX, at(5));
        long.probe_answered(at(6), at(7));
        assert!(long.valid_until() > at(u64::MAX / 2));
    }

    /// The promise of `Lease::probe_interval`.
    #[test]
    fn at_its_pace_a_healthy_session_keeps_nearly_half_of_its_timeout() {
        for (round_trip, least) in [(T / 48 - 1, T / 16 * 7), (T / 16 * 3 - 1, T / 48 * 13)] {
            let mut lease = lease(0);
            for probe in 1..100 {
                let sent = probe * T / 6;
                let left = lease.valid_until().saturating_duration_since(at(sent));
                assert!(left >= Duration::from_nanos(least), "{left:?} left before probe {probe}");
                lease.probe_answered(at(sent), at(sent + round_trip));
            }
        }
    }

    #[test]
    fn readers_see_what_the_arithmetic_says() {
        let timeout = Duration::from_secs(30);
        let before = ClockInstant::now();
        let lease = Arc::new(Lease::new(timeout, before));
        assert!(lease.is_valid());
        assert_eq!(lease.valid_until(), before + timeout * 15 / 16);
        assert!(lease.remaining() <= timeout * 15 / 16 && lease.remaining() > timeout / 2);
        assert_eq!(lease.probe_interval(), Duration::from_secs(5));
        lease.probe_answered(ClockInstant::now());
        assert_eq!(lease.valid_until(), before + timeout * 15 / 16);

        let other = Arc::clone(&lease);
        thread::spawn(move || other.revoke()).join().unwrap();
        lease.probe_answered(ClockInstant::now());
        assert!(!lease.is_valid());
        assert_eq!((lease.valid_until(), lease.remaining()), (ClockInstant::ZERO, Duration::ZERO));
    }

    #[test]
    fn a_session_that_was_created_too_long_ago_has_no_lease() {
        let lease = Lease::new(Duration::from_nanos(1_600), ClockInstant::ZERO);
        assert!(!lease.is_valid());
        lease.probe_answered(ClockInstant::now());
        assert!(!lease.is_valid());
    }

    /// The counter-example of the module's documentation, played through.
    #[test]
    fn the_rule_of_one_probe_is_wrong() {
        let reports = [T / 1_000, T / 100 * 24, T / 100 * 48];
        let probes = [0, T / 100 * 28, T / 100 * 46];
        // The report before the last probe names nobody, so the leader has heard of the session at the first report.
        let named = |report: usize| probes.iter().any(|p| reports[report - 1] < *p && *p < reports[report]);
        assert!(!named(1) && named(2) && reports[1] < probes[2] && probes[2] < reports[2]);
        let expires = reports[0] + T;

        let one_probe_rule = (probes[2] + T / 4 * 3).min(probes[1] + T) - T / 16;
        assert!(one_probe_rule > expires);
        let mut lease = lease(0);
        for sent in &probes[1..] {
            lease.probe_answered(at(*sent), at(sent + 1));
        }
        assert!(lease.valid_until() < at(expires));
    }

    /// The servers and the network between, played through for any delays that the assumptions allow. See
    /// [`simulation::Scenario`].
    mod simulation {
        use proptest::collection::vec;
        use proptest::prelude::*;
        use proptest::strategy::ValueTree as _;
        use proptest::test_runner::TestRunner;

        use super::*;

        /// The longest time between two reports of a follower that an assumption allows.
        const GAP: u64 = T / 16 * 5;

        /// One session from its creation on: the connections that it used, one after the other.
        #[derive(Debug, Clone)]
        struct Scenario {
            connections: Vec<Connection>,
            succession: Option<Succession>,
            /// How long the client takes to look at each answer, over and over; so answers come late and out of order.
            reading: Vec<u64>,
        }

        /// A new leader takes over; the old one goes on answering for a while, and does not count any more.
        #[derive(Debug, Clone)]
        struct Succession {
            at: u64,
            overlap: u64,
        }

        #[derive(Debug, Clone)]
        struct Connection {
            /// To the leader itself; else to a follower of its own.
            to_leader: bool,
            /// From the end of the last connection until the client sends its connect.
            pause: u64,
            /// From there until the leader hears of it, and from there until the client is connected.
            connecting: (u64, u64),
            /// How long before the leader hears of the session the follower had made its last report.
            last_report: u64,
            /// The times between reports, and how long each is on its way to the leader, over and over.
            reports: Vec<(u64, u64)>,
            probes: Vec<Probe>,
        }

        #[derive(Debug, Clone)]
        struct Probe {
            /// Since the last one was sent.
            after: u64,
            /// From client to server, from there to the leader, and back to the client.
            delays: [u64; 3],
        }

        /// What reaches the leader.
        #[derive(Debug, Clone, Copy)]
        enum Arrival {
            /// The session is created, has moved, or is named in a report.
            Heard,
            /// A probe; its answer is back at the client at `answered` unless the session is over.
            Probe { sent: u64, answered: u64 },
        }

        /// An answered probe, as the client and as an outside observer see it.
        #[derive(Debug, Clone, Copy)]
        struct Answer {
            sent: u64,
            read: u64,
            /// When the session ends if everything is cut off just after the leader has answered.
            expires: u64,
        }

        /// A rule for leases: what it is told is when a probe was sent and when its answer was read; it says how long the
        /// session is certainly alive.
        trait Rule {
            fn valid_until(&self) -> u64;
            fn probe_answered(&mut self, sent: u64, now: u64);
        }

        impl Rule for LeaseArithmetic {
            fn valid_until(&self) -> u64 {
                self.valid_until().as_nanos()
            }

            fn probe_answered(&mut self, sent: u64, now: u64) {
                self.probe_answered(at(sent), at(now));
            }
        }

        /// Looks at the newest answered probe and the one before it, as one might think would do.
        struct Newest {
            sent: u64,
            valid_until: u64,
            bound: fn(previous: u64, sent: u64) -> u64,
        }

        impl Newest {
            fn boxed(connect_sent: u64, bound: fn(u64, u64) -> u64) -> Box<dyn Rule> {
                Box::new(Self { sent: connect_sent, valid_until: connect_sent + T / 16 * 15, bound })
            }
        }

        impl Rule for Newest {
            fn valid_until(&self) -> u64 {
                self.valid_until
            }

            fn probe_answered(&mut self, sent: u64, now: u64) {
                if sent > self.sent && now < self.valid_until {
                    self.valid_until = self.valid_until.max((self.bound)(self.sent, sent) - T / 16);
                    self.sent = sent;
                }
            }
        }

        /// Plays a scenario and says whether the lease was ever longer than the session.
        fn check(scenario: &Scenario, rule: impl Fn(u64) -> Box<dyn Rule>) -> Result<(), TestCaseError> {
            let mut now = 10 * T;
            let mut arrivals = Vec::new();
            let mut rule = rule(now + scenario.connections[0].pause);
            let created = now + scenario.connections[0].pause + scenario.connections[0].connecting.0;
            for connection in &scenario.connections {
                now = connection.play(now, &mut arrivals);
            }
            arrivals.sort_by_key(|(time, _, _)| *time);

            prop_assert!(rule.valid_until() <= created + T);
            let mut expires = 0;
            for answer in answers(scenario, created, &arrivals) {
                rule.probe_answered(answer.sent, answer.read);
                // The client may have read the answers in another order.
                expires = answer.expires.max(expires);
                prop_assert!(rule.valid_until() <= expires, "{} > {expires} after {answer:?}", rule.valid_until());
            }
            Ok(())
        }

        impl Connection {
            /// Adds what reaches the leader, each with the time at which its sender got in touch with the leader; gives the
            /// time at which the client leaves the connection.
            fn play(&self, begin: u64, arrivals: &mut Vec<(u64, u64, Arrival)>) -> u64 {
                let heard = begin + self.pause + self.connecting.0;
                arrivals.push((heard, heard, Arrival::Heard));
                // Every channel is a queue: nothing overtakes.
                let (mut sent, mut received) = (heard + self.connecting.1, heard);
                let mut passed_on = Vec::new();
                for probe in &self.probes {
                    sent += probe.after;
                    received = received.max(sent + probe.delays[0]);
                    passed_on.push((received, sent, probe));
                }
                let left = sent + T / 8;

                let mut queue: Vec<_> =
                    passed_on.iter().map(|(time, sent, probe)| (*time, Some((*sent, *probe)), 0)).collect();
                if !self.to_leader {
                    let mut report = heard - self.last_report;
                    for (gap, delay) in self.reports.iter().cycle() {
                        let last = report;
                        report += gap;
                        if report > left {
                            break;
                        }
                        // A probe at the very moment of a report is left to the next one.
                        if passed_on.iter().any(|(received, _, _)| last <= *received && *received < report) {
                            queue.push((report, None, *delay));
                        }
                    }
                }
                queue.sort_by_key(|(time, _, _)| *time);

                let (mut arrived, mut answered) = (heard, heard);
                for (time, probe, delay) in queue {
                    let Some((sent, probe)) = probe else {
                        arrived = arrived.max(time + delay);
                        arrivals.push((arrived, heard, Arrival::Heard));
                        continue;
                    };
                    if self.to_leader {
                        arrived = time;
                        arrivals.push((arrived, heard, Arrival::Heard));
                    } else {
                        arrived = arrived.max(time + probe.delays[1]);
                    }
                    answered = answered.max(arrived + probe.delays[2]);
                    if answered <= left {
                        arrivals.push((arrived, heard, Arrival::Probe { sent, answered }));
                    }
                }
                left
            }
        }

        /// The answers that the client gets, in the order in which it reads them.
        fn answers(scenario: &Scenario, created: u64, arrivals: &[(u64, u64, Arrival)]) -> Vec<Answer> {
            let mut answers = Vec::new();
            let mut reading = scenario.reading.iter().cycle();
            let mut expires = created + T;
            let mut succession = scenario.succession.clone();
            let mut deposed = None;
            for (time, connected, arrival) in arrivals {
                if let Some(successor) = succession.take_if(|successor| successor.at <= *time) {
                    if expires <= successor.at {
                        break;
                    }
                    expires = successor.at + T;
                    deposed = Some(successor);
                }
                // The instant of the end belongs to the end.
                if expires <= *time {
                    break;
                }
                let of_the_old_leader = deposed.as_ref().filter(|successor| *connected < successor.at);
                if of_the_old_leader.is_some_and(|successor| *time >= successor.at + successor.overlap) {
                    continue;
                }
                match *arrival {
                    Arrival::Heard if of_the_old_leader.is_none() => expires = time + T,
                    Arrival::Heard => {}
                    Arrival::Probe { sent, answered } => {
                        let read = answered + reading.next().unwrap_or(&0);
                        answers.push(Answer { sent, read, expires });
                    }
                }
            }
            answers.sort_by_key(|answer| answer.read);
            answers
        }

        /// Any time up to `most`, with a liking for short ones.
        fn delay(most: u64) -> impl Strategy<Value = u64> {
            prop_oneof![2 => Just(0), 2 => 0..=most / 16, 1 => 0..=most]
        }

        fn probe() -> impl Strategy<Value = Probe> {
            let after = prop_oneof![2 => T / 6..=T / 6 + T / 32, 2 => 1..=T / 2, 1 => 1..=T / 32];
            (after, [delay(T / 8), delay(T / 4), delay(T / 8)]).prop_map(|(after, delays)| Probe { after, delays })
        }

        fn connection(gap: u64) -> impl Strategy<Value = Connection> {
            (
                prop::bool::weighted(0.2),
                delay(T / 2),
                (delay(T / 4), delay(T / 4)),
                0..gap,
                vec((prop_oneof![Just(gap - 1), gap / 2..gap, gap / 16..gap], delay(T / 2)), 1..6),
                vec(probe(), 0..12),
            )
                .prop_map(|(to_leader, pause, connecting, last_report, reports, probes)| Connection {
                    to_leader,
                    pause,
                    connecting,
                    last_report,
                    reports,
                    probes,
                })
        }

        fn scenario(gap: u64, overlap: u64) -> impl Strategy<Value = Scenario> {
            let overlap_time = prop_oneof![Just(overlap), 0..=overlap];
            let succession = (10 * T..14 * T, overlap_time).prop_map(|(at, overlap)| Succession { at, overlap });
            let succession = proptest::option::of(succession).prop_map(move |it| it.filter(|_| overlap > 0));
            (vec(connection(gap), 1..4), succession, vec(delay(T / 2), 1..8))
                .prop_map(|(connections, succession, reading)| Scenario { connections, succession, reading })
        }

        fn ours(connect_sent: u64) -> Box<dyn Rule> {
            Box::new(lease(connect_sent))
        }

        /// Whether the simulation finds a scenario in which `rule` is wrong.
        fn is_refuted(rule: impl Fn(u64) -> Box<dyn Rule> + Copy, gap: u64, overlap: u64) -> bool {
            let mut runner = TestRunner::deterministic();
            let scenarios = scenario(gap, overlap);
            (0..5_000).any(|_| {
                let scenario = scenarios.new_tree(&mut runner).unwrap().current();
                check(&scenario, rule).is_err()
            })
        }

        proptest! {
            #![proptest_config(ProptestConfig::with_cases(1_000))]

            #[test]
            fn the_session_outlives_the_lease(scenario in scenario(GAP, 0)) {
                check(&scenario, ours)?;
            }

            #[test]
            fn the_session_outlives_the_lease_when_the_leader_changes(scenario in scenario(GAP, T / 8 * 3)) {
                check(&scenario, ours)?;
            }
        }

        /// A simulation that finds no fault proves nothing unless it finds faults where there are some.
        #[test]
        fn weaker_rules_are_refuted() {
            // Even with reports as often as the servers are configured to make them, without any delay.
            let gap = T / 4;
            assert!(is_refuted(|connect| Newest::boxed(connect, |_, sent| sent + T), gap, 0));
            assert!(is_refuted(|connect| Newest::boxed(connect, |_, sent| sent + T / 4 * 3), gap, 0));
            assert!(is_refuted(|connect| Newest::boxed(connect, |previous, _| previous + T), gap, 0));
            assert!(is_refuted(
                |connect| Newest::boxed(connect, |previous, sent| (previous + T).min(sent + T / 4 * 3)),
                gap,
                0
            ));
        }

        #[test]
        fn the_assumptions_are_needed() {
            assert!(is_refuted(ours, 2 * GAP, 0), "reports that are farther apart");
            assert!(is_refuted(ours, GAP, T), "a deposed leader that goes on answering");
        }
    }
}
