//! One pass over the servers: tries one after another, in random order, until one of them accepts the session.
//!
//! `zookeeper-client` can do this too, but it reports neither which server failed nor why, and it connects to the first
//! address of a name that accepts a connection, even if that server is silent. So this pass gives it only one address
//! at a time (with TLS, one name), and examines a server that fails or is slow ([`Diagnosis`]). The attempts do not
//! wait for the examinations.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _, TryFutureExt as _};
use zookeeper_client::{Connector, Error as ZkError};

use super::attempt::Attempt;
use super::diagnosis::{Diagnosis, ExaminationCause};
use super::{Link, Unverified};
use crate::clock::ClockInstant;
use crate::connect_string::HostPort;
use crate::options::SessionOptions;
use crate::timer::{Deadline, Timer};
use crate::transport::{ConnectFailure, Granted};

/// A pass over the servers.
pub(super) struct Pass<'a> {
    pub(super) diagnosis: &'a Diagnosis<'a>,
    pub(super) options: &'a SessionOptions,
    /// The time limit for one server.
    pub(super) share: Duration,
    pub(super) timer: &'a Timer,
    pub(super) connector: &'a (dyn Fn(&HostPort) -> Result<Connector, ZkError> + Send + Sync),
    pub(super) granted: Granted,
    /// Whether this pass resumes a session, so that a server may have older state than the session has seen.
    pub(super) resumes_session: bool,
}

/// The target of one attempt of `zookeeper-client`.
pub(super) struct Target {
    /// In the form that `zookeeper-client` parses.
    pub(super) name: String,
    /// The addresses of `name`.
    pub(super) addresses: Vec<SocketAddr>,
}

/// How an attempt at one server failed.
enum Failed {
    /// The server has given a reply that the others would give too.
    Answered(ZkError),
    /// The attempt failed before its time was over. The server at these addresses is examined.
    Early(Vec<SocketAddr>),
    /// The diagnosis has recorded the reason.
    Noted,
}

impl Pass<'_> {
    /// Returns the connection, and a time before its connect request was sent.
    ///
    /// There is no await point between the opened connection and the return, so a time limit of the caller cannot
    /// expire in between.
    pub(super) async fn run(self) -> Result<(Link, ClockInstant), ConnectFailure> {
        let servers = self.diagnosis.servers;
        let mut order: Vec<_> = (0..servers.len()).collect();
        fastrand::shuffle(&mut order);
        // Run concurrently with the attempts at the next servers.
        let mut examinations = FuturesUnordered::new();
        for index in order {
            let started = ClockInstant::now();
            self.diagnosis.begin(index);
            let mut attempt = pin!(self.attempt(index));
            let attempted = loop {
                tokio::select! {
                    biased;
                    attempted = &mut attempt => break attempted,
                    Some(()) = examinations.next(), if !examinations.is_empty() => {}
                }
            };
            match attempted {
                Ok(link) => return Ok((link, started)),
                Err(Failed::Answered(error)) => {
                    return Err(ConnectFailure::Answered { server: servers[index].clone(), error: error.into() });
                }
                Err(Failed::Early(addresses)) => examinations.push(self.examine(index, addresses)),
                Err(Failed::Noted) => {}
            }
        }
        tokio::select! {
            biased;
            () = examinations.collect() => {}
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
        let (server, deadline) = (&self.diagnosis.servers[index], Deadline::after(self.share));
        self.get_ticket(index, deadline).await?;
        // A numeric address needs no lookup. `async_net` looks names up on its own threads, which, unlike tokio's
        // blocking threads, do not delay the end of a runtime.
        let resolved = async_net::resolve((server.host(), server.port()));
        let addresses = self.resolve(index, resolved, deadline).await?;
        self.connect_to_any(index, addresses, deadline).await
    }

    async fn resolve(
        &self,
        index: usize,
        resolved: impl Future<Output = io::Result<Vec<SocketAddr>>>,
        deadline: Deadline,
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
            () = self.timer.sleep_until(deadline) => {
                // `slow` may not have reported this yet.
                self.diagnosis.unresolved_yet(index);
                self.diagnosis.end(index, self.share);
                return Err(Failed::Noted);
            }
            never = slow => never,
        };
        self.diagnosis.unresolved(index, error);
        Err(Failed::Noted)
    }

    /// Connects to a server at any of its addresses, in random order. Each gets an equal part of the remaining time.
    async fn connect_to_any(
        &self,
        index: usize,
        addresses: Vec<SocketAddr>,
        deadline: Deadline,
    ) -> Result<Link, Failed> {
        let mut targets = self.targets(index, addresses);
        fastrand::shuffle(&mut targets);
        let mut failed = Failed::Noted;
        while let Some(target) = targets.pop() {
            let parts = u32::try_from(targets.len() + 1).unwrap_or(u32::MAX);
            match self.connect(index, target, deadline.remaining().unwrap_or_default() / parts).await {
                Err(Failed::Answered(error)) => return Err(Failed::Answered(error)),
                Err(other) => failed = other,
                Ok(link) => return Ok(link),
            }
        }
        Err(failed)
    }

    /// The targets of a server: one for each address. With TLS, the only target is the name, because `zookeeper-client`
    /// checks the certificate against the host of the target; it then resolves the name a second time.
    fn targets(&self, index: usize, addresses: Vec<SocketAddr>) -> Vec<Target> {
        if self.options.uses_tls() {
            self.diagnosis.resolved_by_zookeeper_client(index, addresses.len());
            return vec![Target { name: format!("tcp+tls://{}", self.diagnosis.servers[index]), addresses }];
        }
        addresses.into_iter().map(|address| Target { name: address.to_string(), addresses: vec![address] }).collect()
    }

    /// Connects to a server within `limit`. If it takes long, the server is examined meanwhile.
    async fn connect(&self, index: usize, target: Target, limit: Duration) -> Result<Link, Failed> {
        let (started, mut over) = (Instant::now(), pin!(self.timer.sleep(limit)));
        let server = &self.diagnosis.servers[index];
        let connector = (self.connector)(server).map_err(Failed::Answered)?;
        let unverified = Unverified { freshness: self.resumes_session, identity: self.options.uses_sasl() };
        let (granted, addresses) = (Arc::clone(&self.granted), target.addresses.clone());
        let connect = Link::connect(connector, server.clone(), target, unverified);
        // The SASL libraries may block without a limit, which must not happen on the thread that serves all connections
        // of the process.
        let connect = if self.options.uses_sasl() {
            connect.inspect_ok(move |link| granted(link.session_id(), link.session_timeout())).boxed()
        } else {
            Attempt::start(connect, granted).boxed()
        };
        let slow = async {
            self.timer.sleep(limit / 2).await;
            self.diagnosis.examine(index, &addresses, ExaminationCause::Slow).await;
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
            // An error near the end of the limit counts as a timeout: `zookeeper-client` may have the same limit.
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

    /// Examines a server after an attempt that failed before its time limit. A resumed session was connected to the
    /// ensemble before, so its TLS settings are known to match.
    async fn examine(&self, index: usize, addresses: Vec<SocketAddr>) {
        let cause = if self.resumes_session { ExaminationCause::EndedOnResume } else { ExaminationCause::EndedOnOpen };
        self.diagnosis.examine(index, &addresses, cause).await;
    }
}

/// Gets the Kerberos ticket that a client with GSSAPI needs before it connects to a server. Without the feature, does
/// nothing.
impl Pass<'_> {
    #[cfg(feature = "sasl-gssapi")]
    async fn get_ticket(&self, index: usize, deadline: Deadline) -> Result<(), Failed> {
        let problem = tokio::select! {
            biased;
            problem = crate::zk::ticket::missing(self.options, &self.diagnosis.servers[index]) => problem,
            () = self.timer.sleep_until(deadline) => Some(format!("no Kerberos ticket within {:?}", self.share)),
        };
        let Some(problem) = problem else { return Ok(()) };
        self.diagnosis.prerequisite_missing(index, problem);
        Err(Failed::Noted)
    }

    #[cfg(not(feature = "sasl-gssapi"))]
    async fn get_ticket(&self, _index: usize, _deadline: Deadline) -> Result<(), Failed> {
        Ok(())
    }
}

/// Distinguishes replies that all servers would give from other failures, which `zookeeper-client` reports only as "no
/// hosts".
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
        // `zookeeper-client` gives up a silent server after 2/5 of the session timeout.
        Ok(Client::connector().with_session_timeout(10 * SHARE).with_fail_eagerly())
    }

    fn pass<'a>(
        diagnosis: &'a Diagnosis<'a>,
        options: &'a SessionOptions,
        timer: &'a Timer,
        share: Duration,
    ) -> Pass<'a> {
        let granted: Granted = Arc::new(|_, _| {});
        Pass { diagnosis, options, share, timer, connector: &connector, granted, resumes_session: false }
    }

    #[tokio::test]
    async fn a_silent_address_leaves_time_for_the_other_addresses_of_its_host() {
        let server = EmbeddedServer::start().unwrap();
        // The system accepts the connection; no server reads from it.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        silent.set_nonblocking(true).unwrap();
        let slow = FaultProxy::start(server.address()).unwrap();
        slow.set_delay(Duration::from_millis(20));
        let addresses = [silent.local_addr().unwrap(), slow.address()];
        let (options, timer) = (SessionOptions::with_long_timeouts("client", "zk"), Timer::new(Handle::current()));
        let diagnosis = Diagnosis::new(&options, &|_| {});
        let pass = pass(&diagnosis, &options, &timer, SHARE);
        let mut connects = 0..64;
        // Servers are tried in random order, so eventually the silent one comes first.
        while silent.accept().is_err() {
            assert!(connects.next().is_some(), "the silent address is never tried first");
            let link = soon(pass.connect_to_any(0, addresses.to_vec(), Deadline::after(SHARE))).await;
            assert_eq!(link.ok().and_then(|link| link.address()), Some(slow.address()), "{diagnosis}");
        }
    }

    #[tokio::test]
    async fn an_unresolved_host_fails_at_its_deadline_or_with_the_error_of_the_resolver() {
        let (options, timer) = (SessionOptions::with_long_timeouts("client", "zk"), Timer::new(Handle::current()));
        let diagnosis = Diagnosis::new(&options, &|_| {});
        let share = Duration::from_millis(200);
        let pass = pass(&diagnosis, &options, &timer, share);
        // On a busy machine, all of the time may be over when the attempt is first checked.
        for left in [Duration::ZERO, share] {
            let started = Instant::now();
            assert!(soon(pass.resolve(0, pending(), Deadline::after(left))).await.is_err());
            assert!(started.elapsed() >= left);
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
        let mut options = SessionOptions::with_long_timeouts("client", "zk:7");
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
