//! How long a connection has answered nothing.

use std::time::Duration;

use crate::clock::ClockInstant;

/// How long a connection has left probes unanswered: since the oldest that was sent after its last answer.
///
/// Not since that answer. A process that has stood still has sent no probe meanwhile, so none is unanswered but one that
/// was on its way.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    since: Option<ClockInstant>,
}

impl Silence {
    /// A probe was sent.
    pub(crate) fn asked(&mut self, at: ClockInstant) {
        self.since.get_or_insert(at);
    }

    /// A probe was answered; or the connection is another one, which has not been asked yet.
    pub(crate) fn end(&mut self) {
        self.since = None;
    }

    /// How long it has lasted by `now`.
    pub(crate) fn duration(&self, now: ClockInstant) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn silence_begins_with_the_oldest_probe_that_is_unanswered() {
        let begun = ClockInstant::now();
        let mut silence = Silence::default();
        silence.asked(begun);
        silence.asked(begun + SECOND);
        assert_eq!(silence.duration(begun + 3 * SECOND), 3 * SECOND);
        silence.end();
        silence.asked(begun + 4 * SECOND);
        assert_eq!(silence.duration(begun + 6 * SECOND), 2 * SECOND);
        silence.end();
        // An hour without a probe, as of a process that stands still, is no silence.
        assert_eq!(silence.duration(begun + 3_600 * SECOND), Duration::ZERO);
    }
}
