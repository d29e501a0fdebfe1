//! When a connection of this transport is pinged, and when it is closed because it is silent. No
//! I/O. With every transport, `supervisor/step.rs` closes a silent connection.

use std::time::Duration;

use crate::time::ClockInstant;

/// The times of one connection. The limits are the same as in `zookeeper-client`, so that a
/// simulated client leaves a silent server when the client that users run would.
#[derive(Debug)]
pub(super) struct Heartbeat {
    /// A connection is closed when nothing arrives for this long.
    limit: Duration,
    /// A ping is sent when nothing was sent for this long.
    pause: Duration,
    last_received: ClockInstant,
    last_sent: ClockInstant,
    /// Whether a ping is unanswered.
    is_pinging: bool,
}

/// What a connection must do now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    Ping,
    Close,
}

/// The longest time without a request or a ping.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl Heartbeat {
    /// `longest_share` is the longest time that one server may take to connect.
    pub(super) fn new(
        longest_share: Duration,
        session_timeout: Duration,
        now: ClockInstant,
    ) -> Self {
        let tick = if longest_share > session_timeout * 3 / 5 {
            session_timeout / 20
        } else {
            longest_share / 8
        };
        let tick = tick.max(Duration::from_millis(1));
        let pause = LONGEST_PAUSE.min(3 * tick);
        Self {
            limit: 8 * tick,
            pause,
            last_received: now,
            last_sent: now,
            is_pinging: false,
        }
    }

    pub(super) fn received(&mut self, now: ClockInstant) {
        self.last_received = now;
    }

    pub(super) fn sent(&mut self, now: ClockInstant) {
        self.last_sent = now;
    }

    /// The reply to the ping has arrived.
    pub(super) fn answered(&mut self) {
        self.is_pinging = false;
    }

    /// When to call [`due`](Self::due) again.
    pub(super) fn next(&self) -> ClockInstant {
        let end = self.last_received + self.limit;
        if self.is_pinging {
            end
        } else {
            end.min(self.last_sent + self.pause)
        }
    }

    /// What is due now. A ping counts as sent.
    pub(super) fn due(&mut self, now: ClockInstant) -> Due {
        if now >= self.last_received + self.limit {
            return Due::Close;
        }
        if self.is_pinging || now < self.last_sent + self.pause {
            return Due::Nothing;
        }
        self.last_sent = now;
        self.is_pinging = true;
        Due::Ping
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> ClockInstant {
        ClockInstant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_silent_connection_is_pinged_once_and_closed_after_two_fifths_of_the_session_timeout() {
        let mut heartbeat = Heartbeat::new(Duration::from_secs(15), Duration::from_secs(10), at(0));
        assert_eq!(
            (heartbeat.due(at(1_499)), heartbeat.next()),
            (Due::Nothing, at(1_500))
        );
        assert_eq!(
            (heartbeat.due(at(1_500)), heartbeat.next()),
            (Due::Ping, at(4_000))
        );
        assert_eq!(
            (heartbeat.due(at(3_999)), heartbeat.due(at(4_000))),
            (Due::Nothing, Due::Close)
        );
    }

    #[test]
    fn an_answered_connection_is_pinged_when_nothing_is_sent() {
        let mut heartbeat =
            Heartbeat::new(Duration::from_millis(800), Duration::from_secs(10), at(0));
        assert_eq!(heartbeat.due(at(300)), Due::Ping);
        heartbeat.received(at(310));
        heartbeat.answered();
        heartbeat.sent(at(500));
        assert_eq!(
            (heartbeat.due(at(799)), heartbeat.due(at(800))),
            (Due::Nothing, Due::Ping)
        );
        assert_eq!(
            (heartbeat.next(), heartbeat.due(at(1_110))),
            (at(1_110), Due::Close)
        );
    }
}
