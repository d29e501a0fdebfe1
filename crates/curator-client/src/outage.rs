//! An outage: its start, its cause, and when it is logged next.

use std::time::Duration;

use crate::clock::ClockInstant;

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
        if !std::mem::replace(&mut self.has_failed, true) {
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
    use super::*;

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
}
