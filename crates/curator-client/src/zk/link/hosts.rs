//! One pass over the servers: one after another, in random order, until one of them accepts the session.
//!
//! The client crate can do this too, but it does not tell what is wrong with a server, and not even which one it is about.
//! So it is given one server at a time, and a server that fails or is slow is looked at ([`Diagnosis`]). The attempts do not
//! wait for a look.

use std::fmt;
use std::future::pending;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use zookeeper_client::{Connector, Error as ZkError};

use super::diagnosis::{Diagnosis, Look};
use super::{Doubts, Link};
use crate::clock::ClockInstant;
use crate::connect_string::HostPort;
use crate::options::SessionOptions;
use crate::timer::Timer;
use crate::tls::TlsFailure;
use crate::zk::error::in_plain_words;

/// Why no connection was opened.
#[derive(Debug)]
pub(crate) enum ConnectFailure {
    /// A server has answered, and the others would answer the same.
    Answered { server: HostPort, error: ZkError },
    /// What is wrong with each server.
    NoServer(String),
    /// The same, where TLS is what is wrong with all of them, and will be.
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
                    looks.push(self.diagnosis.look_at(index, self.look()));
                }
                Err(Failed::Overdue) => self.diagnosis.end(index, self.share),
                Err(Failed::Unready(problem)) => self.diagnosis.unready(index, problem),
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
            never = async { self.diagnosis.look_at(index, Look::Slow).await; pending().await } => never,
        }
    }

    /// At a server whose handshake has ended. One that the session was connected to before speaks as the client does.
    fn look(&self) -> Look {
        if self.is_behind { Look::Ended } else { Look::Unknown }
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
