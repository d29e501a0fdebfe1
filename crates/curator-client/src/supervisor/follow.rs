//! Reads the configuration of the ensemble over each new connection, and watches it while the client
//! follows it.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};

use super::Supervisor;
use crate::connect_string::HostPort;
use crate::ensemble::{Ensemble, EnsembleConfig, Followed, Reach};
use crate::error::Error;
use crate::link::Watch;
use crate::options::SessionOptions;
use crate::runtime::caught;
use crate::session::Session;
use crate::text::Truncated;
use crate::time::Timer;
#[cfg(feature = "tls")]
use crate::tls::TlsOptions;
use crate::transport::WatchEvent;

/// How long the members' names are looked up, to find the server of the connection among them.
const LOOKUP_LIMIT: Duration = Duration::from_secs(5);
/// How many names are looked up at the same time.
const LOOKUPS: usize = 8;

/// Follows the configuration of the ensemble in one session.
///
/// Sends one read over each connection. Only while the client follows a configuration, the read sets
/// a watch, which stays until the configuration changes or the connection ends: removing a watch
/// would cost a request.
pub(super) struct Following {
    reader: Reader,
    stage: Stage,
    /// The number of the session's connection that was used last.
    connection: u64,
}

enum Stage {
    /// There is nothing to wait for until the next connection.
    Idle,
    Reading(BoxFuture<'static, Stage>),
    Watching(Watch),
    /// The servers refuse the request, so this session does not repeat it.
    Refused,
}

impl Following {
    pub(super) fn new(supervisor: &Supervisor) -> Self {
        let is_tracked = supervisor.reads_config && supervisor.ensemble.is_tracked();
        Self {
            reader: Reader {
                ensemble: Arc::clone(&supervisor.ensemble),
                options: Arc::clone(&supervisor.options),
                timer: supervisor.timer.clone(),
            },
            stage: if is_tracked {
                Stage::Idle
            } else {
                Stage::Refused
            },
            connection: 0,
        }
    }

    /// The connection of `session` has answered a probe. Sends a request if it is a new connection,
    /// before other requests can be sent over it.
    pub(super) fn connected(&mut self, session: &Session) {
        let connection = session.connections();
        if connection != self.connection && !matches!(self.stage, Stage::Refused) {
            self.connection = connection;
            self.read(session);
        }
    }

    /// Waits until there is something to do, and does it.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(super) async fn advance(&mut self, session: &Session) {
        match &mut self.stage {
            Stage::Idle | Stage::Refused => pending().await,
            Stage::Reading(reading) => {
                let next = reading.await;
                self.stage = next;
            }
            Stage::Watching(watch) => match watch.fired().await {
                WatchEvent::Interrupted | WatchEvent::SessionEnded => self.stage = Stage::Idle,
                _ => self.read(session),
            },
        }
    }

    fn read(&mut self, session: &Session) {
        let reading = self.reader.clone().read(session.clone());
        let mut reading = async { caught(reading).await.unwrap_or(Stage::Idle) }.boxed();
        // The first poll sends the request.
        self.stage = (&mut reading)
            .now_or_never()
            .unwrap_or(Stage::Reading(reading));
    }

    /// The watch, which should be dropped only after its connection: its drop sends a request. A
    /// request that is not answered is dropped, because it would keep the session open.
    pub(super) fn into_watch(self) -> Option<Watch> {
        match self.stage {
            Stage::Watching(watch) => Some(watch),
            Stage::Idle | Stage::Reading(_) | Stage::Refused => None,
        }
    }
}

/// Reads a configuration.
#[derive(Clone)]
struct Reader {
    ensemble: Arc<Ensemble>,
    options: Arc<SessionOptions>,
    timer: Timer,
}

impl Reader {
    /// Sends a request when it is first polled.
    async fn read(self, session: Session) -> Stage {
        if !self.ensemble.is_followed() {
            let is_followed = match session.get_config().await {
                Ok((data, _)) => self.take(&data, &session).await,
                Err(error) => return self.failed(&error),
            };
            if !is_followed {
                return Stage::Idle;
            }
        }
        match session.watch_config().await {
            Ok((data, _, watch)) => {
                self.take(&data, &session).await;
                Stage::Watching(watch)
            }
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&self, error: &Error) -> Stage {
        let client = &*self.options.name;
        tracing::debug!(client, error = %Truncated(error), "cannot read the ensemble's configuration");
        if error.is_retryable() {
            Stage::Idle
        } else {
            Stage::Refused
        }
    }

    /// Returns whether the client follows the configuration.
    async fn take(&self, data: &[u8], session: &Session) -> bool {
        let mut config = EnsembleConfig::parse(data);
        config.retain(|member| self.is_usable(member));
        let reach = if self.ensemble.needs_reach() && !config.members.is_empty() {
            self.reach(&config.members, session).await
        } else {
            Reach::Unknown
        };
        match self.ensemble.take(&config, reach) {
            Followed::No => false,
            Followed::Unchanged => true,
            Followed::Changed(servers) => {
                let client = &*self.options.name;
                let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
                tracing::info!(
                    client,
                    servers = &*Truncated(&servers.join(",")).to_string(),
                    version = format_args!("{:x}", config.version),
                    "following the ensemble"
                );
                true
            }
        }
    }

    /// Whether the client can connect to a server of this name. A certificate cannot name every
    /// host.
    #[cfg_attr(
        not(feature = "tls"),
        expect(
            clippy::unused_self,
            unused_variables,
            reason = "only TLS restricts names"
        )
    )]
    fn is_usable(&self, member: &HostPort) -> bool {
        #[cfg(feature = "tls")]
        if self.options.tls.is_some() {
            return TlsOptions::is_nameable(member.host());
        }
        true
    }

    /// How the client has reached one of `members`, if its current server is one of them.
    async fn reach(&self, members: &[HostPort], session: &Session) -> Reach {
        // Keeps no link, which would keep the session open.
        let Some((server, address)) = session
            .link()
            .map(|link| (Arc::clone(link.server()), link.address()))
        else {
            return Reach::Unknown;
        };
        if members.contains(&server) {
            return Reach::Member;
        }
        let is_listed = match address {
            Some(address) => tokio::select! {
                biased;
                is_listed = is_listed_at(members, address) => is_listed,
                () = self.timer.sleep(LOOKUP_LIMIT) => false,
            },
            None => false,
        };
        if !is_listed {
            Reach::Unknown
        } else if self.options.uses_tls() || self.options.uses_sasl() {
            Reach::Address
        } else {
            Reach::Member
        }
    }
}

/// Whether `address` is the address of one of `members`. Looks up the names of those with its port
/// only, so a client of a proxy, at another port, looks up none.
#[expect(
    clippy::disallowed_methods,
    reason = "a connection in a simulation has no address"
)]
async fn is_listed_at(members: &[HostPort], address: SocketAddr) -> bool {
    let ip = address.ip().to_canonical();
    let named: Vec<_> = members
        .iter()
        .filter(|member| member.port() == address.port())
        .cloned()
        .collect();
    let mut lookups = stream::iter(named)
        // `async_net` looks names up on its own threads, which do not delay the end of a runtime.
        .map(async |member: HostPort| async_net::resolve((member.host(), member.port())).await)
        .buffer_unordered(LOOKUPS);
    while let Some(found) = lookups.next().await {
        if found.is_ok_and(|found| found.iter().any(|found| found.ip().to_canonical() == ip)) {
            return true;
        }
    }
    false
}
