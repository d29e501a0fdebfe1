//! Settings of a test's server.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use super::in_process;
#[cfg(feature = "simulation")]
use crate::simulation::SimulatedServer;
use crate::{
    distribution::Distribution,
    error::Error,
    ports::Port,
    real::RealServer,
    server::TestingServer,
    server_kind::ServerKind,
    settings::{ServerTls, Settings},
};

/// Settings for a [`TestingServer`].
#[derive(Debug, Clone, Default)]
#[must_use = "call `start`"]
pub struct TestingServerBuilder {
    kind: Option<ServerKind>,
    settings: Settings,
}

impl TestingServerBuilder {
    /// Sets the kind of server. Overrides the environment variable
    /// [`SERVER_VARIABLE`](crate::SERVER_VARIABLE).
    pub fn kind(mut self, kind: ServerKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// ZooKeeper's unit of time, in whole milliseconds. Defaults to 100 ms.
    ///
    /// The server rounds session expiry up to whole ticks, and grants no session timeout below two
    /// ticks.
    pub fn tick_time(mut self, tick: Duration) -> Self {
        self.settings.set_tick_time(tick);
        self
    }

    /// A line of `zoo.cfg`. The last value for a key counts.
    ///
    /// The embedded server knows `tickTime`, `minSessionTimeout`, `maxSessionTimeout` and
    /// `extendedTypesEnabled`. It ignores keys about ensembles, disks or logs. Any other key makes
    /// its start fail. `clientPort` makes the start of a server of any kind fail.
    pub fn property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.config.insert(key.into(), value.into());
        self
    }

    /// A system property of the server's JVM, such as `zookeeper.extendedTypesEnabled`.
    ///
    /// The embedded server has no JVM. It knows this property, `jute.maxbuffer`,
    /// `znode.container.checkIntervalMs`, `znode.container.maxNeverUsedIntervalMs`,
    /// `zookeeper.nio.sessionlessCnxnTimeout` and `zookeeper.watchManagerName`, and ignores properties about disks or logs. Any other property
    /// makes its start fail.
    pub fn system_property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.system.insert(key.into(), value.into());
        self
    }

    /// Adds an option of a real server's JVM, such as `-Xmx1g`. It overrides the default options.
    /// The embedded server has no JVM.
    pub fn java_option(mut self, option: impl Into<String>) -> Self {
        self.settings.java.push(option.into());
        self
    }

    /// The parent directory of a real server's data: an existing directory, for example in a file
    /// system in memory. Defaults to the system's directory for temporary files. The embedded
    /// server keeps its data in memory.
    pub fn data_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.settings.data = Some(directory.into());
        self
    }

    /// How often the server removes empty containers and expired TTL nodes. Defaults to ZooKeeper's
    /// default, one minute.
    pub fn container_check_interval(self, interval: Duration) -> Self {
        self.system_property(
            "znode.container.checkIntervalMs",
            interval.as_millis().to_string(),
        )
    }

    /// Also serves TLS, on a separate port: [`TestingServer::secure_connect_string`]. The other
    /// port stays without TLS.
    ///
    /// Only for a real server. The embedded one does not support TLS, and its start fails.
    pub fn tls(mut self, tls: ServerTls) -> Self {
        self.settings.tls = Some(tls);
        self
    }

    /// Starts the server and waits until it is ready.
    ///
    /// # Errors
    ///
    /// - [`Error::Kind`] when no kind was chosen here and the environment names an unknown one.
    /// - [`Error::Dialect`] when the environment names an unknown dialect.
    /// - [`Error::Property`] when the embedded server does not support a setting, or TLS is
    ///   requested.
    /// - [`Error::NoSimulation`] when a simulated server is requested, and this crate was built
    ///   without the feature `simulation`.
    /// - [`Error::NotFound`] when a real server is requested and ZooKeeper or Java is not
    ///   installed.
    /// - Other errors when the server is not ready within 60 s.
    pub async fn start(self) -> Result<TestingServer, Error> {
        let kind = self.kind.map_or_else(ServerKind::from_environment, Ok)?;
        let server = match kind {
            ServerKind::Embedded => {
                let begin = Instant::now();
                TestingServer::of_in_process(in_process::embedded(&self.settings)?.start()?, begin)
            }
            #[cfg(feature = "simulation")]
            ServerKind::Simulated => {
                let begin = Instant::now();
                let settings = in_process::embedded(&self.settings)?.settings()?;
                TestingServer::of_in_process(SimulatedServer::start(settings)?, begin)
            }
            #[cfg(not(feature = "simulation"))]
            ServerKind::Simulated => return Err(Error::NoSimulation),
            ServerKind::Real => {
                let real = RealServer::prepare(
                    Distribution::find()?,
                    self.settings,
                    Port::reserve()?,
                    None,
                )?;
                let server = TestingServer::of_real(real);
                server.launch()?;
                server
            }
        };
        server.wait_until_serving().await?;
        Ok(server)
    }
}
