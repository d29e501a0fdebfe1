//! One pass over the servers: one after another, in random order, until one of them accepts the session.
//!
//! The client crate can do this too, but it does not tell what is wrong with a server, and not even which one it is about; and it
//! connects to the first address of a name that accepts a connection, even if that one is silent. So it is given one address of
//! one server at a time, and a server that fails or is slow is looked at ([`Diagnosis`]). The attempts do not wait for a look.

use std::future::pending;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use zookeeper_client::{Connector, Error as ZkError};

use super::attempt::Attempt;
use super::diagnosis::{Diagnosis, Look};
use super::{Granted, Link, Unverified};
use crate::clock::ClockInstant;
use crate::connect_string::HostPort;
use crate::options::SessionOptions;
use crate::timer::{Deadline, Timer};
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
    pub(super) connector: &'a (dyn Fn(&HostPort) -> Result<Connector, ZkError> + Send + Sync),
    pub(super) granted: Granted,
    /// Whether the servers may be behind what the session has seen.
    pub(super) is_behind: bool,
}

/// What the client crate connects to.
pub(super) struct Target {
    /// As the crate reads it.
    pub(super) name: String,
    /// What that stands for.
    pub(super) addresses: Vec<SocketAddr>,
}

/// How an attempt at one server failed.
enum Failed {
    /// The server has given an answer that the others would give too.
    Answered(ZkError),
    /// By itself. The server at these addresses is looked at.
    Early(Vec<SocketAddr>),
    /// The diagnosis has the reason.
    Noted,
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
                Err(Failed::Early(addresses)) => looks.push(self.look_at(index, addresses)),
                Err(Failed::Noted) => {}
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

    /// Connects to a server, within its share of the time.
    async fn attempt(&self, index: usize) -> Result<Link, Failed> {
        let (server, over) = (&self.diagnosis.servers[index], Deadline::after(self.share));
        self.get_ready(index, over).await?;
        // Numbers are not resolved. The threads that resolve names do not hold up the end of a runtime.
        let resolved = async_net::resolve((server.host(), server.port()));
        let addresses = self.resolve(index, resolved, over).await?;
        self.connect_to_any(index, addresses, over).await
    }

    async fn resolve(
        &self,
        index: usize,
        resolved: impl Future<Output = io::Result<Vec<SocketAddr>>>,
        over: Deadline,
    ) -> Result<Vec<SocketAddr>, Failed> {
        let slow = async {
            self.timer.sleep(self.share / 2).await;
            self.diagnosis.unresolved_yet(index);
            pending().await
        };
        let error = tokio::select! {
            biased;
            resolved = resolved => match resolved {
                Ok(addresses) if !addresses.is_empty() => return Ok(addresses),
                Ok(_) => io::Error::other("it has no address"),
                Err(error) => error,
            },
            () = self.timer.sleep_until(over) => {
                // `slow` may not have come to say so.
                self.diagnosis.unresolved_yet(index);
                self.diagnosis.end(index, self.share);
                return Err(Failed::Noted);
            }
            never = slow => never,
        };
        self.diagnosis.unresolved(index, error);
        Err(Failed::Noted)
    }

    /// Connects to a server at any of its addresses, in random order. Each gets an equal part of the time that is left.
    async fn connect_to_any(&self, index: usize, addresses: Vec<SocketAddr>, over: Deadline) -> Result<Link, Failed> {
        let mut targets = self.targets(index, addresses);
        fastrand::shuffle(&mut targets);
        let mut failed = Failed::Noted;
        while let Some(target) = targets.pop() {
            let parts = u32::try_from(targets.len() + 1).unwrap_or(u32::MAX);
            match self.connect(index, target, over.remaining().unwrap_or_default() / parts).await {
                Err(Failed::Answered(error)) => return Err(Failed::Answered(error)),
                Err(other) => failed = other,
                Ok(link) => return Ok(link),
            }
        }
        Err(failed)
    }

    /// A certificate is for a name, and the crate connects to what it checks the certificate for. So with TLS it resolves the
    /// name again.
    fn targets(&self, index: usize, addresses: Vec<SocketAddr>) -> Vec<Target> {
        if self.options.speaks_tls() {
            self.diagnosis.left_to_tls(index, addresses.len());
            return vec![Target { name: format!("tcp+tls://{}", self.diagnosis.servers[index]), addresses }];
        }
        addresses.into_iter().map(|address| Target { name: address.to_string(), addresses: vec![address] }).collect()
    }

    /// Connects to a server within `limit`. If it takes long, it is looked at meanwhile.
    async fn connect(&self, index: usize, target: Target, limit: Duration) -> Result<Link, Failed> {
        let (started, mut over) = (Instant::now(), pin!(self.timer.sleep(limit)));
        let server = &self.diagnosis.servers[index];
        let connector = (self.connector)(server).map_err(Failed::Answered)?;
        let unverified = Unverified { freshness: self.is_behind, identity: self.options.wants_identity() };
        let (granted, addresses) = (Arc::clone(&self.granted), target.addresses.clone());
        let connect = Link::connect(connector, server.clone(), target, unverified, granted);
        // The libraries for SASL may block, and there is nothing to stop them: that must not happen to the thread which serves all
        // connections of the process.
        let connect = if self.options.wants_identity() { connect.boxed() } else { Attempt::start(connect).boxed() };
        let slow = async {
            self.timer.sleep(limit / 2).await;
            self.diagnosis.look_at(index, &addresses, Look::Slow).await;
            pending().await
        };
        let error = tokio::select! {
            biased;
            connected = connect => match connected {
                Ok(link) => return Ok(link),
                Err(error) => Some(error),
            },
            () = &mut over => None,
            never = slow => never,
        };
        match error {
            Some(error) if is_answer(&error) => Err(Failed::Answered(error)),
            // The crate may have the same limit.
            Some(_) if started.elapsed() <= limit / 8 * 7 => {
                self.diagnosis.end_early(index);
                Err(Failed::Early(addresses))
            }
            _ => {
                self.diagnosis.end(index, self.share);
                Err(Failed::Noted)
            }
        }
    }

    /// Looks at a server whose handshake has ended. One that the session was connected to before speaks as the client does.
    async fn look_at(&self, index: usize, addresses: Vec<SocketAddr>) {
        let look = if self.is_behind { Look::Ended } else { Look::Unknown };
        self.diagnosis.look_at(index, &addresses, look).await;
    }
}

/// What a client has to have before it asks a server.
impl Pass<'_> {
    #[cfg(feature = "sasl-gssapi")]
    async fn get_ready(&self, index: usize, over: Deadline) -> Result<(), Failed> {
        let problem = tokio::select! {
            biased;
            problem = crate::zk::ticket::missing(self.options, &self.diagnosis.servers[index]) => problem,
            () = self.timer.sleep_until(over) => Some(format!("no Kerberos ticket within {:?}", self.share)),
        };
        let Some(problem) = problem else { return Ok(()) };
        self.diagnosis.unready(index, problem);
        Err(Failed::Noted)
    }

    #[cfg(not(feature = "sasl-gssapi"))]
    async fn get_ready(&self, _index: usize, _over: Deadline) -> Result<(), Failed> {
        Ok(())
    }
}

/// Separates what all servers would answer from everything else, of which the crate says only that it has "no hosts" in the end.
fn is_answer(error: &ZkError) -> bool {
    matches!(error, ZkError::SessionExpired | ZkError::SessionMoved | ZkError::AuthFailed | ZkError::BadArguments(_))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use curator_test::{EmbeddedServer, FaultProxy, soon};
    use tokio::runtime::Handle;
    use zookeeper_client::Client;

    use super::*;

    const SHARE: Duration = Duration::from_secs(4);

    fn connector(_: &HostPort) -> Result<Connector, ZkError> {
        // The crate gives up a silent server after 2/5 of that.
        Ok(Client::connector().with_session_timeout(10 * SHARE).with_fail_eagerly())
    }

    fn pass<'a>(
        diagnosis: &'a Diagnosis<'a>,
        options: &'a SessionOptions,
        timer: &'a Timer,
        share: Duration,
    ) -> Pass<'a> {
        Pass { diagnosis, options, share, timer, connector: &connector, granted: Arc::new(|_| {}), is_behind: false }
    }

    #[tokio::test]
    async fn a_silent_address_leaves_time_for_the_others_of_its_name() {
        let server = EmbeddedServer::start().unwrap();
        // The system accepts the connection; nothing reads from it.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        silent.set_nonblocking(true).unwrap();
        let slow = FaultProxy::start(server.address()).unwrap();
        slow.set_delay(Duration::from_millis(20));
        let addresses = [silent.local_addr().unwrap(), slow.address()];
        let (options, timer) = (SessionOptions::patient("client", "zk"), Timer::new(Handle::current()));
        let diagnosis = Diagnosis::new(&options, &|_| {});
        let pass = pass(&diagnosis, &options, &timer, SHARE);
        let mut connects = 0..64;
        // Any of them may be the first, so sooner or later it is the silent one.
        while silent.accept().is_err() {
            assert!(connects.next().is_some(), "the silent address is never tried first");
            let link = soon(pass.connect_to_any(0, addresses.to_vec(), Deadline::after(SHARE))).await;
            assert_eq!(link.ok().and_then(|link| link.address()), Some(slow.address()), "{diagnosis}");
        }
    }

    #[tokio::test]
    async fn a_name_that_is_not_resolved_takes_the_share_of_its_server() {
        let (options, timer) = (SessionOptions::patient("client", "zk"), Timer::new(Handle::current()));
        let diagnosis = Diagnosis::new(&options, &|_| {});
        let share = Duration::from_millis(200);
        let pass = pass(&diagnosis, &options, &timer, share);
        // On a busy machine, all of the time may be over at the first look.
        for left in [Duration::ZERO, share] {
            assert!(soon(pass.resolve(0, pending(), Deadline::after(left))).await.is_err());
            assert_eq!(diagnosis.to_string(), "zk:2181: no address found within 200ms");
        }
        for (resolved, why) in [(Ok(Vec::new()), "it has no address"), (Err(io::Error::other("unknown")), "unknown")] {
            assert!(soon(pass.resolve(0, async { resolved }, Deadline::after(share))).await.is_err());
            assert_eq!(diagnosis.to_string(), format!("zk:2181: cannot be resolved ({why})"));
        }
    }

    #[tokio::test]
    async fn each_address_is_a_target_unless_tls_needs_the_name() {
        let addresses = vec!["127.0.0.1:7".parse().unwrap(), "[::1]:7".parse().unwrap()];
        #[cfg_attr(not(feature = "tls"), expect(unused_mut, reason = "only TLS changes it"))]
        let mut options = SessionOptions::patient("client", "zk:7");
        let timer = Timer::new(Handle::current());
        let names = |options: &SessionOptions| -> Vec<String> {
            let diagnosis = Diagnosis::new(options, &|_| {});
            let targets = pass(&diagnosis, options, &timer, SHARE).targets(0, addresses.clone());
            targets.into_iter().map(|target| target.name).collect()
        };
        assert_eq!(names(&options), ["127.0.0.1:7", "[::1]:7"]);
        #[cfg(feature = "tls")]
        {
            let ca = curator_test::TestingCa::new("ours").unwrap();
            options.tls = Some(crate::tls::TlsOptions::from_pem(ca.pem()).unwrap());
            assert_eq!(names(&options), ["tcp+tls://zk:7"]);
        }
    }
}
