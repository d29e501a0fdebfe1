//! Reads the configuration of the ensemble over each new connection, and watches it while the client
//! follows it.

mod lookup;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use self::lookup::is_listed_at;
use super::Supervisor;
use crate::connect_string::HostPort;
use crate::ensemble::{Ensemble, EnsembleConfig, Reach, Taken};
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

/// The first pause before another read over the same connection.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
/// The longest pause before another read over the same connection.
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

/// Follows the configuration of the ensemble in one session.
///
/// Sends one read over each connection. Only while the client follows a configuration, the read sets
/// a watch, which stays until the configuration changes or the connection ends: removing a watch
/// would cost a request. A read that fails, but is not refused, is repeated after a pause; so is one
/// that names members whose names cannot be looked up. The pauses over a connection double, from a
/// minute to an hour.
///
/// Does nothing on a server other than ZooKeeper: it may serve the configuration of the ensemble
/// whose data it was given.
pub(super) struct Following {
    reader: Reader,
    stage: Stage,
    /// The number of the session's connection that was used last.
    connection: u64,
    pauses: Pauses,
}

enum Stage {
    /// There is nothing to wait for until the next connection.
    Idle,
    Reading(BoxFuture<'static, Read>),
    /// The next read over the same connection.
    Paused(Deadline),
    Watching(Watch),
    /// The servers refuse the request, so this session does not repeat it.
    Refused,
}

/// What a read has come to.
enum Read {
    /// The client does not follow the configuration.
    Ignored,
    /// The client follows the configuration.
    Followed(Watch),
    /// The read has failed, or a name could not be looked up.
    Again,
    /// The servers refuse the request.
    Refused,
}

/// The pauses before the next reads over a connection.
#[derive(Debug)]
struct Pauses {
    next: Duration,
}

impl Pauses {
    fn begin() -> Self {
        Self { next: FIRST_PAUSE }
    }

    /// The next pause. The one after it is twice as long.
    fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(LONGEST_PAUSE);
        pause
    }
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
            pauses: Pauses::begin(),
        }
    }

    /// The connection of `session` has answered a probe. Sends a request if it is a new connection,
    /// before other requests can be sent over it.
    pub(super) fn connected(&mut self, session: &Session) {
        let connection = session.connections();
        if connection != self.connection && !matches!(self.stage, Stage::Refused) {
            self.connection = connection;
            self.pauses = Pauses::begin();
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
                let read = reading.await;
                self.has_read(read);
            }
            Stage::Paused(deadline) => {
                let timer = &self.reader.timer;
                timer.sleep_until(*deadline).await;
                if session.is_connected() {
                    self.read(session);
                } else {
                    // The next connection reads, unless this one is confirmed again.
                    self.stage = Stage::Paused(Deadline::after(FIRST_PAUSE));
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
        let mut reading = async { caught(reading).await.unwrap_or(Read::Ignored) }.boxed();
        // The first poll sends the request.
        match (&mut reading).now_or_never() {
            Some(read) => self.has_read(read),
            None => self.stage = Stage::Reading(reading),
        }
    }

    fn has_read(&mut self, read: Read) {
        self.stage = match read {
            Read::Ignored => Stage::Idle,
            Read::Followed(watch) => {
                self.pauses = Pauses::begin();
                Stage::Watching(watch)
            }
            Read::Again => Stage::Paused(Deadline::after(self.pauses.next())),
            Read::Refused => Stage::Refused,
        };
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

/// Reads a configuration.
#[derive(Clone)]
struct Reader {
    ensemble: Arc<Ensemble>,
    options: Arc<SessionOptions>,
    timer: Timer,
}

impl Reader {
    /// Sends a request when it is first polled.
    async fn read(self, session: Session) -> Read {
        if !self.ensemble.is_followed() {
            let taken = match session.get_config().await {
                Ok((data, _)) => self.take(&data, &session).await,
                Err(error) => return self.failed(&error),
            };
            match taken {
                Taken::Unchanged | Taken::Changed(_) => {}
                Taken::Ignored => return Read::Ignored,
                Taken::Undecided => return Read::Again,
            }
        }
        match session.watch_config().await {
            Ok((data, _, watch)) => {
                self.take(&data, &session).await;
                Read::Followed(watch)
            }
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&self, error: &Error) -> Read {
        let client = &*self.options.name;
        tracing::debug!(client, error = %Truncated(error), "cannot read the ensemble's configuration");
        if error.is_retryable() {
            Read::Again
        } else {
            Read::Refused
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
        let taken = self.ensemble.take(&config, reach);
        let client = &*self.options.name;
        let why_not = match &taken {
            Taken::Unchanged => None,
            Taken::Changed(servers) => {
                let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
                tracing::info!(
                    client,
                    servers = &*Truncated(&servers.join(",")).to_string(),
                    version = config.version.map(|version| format!("{version:x}")),
                    "following the ensemble"
                );
                None
            }
            Taken::Undecided => Some("the addresses of its members cannot be looked up"),
            Taken::Ignored if config.members.is_empty() => {
                Some("it names no address for clients that this client can use")
            }
            Taken::Ignored => Some("it does not name the server that this client is connected to"),
        };
        if let Some(why) = why_not {
            tracing::debug!(client, why, "not following the ensemble's configuration");
        }
        taken
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
            Some(address) => is_listed_at(members, address, &self.timer).await?,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_from_a_minute_to_an_hour() {
        let mut pauses = Pauses::begin();
        let minutes = [(); 8].map(|()| pauses.next().as_secs() / 60);
        assert_eq!(minutes, [1, 2, 4, 8, 16, 32, 60, 60]);
    }
}
