//! Settings of an embedded server.

use std::time::Duration;

use super::{EmbeddedServer, sessions::Millis};
use crate::error::Error;

/// Settings for an [`EmbeddedServer`].
#[derive(Debug, Clone, Copy, Default)]
#[must_use = "call `start`"]
pub struct EmbeddedServerBuilder {
    settings: Settings,
}

/// What a handshake takes.
const SHORTEST_FRAME: usize = 64;

/// What a server goes by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    tick: Duration,
    /// Shortest and longest; the shortest is two ticks if not set.
    pub(crate) session_timeouts: (Option<Duration>, Duration),
    pub(crate) max_frame: usize,
    container_check: Duration,
    pub(crate) sessionless_timeout: Duration,
    pub(crate) extended_types: bool,
    pub(crate) stats_in_transactions: bool,
    pub(crate) multi_read: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tick: Duration::from_millis(100),
            session_timeouts: (None, Duration::from_secs(60)),
            max_frame: 0xf_ffff,
            container_check: Duration::from_secs(60),
            sessionless_timeout: Duration::from_secs(10),
            extended_types: true,
            stats_in_transactions: true,
            multi_read: true,
        }
    }
}

impl EmbeddedServerBuilder {
    /// ZooKeeper's unit of time, in whole milliseconds; 100 ms if not set.
    ///
    /// The server rounds expiry up to whole ticks.
    pub fn tick_time(mut self, tick: Duration) -> Self {
        self.settings.tick = tick;
        self
    }

    /// The shortest and the longest session timeout that is granted; two ticks and 60 s if not set.
    pub fn session_timeouts(mut self, min: Duration, max: Duration) -> Self {
        self.settings.session_timeouts = (Some(min), max);
        self
    }

    /// The longest frame that is accepted, in bytes: ZooKeeper's `jute.maxbuffer`; 1 MiB less one byte if not set. Who
    /// sends a longer one is disconnected.
    pub fn max_frame(mut self, bytes: usize) -> Self {
        self.settings.max_frame = bytes;
        self
    }

    /// How often the server removes empty containers and TTL nodes that are over; a minute if not set.
    pub fn container_check_interval(mut self, interval: Duration) -> Self {
        self.settings.container_check = interval;
        self
    }

    /// How long a connection may be open before its first request; 10 s if not set. ZooKeeper's
    /// `zookeeper.nio.sessionlessCnxnTimeout`.
    pub fn sessionless_timeout(mut self, timeout: Duration) -> Self {
        self.settings.sessionless_timeout = timeout;
        self
    }

    /// Whether nodes can have a time to live; they can if not set. (The real server has to be told so.)
    pub fn extended_types(mut self, enabled: bool) -> Self {
        self.settings.extended_types = enabled;
        self
    }

    /// Whether the answer to a transaction has the stats of the nodes that it creates; it has if not set. Servers before
    /// 3.7.2, and 3.8 before 3.8.2, tell the paths alone (ZOOKEEPER-4026), unless they are containers or have a time to live.
    pub fn stats_in_transactions(mut self, told: bool) -> Self {
        self.settings.stats_in_transactions = told;
        self
    }

    /// Whether the server knows `multiRead`; it does if not set. Servers before 3.6 do not: they answer `Unimplemented` and
    /// close the connection.
    pub fn multi_read(mut self, known: bool) -> Self {
        self.settings.multi_read = known;
        self
    }

    /// Starts the server. It serves when this returns, after a millisecond or so.
    ///
    /// # Errors
    ///
    /// [`Error::Property`] when the shortest session timeout is longer than the longest, or when no handshake fits into a
    /// frame. Others when there is no free port, or when the system gives no thread.
    pub fn start(self) -> Result<EmbeddedServer, Error> {
        self.settings.check()?;
        EmbeddedServer::start_with(self.settings)
    }
}

impl Settings {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let refused =
            |key: &str, value: String, problem: String| Err(Error::Property { key: key.to_owned(), value, problem });
        let (min, max) = (self.shortest_timeout(), millis(self.session_timeouts.1));
        if min > max {
            return refused(
                "minSessionTimeout",
                min.to_string(),
                format!("it must not exceed maxSessionTimeout, {max}"),
            );
        }
        if self.max_frame < SHORTEST_FRAME {
            let problem = format!("it must be at least {SHORTEST_FRAME}, or no handshake fits into a frame");
            return refused("jute.maxbuffer", self.max_frame.to_string(), problem);
        }
        Ok(())
    }

    /// In milliseconds.
    fn shortest_timeout(&self) -> Millis {
        self.session_timeouts.0.map_or(2 * self.tick(), millis)
    }

    pub(crate) fn tick(&self) -> Millis {
        millis(self.tick).max(1)
    }

    pub(crate) fn container_check(&self) -> Millis {
        millis(self.container_check).max(1)
    }

    /// The timeout that a client gets who asks for one, in milliseconds.
    pub(crate) fn negotiate(&self, asked: i32) -> Millis {
        let longest = millis(self.session_timeouts.1);
        u64::try_from(asked).unwrap_or(0).clamp(self.shortest_timeout().min(longest), longest)
    }
}

fn millis(duration: Duration) -> Millis {
    // A client's number of milliseconds has 31 bits.
    duration.as_millis().min(i32::MAX as u128) as Millis
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_brought_into_range() {
        let settings = Settings::default();
        let granted = [-1, 0, 199, 200, 30_000, 60_001].map(|asked| settings.negotiate(asked));
        assert_eq!(granted, [200, 200, 200, 200, 30_000, 60_000]);
    }

    #[test]
    fn settings_that_no_server_can_have_are_refused() {
        let second = Duration::from_secs(1);
        let refused = |builder: EmbeddedServerBuilder| match builder.start() {
            Err(Error::Property { key, .. }) => key,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused(EmbeddedServer::builder().session_timeouts(2 * second, second)), "minSessionTimeout");
        assert_eq!(refused(EmbeddedServer::builder().tick_time(40 * second)), "minSessionTimeout");
        assert_eq!(refused(EmbeddedServer::builder().max_frame(0)), "jute.maxbuffer");
    }
}
