//! Which failures of a background task are logged: a changed one immediately, an unchanged one at growing intervals, the
//! recovery once.

use std::collections::hash_map::DefaultHasher;
use std::fmt::{Display, Write as _};
use std::hash::{Hash as _, Hasher as _};
use std::time::{Duration, Instant};

/// The interval between the first two lines about an unchanged failure. Each further interval is twice the previous one.
const FIRST_INTERVAL: Duration = Duration::from_secs(60);

/// The longest interval.
const LONGEST_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// The number of different failures that are logged immediately in one interval: some tasks fail in a new way each time.
const MOST_KNOWN: usize = 8;

/// Decides which failures of a background task to log, for recipes.
///
/// A failure that was not logged in the present interval is logged immediately; a known one when the interval ends. The
/// first interval is a minute, and each one is twice the previous one, up to an hour. Two texts are the same failure if
/// they differ only in numbers and ids, decimal or hexadecimal. At most 8 different
/// failures are logged immediately in one interval.
///
/// A [recovery](Self::recovered) is logged once, if a failure was logged since the last one. A task that fails again and
/// again within a minute of its recovery logs one failure and one recovery a minute.
///
/// Reads no clock: methods get the time as an argument.
#[derive(Debug, Clone, Default)]
pub struct FailureLog {
    /// Hashes of the failures that were logged in this interval.
    known: Vec<u64>,
    /// When the interval ends. `None` before the first failure.
    interval_end: Option<Instant>,
    next_interval: Duration,
    /// Since the last recovery.
    failing: Option<Failing>,
}

#[derive(Debug, Clone, Copy)]
struct Failing {
    since: Instant,
    failures: u64,
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
            // It has worked for the rest of the interval.
            *self = Self::default();
        }
        let failing = self.failing.get_or_insert(Failing { since: now, failures: 0, is_logged: false });
        failing.failures += 1;
        let failure = key(failure);
        let is_due = self.interval_end.is_none_or(|end| now >= end);
        if is_due {
            self.known.clear();
            let interval = self.next_interval.clamp(FIRST_INTERVAL, LONGEST_INTERVAL);
            self.interval_end = Some(now + interval);
            self.next_interval = 2 * interval;
        }
        let is_new = !self.known.contains(&failure) && self.known.len() < MOST_KNOWN;
        if is_new {
            self.known.push(failure);
            failing.is_logged = true;
        }
        is_new
    }

    /// Records that the task works. Returns what to log: `None` if it has worked before, or if no failure was logged
    /// since the last recovery.
    #[must_use]
    pub fn recovered(&mut self, now: Instant) -> Option<Recovery> {
        let Failing { since, failures, is_logged } = self.failing.take()?;
        // The next failure starts over, unless it follows within a minute.
        self.next_interval = FIRST_INTERVAL;
        self.interval_end = self.interval_end.map(|end| end.min(now + FIRST_INTERVAL));
        is_logged.then(|| Recovery { lasted: now.saturating_duration_since(since), failures })
    }
}

/// A hash of a text without its numbers and ids: the longest parts of digits, the letters a to f, hyphens and dots that have a
/// digit.
fn key(failure: impl Display) -> u64 {
    let mut text = String::new();
    // Only the `Display` of a user's error can fail; the text before counts.
    let _ = write!(text, "{failure}");
    let is_of_number = |byte: &u8| byte.is_ascii_hexdigit() || b"-.".contains(byte);
    let mut hasher = DefaultHasher::new();
    for part in text.as_bytes().chunk_by(|one, next| is_of_number(one) == is_of_number(next)) {
        if !(is_of_number(&part[0]) && part.iter().any(u8::is_ascii_digit)) {
            part.hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The seconds of these failures at which a line is logged.
    fn lines(log: &mut FailureLog, start: Instant, failures: impl IntoIterator<Item = (u64, String)>) -> Vec<u64> {
        let is_logged = |(second, text): &(u64, String)| log.failed(text, start + Duration::from_secs(*second));
        failures.into_iter().filter(is_logged).map(|(second, _)| second).collect()
    }

    #[test]
    fn texts_that_differ_in_more_than_numbers_and_ids_are_different_failures() {
        let same = |one: &str, other: &str| key(one) == key(other);
        assert!(same(
            "/a/_c_abcd0000-abcd-4bcd-abcd-abcdefabcdef-latch-",
            "/a/_c_12345678-1234-1234-1234-123456789012-latch-"
        ));
        assert!(same("after 1.5s in session 0x1a2b", "after 30s in session 0xff00"));
        assert!(!same("no permission to read /a", "no permission to read /b"));
        assert!(!same("add", "dead"));
    }

    #[test]
    fn an_unchanged_failure_is_logged_at_growing_intervals_and_its_recovery_once() {
        let (start, mut log) = (Instant::now(), FailureLog::default());
        assert_eq!(log.recovered(start), None);
        let denied = |second| (second, format!("no permission to create /leaders/_c_{second:032x}-latch-"));
        let logged = lines(&mut log, start, (0..20_000).map(denied));
        assert_eq!(logged, [0, 60, 180, 420, 900, 1860, 3780, 7380, 10980, 14580, 18180]);
        let end = start + Duration::from_secs(20_000);
        let recovery = Recovery { lasted: Duration::from_secs(20_000), failures: 20_000 };
        assert_eq!((log.recovered(end), log.recovered(end)), (Some(recovery), None));
    }

    #[test]
    fn a_changed_failure_is_logged_immediately() {
        let (start, mut log) = (Instant::now(), FailureLog::default());
        let failures = [(0, "denied"), (1, "denied"), (2, "overflow"), (3, "denied"), (4, "overflow"), (60, "denied")];
        let failures = failures.map(|(second, text)| (second, text.to_owned()));
        assert_eq!(lines(&mut log, start, failures), [0, 2, 60]);
    }

    #[test]
    fn a_task_that_fails_and_recovers_again_and_again_is_logged_once_a_minute() {
        let (start, mut log) = (Instant::now(), FailureLog::default());
        let (mut failures, mut recoveries) = (Vec::new(), Vec::new());
        for second in 0..300 {
            let now = start + Duration::from_secs(second);
            if log.failed("denied", now) {
                failures.push(second);
            }
            if log.recovered(now).is_some() {
                recoveries.push(second);
            }
        }
        assert_eq!((&failures, recoveries.len()), (&recoveries, failures.len()));
        assert_eq!(failures, [0, 60, 120, 180, 240]);
    }

    #[derive(Debug, Clone)]
    enum Event {
        Failed(u8),
        Recovered,
    }

    fn events() -> impl Strategy<Value = Vec<(Duration, Event)>> {
        let event = prop_oneof![8 => (b'g'..b'z').prop_map(Event::Failed), 2 => Just(Event::Recovered)];
        let pause = prop_oneof![0..2_000_u64, 0..100_000_u64, 0..10_000_000_u64];
        proptest::collection::vec((pause.prop_map(Duration::from_millis), event), 1..300)
    }

    proptest! {
        /// However a task fails and recovers, the number of lines is bounded, and no failure is missed for long.
        #[test]
        fn the_lines_are_bounded_and_a_failure_is_not_missed_for_long(events in events()) {
            let (mut now, mut log) = (Instant::now(), FailureLog::default());
            let mut logged: Vec<Instant> = Vec::new();
            let mut unreported: Option<Instant> = None;
            let mut is_open = false;
            for (pause, event) in events {
                now += pause;
                match event {
                    Event::Failed(kind) => {
                        if log.failed(char::from(kind), now) {
                            logged.push(now);
                            (unreported, is_open) = (None, true);
                        } else {
                            let since = *unreported.get_or_insert(now);
                            prop_assert!(now - since <= LONGEST_INTERVAL);
                        }
                    }
                    Event::Recovered => {
                        // One recovery for each series of which a failure was logged.
                        prop_assert_eq!(log.recovered(now).is_some(), std::mem::take(&mut is_open));
                        unreported = None;
                    }
                }
                let in_last_minute = logged.iter().filter(|at| now.saturating_duration_since(**at) < FIRST_INTERVAL);
                prop_assert!(in_last_minute.count() <= 2 * MOST_KNOWN);
            }
        }
    }
}
