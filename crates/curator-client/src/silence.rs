//! Measures how long a connection has left probes unanswered.

use std::time::Duration;

use crate::clock::ClockInstant;

/// How long a connection has left probes unanswered: the time since the oldest probe sent after its
/// last reply.
///
/// The time does not count from that reply: a process that was stopped has sent no probes
/// meanwhile, so at most a probe that was in flight is unanswered.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    since: Option<ClockInstant>,
}

impl Silence {
    /// Records that a probe was sent.
    pub(crate) fn probe_sent(&mut self, at: ClockInstant) {
        self.since.get_or_insert(at);
    }

    /// Records that a probe was answered, or that there is a new connection, over which no probe
    /// was sent yet.
    pub(crate) fn end(&mut self) {
        self.since = None;
    }

    /// How long the silence has lasted at `now`.
    pub(crate) fn duration(&self, now: ClockInstant) -> Duration {
        self.since
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn silence_begins_with_the_oldest_unanswered_probe() {
        let begun = ClockInstant::now();
        let mut silence = Silence::default();
        silence.probe_sent(begun);
        silence.probe_sent(begun + SECOND);
        assert_eq!(silence.duration(begun + 3 * SECOND), 3 * SECOND);
        silence.end();
        silence.probe_sent(begun + 4 * SECOND);
        assert_eq!(silence.duration(begun + 6 * SECOND), 2 * SECOND);
        silence.end();
        // An hour without a probe, as in a stopped process, does not count.
        assert_eq!(silence.duration(begun + 3_600 * SECOND), Duration::ZERO);
    }
}
