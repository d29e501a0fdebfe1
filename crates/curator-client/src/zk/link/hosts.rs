//! One pass over the servers: one after another, in random order, until one of them accepts the session.
//!
//! The client crate can do this too, but it does not tell what is wrong with a server, and not even which one it is about.
//! So it is given one server at a time, and a server that fails or is slow is looked at: can its name be resolved, does it
//! accept a connection, and is TLS what the two do not agree about? A server that works is not looked at, and the attempts do
//! not wait for a look.

use std::future::pending;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use zookeeper_client::{Connector, Error as ZkError};

#[cfg(feature = "tls")]
use super::handshake::{Handshake, shake_hands};
#[cfg(feature = "tls")]
use super::look::speaks_plainly;
use super::look::speaks_tls;
use super::{Doubts, Link};
use crate::clock::ClockInstant;
use crate::connect_string::{ConnectString, HostPort};
use crate::options::SessionOptions;
use crate::timer::Timer;
#[cfg(feature = "tls")]
use crate::tls::TlsOptions;
use crate::tls::{TlsFailure, TlsProblem};
use crate::zk::error::in_plain_words;

/// Why no connection was opened.
#[derive(Debug)]
pub(crate) enum ConnectFailure {
    /// A server has answered, and the others would answer the same.
    Answered { server: HostPort, error: ZkError },
    /// What is wrong with each server.
    NoServer(String),
    /// The same, where TLS is what is wrong with all of them.
    Tls(String, Vec<TlsFailure>),
}

impl ConnectFailure {
    /// Whether a server refuses this client, whatever its session.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Answered { error: ZkError::AuthFailed | ZkError::BadArguments(_), .. } | Self::Tls(..))
    }

    /// What is wrong with each server, if that is TLS.
    pub(crate) fn into_tls(self) -> Vec<TlsFailure> {
        if let Self::Tls(_, failures) = self { failures } else { Vec::new() }
    }
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { server, error } => write!(f, "{server}: {}", in_plain_words(error)),
            Self::NoServer(problems) | Self::Tls(problems, _) => f.write_str(problems),
        }
    }
}

/// A pass over the servers.
pub(super) struct Pass<'a> {
    pub(super) diagnosis: &'a Diagnosis<'a>,
    pub(super) options: &'a SessionOptions,
    /// How long one server may take.
    pub(super) share: Duration,
    pub(super) timer: &'a Timer,
    pub(super) connector: &'a (dyn Fn() -> Result<Connector, ZkError> + Send + Sync),
    /// What the crate wants before the name of a server.
    pub(super) scheme: &'static str,
    /// Whether the servers may be behind what the session has seen.
    pub(super) is_behind: bool,
}

/// How an attempt at one server failed.
enum Failed {
    /// The server has given an answer that the others would give too.
    Answered(ZkError),
    /// By itself.
    Early,
    /// Its time was over.
    Overdue,
    /// It was not tried, because the client has not got what it wants to show.
    #[cfg_attr(not(feature = "sasl-gssapi"), expect(dead_code, reason = "only a Kerberos ticket has to be got first"))]
    Unready(String),
}

impl Pass<'_> {
    /// Returns the connection, and an instant before its connect request was sent.
    ///
    /// Nothing is awaited once there is a connection.
    pub(super) async fn run(self) -> Result<(Link, ClockInstant), ConnectFailure> {
        let servers = self.diagnosis.servers;
        let mut order: Vec<_> = (0..servers.len()).collect();
        fastrand::shuffle(&mut order);
        // They go on beside the attempts at the next servers.
        let mut looks = FuturesUnordered::new();
        for index in order {
            let started = ClockInstant::now();
            self.diagnosis.begin(index);
            let mut attempt = pin!(self.attempt(index));
            let attempted = loop {
                tokio::select! {
                    biased;
                    attempted = &mut attempt => break attempted,
                    Some(()) = looks.next(), if !looks.is_empty() => {}
                }
            };
            match attempted {
                Ok(link) => return Ok((link, started)),
                Err(Failed::Answered(error)) => {
                    return Err(ConnectFailure::Answered { server: servers[index].clone(), error });
                }
                Err(Failed::Early) => {
                    self.diagnosis.end_early(index);
                    looks.push(self.diagnosis.look_at(index, true));
                }
                Err(Failed::Overdue) => self.diagnosis.end(index, self.share),
                Err(Failed::Unready(problem)) => self.diagnosis.note(index, Problem::Unready(problem)),
            }
        }
        tokio::select! {
            () = looks.collect() => {}
            () = self.timer.sleep(self.share) => {}
        }
        let problems = self.diagnosis.to_string();
        Err(match self.diagnosis.tls_failures() {
            Some(failures) => ConnectFailure::Tls(problems, failures),
            None => ConnectFailure::NoServer(problems),
        })
    }

    /// Connects to a server, within its share of the time. If it takes long, it is looked at meanwhile.
    async fn attempt(&self, index: usize) -> Result<Link, Failed> {
        let (started, mut over) = (Instant::now(), pin!(self.timer.sleep(self.share)));
        let server = &self.diagnosis.servers[index];
        self.get_ready(server, over.as_mut()).await?;
        let connector = (self.connector)().map_err(failed)?;
        let doubts = Doubts { is_behind: self.is_behind, is_nobody: self.options.wants_identity() };
        let mut attempt = pin!(Link::connect(connector, self.scheme, server, doubts));
        tokio::select! {
            biased;
            connected = &mut attempt => return connected.map_err(failed),
            () = self.timer.sleep(self.share / 2) => {}
        }
        tokio::select! {
            biased;
            connected = attempt => connected.map_err(|error| match failed(error) {
                // The crate may have the same limit.
                Failed::Early if started.elapsed() > self.share / 8 * 7 => Failed::Overdue,
                failed => failed,
            }),
            () = over => Err(Failed::Overdue),
            never = async { self.diagnosis.look_at(index, false).await; pending().await } => never,
        }
    }
}

/// What a client has to have before it asks a server.
impl Pass<'_> {
    #[cfg(feature = "sasl-gssapi")]
    async fn get_ready(&self, server: &HostPort, over: impl Future<Output = ()>) -> Result<(), Failed> {
        let problem = tokio::select! {
            biased;
            problem = crate::zk::ticket::missing(self.options, server) => problem,
            () = over => Some(format!("no Kerberos ticket within {:?}", self.share)),
        };
        problem.map_or(Ok(()), |problem| Err(Failed::Unready(problem)))
    }

    #[cfg(not(feature = "sasl-gssapi"))]
    async fn get_ready(&self, _server: &HostPort, _over: impl Future<Output = ()>) -> Result<(), Failed> {
        Ok(())
    }
}

/// Tells the word of a server that all of them would say from everything else: of that, the crate says only that it has "no
/// hosts" in the end.
fn failed(error: ZkError) -> Failed {
    match error {
        ZkError::SessionExpired | ZkError::SessionMoved | ZkError::AuthFailed | ZkError::BadArguments(_) => {
            Failed::Answered(error)
        }
        _ => Failed::Early,
    }
}

/// What is wrong with one server.
#[derive(Debug)]
enum Problem {
    /// Nothing, as far as is known yet.
    Tried,
    Unresolved(io::Error),
    Unconnected(io::Error),
    /// What has not happened yet.
    Slow(&'static str),
    /// What has not happened in time.
    Overdue(&'static str, Duration),
    /// It has accepted the connection, and closed it.
    Ended,
    /// It has accepted the connection, but TLS is in the way.
    Tls(TlsProblem),
    /// It was not asked, for want of this.
    Unready(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tried => f.write_str("being tried"),
            Self::Unresolved(error) => write!(f, "cannot be resolved ({error})"),
            Self::Unconnected(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                f.write_str("connection refused")
            }
            Self::Unconnected(error) => write!(f, "cannot be reached ({error})"),
            Self::Slow(what) => write!(f, "{what} yet"),
            Self::Overdue(what, share) => write!(f, "{what} within {share:?}"),
            Self::Unready(problem) => f.write_str(problem),
            Self::Ended => f.write_str(
                "connected, but the server ended the handshake (it may be starting, without a quorum, or at its limit \
                 of connections)",
            ),
            Self::Tls(problem) => write!(f, "{problem}"),
        }
    }
}

/// What is wrong with the servers, from pass to pass. `Display` lists them as the connect string does.
pub(crate) struct Diagnosis<'a> {
    servers: &'a [HostPort],
    #[cfg(feature = "tls")]
    tls: Option<&'a TlsOptions>,
    found: Mutex<Vec<Found>>,
    report: &'a Report<'a>,
}

/// Is told what is wrong with the servers, as far as it is known, while a pass goes on.
pub(crate) type Report<'a> = dyn Fn(&str) + Send + Sync + 'a;

/// What is known of one server.
#[derive(Debug, Default)]
struct Found {
    problem: Option<Problem>,
    looked_at: Option<ClockInstant>,
    /// When it was asked whether it speaks TLS, or whether it does not, contrary to what the client does; if it did not
    /// turn out so.
    asked: Option<ClockInstant>,
}

/// How many servers are named; an ensemble has fewer.
const MOST_NAMED: usize = 9;
/// How often a server is looked at, at most. In an outage there is a pass every second, of every client.
const INTERVAL: Duration = Duration::from_secs(10);
/// How often a server is asked something that fits the other kind of port, at most: it may write a line about it into its log.
const QUESTION_INTERVAL: Duration = Duration::from_secs(60);
const NO_ANSWER: &str = "connected, but no answer to the handshake";
#[cfg(feature = "tls")]
const NO_TLS_ANSWER: &str = "connected, but no answer to the TLS handshake";

impl<'a> Diagnosis<'a> {
    pub(crate) fn new(options: &'a SessionOptions, report: &'a Report<'a>) -> Self {
        Self {
            #[cfg(feature = "tls")]
            tls: options.tls.as_ref(),
            ..Self::of_plain(&options.servers, report)
        }
    }

    fn of_plain(servers: &'a ConnectString, report: &'a Report<'a>) -> Self {
        let servers = servers.hosts();
        let found = servers.iter().map(|_| Found::default()).collect();
        Self {
            servers,
            #[cfg(feature = "tls")]
            tls: None,
            found: Mutex::new(found),
            report,
        }
    }

    /// What is wrong with each server, if that is TLS for all of them.
    fn tls_failures(&self) -> Option<Vec<TlsFailure>> {
        let found = self.lock();
        let failure = |(server, found): (&HostPort, &Found)| match &found.problem {
            Some(Problem::Tls(problem)) => Some(TlsFailure::new(server, problem.clone())),
            _ => None,
        };
        self.servers.iter().zip(&*found).map(failure).collect()
    }

    /// Reports what is known of a server that a pass has found.
    pub(crate) fn report(&self, text: &str) {
        (self.report)(text);
    }

    /// Finds out what is wrong with a server whose handshake has failed already (`is_early`), or takes long; unless that was
    /// done a moment ago.
    ///
    /// The names are resolved by the crate's own resolver, whose threads nobody waits for when the process ends.
    async fn look_at(&self, index: usize, is_early: bool) {
        if !self.is_due(index) {
            return;
        }
        let server = &self.servers[index];
        self.note(index, Problem::Slow("no address found"));
        let addresses = match async_net::resolve((server.host(), server.port())).await {
            Ok(addresses) => addresses,
            Err(error) => return self.note(index, Problem::Unresolved(error)),
        };
        self.note(index, Problem::Slow("no connection"));
        let connected = match async_net::TcpStream::connect(&*addresses).await {
            Ok(connected) => connected,
            Err(error) => return self.note(index, Problem::Unconnected(error)),
        };
        #[cfg(feature = "tls")]
        if let Some(tls) = self.tls {
            self.note(index, Problem::Slow(NO_TLS_ANSWER));
            match Box::pin(shake_hands(connected, server, tls)).await {
                Handshake::Accepted => {}
                Handshake::Failed(problem) => return self.note(index, Problem::Tls(problem)),
                Handshake::Ended => {
                    let is_plain = async {
                        let connected = async_net::TcpStream::connect(&*addresses).await;
                        if let Ok(connected) = connected { speaks_plainly(connected).await } else { false }
                    };
                    return self.note_ended(index, TlsProblem::NotTls, is_plain).await;
                }
            }
            return self.note(index, if is_early { Problem::Ended } else { Problem::Slow(NO_ANSWER) });
        }
        if is_early {
            self.note_ended(index, TlsProblem::TlsRequired, speaks_tls(connected)).await;
        } else {
            self.note(index, Problem::Slow(NO_ANSWER));
        }
    }

    /// A server has ended the handshake. Asks, unless that was done a moment ago, whether `problem` is the reason.
    async fn note_ended(&self, index: usize, problem: TlsProblem, is_so: impl Future<Output = bool>) {
        // What is known until it has answered.
        self.note(index, Problem::Ended);
        let is_due = is_due(&mut self.lock()[index].asked, QUESTION_INTERVAL);
        if is_due && is_so.await {
            self.lock()[index].asked = None;
            self.note(index, Problem::Tls(problem));
        }
    }

    fn is_due(&self, index: usize) -> bool {
        is_due(&mut self.lock()[index].looked_at, INTERVAL)
    }

    /// A server is being tried.
    fn begin(&self, index: usize) {
        self.lock()[index].problem.get_or_insert(Problem::Tried);
        self.report(&self.to_string());
    }

    fn note(&self, index: usize, problem: Problem) {
        self.lock()[index].problem = Some(problem);
        self.report(&self.to_string());
    }

    /// The time of a server is over.
    fn end(&self, index: usize, share: Duration) {
        let problem = &mut self.lock()[index].problem;
        match problem {
            Some(Problem::Slow(what)) => *problem = Some(Problem::Overdue(what, share)),
            Some(Problem::Tried) => *problem = Some(Problem::Overdue("no answer", share)),
            _ => {}
        }
    }

    /// An attempt has failed by itself.
    fn end_early(&self, index: usize) {
        let problem = &mut self.lock()[index].problem;
        match problem {
            Some(Problem::Slow(NO_ANSWER)) => *problem = Some(Problem::Ended),
            #[cfg(feature = "tls")]
            Some(Problem::Slow(NO_TLS_ANSWER)) => *problem = Some(Problem::Ended),
            _ => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Found>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether something was last done an interval ago, or never. If so, it is done now.
fn is_due(last: &mut Option<ClockInstant>, interval: Duration) -> bool {
    let now = ClockInstant::now();
    let is_due = last.is_none_or(|last| now.saturating_duration_since(last) >= interval);
    if is_due {
        *last = Some(now);
    }
    is_due
}

impl fmt::Display for Diagnosis<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.lock();
        for (index, (server, found)) in self.servers.iter().zip(&*found).take(MOST_NAMED).enumerate() {
            write!(f, "{}{server}: ", if index == 0 { "" } else { "; " })?;
            match &found.problem {
                Some(problem) => write!(f, "{problem}")?,
                None => f.write_str("not tried yet")?,
            }
        }
        match self.servers.len().saturating_sub(MOST_NAMED) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_is_named_with_its_problem() {
        let servers = ConnectString::parse("zk1,zk2,zk3,zk4,[::1]:7").unwrap();
        let share = Duration::from_secs(5);
        let last = Mutex::new(String::new());
        let report = |text: &str| text.clone_into(&mut last.lock().unwrap());
        let problems = Diagnosis::of_plain(&servers, &report);
        problems.begin(3);
        problems.note(2, Problem::Slow(NO_ANSWER));
        problems.note(1, Problem::Unresolved(io::Error::other("unknown")));
        problems.note(0, Problem::Unconnected(io::ErrorKind::ConnectionRefused.into()));
        assert_eq!(
            *last.lock().unwrap(),
            "zk1:2181: connection refused; zk2:2181: cannot be resolved (unknown); \
             zk3:2181: connected, but no answer to the handshake yet; zk4:2181: being tried; [::1]:7: not tried yet"
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
        let problems = Diagnosis::of_plain(&servers, &|_| {});
        (0..30).for_each(|index| problems.note(index, Problem::Slow("no connection")));
        let text = problems.to_string();
        assert_eq!(text.matches("no connection yet").count(), MOST_NAMED);
        assert!(text.ends_with("; and 21 more"), "{text}");
    }

    #[test]
    fn a_server_that_ends_a_slow_handshake_has_answered() {
        let servers = ConnectString::parse("zk1,zk2").unwrap();
        let problems = Diagnosis::of_plain(&servers, &|_| {});
        problems.note(0, Problem::Slow(NO_ANSWER));
        problems.note(1, Problem::Slow("no connection"));
        (0..2).for_each(|index| problems.end_early(index));
        let text = problems.to_string();
        assert!(text.contains("zk1:2181: connected, but the server ended the handshake"), "{text}");
        assert!(text.ends_with("zk2:2181: no connection yet"), "{text}");
    }

    #[test]
    fn tls_is_the_reason_if_it_is_with_every_server() {
        let servers = ConnectString::parse("zk1,zk2").unwrap();
        let problems = Diagnosis::of_plain(&servers, &|_| {});
        problems.note(0, Problem::Tls(TlsProblem::UnknownIssuer));
        problems.note(1, Problem::Ended);
        assert_eq!(problems.tls_failures(), None);
        problems.note(1, Problem::Tls(TlsProblem::NotTls));
        let failures = problems.tls_failures().unwrap();
        assert_eq!(failures[0], TlsFailure::new(&servers.hosts()[0], TlsProblem::UnknownIssuer));
        assert_eq!(failures[1], TlsFailure::new(&servers.hosts()[1], TlsProblem::NotTls));
        assert_eq!(problems.to_string(), crate::tls::listed(&failures));
    }

    #[tokio::test]
    async fn what_fits_the_other_kind_of_port_is_asked_again_soon_only_if_it_was_right() {
        let servers = ConnectString::parse("zk1").unwrap();
        let problems = Diagnosis::of_plain(&servers, &|_| {});
        let asked = |is_so: bool| problems.note_ended(0, TlsProblem::TlsRequired, async move { is_so });
        for _ in 0..2 {
            asked(true).await;
            assert!(problems.tls_failures().is_some());
        }
        asked(false).await;
        assert_eq!(problems.tls_failures(), None);
        // Not asked.
        asked(true).await;
        assert_eq!(problems.tls_failures(), None);
    }

    #[test]
    fn a_server_is_not_looked_at_in_every_pass() {
        let servers = ConnectString::parse("zk1,zk2").unwrap();
        let problems = Diagnosis::of_plain(&servers, &|_| {});
        assert!(problems.is_due(0) && problems.is_due(1));
        assert!(!problems.is_due(0) && !problems.is_due(1));
    }
}
