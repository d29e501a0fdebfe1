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
use crate::time::{Deadline, Timer};
#[cfg(feature = "tls")]
use crate::tls::TlsOptions;
use crate::transport::WatchEvent;

/// How long the members' names are looked up, to find the server of the connection among them.
const LOOKUP_LIMIT: Duration = Duration::from_secs(5);
/// The pause before another read of a configuration that could not be read, or whose members' names
/// could not be looked up.
const PAUSE: Duration = Duration::from_secs(60);
/// How many names are looked up at the same time.
const LOOKUPS: usize = 8;

/// Follows the configuration of the ensemble in one session.
///
/// Sends one read over each connection. Only while the client follows a configuration, the read sets
/// a watch, which stays until the configuration changes or the connection ends: removing a watch
/// would cost a request. A read that fails, but is not refused, is repeated after a pause.
///
/// Does nothing on a server other than ZooKeeper: it may serve the configuration of the ensemble
/// whose data it was given.
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
    /// The next read over the same connection.
    Paused(Deadline),
    Watching(Watch),
    /// The servers refuse the request, so this session does not repeat it.
    Refused,
}

impl Following {
    pub(super) fn new(supervisor: &Supervisor, session: &Session) -> Self {
        let is_tracked = supervisor.reads_config
            && supervisor.ensemble.is_tracked()
            && !session.is_on_other_server();
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
            Stage::Paused(deadline) => {
                let timer = &self.reader.timer;
                timer.sleep_until(*deadline).await;
                if session.is_connected() {
                    self.read(session);
                } else {
                    // The next connection reads, unless this one is confirmed again.
                    self.stage = Stage::Paused(Deadline::after(PAUSE));
                }
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
            Stage::Idle | Stage::Reading(_) | Stage::Paused(_) | Stage::Refused => None,
        }
    }
}

/// Whether the client follows a configuration that it has read.
enum Taken {
    Followed,
    /// The client does not follow it, and would not after another read.
    Ignored,
    /// A name could not be looked up, so the client does not follow it yet.
    Undecided,
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
            let taken = match session.get_config().await {
                Ok((data, _)) => self.take(&data, &session).await,
                Err(error) => return self.failed(&error),
            };
            match taken {
                Taken::Followed => {}
                Taken::Ignored => return Stage::Idle,
                Taken::Undecided => return Stage::Paused(Deadline::after(PAUSE)),
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
            Stage::Paused(Deadline::after(PAUSE))
        } else {
            Stage::Refused
        }
    }

    async fn take(&self, data: &[u8], session: &Session) -> Taken {
        let mut config = EnsembleConfig::parse(data);
        config.retain(|member| self.is_usable(member));
        let reach = if self.ensemble.needs_reach() && !config.members.is_empty() {
            self.reach(&config.members, session).await
        } else {
            Some(Reach::Unknown)
        };
        match self.ensemble.take(&config, reach.unwrap_or(Reach::Unknown)) {
            Followed::No => {
                let why = if config.members.is_empty() {
                    "it names no address for clients that this client can use"
                } else if reach.is_none() {
                    "the addresses of its members cannot be looked up"
                } else {
                    "it does not name the server that this client is connected to"
                };
                let client = &*self.options.name;
                tracing::debug!(client, why, "not following the ensemble's configuration");
                if reach.is_none() {
                    Taken::Undecided
                } else {
                    Taken::Ignored
                }
            }
            Followed::Unchanged => Taken::Followed,
            Followed::Changed(servers) => {
                let client = &*self.options.name;
                let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
                tracing::info!(
                    client,
                    servers = &*Truncated(&servers.join(",")).to_string(),
                    version = format_args!("{:x}", config.version),
                    "following the ensemble"
                );
                Taken::Followed
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

    /// How the client has reached one of `members`, if its current server is one of them; `None` if
    /// that is not known, because a name could not be looked up.
    async fn reach(&self, members: &[HostPort], session: &Session) -> Option<Reach> {
        // Keeps no link, which would keep the session open.
        let Some((server, address)) = session
            .link()
            .map(|link| (Arc::clone(link.server()), link.address()))
        else {
            return Some(Reach::Unknown);
        };
        if members.contains(&server) {
            return Some(Reach::Member);
        }
        let is_listed = match address {
            Some(address) => tokio::select! {
                biased;
                is_listed = is_listed_at(members, address) => is_listed?,
                () = self.timer.sleep(LOOKUP_LIMIT) => return None,
            },
            None => false,
        };
        Some(if !is_listed {
            Reach::Unknown
        } else if self.options.uses_tls() || self.options.uses_sasl() {
            Reach::Address
        } else {
            Reach::Member
        })
    }
}

/// Whether `address` is the address of one of `members`; `None` if that is not known, because a name
/// could not be looked up. Looks up the names of those with its port only, so a client of a proxy, at
/// another port, looks up none.
#[expect(
    clippy::disallowed_methods,
    reason = "a connection in a simulation has no address"
)]
async fn is_listed_at(members: &[HostPort], address: SocketAddr) -> Option<bool> {
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
    let mut has_failed = false;
    while let Some(found) = lookups.next().await {
        match found {
            Ok(found) if found.iter().any(|found| found.ip().to_canonical() == ip) => {
                return Some(true);
            }
            Ok(_) => {}
            Err(_) => has_failed = true,
        }
    }
    (!has_failed).then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect_string::ConnectString;

    // Runs in real time: names are looked up.
    #[tokio::test]
    async fn a_name_that_cannot_be_looked_up_leaves_it_unknown_whether_the_server_is_a_member() {
        let members = |text| ConnectString::parse(text).unwrap().hosts().to_vec();
        let address = "127.0.0.1:7".parse().unwrap();
        for (named, expected) in [
            ("127.0.0.1:7", Some(true)),
            ("127.0.0.2:7", Some(false)),
            // Another port is not looked up.
            ("unknown.invalid:8", Some(false)),
            ("unknown.invalid:7", None),
            ("unknown.invalid:7,127.0.0.1:7", Some(true)),
        ] {
            assert_eq!(
                is_listed_at(&members(named), address).await,
                expected,
                "{named}"
            );
        }
    }
}
