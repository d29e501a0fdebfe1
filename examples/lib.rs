//! Helpers that the examples share.

use curator_recipes::client::{ConnectString, CuratorClient, CuratorClientBuilder};
use curator_test::{FaultProxy, ServerKind, TestingServer};

/// The error of an example.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Like [`CuratorClient::builder`], with the namespace from the environment variable
/// `ZOOKEEPER_NAMESPACE`, if it is set.
pub fn builder(connect_string: impl Into<String>) -> CuratorClientBuilder {
    let builder = CuratorClient::builder(connect_string);
    match std::env::var("ZOOKEEPER_NAMESPACE") {
        Ok(namespace) => builder.namespace(namespace),
        Err(_) => builder,
    }
}

/// The servers that the example uses: the user's, or one that is started for it.
#[derive(Debug)]
pub struct Ensemble {
    connect_string: String,
    /// Kept here because a drop stops the server.
    _server: Option<TestingServer>,
}

impl Ensemble {
    /// Uses the servers in `ZOOKEEPER_CONNECT` if it is set. Otherwise starts an embedded server,
    /// or a real one if `CURATOR_TEST_SERVER` selects a real one.
    ///
    /// # Errors
    ///
    /// When the server cannot be started.
    pub async fn find() -> Result<Self, Failure> {
        if let Ok(connect_string) = std::env::var("ZOOKEEPER_CONNECT") {
            println!("Using the ZooKeeper at {connect_string} (from ZOOKEEPER_CONNECT).");
            println!("If no server can be reached, this takes about a minute.");
            return Ok(Self {
                connect_string,
                _server: None,
            });
        }
        // Permits session timeouts of up to an hour: `herd_effect` requests a session that does not
        // expire even on a slow machine.
        let server = TestingServer::builder()
            .property("maxSessionTimeout", "3600000")
            .start()
            .await?;
        let what = match server.kind() {
            ServerKind::Embedded => "an embedded server, for tests and first steps,",
            _ => "a ZooKeeper",
        };
        println!(
            "Started {what} at {} (set ZOOKEEPER_CONNECT to use your own).",
            server.connect_string()
        );
        Ok(Self {
            connect_string: server.connect_string(),
            _server: Some(server),
        })
    }

    /// The connect string for a client.
    #[must_use]
    pub fn connect_string(&self) -> &str {
        &self.connect_string
    }

    /// Starts a proxy that counts requests and injects faults. Also returns the connect string for
    /// a client behind the proxy.
    ///
    /// The proxy is in front of one server, the first of the connect string.
    ///
    /// # Errors
    ///
    /// When the connect string is invalid, or the proxy cannot be started.
    pub fn proxy(&self) -> Result<(FaultProxy, String), Failure> {
        let servers = ConnectString::parse(&self.connect_string)?;
        let server = servers
            .hosts()
            .first()
            .ok_or("a connect string without a server")?;
        if servers.hosts().len() > 1 {
            println!("Requests through the proxy reach only the first server.");
        }
        let proxy = FaultProxy::start((server.host(), server.port()))?;
        let chroot = if servers.chroot().is_root() {
            ""
        } else {
            servers.chroot().as_str()
        };
        let connect_string = format!("{}{chroot}", proxy.connect_string());
        Ok((proxy, connect_string))
    }
}
