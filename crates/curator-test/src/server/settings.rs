//! What a server is started with, in ZooKeeper's terms.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use crate::server::tls::ServerTls;

/// Lines of `zoo.cfg` and system properties of the JVM. For the embedded server `properties.rs` says what they mean.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) config: BTreeMap<String, String>,
    pub(crate) system: BTreeMap<String, String>,
    /// Further options of the JVM.
    pub(crate) java: Vec<String>,
    /// Where the directory with the data is made, if not where temporary ones are.
    pub(crate) data: Option<PathBuf>,
    /// How a second port speaks TLS, if there is one.
    pub(crate) tls: Option<ServerTls>,
}

impl Default for Settings {
    fn default() -> Self {
        let config = [
            ("tickTime", "100"),
            // How many ticks a member may lag behind: a loaded machine must not lose its quorum.
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
            // Nobody manages these servers through JMX.
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
        self.config.insert("tickTime".to_owned(), tick.as_millis().max(1).to_string());
    }
}
