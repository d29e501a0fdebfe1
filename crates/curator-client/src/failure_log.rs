//! Limits how often failures of a background task, and of the connection, are logged.
//!
//! A new failure of a background task is logged immediately, an unchanged one at growing intervals,
//! and the recovery once. During an outage of the connection, one failure a minute is logged.

use std::collections::hash_map::DefaultHasher;
use std::fmt::{Display, Write as _};
use std::hash::{Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use crate::time::ClockInstant;

/// The interval between the first two lines about an unchanged failure. Each further interval is
/// twice the previous one.
const FIRST_INTERVAL: Duration = Duration::from_secs(60);

/// The longest interval.
const LONGEST_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// The number of different failures that are logged immediately in one interval: some tasks fail in
/// a new way each time.
const MOST_LOGGED: usize = 8;

/// After this number of recoveries in one interval, failures are not logged until it ends: some
/// tasks fail and recover quickly.
const MOST_RECOVERIES: usize = 3;

/// Decides which failures of a background task to log, for recipes.
///
/// A failure that was not logged in the present interval is logged immediately; a known one when
/// the interval ends. The first interval is a minute, and each further one is twice the previous
/// one, up to an hour. Two texts are the same failure if they differ only in numbers and ids,
/// decimal or hexadecimal. At most 8 failures are logged immediately in one interval.
///
/// A [recovery](Self::recovered) is logged immediately, if its failure was logged. The next failure
/// then counts as new, and the interval ends within a minute. After three recoveries in one
/// interval, a failure is not logged before the interval's end, and not at all if the task recovers
/// before.
///
/// So once the task works again, the last line is not about a failure. If the caller reports a
/// lasting failure again when it is [due](Self::due), then during a failure, the last line is about
/// another failure for at most an hour, and about a recovery for at most a minute.
///
/// Reads no clock: methods get the time as an argument.
#[derive(Debug, Clone, Default)]
pub struct FailureLog {
    /// Hashes of the failures that were logged in this interval, since the last logged recovery.
    known: Vec<u64>,
    /// The number of failures that were logged in this interval.
    lines: usize,
    /// The number of recoveries that were logged in this interval.
    recoveries: usize,
    /// The hash of the failure that was logged last. `None` after a logged recovery.
    last_line: Option<u64>,
    /// When the interval ends. `None` before the first failure.
    interval_end: Option<Instant>,
    next_interval: Duration,
    /// The present series of failures. `None` if the task works.
    failing: Option<Failing>,
}

#[derive(Debug, Clone, Copy)]
struct Failing {
    since: Instant,
    failures: u64,
    /// The hash of the latest failure.
    latest: u64,
    /// Whether any failure of the series was logged.
    is_logged: bool,
}

/// The end of a series of failures, from [`FailureLog::recovered`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// The time since the first failure.
    pub lasted: Duration,
    /// The number of failures.
    pub failures: u64,
}

impl FailureLog {
    /// Records a failure. Returns whether to log it.
    #[must_use]
    pub fn failed(&mut self, failure: impl Display, now: Instant) -> bool {
        if self.failing.is_none() && self.interval_end.is_some_and(|end| now >= end) {
            // The task has recovered, and has worked until the interval's end: start afresh.
            *self = Self::default();
        }
        let failure = key(failure);
        let failing = self.failing.get_or_insert(Failing {
            since: now,
            failures: 0,
            latest: failure,
            is_logged: false,
        });
        failing.failures += 1;
        failing.latest = failure;
        if self.interval_end.is_none_or(|end| now >= end) {
            self.known.clear();
            self.lines = 0;
            self.recoveries = 0;
            let interval = self.next_interval.clamp(FIRST_INTERVAL, LONGEST_INTERVAL);
            self.interval_end = Some(now + interval);
            self.next_interval = 2 * interval;
        }
        let is_limited = self.lines >= MOST_LOGGED || self.recoveries >= MOST_RECOVERIES;
        let is_logged = !is_limited && !self.known.contains(&failure);
        if is_logged {
            self.known.push(failure);
            self.lines += 1;
            self.last_line = Some(failure);
            failing.is_logged = true;
        }
        is_logged
    }

    /// When the caller must report the current failure again, if nothing changes until then. `None`
    /// if the last line is already about this failure, or if the task works.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        let latest = self.failing?.latest;
        if self.last_line == Some(latest) {
            None
        } else {
            self.interval_end
        }
    }

    /// Records that the task works. Returns what to log: `None` if the task was already working, or
    /// if no failure was logged since the last recovery.
    #[must_use]
    pub fn recovered(&mut self, now: Instant) -> Option<Recovery> {
        let Failing {
            since,
            failures,
            is_logged,
            ..
        } = self.failing.take()?;
        // The present interval ends within a minute, and the next one is short again.
        self.next_interval = FIRST_INTERVAL;
        self.interval_end = self.interval_end.map(|end| end.min(now + FIRST_INTERVAL));
        if is_logged {
            self.known.clear();
            self.recoveries += 1;
            self.last_line = None;
        }
        is_logged.then(|| Recovery {
            lasted: now.saturating_duration_since(since),
            failures,
        })
    }
}

/// Hashes a text without its numbers and ids. These are the longest runs of hexadecimal digits,
/// hyphens and dots that contain a decimal digit.
fn key(failure: impl Display) -> u64 {
    let mut text = String::new();
    // Only the `Display` of a user's error can fail; the text that it has written before counts.
    let _ = write!(text, "{failure}");
    let can_be_in_number = |byte: &u8| byte.is_ascii_hexdigit() || b"-.".contains(byte);
    let mut hasher = DefaultHasher::new();
    for part in text
        .as_bytes()
        .chunk_by(|one, next| can_be_in_number(one) == can_be_in_number(next))
    {
        let is_number = can_be_in_number(&part[0]) && part.iter().any(u8::is_ascii_digit);
        if !is_number {
            part.hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// The interval of the log lines about one outage, for all clients.
pub(crate) const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The time during which a client has no confirmed connection: before its first session, while the
/// session is suspended, or after the loss of a session.
///
/// Reads no clock: methods get the time as an argument.
#[derive(Debug, Clone)]
pub(crate) struct Outage {
    since: ClockInstant,
    /// The cause, as far as known: until an attempt has failed, the latest report about the current
    /// attempt; after that, the cause of the last failed attempt.
    cause: Option<String>,
    has_failed: bool,
    next_line: ClockInstant,
    /// The interval of the log lines.
    log_interval: Duration,
}

impl Outage {
    pub(crate) fn begin(now: ClockInstant, cause: Option<String>, log_interval: Duration) -> Self {
        Self {
            since: now,
            cause,
            has_failed: false,
            next_line: now + log_interval,
            log_interval,
        }
    }

    pub(crate) fn lasted(&self, now: ClockInstant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    pub(crate) fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// Whether an attempt to connect has failed since the outage began.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Records a report about the current attempt as the cause. Ignored once an attempt has failed,
    /// because the cause of a failed attempt covers all servers.
    pub(crate) fn record_progress(&mut self, cause: &str) {
        if !self.has_failed {
            self.cause = Some(cause.to_owned());
        }
    }

    /// Records a failed attempt. Returns whether to log it: the first one, and then one in each
    /// interval.
    pub(crate) fn failed(&mut self, cause: &str, now: ClockInstant) -> bool {
        self.cause = Some(cause.to_owned());
        if !self.has_failed {
            self.has_failed = true;
            self.next_line = now;
        }
        self.is_due(now)
    }

    /// When the next log line is due.
    pub(crate) fn next_line(&self) -> ClockInstant {
        self.next_line
    }

    /// Whether a log line is due. If so, the next one is due after another interval.
    pub(crate) fn is_due(&mut self, now: ClockInstant) -> bool {
        let is_due = now >= self.next_line;
        if is_due {
            self.next_line = now + self.log_interval;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reports these failures to `log`, and returns the seconds of the logged ones.
    fn lines(
        log: &mut FailureLog,
        start: Instant,
        failures: impl IntoIterator<Item = (u64, String)>,
    ) -> Vec<u64> {
        failures
            .into_iter()
            .filter(|(second, text): &(u64, String)| {
                log.failed(text, start + Duration::from_secs(*second))
            })
            .map(|(second, _)| second)
            .collect()
    }

    #[test]
    fn texts_that_differ_in_more_than_numbers_and_ids_are_different_failures() {
        let same = |one: &str, other: &str| key(one) == key(other);
        assert!(same(
            "/a/_c_abcd0000-abcd-4bcd-abcd-abcdefabcdef-latch-",
            "/a/_c_12345678-1234-1234-1234-123456789012-latch-"
        ));
        assert!(same(
            "after 1.5s in session 0x1a2b",
            "after 30s in session 0xff00"
        ));
        assert!(!same(
            "no permission to read /a",
            "no permission to read /b"
        ));
        assert!(!same("add", "dead"));
    }

    #[test]
    fn an_unchanged_failure_is_logged_at_growing_intervals_and_its_recovery_once() {
        let start = Instant::now();
        let mut log = FailureLog::default();
        assert_eq!(log.recovered(start), None);
        let logged = lines(
            &mut log,
            start,
            (0..20_000).map(|second| {
                (
                    second,
                    format!("no permission to create /leaders/_c_{second:032x}-latch-"),
                )
            }),
        );
        assert_eq!(
            logged,
            [0, 60, 180, 420, 900, 1860, 3780, 7380, 10980, 14580, 18180]
        );
        let end = start + Duration::from_secs(20_000);
        let recovery = Recovery {
            lasted: Duration::from_secs(20_000),
            failures: 20_000,
        };
        assert_eq!(
            (log.recovered(end), log.recovered(end)),
            (Some(recovery), None)
        );
    }

    #[test]
    fn a_task_that_fails_and_recovers_again_and_again_is_logged_three_times_a_minute() {
        let start = Instant::now();
        let mut log = FailureLog::default();
        let mut failures = Vec::new();
        let mut recoveries = Vec::new();
        for second in 0..180 {
            let now = start + Duration::from_secs(second);
            if log.failed("denied", now) {
                failures.push(second);
            }
            if log.recovered(now).is_some() {
                recoveries.push(second);
            }
        }
        assert_eq!(failures, recoveries);
        assert_eq!(failures, [0, 1, 2, 60, 61, 62, 120, 121, 122]);
    }

    #[test]
    fn the_first_failure_is_logged_immediately_and_later_ones_once_a_minute() {
        let start = ClockInstant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut outage = Outage::begin(start, None, LOG_INTERVAL);
        assert_eq!(outage.next_line(), after(60));
        let lines: Vec<_> = (1..=150)
            .filter(|second| outage.failed("refused", after(*second)))
            .collect();
        assert_eq!(lines, [1, 61, 121]);
        assert_eq!(outage.next_line(), after(181));
        assert_eq!(
            (outage.cause(), outage.lasted(after(150))),
            (Some("refused"), Duration::from_secs(150))
        );
    }

    #[test]
    fn a_running_attempt_does_not_replace_the_cause_of_a_failed_one() {
        let now = ClockInstant::now();
        let mut outage = Outage::begin(now, Some("the connection broke".to_owned()), LOG_INTERVAL);
        outage.record_progress("zk1: no reply yet");
        assert_eq!(outage.cause(), Some("zk1: no reply yet"));
        outage.failed("zk1: no reply; zk2: refused", now);
        outage.record_progress("zk2: refused");
        assert_eq!(outage.cause(), Some("zk1: no reply; zk2: refused"));
    }

    #[derive(Debug, Clone)]
    enum Event {
        Failed(u8),
        Recovered,
    }

    fn events() -> impl Strategy<Value = Vec<(Duration, Event)>> {
        let event =
            prop_oneof![8 => (b'g'..b'z').prop_map(Event::Failed), 2 => Just(Event::Recovered)];
        let pause = prop_oneof![0..2_000_u64, 0..100_000_u64, 0..10_000_000_u64];
        proptest::collection::vec((pause.prop_map(Duration::from_millis), event), 1..300)
    }

    proptest! {
        /// However a task fails and recovers, the number of lines is bounded. Once the task works
        /// again, the last line is not about a failure. During a failure, the last line is about a
        /// recovery for at most a minute, and about another failure for at most an hour, even if
        /// each failure is reported only once, and again only when it is due.
        #[test]
        fn the_lines_are_bounded_and_the_last_one_is_true_within_a_minute(events in events()) {
            let mut now = Instant::now();
            let mut log = FailureLog::default();
            let mut failures: Vec<Instant> = Vec::new();
            // The failure that the last line names; `None` after a recovery.
            let mut last_line: Option<u8> = None;
            // The present failure, and when it began.
            let mut present: Option<(u8, Instant)> = None;
            for (pause, event) in events {
                let next = now + pause;
                if let (Some((kind, since)), Some(due)) = (present, log.due()) {
                    let longest = if last_line.is_none() { FIRST_INTERVAL } else { LONGEST_INTERVAL };
                    prop_assert!(due - since <= longest);
                    if due <= next {
                        now = due.max(now);
                        prop_assert!(log.failed(char::from(kind), now));
                        failures.push(now);
                        last_line = Some(kind);
                    }
                }
                if log.due().is_none() {
                    prop_assert_eq!(last_line, present.map(|(kind, _)| kind));
                }
                now = next;
                match event {
                    Event::Failed(kind) => {
                        if log.failed(char::from(kind), now) {
                            failures.push(now);
                            last_line = Some(kind);
                        }
                        present = Some((kind, present.filter(|(last, _)| *last == kind).map_or(now, |(_, since)| since)));
                    }
                    Event::Recovered => {
                        // One recovery after each logged failure.
                        prop_assert_eq!(log.recovered(now).is_some(), last_line.take().is_some());
                        present = None;
                    }
                }
                let in_last_minute = failures.iter().filter(|at| now.saturating_duration_since(**at) < FIRST_INTERVAL);
                prop_assert!(in_last_minute.count() <= 2 * MOST_LOGGED);
            }
        }
    }
}
