//! Settings of a server that a test starts.

use std::time::Duration;

use crate::{distribution::Distribution, error::Error, ports::Port, server::TestingServer, settings::Settings};

/// Settings for a [`TestingServer`].
#[derive(Debug, Clone, Default)]
#[must_use = "call `start`"]
pub struct TestingServerBuilder {
    settings: Settings,
}

impl TestingServerBuilder {
    /// ZooKeeper's unit of time, in whole milliseconds; 100 ms if not set.
    ///
    /// The server rounds expiry up to whole ticks, and grants no session timeout below two of them.
    pub fn tick_time(mut self, tick: Duration) -> Self {
        self.settings.set_tick_time(tick);
        self
    }

    /// A line of `zoo.cfg`. The last value of a key counts.
    pub fn property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.config.insert(key.into(), value.into());
        self
    }

    /// A system property of the server's JVM, such as `zookeeper.extendedTypesEnabled`.
    pub fn system_property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.system.insert(key.into(), value.into());
        self
    }

    /// How often the server removes empty containers and TTL nodes that are over; ZooKeeper's own value is a minute.
    pub fn container_check_interval(self, interval: Duration) -> Self {
        self.system_property("znode.container.checkIntervalMs", interval.as_millis().to_string())
    }

    /// Starts the server and waits until it serves.
    ///
    /// # Errors
    ///
    /// When ZooKeeper is not installed, or does not serve within 60 s.
    pub async fn start(self) -> Result<TestingServer, Error> {
        let server = TestingServer::prepare(Distribution::find()?, self.settings, Port::reserve()?, None)?;
        server.launch()?;
        server.wait_until_serving().await?;
        Ok(server)
    }
}
