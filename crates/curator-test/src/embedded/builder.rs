//! Settings of an embedded server.

use std::{env, time::Duration};

use super::{EmbeddedServer, protocol::Protocol, sessions::Millis, tree::Rules};
use crate::{
    dialect::{DIALECT_VARIABLE, Dialect, Reaper, Selected, UnknownDialect},
    error::Error,
};

/// Settings for an [`EmbeddedServer`].
#[derive(Debug, Clone, Copy, Default)]
#[must_use = "call `start`"]
pub struct EmbeddedServerBuilder {
    settings: Settings,
}

/// How often an eager server checks its containers.
const EAGER_CHECK: Duration = Duration::from_millis(10);
/// How long an eager server keeps a container that never had a child.
const EAGER_TIMEOUT: Duration = Duration::from_secs(1);

/// The lowest accepted limit of a frame's length. A handshake must fit.
const SHORTEST_FRAME: usize = 64;

/// A server's settings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    tick: Duration,
    /// The bounds of session timeouts. The lower one defaults to two ticks.
    pub(crate) session_timeouts: (Option<Duration>, Duration),
    pub(crate) max_frame: usize,
    container_check: Duration,
    pub(crate) sessionless_timeout: Duration,
    pub(crate) extended_types: bool,
    pub(crate) persistent_watches: bool,
    /// The id of the first session, in place of the dialect's.
    pub(crate) first_session: Option<i64>,
    /// The dialect, and changes of single settings.
    pub(crate) protocol: Protocol,
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
            persistent_watches: true,
            first_session: None,
            protocol: Protocol::of(Dialect::default()),
        }
    }
}

impl EmbeddedServerBuilder {
    /// The server to reproduce, with its bounds of session timeouts. Defaults to
    /// [`Dialect::ZooKeeper3_9`]. Later calls of the other methods change its limits and times.
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.settings.set_dialect(dialect);
        self
    }

    /// The server that the environment variable [`DIALECT_VARIABLE`](crate::DIALECT_VARIABLE) names.
    /// Changes nothing without the variable.
    ///
    /// # Errors
    ///
    /// When the variable has an unknown value, for example an empty one.
    pub fn dialect_from_environment(self) -> Result<Self, UnknownDialect> {
        if env::var_os(DIALECT_VARIABLE).is_none() {
            return Ok(self);
        }
        let selected = Selected::from_environment()?;
        Ok(self.dialect(selected.dialect).reaper(selected.reaper))
    }

    /// Changes how the server removes containers.
    pub(crate) fn reaper(self, reaper: Reaper) -> Self {
        match reaper {
            Reaper::Configured => self,
            Reaper::Eager => self
                .container_check_interval(EAGER_CHECK)
                .unused_container_timeout(EAGER_TIMEOUT),
        }
    }

    /// ZooKeeper's unit of time, in whole milliseconds. Defaults to 100 ms.
    ///
    /// The server rounds session expiry up to whole ticks.
    pub fn tick_time(mut self, tick: Duration) -> Self {
        self.settings.tick = tick;
        self
    }

    /// The shortest and the longest session timeout that the server grants. Defaults to two ticks
    /// and 60 s.
    pub fn session_timeouts(mut self, min: Duration, max: Duration) -> Self {
        self.settings.session_timeouts = (Some(min), max);
        self
    }

    /// The id of the first session; later ones count from it. Defaults to an id that contains the
    /// time on ZooKeeper, and to 1 on the others. A ClickHouse Keeper with the data of a ZooKeeper
    /// (`clickhouse-keeper-converter`) continues the ids of that ZooKeeper, such as `0x1000_0000_0000`.
    pub fn first_session_id(mut self, id: i64) -> Self {
        self.settings.first_session = Some(id);
        self
    }

    /// The longest frame that the server accepts, in bytes: ZooKeeper's `jute.maxbuffer`. Defaults
    /// to 1 MiB less one byte. A client that sends a longer frame is disconnected.
    pub fn max_frame(mut self, bytes: usize) -> Self {
        self.settings.max_frame = bytes;
        self
    }

    /// How often the server removes empty containers and expired TTL nodes. Defaults to one minute.
    pub fn container_check_interval(mut self, interval: Duration) -> Self {
        self.settings.container_check = interval;
        self
    }

    /// How long after the last write of its data the server keeps a container that never had a
    /// child: ZooKeeper's `znode.container.maxNeverUsedIntervalMs`. It is removed at the next
    /// [check](Self::container_check_interval) after this time; never if the time is zero. Defaults
    /// to never, and to five minutes for [`Dialect::ZooKeeper3_10`] (ZOOKEEPER-4915).
    pub fn unused_container_timeout(mut self, timeout: Duration) -> Self {
        self.settings.protocol.unused_container_timeout =
            Some(timeout).filter(|timeout| !timeout.is_zero());
        self
    }

    /// How long a connection may stay open before its first request. Defaults to 10 s. ZooKeeper's
    /// `zookeeper.nio.sessionlessCnxnTimeout`.
    pub fn sessionless_timeout(mut self, timeout: Duration) -> Self {
        self.settings.sessionless_timeout = timeout;
        self
    }

    /// Whether nodes can have a time to live. Defaults to true. (A real server needs
    /// `extendedTypesEnabled` for this.)
    pub fn extended_types(mut self, enabled: bool) -> Self {
        self.settings.extended_types = enabled;
        self
    }

    /// Whether the server's watch manager supports persistent watches. Defaults to true. With
    /// `zookeeper.watchManagerName=org.apache.zookeeper.server.watch.WatchManagerOptimized`, a
    /// server does not: it replies `MarshallingError` to `addWatch`, and the connection stays open.
    pub fn persistent_watches(mut self, supported: bool) -> Self {
        self.settings.persistent_watches = supported;
        self
    }

    /// Starts the server, in about a millisecond. It is ready when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::Property`] when the shortest session timeout is longer than the longest, or when a
    /// frame is too short for a handshake. Other errors when there is no free port, or the system
    /// cannot start a thread.
    pub fn start(self) -> Result<EmbeddedServer, Error> {
        self.settings().and_then(EmbeddedServer::start_with)
    }

    /// The settings, if they are consistent.
    pub(crate) fn settings(self) -> Result<Settings, Error> {
        self.settings.check()?;
        Ok(self.settings)
    }
}

impl Settings {
    pub(crate) fn set_dialect(&mut self, dialect: Dialect) {
        self.protocol = Protocol::of(dialect);
        let (min, max) = match self.protocol.session_timeouts() {
            Some((min, max)) => (Some(min), max),
            None => Self::default().session_timeouts,
        };
        self.session_timeouts = (min, max);
    }

    /// The rules of the tree.
    pub(crate) fn rules(&self) -> Rules {
        let unused = self.protocol.unused_container_timeout;
        Rules {
            family: self.protocol.family(),
            extended_types: self.extended_types,
            unused_container_timeout: unused
                .map(|timeout| i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX)),
            data_length_in_create: self.protocol.data_length_in_create,
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let refused = |key: &str, value: String, problem: String| {
            Err(Error::Property {
                key: key.to_owned(),
                value,
                problem,
            })
        };
        let min = self.shortest_timeout();
        let max = millis(self.session_timeouts.1);
        if min > max {
            return refused(
                "minSessionTimeout",
                min.to_string(),
                format!("it must not exceed maxSessionTimeout, {max}"),
            );
        }
        if self.max_frame < SHORTEST_FRAME {
            let problem = format!("it must be at least {SHORTEST_FRAME}, to hold a handshake");
            return refused("jute.maxbuffer", self.max_frame.to_string(), problem);
        }
        Ok(())
    }

    /// The shortest session timeout that the server grants, in milliseconds.
    fn shortest_timeout(&self) -> Millis {
        self.session_timeouts.0.map_or(2 * self.tick(), millis)
    }

    #[cfg(feature = "simulation")]
    pub(crate) fn set_tick(&mut self, tick: Duration) {
        self.tick = tick;
    }

    #[cfg(feature = "simulation")]
    pub(crate) fn set_container_check(&mut self, interval: Duration) {
        self.container_check = interval;
    }

    pub(crate) fn tick(&self) -> Millis {
        millis(self.tick).max(1)
    }

    pub(crate) fn container_check(&self) -> Millis {
        millis(self.container_check).max(1)
    }

    /// The timeout granted to a client that requests `requested`, in milliseconds.
    pub(crate) fn negotiate(&self, requested: i32) -> Millis {
        let longest = millis(self.session_timeouts.1);
        u64::try_from(requested)
            .unwrap_or(0)
            .clamp(self.shortest_timeout().min(longest), longest)
    }
}

fn millis(duration: Duration) -> Millis {
    // A client's timeout in milliseconds has 31 bits.
    duration.as_millis().min(i32::MAX as u128) as Millis
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_refused_by_name() {
        let second = Duration::from_secs(1);
        let refused = |builder: EmbeddedServerBuilder| match builder.start() {
            Err(Error::Property { key, .. }) => key,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            refused(EmbeddedServer::builder().session_timeouts(2 * second, second)),
            "minSessionTimeout"
        );
        assert_eq!(
            refused(EmbeddedServer::builder().tick_time(40 * second)),
            "minSessionTimeout"
        );
        assert_eq!(
            refused(EmbeddedServer::builder().max_frame(0)),
            "jute.maxbuffer"
        );
    }

    #[test]
    fn unused_containers_are_never_removed_if_the_time_is_zero() {
        let timeout =
            |builder: EmbeddedServerBuilder| builder.settings.rules().unused_container_timeout;
        let builder = EmbeddedServer::builder().dialect(Dialect::ZooKeeper3_10);
        assert_eq!(timeout(builder), Some(300_000));
        assert_eq!(
            timeout(builder.unused_container_timeout(Duration::ZERO)),
            None
        );
    }
}
