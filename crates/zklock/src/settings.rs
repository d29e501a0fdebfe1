//! Connection settings from options, the environment and the configuration file, in this order of
//! precedence.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use curator_recipes::client::{
    CuratorClient, CuratorClientBuilder, Error as ClientError, RetryUntilElapsed, SaslOptions,
    Transport,
};
use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use serde::de::value::Error as UnknownWord;

use crate::config_file;
use crate::connection_log::{log_outages, session_text};
use crate::contender::Contender;
use crate::failure::Failure;
use crate::print::step;
use crate::time::{deserialize_time, parse_time, text};
use crate::tls_files::{ReadTls, TlsFiles};

/// The connection options of each subcommand, and the keys of the configuration file.
#[derive(Debug, Default, clap::Args, Deserialize)]
#[command(next_help_heading = "Connection")]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a table")]
pub(crate) struct Connection {
    /// The servers: host:port,host:port/chroot
    #[arg(
        long,
        global = true,
        value_name = "SERVERS",
        env = "ZOOKEEPER_CONNECT",
        hide_env_values = true
    )]
    pub(crate) connect: Option<String>,
    /// A TOML file with connect, namespace, session-timeout, connect-timeout and transport, and the
    /// tables digest or sasl (user, password) and tls (ca, certificate, key). An empty FILE means
    /// none [default: the first of `$XDG_CONFIG_HOME/zklock/config.toml` (or
    /// `~/.config/zklock/config.toml`) and `/etc/zklock/config.toml`]
    #[arg(long, global = true, value_name = "FILE", env = "ZKLOCK_CONFIG", hide_env_values = true, value_parser = OsStringValueParser::new().map(PathBuf::from))]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// A prefix of all paths
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) namespace: Option<String>,
    /// The session timeout to request; the servers may grant another one [default: 40s]
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true)]
    #[serde(default, deserialize_with = "deserialize_time")]
    pub(crate) session_timeout: Option<Duration>,
    /// How long to try to connect, at the beginning and after an outage; --leader tries without a
    /// limit [default: 15s]
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true)]
    #[serde(default, deserialize_with = "deserialize_time")]
    pub(crate) connect_timeout: Option<Duration>,
    /// Which code speaks ZooKeeper's protocol: zookeeper-client, or native, which is newer
    /// [default: zookeeper-client]
    #[arg(long, global = true, value_name = "NAME", env = "ZKLOCK_TRANSPORT", hide_env_values = true, value_parser = parse_transport)]
    transport: Option<Transport>,
    // Only the file can contain secrets.
    #[arg(skip)]
    pub(crate) digest: Option<Login>,
    #[arg(skip)]
    pub(crate) sasl: Option<Login>,
    #[arg(skip)]
    pub(crate) tls: Option<TlsFiles>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with `user` and `password`")]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
}

const SESSION_TIMEOUT: Duration = Duration::from_secs(40);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Half of it is the shortest pause that the client accepts between two attempts.
const LEAST_CONNECT_TIMEOUT: Duration = Duration::from_millis(2);
/// The longest time that the client accepts for one attempt to connect.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(24 * 60 * 60);
/// Enough for the commands that read many nodes.
const REQUESTS_IN_FLIGHT: usize = 64;

/// The merged settings.
pub(crate) struct Settings {
    pub(crate) connect: String,
    pub(crate) session_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    tls: Option<ReadTls>,
    /// The settings that only the file can contain, and the merged namespace and transport.
    file: Connection,
}

/// Parses a transport's name as the configuration file does.
fn parse_transport(text: &str) -> Result<Transport, UnknownWord> {
    Transport::deserialize(text.into_deserializer())
}

impl Connection {
    /// Connects, calls `act`, and closes the client.
    pub(crate) async fn with_client<T>(
        &self,
        act: impl AsyncFnOnce(&CuratorClient) -> T,
    ) -> Result<T, Failure> {
        self.settings()?.with_client(act).await
    }

    /// Reads the configuration file; without one, nothing is set.
    fn of_file(named: Option<&Path>) -> Result<Self, Failure> {
        let Some(file) = config_file::read(named)? else {
            return Ok(Self::default());
        };
        let connection: Self = file.parse()?;
        file.warn_of_permissions(connection.digest.is_some() || connection.sasl.is_some());
        Ok(connection)
    }

    /// Reads the file, and merges the options with it.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        let mut file = Self::of_file(self.config.as_deref())?;
        let connect = self.connect.clone().filter(|connect| !connect.is_empty()).or_else(|| file.connect.take()).ok_or_else(|| {
            Failure::here(
                "no servers: pass --connect HOST:PORT, set ZOOKEEPER_CONNECT, or set `connect` in the configuration file (see `zklock --help`)",
            )
        })?;
        let connect_timeout = self
            .connect_timeout
            .or(file.connect_timeout)
            .unwrap_or(CONNECT_TIMEOUT);
        if connect_timeout < LEAST_CONNECT_TIMEOUT {
            let given = text(connect_timeout);
            let least = text(LEAST_CONNECT_TIMEOUT);
            return Err(Failure::here(format!(
                "a connect timeout of {given} is too short: it is at least {least}"
            )));
        }
        file.namespace = self.namespace.clone().or(file.namespace);
        file.transport = self.transport.or(file.transport);
        Ok(Settings {
            connect,
            session_timeout: self
                .session_timeout
                .or(file.session_timeout)
                .unwrap_or(SESSION_TIMEOUT),
            connect_timeout,
            tls: file.tls.as_ref().map(TlsFiles::read).transpose()?,
            file,
        })
    }
}

impl Settings {
    /// Connects, calls `act`, and closes the client.
    pub(crate) async fn with_client<T>(
        &self,
        act: impl AsyncFnOnce(&CuratorClient) -> T,
    ) -> Result<T, Failure> {
        let client = self.connect(&Contender::this(None)).await?;
        let done = act(&client).await;
        let _ = client.close().await;
        Ok(done)
    }

    /// Connects. From then on, prints outages of the connection, and reads the TLS files again when
    /// they change.
    pub(crate) async fn connect(&self, this: &Contender) -> Result<CuratorClient, Failure> {
        if let Some(tls) = &self.tls {
            tls.reload_on_change();
        }
        step(format_args!("connecting to {}", self.connect));
        let client = self.builder(this)?.connect().await?;
        step(format_args!("connected to {}", session_text(&client)));
        tokio::spawn(log_outages(client.clone()));
        Ok(client)
    }

    /// The builder of the client. The data of `this` are written into the nodes of this process.
    pub(crate) fn builder(&self, this: &Contender) -> Result<CuratorClientBuilder, Failure> {
        self.builder_to(&self.connect, this)
    }

    /// Like [`builder`](Self::builder), but for other servers.
    pub(crate) fn builder_to(
        &self,
        connect: &str,
        this: &Contender,
    ) -> Result<CuratorClientBuilder, Failure> {
        // Attempts start in the first half of the timeout; the last of them can use the second
        // half.
        let half = self.connect_timeout / 2;
        let retries = RetryUntilElapsed::new(half, half.min(Duration::from_millis(200)));
        let mut builder = CuratorClient::builder(connect)
            .name("zklock")
            .default_lock_data(this.to_data())
            .max_requests_in_flight(REQUESTS_IN_FLIGHT)
            .session_timeout(self.session_timeout)
            .connection_timeout(half.min(LONGEST_ATTEMPT))
            .retry_policy(retries.map_err(ClientError::from)?)
            .transport(self.file.transport.unwrap_or_default());
        if let Some(namespace) = &self.file.namespace {
            builder = builder.namespace(namespace);
        }
        if let Some(Login { user, password }) = &self.file.digest {
            builder = builder.authorization("digest", format!("{user}:{password}"));
        }
        if let Some(Login { user, password }) = &self.file.sasl {
            builder = builder.sasl(SaslOptions::digest_md5(user, password));
        }
        if let Some(tls) = &self.tls {
            builder = tls.secure(builder);
        }
        Ok(builder)
    }

    /// The name of the transport, as in the options.
    pub(crate) fn transport_name(&self) -> &'static str {
        match self.file.transport.unwrap_or_default() {
            Transport::Native => "native",
            _ => "zookeeper-client",
        }
    }

    /// Whether connections are without TLS.
    pub(crate) fn is_plain(&self) -> bool {
        self.tls.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// The transport of a client with this configuration file and this option.
    fn transport(file: &str, option: Option<Transport>) -> String {
        let connect = Some("zk1".to_owned());
        let config = Some(file.into());
        let settings = Connection {
            connect,
            config,
            transport: option,
            ..Connection::default()
        }
        .settings()
        .ok()
        .unwrap();
        let builder = format!(
            "{:?}",
            settings.builder(&Contender::this(None)).ok().unwrap()
        );
        let (_, transport) = builder.split_once("transport: ").unwrap();
        transport
            .split(|end: char| !end.is_alphanumeric())
            .next()
            .unwrap()
            .to_owned()
    }

    #[test]
    fn the_transport_is_from_the_option_or_the_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "transport = \"native\"").unwrap();
        let file = file.path().to_str().unwrap();
        let option = |word| Some(parse_transport(word).unwrap());
        assert_eq!(transport("", None), "ZookeeperClient");
        assert_eq!(transport(file, None), "Native");
        assert_eq!(transport("", option("native")), "Native");
        assert_eq!(
            transport(file, option("zookeeper-client")),
            "ZookeeperClient"
        );
    }
}
