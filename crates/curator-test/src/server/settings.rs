//! The settings of a server, in ZooKeeper's terms.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use crate::server::tls::ServerTls;

/// Lines of `zoo.cfg` and system properties of the JVM. See `properties.rs` for their effect on the
/// embedded server.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) config: BTreeMap<String, String>,
    pub(crate) system: BTreeMap<String, String>,
    /// Additional options of the JVM.
    pub(crate) java: Vec<String>,
    /// The parent of the data directory; by default the system's directory for temporary files.
    pub(crate) data: Option<PathBuf>,
    /// The settings of a second port with TLS, if there is one.
    pub(crate) tls: Option<ServerTls>,
}

impl Default for Settings {
    fn default() -> Self {
        let config = [
            ("tickTime", "100"),
            // How many ticks a member may lag behind. High, so that an ensemble keeps its quorum on
            // a loaded machine.
            ("initLimit", "100"),
            ("syncLimit", "20"),
            ("maxSessionTimeout", "60000"),
            ("maxClientCnxns", "0"),
            ("admin.enableServer", "false"),
            ("4lw.commands.whitelist", "*"),
            ("extendedTypesEnabled", "true"),
        ];
        let system = [
            ("java.net.preferIPv4Stack", "true"),
            // The data need not survive a power failure.
            ("zookeeper.forceSync", "no"),
            ("zookeeper.preAllocSize", "1024"),
            // The selector threads read from and write to sockets themselves, so that a request
            // needs fewer switches of threads: a server takes up to a third less processor time. In
            // exchange, it reads from fewer connections at a time.
            ("zookeeper.nio.numWorkerThreads", "0"),
            // JMX is not used.
            ("zookeeper.jmx.log4j.disable", "true"),
        ];
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        Self {
            config: config.map(owned).into(),
            system: system.map(owned).into(),
            java: Vec::new(),
            data: None,
            tls: None,
        }
    }
}

impl Settings {
    pub(crate) fn set_tick_time(&mut self, tick: Duration) {
        self.config
            .insert("tickTime".to_owned(), tick.as_millis().max(1).to_string());
    }
}
