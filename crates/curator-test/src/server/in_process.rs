//! A server in the test's process: what a `TestingServer` needs of it, and which of ZooKeeper's
//! settings it has.

use std::{net::SocketAddr, str::FromStr, time::Duration};

use crate::{
    dialect::{Dialect, Selected},
    embedded::{EmbeddedServer, EmbeddedServerBuilder, Protocol},
    error::Error,
    server_kind::ServerKind,
    settings::Settings,
};

/// What a [`TestingServer`](super::TestingServer) needs of a server in its process. `TestingServer`
/// documents the methods, under the same names.
pub(crate) trait InProcess: std::fmt::Debug + Send + Sync {
    fn kind(&self) -> ServerKind;

    fn as_embedded(&self) -> Option<&EmbeddedServer>;

    fn address(&self) -> SocketAddr;

    fn is_running(&self) -> bool;

    fn stop(&self);

    fn restart(&self) -> Result<(), Error>;

    fn pause(&self);

    fn resume(&self);

    fn set_create_counter(&self, path: &str, counter: i32) -> Result<(), Error>;

    /// Replies immediately or not at all, without the network, and counts no packet.
    fn four_letter_word(&self, word: &str) -> Result<String, Error>;
}

/// Implements [`InProcess`] with the server's methods of the same names.
macro_rules! in_process {
    ($server:ty, $kind:expr, $as_embedded:expr) => {
        impl InProcess for $server {
            fn kind(&self) -> ServerKind {
                $kind
            }

            fn as_embedded(&self) -> Option<&EmbeddedServer> {
                $as_embedded(self)
            }

            fn address(&self) -> SocketAddr {
                self.address()
            }

            fn is_running(&self) -> bool {
                self.is_running()
            }

            fn stop(&self) {
                self.stop();
            }

            fn restart(&self) -> Result<(), Error> {
                self.restart()
            }

            fn pause(&self) {
                self.pause();
            }

            fn resume(&self) {
                self.resume();
            }

            fn set_create_counter(&self, path: &str, counter: i32) -> Result<(), Error> {
                self.set_create_counter(path, counter)
            }

            fn four_letter_word(&self, word: &str) -> Result<String, Error> {
                self.four_letter_word(word)
            }
        }
    };
}

in_process!(EmbeddedServer, ServerKind::Embedded, Some);
#[cfg(feature = "simulation")]
in_process!(
    crate::simulation::SimulatedServer,
    ServerKind::Simulated,
    |_| None
);

/// Settings of ensembles, disks, threads, JVMs or logs. Any value is accepted, without effect.
const WITHOUT_EFFECT: [&str; 11] = [
    "initLimit",
    "syncLimit",
    "snapCount",
    "preAllocSize",
    "forceSync",
    "autopurge.snapRetainCount",
    "autopurge.purgeInterval",
    "java.net.preferIPv4Stack",
    "jmx.log4j.disable",
    "nio.numWorkerThreads",
    "standaloneEnabled",
];

/// Settings for which the embedded server supports only this value.
const FIXED: [(&str, &str); 3] = [
    ("maxClientCnxns", "0"),
    ("admin.enableServer", "false"),
    ("4lw.commands.whitelist", "*"),
];

/// The default lower bound of session timeouts, in ticks.
const MIN_TICKS: u32 = 2;
/// The default upper bound of session timeouts, in ticks.
const MAX_TICKS: u32 = 20;

/// The settings that the embedded server supports.
#[derive(Debug, Default, PartialEq, Eq)]
struct EmbeddedSettings {
    tick: Duration,
    min_session: Option<Duration>,
    max_session: Option<Duration>,
    max_frame: Option<usize>,
    container_check: Option<Duration>,
    unused_container: Option<Duration>,
    sessionless: Option<Duration>,
    extended_types: bool,
    optimized_watches: bool,
}

/// An embedded server with these settings, in the dialect that the environment selects.
///
/// # Errors
///
/// [`Error::Property`] for an unsupported setting or value, [`Error::Dialect`] for an unknown
/// dialect.
pub(crate) fn embedded(settings: &Settings) -> Result<EmbeddedServerBuilder, Error> {
    if let Some(tls) = &settings.tls {
        return Err(refused(
            "ssl.clientAuth",
            tls.client_auth.name(),
            "it does not support TLS",
        ));
    }
    let known = EmbeddedSettings::read(settings)?;
    let Selected { dialect, reaper } = Selected::from_environment()?;
    let (min, max) = known.session_timeouts(dialect)?;
    let mut builder = EmbeddedServer::builder()
        .dialect(dialect)
        .tick_time(known.tick)
        .session_timeouts(min, max)
        .extended_types(known.extended_types)
        .persistent_watches(!known.optimized_watches);
    if let Some(bytes) = known.max_frame {
        builder = builder.max_frame(bytes);
    }
    if let Some(interval) = known.container_check {
        builder = builder.container_check_interval(interval);
    }
    if let Some(timeout) = known.unused_container {
        builder = builder.unused_container_timeout(timeout);
    }
    if let Some(timeout) = known.sessionless {
        builder = builder.sessionless_timeout(timeout);
    }
    Ok(builder.reaper(reaper))
}

impl EmbeddedSettings {
    /// Reads the settings. As in ZooKeeper, an unknown line of `zoo.cfg` is a system property named
    /// `zookeeper.<key>`, which overrides one from the JVM's command line.
    fn read(settings: &Settings) -> Result<Self, Error> {
        let mut known = Self::default();
        for (key, value) in &settings.system {
            known.system(key, value, key)?;
        }
        for (key, value) in &settings.config {
            match key.as_str() {
                "tickTime" => {
                    known.tick = Duration::from_millis(number::<u32>(key, value)?.max(1).into());
                }
                "minSessionTimeout" => known.min_session = timeout(key, value)?,
                "maxSessionTimeout" => known.max_session = timeout(key, value)?,
                _ => known.system(&format!("zookeeper.{key}"), value, key)?,
            }
        }
        Ok(known)
    }

    /// Applies a system property. Errors name it `key`.
    fn system(&mut self, property: &str, value: &str, key: &str) -> Result<(), Error> {
        let plain = property.strip_prefix("zookeeper.").unwrap_or(property);
        match property {
            "jute.maxbuffer" => self.max_frame = Some(number(key, value)?),
            "znode.container.checkIntervalMs" => {
                self.container_check =
                    Some(Duration::from_millis(number::<u32>(key, value)?.into()));
            }
            "znode.container.maxNeverUsedIntervalMs" => {
                self.unused_container =
                    Some(Duration::from_millis(number::<u32>(key, value)?.into()));
            }
            "zookeeper.nio.sessionlessCnxnTimeout" => {
                self.sessionless = Some(Duration::from_millis(number::<u32>(key, value)?.into()));
            }
            "zookeeper.extendedTypesEnabled" => self.extended_types = flag(key, value)?,
            "zookeeper.watchManagerName" => self.optimized_watches = is_optimized(key, value)?,
            _ if WITHOUT_EFFECT.contains(&plain) => {}
            _ => match FIXED.iter().find(|(fixed, _)| *fixed == plain) {
                Some((_, only)) if *only == value => {}
                Some((_, only)) => {
                    return Err(refused(
                        key,
                        value,
                        format!("the value can only be `{only}`"),
                    ));
                }
                None => return Err(refused(key, value, "it has no such setting")),
            },
        }
        Ok(())
    }

    /// The bounds of session timeouts. Servers other than ZooKeeper have no bounds in ticks.
    fn session_timeouts(&self, dialect: Dialect) -> Result<(Duration, Duration), Error> {
        let max = self.max_session.unwrap_or(self.tick * MAX_TICKS);
        let shortest = Protocol::of(dialect).session_timeouts();
        let shortest = shortest.map_or(self.tick * MIN_TICKS, |(min, _)| min.min(max));
        let min = self.min_session.unwrap_or(shortest);
        if min > max {
            let problem = format!(
                "it is more than maxSessionTimeout, which is {}",
                max.as_millis()
            );
            return Err(refused(
                "minSessionTimeout",
                &min.as_millis().to_string(),
                problem,
            ));
        }
        Ok((min, max))
    }
}

fn number<T: FromStr>(key: &str, value: &str) -> Result<T, Error> {
    value
        .trim()
        .parse()
        .map_err(|_| refused(key, value, "a non-negative whole number is expected"))
}

/// A session timeout. As in ZooKeeper, `-1` means unset.
fn timeout(key: &str, value: &str) -> Result<Option<Duration>, Error> {
    if value.trim() == "-1" {
        return Ok(None);
    }
    Ok(Some(Duration::from_millis(
        number::<u32>(key, value)?.into(),
    )))
}

fn flag(key: &str, value: &str) -> Result<bool, Error> {
    value
        .trim()
        .parse()
        .map_err(|_| refused(key, value, "`true` or `false` is expected"))
}

/// Whether the watch manager is the one without persistent watches.
fn is_optimized(key: &str, value: &str) -> Result<bool, Error> {
    match value.strip_prefix("org.apache.zookeeper.server.watch.") {
        Some("WatchManager") => Ok(false),
        Some("WatchManagerOptimized") => Ok(true),
        _ => Err(refused(
            key,
            value,
            "one of ZooKeeper's watch managers is expected",
        )),
    }
}

fn refused(key: &str, value: &str, problem: impl Into<String>) -> Error {
    Error::Property {
        key: key.to_owned(),
        value: value.to_owned(),
        problem: problem.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(config: &[(&str, &str)], system: &[(&str, &str)]) -> Result<EmbeddedSettings, Error> {
        let mut settings = Settings::default();
        settings.config.extend(
            config
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned())),
        );
        settings.system.extend(
            system
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned())),
        );
        EmbeddedSettings::read(&settings)
    }

    /// Asserts that the settings are refused with an error that names the setting `named`. Returns
    /// the error's text.
    fn refusal(named: &str, config: &[(&str, &str)], system: &[(&str, &str)]) -> String {
        let error = read(config, system)
            .and_then(|known| known.session_timeouts(Dialect::default()))
            .unwrap_err();
        assert!(
            matches!(&error, Error::Property { key, .. } if key == named),
            "{error}"
        );
        error.to_string()
    }

    #[test]
    fn settings_are_translated_for_the_embedded_server() {
        let config = [
            ("tickTime", "250"),
            ("minSessionTimeout", "300"),
            ("maxSessionTimeout", "-1"),
        ];
        let system = [
            ("jute.maxbuffer", "4096"),
            ("znode.container.checkIntervalMs", "50"),
            ("znode.container.maxNeverUsedIntervalMs", "70"),
            ("zookeeper.nio.sessionlessCnxnTimeout", "300"),
            (
                "zookeeper.watchManagerName",
                "org.apache.zookeeper.server.watch.WatchManagerOptimized",
            ),
        ];
        let known = read(&config, &system).unwrap();
        let expected = EmbeddedSettings {
            tick: Duration::from_millis(250),
            min_session: Some(Duration::from_millis(300)),
            max_session: None,
            max_frame: Some(4096),
            container_check: Some(Duration::from_millis(50)),
            unused_container: Some(Duration::from_millis(70)),
            sessionless: Some(Duration::from_millis(300)),
            extended_types: true,
            optimized_watches: true,
        };
        assert_eq!(known, expected);
        assert_eq!(
            known.session_timeouts(Dialect::default()).unwrap(),
            (Duration::from_millis(300), Duration::from_secs(5))
        );
    }

    #[test]
    fn the_default_session_timeouts_are_those_of_the_dialect() {
        let timeouts = |max, dialect| {
            let known = read(&[("maxSessionTimeout", max)], &[]).unwrap();
            known.session_timeouts(dialect).unwrap()
        };
        let seconds = Duration::from_secs;
        let keeper = Dialect::ClickHouseKeeper26_9;
        assert_eq!(
            timeouts("60000", Dialect::default()),
            (Duration::from_millis(200), seconds(60))
        );
        assert_eq!(timeouts("60000", keeper), (seconds(10), seconds(60)));
        assert_eq!(timeouts("5000", keeper), (seconds(5), seconds(5)));
    }

    #[test]
    fn a_configuration_file_line_overrides_a_system_property() {
        let system = [("zookeeper.extendedTypesEnabled", "true")];
        assert!(
            !read(&[("extendedTypesEnabled", "false")], &system)
                .unwrap()
                .extended_types
        );
        assert!(
            read(&[("extendedTypesEnabled", "true")], &[])
                .unwrap()
                .extended_types
        );
    }

    #[test]
    fn tls_settings_are_refused_for_the_embedded_server() {
        let tls = crate::settings::ServerTls::new("", "").client_auth(crate::ClientAuth::Need, "");
        let text = embedded(&Settings {
            tls: Some(tls),
            ..Settings::default()
        })
        .unwrap_err()
        .to_string();
        assert!(
            text.contains("ssl.clientAuth=need") && text.contains("it does not support TLS"),
            "{text}"
        );
    }

    #[test]
    fn an_unsupported_setting_is_refused_by_name() {
        for key in [
            "ssl.clientAuth",
            "quorumListenOnAllIPs",
            "zookeeper.extendedTypesEnabled",
        ] {
            let text = refusal(key, &[(key, "x")], &[]);
            assert!(
                text.contains("no such setting") && text.contains(key),
                "{text}"
            );
        }
        // ZooKeeper would read this line as `zookeeper.jute.maxbuffer`, which has no effect.
        refusal("jute.maxbuffer", &[("jute.maxbuffer", "1")], &[]);
        refusal(
            "zookeeper.serverCnxnFactory",
            &[],
            &[("zookeeper.serverCnxnFactory", "x")],
        );
    }

    #[test]
    fn an_invalid_value_is_refused() {
        for (key, value) in [
            ("tickTime", "none"),
            ("maxSessionTimeout", "-2"),
            ("extendedTypesEnabled", "yes"),
            ("watchManagerName", "WatchManagerOptimized"),
        ] {
            let text = refusal(key, &[(key, value)], &[]);
            assert!(text.contains(value) && text.contains("expected"), "{text}");
        }
        assert!(refusal("maxClientCnxns", &[("maxClientCnxns", "3")], &[]).contains("only be `0`"));
        refusal("minSessionTimeout", &[("minSessionTimeout", "70000")], &[]);
    }
}
