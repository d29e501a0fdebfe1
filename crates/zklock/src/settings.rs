//! Connection settings from options, the environment and a TOML file, in this order of precedence.

use std::path::{Path, PathBuf};
use std::time::Duration;

use curator_recipes::client::{
    CuratorClient, CuratorClientBuilder, Error as ClientError, RetryUntilElapsed, SaslOptions, TlsOptions,
};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::contender::Contender;
use crate::failure::Failure;

/// The connection options of each subcommand, and the keys of the TOML file.
#[derive(Debug, Default, clap::Args, Deserialize)]
#[command(next_help_heading = "Connection")]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Connection {
    /// The servers: host:port,host:port/chroot
    #[arg(long, global = true, value_name = "SERVERS", env = "ZOOKEEPER_CONNECT")]
    connect: Option<String>,
    /// A TOML file with connect, namespace, session-timeout and connect-timeout, and the tables digest or sasl (user, password) and tls
    /// (ca, certificate, key)
    #[arg(long, global = true, value_name = "FILE", env = "ZKLOCK_CONFIG")]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// A prefix of all paths
    #[arg(long, global = true, value_name = "PATH")]
    namespace: Option<String>,
    /// The session timeout to request; the servers may grant another one [default: 40s]
    #[arg(long, global = true, value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(default, deserialize_with = "time")]
    session_timeout: Option<Duration>,
    /// How long to try to connect, at the beginning and after an outage; --leader never gives up [default: 15s]
    #[arg(long, global = true, value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(default, deserialize_with = "time")]
    connect_timeout: Option<Duration>,
    // Only the file can contain secrets.
    #[arg(skip)]
    digest: Option<Login>,
    #[arg(skip)]
    sasl: Option<Login>,
    #[arg(skip)]
    tls: Option<Tls>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    user: String,
    password: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tls {
    ca: PathBuf,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

const SESSION_TIMEOUT: Duration = Duration::from_secs(40);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// For the commands that read many nodes.
const REQUESTS_IN_FLIGHT: usize = 64;

/// The merged settings.
pub(crate) struct Settings {
    pub(crate) connect: String,
    pub(crate) session_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    /// The settings that only the file can contain, and the merged namespace.
    file: Connection,
}

impl Connection {
    /// Connects, calls `act`, and closes the client.
    pub(crate) async fn with_client<T>(&self, act: impl AsyncFnOnce(&CuratorClient) -> T) -> Result<T, Failure> {
        let builder = self.settings()?.builder(&Contender::this(None))?;
        let client = builder.max_requests_in_flight(REQUESTS_IN_FLIGHT).connect().await?;
        let done = act(&client).await;
        let _ = client.close().await;
        Ok(done)
    }

    /// Reads the file, and merges the options with it.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        let mut file = self.config.as_deref().map(read).transpose()?.unwrap_or_default();
        let connect = self.connect.clone().filter(|connect| !connect.is_empty()).or_else(|| file.connect.take()).ok_or_else(|| {
            Failure::here(
                "no servers: pass --connect HOST:PORT, set ZOOKEEPER_CONNECT, or set `connect` in the file of --config",
            )
        })?;
        file.namespace = self.namespace.clone().or(file.namespace);
        Ok(Settings {
            connect,
            session_timeout: self.session_timeout.or(file.session_timeout).unwrap_or(SESSION_TIMEOUT),
            connect_timeout: self.connect_timeout.or(file.connect_timeout).unwrap_or(CONNECT_TIMEOUT),
            file,
        })
    }
}

impl Settings {
    /// `this` is written into the nodes of this process.
    pub(crate) fn builder(&self, this: &Contender) -> Result<CuratorClientBuilder, Failure> {
        // Attempts start in the first half of the timeout; the last of them can use the second half.
        let half = self.connect_timeout / 2;
        let retries = RetryUntilElapsed::new(half, half.min(Duration::from_millis(200)));
        let mut builder = CuratorClient::builder(&self.connect)
            .name("zklock")
            .default_lock_data(this.to_data())
            .session_timeout(self.session_timeout)
            .connection_timeout(half)
            .retry_policy(retries.map_err(ClientError::from)?);
        if let Some(namespace) = &self.file.namespace {
            builder = builder.namespace(namespace);
        }
        if let Some(Login { user, password }) = &self.file.digest {
            builder = builder.authorization("digest", format!("{user}:{password}"));
        }
        if let Some(Login { user, password }) = &self.file.sasl {
            builder = builder.sasl(SaslOptions::digest_md5(user, password));
        }
        if let Some(tls) = &self.file.tls {
            builder = builder.tls(tls.options()?);
        }
        Ok(builder)
    }

    /// Whether connections are without TLS.
    pub(crate) fn is_plain(&self) -> bool {
        self.file.tls.is_none()
    }
}

impl Tls {
    fn options(&self) -> Result<TlsOptions, Failure> {
        let options = TlsOptions::from_pem(read_text(&self.ca)?).map_err(ClientError::from)?;
        match (&self.certificate, &self.key) {
            (None, None) => Ok(options),
            (Some(certificate), Some(key)) => {
                Ok(options.with_identity(read_text(certificate)?, read_text(key)?).map_err(ClientError::from)?)
            }
            _ => Err(Failure::here("[tls] has only one of `certificate` and `key`: a client certificate needs both")),
        }
    }
}

/// A time in the file.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let time = humantime::parse_duration(&text);
    time.map(Some).map_err(|error| D::Error::custom(format!("{text:?}: {error}; write for example \"30s\"")))
}

fn read_text(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| Failure::here(format!("cannot read {}: {error}", path.display())))
}

fn read(path: &Path) -> Result<Connection, Failure> {
    parse(&read_text(path)?).map_err(|error| Failure::here(format!("{}: {error}", path.display())))
}

/// Parses the file. The error does not show the line, which may contain a secret.
fn parse(text: &str) -> Result<Connection, String> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        // The message contains the wrong value, which may be a secret.
        let message = match error.message().split_once(", expected ") {
            Some((_, expected)) if error.message().starts_with("invalid ") => format!("expected {expected}"),
            _ => error.message().to_owned(),
        };
        format!("line {line}: {message}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_in_the_file_names_the_line_and_shows_no_secret() {
        let error = parse("connect = \"a:1\"\n[digest]\nuser = \"u\"\npasword = \"secret\"\n").unwrap_err();
        assert!(error.starts_with("line ") && error.contains("pasword") && !error.contains("secret"), "{error}");
        let error = parse("digest = \"u:secret\"").unwrap_err();
        assert!(error.starts_with("line 1: expected ") && !error.contains("secret"), "{error}");
        let error = parse("connect = \"a:1\"\nsession-timeout = \"30\"").unwrap_err();
        assert!(error.starts_with("line 2: \"30\": ") && error.ends_with("write for example \"30s\""), "{error}");
    }

    #[test]
    fn a_complete_file_is_parsed() {
        let file = parse(
            "connect = \"a:1\"\nnamespace = \"n\"\nsession-timeout = \"30s\"\nconnect-timeout = \"5s\"\n\
             [digest]\nuser = \"u\"\npassword = \"p\"\n[sasl]\nuser = \"v\"\npassword = \"q\"\n\
             [tls]\nca = \"ca.pem\"\ncertificate = \"c.pem\"\nkey = \"k.pem\"\n",
        );
        // Names each key, so that a new key does not compile until the test covers it.
        let Connection { connect, config: _, namespace, session_timeout, connect_timeout, digest, sasl, tls } =
            file.unwrap();
        assert_eq!([connect, namespace].each_ref().map(Option::as_deref), [Some("a:1"), Some("n")]);
        assert_eq!([session_timeout, connect_timeout], [30, 5].map(|seconds| Some(Duration::from_secs(seconds))));
        let logins = [digest, sasl].map(|login| login.map(|Login { user, password }| [user, password].concat()));
        assert_eq!(logins.each_ref().map(Option::as_deref), [Some("up"), Some("vq")]);
        let Tls { ca, certificate, key } = tls.unwrap();
        let paths = ["ca.pem", "c.pem", "k.pem"].map(|path| Some(PathBuf::from(path)));
        assert_eq!([Some(ca), certificate, key], paths);
        // Only the CA is required.
        assert!(parse("[tls]\nca = \"ca.pem\"\n").is_ok() && parse("[tls]\nkey = \"k.pem\"\n").is_err());
    }
}
