//! One pass over the servers: one after another, in random order, until one of them accepts the session.
//!
//! The client crate can do this too, but it does not tell what is wrong with a server, and not even which one it is about.
//! So it is given one server at a time, and a server that fails or is slow is looked at: can its name be resolved, and does
//! it accept a connection? Nothing is sent over that connection. A server that works is not looked at.

use std::future::pending;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use zookeeper_client::{Connector, Error as ZkError};

use super::Link;
use crate::clock::ClockInstant;
use crate::connect_string::HostPort;
use crate::retry_policy::chance;
use crate::timer::Timer;
use crate::zk::error::in_plain_words;

/// Why no connection was opened.
#[derive(Debug)]
pub(crate) enum ConnectFailure {
    /// A server has answered, and the others would answer the same.
    Answered { server: HostPort, error: ZkError },
    /// What is wrong with each server.
    NoServer(String),
}

impl ConnectFailure {
    /// Whether a server refuses this client, whatever its session.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Answered { error: ZkError::AuthFailed | ZkError::BadArguments(_), .. })
    }
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { server, error } => write!(f, "{server}: {}", in_plain_words(error)),
            Self::NoServer(problems) => f.write_str(problems),
        }
    }
}

/// Is told what is wrong with the servers, as far as it is known, while a pass goes on.
pub(crate) type Report<'a> = dyn Fn(&str) + Send + Sync + 'a;

/// A pass over the servers.
pub(super) struct Pass<'a> {
    pub(super) servers: &'a [HostPort],
    /// How long one server may take.
    pub(super) share: Duration,
    pub(super) timer: &'a Timer,
    pub(super) report: &'a Report<'a>,
    pub(super) connector: &'a (dyn Fn() -> Connector + Send + Sync),
    /// Whether a connection has nothing to catch up with.
    pub(super) caught_up: bool,
}

impl Pass<'_> {
    /// Returns the connection, and an instant before its connect request was sent.
    ///
    /// Nothing is awaited once there is a connection.
    pub(super) async fn run(self) -> Result<(Link, ClockInstant), ConnectFailure> {
        let problems = Mutex::new(Problems::of(self.servers));
        let lock = || problems.lock().unwrap_or_else(PoisonError::into_inner);
        let mut order: Vec<_> = (0..self.servers.len()).collect();
        order.sort_by_cached_key(|_| chance());
        for index in order {
            let started = ClockInstant::now();
            let note = |problem| {
                let text = lock().note(index, problem);
                (self.report)(&text);
            };
            match self.connect(&self.servers[index], &note).await {
                Ok(link) => return Ok((link, started)),
                Err(Some(error)) => {
                    return Err(ConnectFailure::Answered { server: self.servers[index].clone(), error });
                }
                Err(None) => lock().end(index, self.share),
            }
        }
        let problems = lock().to_string();
        Err(ConnectFailure::NoServer(problems))
    }

    /// Connects to `server`, within its share of the time. Any problem is noted, again and again as more is known of it,
    /// except an answer that the other servers would give too: that is returned.
    async fn connect(&self, server: &HostPort, note: &Note<'_>) -> Result<Link, Option<ZkError>> {
        let over = pin!(self.timer.sleep(self.share));
        let mut attempt = pin!(Link::connect((self.connector)(), server, self.caught_up));
        let early = tokio::select! {
            biased;
            connected = &mut attempt => Some(connected),
            () = self.timer.sleep(self.share / 2) => None,
        };
        let look = look_at(server, early.is_some(), note);
        match early.map(|connected| connected.map_err(answer)) {
            None => tokio::select! {
                biased;
                connected = attempt => connected.map_err(answer),
                () = over => Err(None),
                never = async { look.await; pending().await } => never,
            },
            Some(Err(None)) => {
                tokio::select! {
                    () = look => {}
                    () = over => {}
                }
                Err(None)
            }
            Some(connected) => connected,
        }
    }
}

/// The error, if it is the word of a server that all of them would say. The crate tells nothing else: whatever is wrong
/// with a server, it has "no hosts" in the end.
fn answer(error: ZkError) -> Option<ZkError> {
    let is_answer = matches!(
        error,
        ZkError::SessionExpired | ZkError::SessionMoved | ZkError::AuthFailed | ZkError::BadArguments(_)
    );
    is_answer.then_some(error)
}

/// Finds out what is wrong with a server whose handshake has failed already (`is_early`), or takes long.
///
/// The names are resolved by the crate's own resolver, whose threads nobody waits for when the process ends.
async fn look_at(server: &HostPort, is_early: bool, note: &Note<'_>) {
    note(Problem::Slow("no address found"));
    let addresses = match async_net::resolve((server.host(), server.port())).await {
        Ok(addresses) => addresses,
        Err(error) => return note(Problem::Unresolved(error)),
    };
    note(Problem::Slow("no connection"));
    note(match async_net::TcpStream::connect(&*addresses).await {
        Err(error) => Problem::Unconnected(error),
        Ok(_) if is_early => Problem::Ended,
        Ok(_) => Problem::Slow("connected, but no answer to the handshake"),
    });
}

type Note<'a> = dyn Fn(Problem) + Send + Sync + 'a;

/// What is wrong with one server.
#[derive(Debug)]
enum Problem {
    Unresolved(io::Error),
    Unconnected(io::Error),
    /// What has not happened yet.
    Slow(&'static str),
    /// What has not happened in time.
    Overdue(&'static str, Duration),
    /// It has accepted the connection, and closed it.
    Ended,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unresolved(error) => write!(f, "cannot be resolved ({error})"),
            Self::Unconnected(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                f.write_str("connection refused")
            }
            Self::Unconnected(error) => write!(f, "cannot be reached ({error})"),
            Self::Slow(what) => write!(f, "{what} yet"),
            Self::Overdue(what, share) => write!(f, "{what} within {share:?}"),
            Self::Ended => f.write_str(
                "connected, but the server ended the handshake (it may be starting, without a quorum, or at its limit \
                 of connections)",
            ),
        }
    }
}

/// What is wrong with the servers. `Display` lists them as the connect string does.
struct Problems<'a> {
    servers: &'a [HostPort],
    found: Vec<Option<Problem>>,
}

/// How many servers are named; an ensemble has fewer.
const MOST_NAMED: usize = 9;

impl<'a> Problems<'a> {
    fn of(servers: &'a [HostPort]) -> Self {
        Self { servers, found: servers.iter().map(|_| None).collect() }
    }

    /// Returns all that is known.
    fn note(&mut self, index: usize, problem: Problem) -> String {
        self.found[index] = Some(problem);
        self.to_string()
    }

    /// The time of a server is over.
    fn end(&mut self, index: usize, share: Duration) {
        if let Some(Problem::Slow(what)) = self.found[index] {
            self.found[index] = Some(Problem::Overdue(what, share));
        }
    }
}

impl fmt::Display for Problems<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known =
            || self.servers.iter().zip(&self.found).filter_map(|(server, found)| Some((server, found.as_ref()?)));
        for (index, (server, problem)) in known().take(MOST_NAMED).enumerate() {
            write!(f, "{}{server}: {problem}", if index == 0 { "" } else { "; " })?;
        }
        match known().count().saturating_sub(MOST_NAMED) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect_string::ConnectString;

    #[test]
    fn every_server_is_named_with_its_problem() {
        let servers = ConnectString::parse("zk1,zk2,zk3,zk4,[::1]:7").unwrap();
        let share = Duration::from_secs(5);
        let mut problems = Problems::of(servers.hosts());
        assert_eq!(problems.to_string(), "");
        problems.note(2, Problem::Slow("connected, but no answer to the handshake"));
        problems.note(1, Problem::Unresolved(io::Error::other("unknown")));
        assert_eq!(
            problems.note(0, Problem::Unconnected(io::ErrorKind::ConnectionRefused.into())),
            "zk1:2181: connection refused; zk2:2181: cannot be resolved (unknown); \
             zk3:2181: connected, but no answer to the handshake yet"
        );
        problems.end(2, share);
        problems.end(1, share);
        problems.note(3, Problem::Ended);
        problems.note(4, Problem::Unconnected(io::Error::other("no route")));
        let text = problems.to_string();
        assert!(text.contains("zk2:2181: cannot be resolved (unknown); zk3:2181: connected, but no answer"), "{text}");
        assert!(
            text.contains("handshake within 5s; zk4:2181: connected, but the server ended the handshake"),
            "{text}"
        );
        assert!(text.ends_with("; [::1]:7: cannot be reached (no route)"), "{text}");
    }

    #[test]
    fn a_long_list_is_cut_off() {
        let servers = ConnectString::parse(&["zk"; 30].join(",")).unwrap();
        let mut problems = Problems::of(servers.hosts());
        (0..30).for_each(|index| drop(problems.note(index, Problem::Slow("no connection"))));
        let text = problems.to_string();
        assert_eq!(text.matches("no connection yet").count(), MOST_NAMED);
        assert!(text.ends_with("; and 21 more"), "{text}");
    }
}
