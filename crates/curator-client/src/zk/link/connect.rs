//! Connects to one server at a time with `zookeeper-client`.
//!
//! `zookeeper-client` can try all servers itself, but it reports neither which server failed nor
//! why, and it connects to the first address of a name that accepts a connection, even if that
//! server is silent. So a [`Pass`] gives it only one address at a time (with TLS, one name), and a
//! server that fails or is slow is examined.

use std::future::{Future, pending, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::{FutureExt as _, TryFutureExt as _};
use tokio::sync::oneshot;
use zookeeper_client::{Connector, Error as ZkError};

use super::{Link, Unverified};
use crate::connect_string::HostPort;
use crate::diagnosis::ExaminationCause;
use crate::pass::{Connect, Failed, Pass, Target};
use crate::transport::Granted;
use crate::zk::in_place::InPlace;

/// Opens connections for a new session or an existing one.
pub(super) struct Opening<'a> {
    pub(super) connector: &'a (dyn Fn(&HostPort) -> Result<Connector, ZkError> + Send + Sync),
    pub(super) granted: Granted,
}

impl Connect for Opening<'_> {
    type Link = Link;

    async fn resolve(&self, pass: &Pass<'_>, index: usize) -> io::Result<Vec<Target>> {
        let server = &pass.diagnosis.servers[index];
        // A numeric address needs no lookup. `async_net` looks names up on its own threads, which,
        // unlike tokio's blocking threads, do not delay the end of a runtime.
        let addresses = match pass.options.only_address {
            Some(address) => vec![address],
            None => async_net::resolve((server.host(), server.port())).await?,
        };
        Ok(targets(pass, index, addresses))
    }

    /// Connects to a server within `limit`. If it takes long, the server is examined meanwhile.
    async fn connect(
        &self,
        pass: &Pass<'_>,
        index: usize,
        target: Target,
        limit: Duration,
    ) -> Result<Link, Failed> {
        let started = Instant::now();
        let mut limit_passed = pin!(pass.timer.sleep(limit));
        let server = &pass.diagnosis.servers[index];
        let connector = (self.connector)(server).map_err(|error| Failed::Answered(error.into()))?;
        let unverified = Unverified {
            freshness: pass.resumes_session,
            identity: pass.options.uses_sasl(),
        };
        let granted = self.granted.clone();
        let addresses = target.addresses.clone();
        let connect = Link::connect(connector, server.clone(), target, unverified);
        // The SASL libraries may block without a limit, which must not happen on the thread that
        // serves all connections of the process.
        let connect = if pass.options.uses_sasl() {
            connect
                .inspect_ok(move |link| granted.report(link.session_id(), link.session_timeout()))
                .boxed()
        } else {
            Attempt::start(connect, granted).boxed()
        };
        let slow = async {
            pass.timer.sleep(limit / 2).await;
            pass.diagnosis
                .examine(index, &addresses, ExaminationCause::Slow)
                .await;
            pending().await
        };
        let error = tokio::select! {
            biased;
            connected = connect => match connected {
                Ok(link) => return Ok(link),
                Err(error) => Some(error),
            },
            () = &mut limit_passed => None,
            never = slow => never,
        };
        match error {
            Some(error) if is_answer(&error) => Err(Failed::Answered(error.into())),
            // An error near the end of the limit counts as a timeout: `zookeeper-client` may have
            // the same limit.
            Some(_) if started.elapsed() <= limit / 8 * 7 => {
                pass.diagnosis.end_early(index);
                Err(Failed::Early(addresses))
            }
            _ => {
                pass.diagnosis.end(index, pass.share);
                Err(Failed::Noted)
            }
        }
    }
}

/// The targets of a server: one for each address. With TLS, the only target is the name, because
/// `zookeeper-client` checks the certificate against the host of the target; it then resolves the
/// name a second time, and may connect to another of its addresses.
fn targets(pass: &Pass<'_>, index: usize, addresses: Vec<SocketAddr>) -> Vec<Target> {
    if pass.options.uses_tls() && !addresses.is_empty() {
        pass.diagnosis
            .resolved_by_zookeeper_client(index, addresses.len());
        return vec![Target {
            name: format!("tcp+tls://{}", pass.diagnosis.servers[index]),
            addresses,
        }];
    }
    addresses
        .into_iter()
        .map(|address| Target {
            name: address.to_string(),
            addresses: vec![address],
        })
        .collect()
}

/// Distinguishes replies that all servers would give from other failures, which `zookeeper-client`
/// reports only as "no hosts".
fn is_answer(error: &ZkError) -> bool {
    matches!(
        error,
        ZkError::SessionExpired
            | ZkError::SessionMoved
            | ZkError::AuthFailed
            | ZkError::BadArguments(_)
    )
}

/// Waits for a connection that is opened inline: an attempt to connect that continues while the
/// client's runtime is blocked.
///
/// A server may grant a shorter session timeout, which must end the session's lease as soon as the
/// reply is read. So the attempt is polled inline, and does not wait for the task that started it.
///
/// Dropping it ends the attempt. If the connection is open by then, it is
/// [abandoned](Link::abandon).
pub(super) struct Attempt {
    running: Arc<InPlace>,
    outcome: oneshot::Receiver<Result<Unclaimed, ZkError>>,
}

impl Attempt {
    /// Starts to poll `connect`, which must not block, and must not panic. Reports the granted
    /// session to `granted` only when a poll of the attempt would return the connection: a task
    /// that `granted` notifies must find it.
    pub(super) fn start(
        connect: impl Future<Output = Result<Link, ZkError>> + Send + 'static,
        granted: Granted,
    ) -> Self {
        let (sender, outcome) = oneshot::channel();
        let mut sender = Some(sender);
        let mut connect = Box::pin(connect);
        let work = poll_fn(move |cx| {
            if sender.as_ref().is_none_or(oneshot::Sender::is_closed) {
                return Poll::Ready(());
            }
            let connected = ready!(connect.as_mut().poll(cx));
            if let Some(sender) = sender.take() {
                let session = connected
                    .as_ref()
                    .ok()
                    .map(|link| (link.session_id(), link.session_timeout()));
                // If the receiver was dropped meanwhile, this drops the connection.
                drop(sender.send(connected.map(Unclaimed::new)));
                if let Some((session_id, timeout)) = session {
                    granted.report(session_id, timeout);
                }
            }
            Poll::Ready(())
        });
        let running = InPlace::new(Box::pin(work));
        running.run();
        Self { running, outcome }
    }
}

impl Future for Attempt {
    type Output = Result<Link, ZkError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(Pin::new(&mut self.outcome).poll(cx));
        let ended = || ZkError::UnexpectedError("the attempt to connect has ended".to_owned());
        Poll::Ready(
            outcome
                .unwrap_or_else(|_| Err(ended()))
                .and_then(|link| link.claim().ok_or_else(ended)),
        )
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.outcome.close();
        self.running.run();
    }
}

/// A connection that the waiting task may never receive.
struct Unclaimed(Option<Link>);

impl Unclaimed {
    fn new(link: Link) -> Self {
        Self(Some(link))
    }

    fn claim(mut self) -> Option<Link> {
        self.0.take()
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(link) = self.0.take() {
            link.abandon();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use curator_test::{EmbeddedServer, FaultProxy, OpCode, soon, until};
    use tokio::runtime::Handle;
    use zookeeper_client::Client;

    use super::*;
    use crate::connect_string::ConnectString;
    use crate::diagnosis::Diagnosis;
    use crate::options::SessionOptions;
    use crate::pass::Target;
    use crate::time::{Deadline, Timer};
    use crate::zk::link::Unverified;

    const SHARE: Duration = Duration::from_secs(4);

    fn connector(_: &HostPort) -> Result<Connector, ZkError> {
        // `zookeeper-client` leaves a silent server after 2/5 of the session timeout.
        Ok(Client::connector()
            .with_session_timeout(10 * SHARE)
            .with_fail_eagerly())
    }

    fn pass<'a>(
        diagnosis: &'a Diagnosis<'a>,
        options: &'a SessionOptions,
        timer: &'a Timer,
    ) -> Pass<'a> {
        Pass {
            diagnosis,
            options,
            share: SHARE,
            timer,
            resumes_session: false,
        }
    }

    // Runs in real time, because simulations do not use this transport.
    #[tokio::test]
    async fn a_silent_address_leaves_time_for_the_other_addresses_of_its_host() {
        let server = EmbeddedServer::start().unwrap();
        // The system accepts the connection; no server reads from it.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        silent.set_nonblocking(true).unwrap();
        let slow = FaultProxy::start(server.address()).unwrap();
        slow.set_delay(Duration::from_millis(20));
        let addresses = [silent.local_addr().unwrap(), slow.address()];
        let options = SessionOptions::with_long_timeouts("client", "zk");
        let timer = Timer::new(Handle::current());
        let diagnosis = Diagnosis::new(&options, options.servers.hosts().into(), &|_| {});
        let pass = pass(&diagnosis, &options, &timer);
        let opening = Opening {
            connector: &connector,
            granted: Granted::unused(),
        };
        let mut connects = 0..64;
        // Servers are tried in random order, so eventually the silent one comes first.
        while silent.accept().is_err() {
            assert!(
                connects.next().is_some(),
                "the silent address is never tried first"
            );
            let link = soon(pass.connect_to_any(
                0,
                targets(&pass, 0, addresses.to_vec()),
                Deadline::after(SHARE),
                &opening,
            ))
            .await;
            assert_eq!(
                link.ok().and_then(|link| link.address()),
                Some(slow.address()),
                "{diagnosis}"
            );
        }
    }

    #[tokio::test]
    async fn a_server_that_ends_the_handshake_after_a_while_has_failed_early() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let options = SessionOptions::with_long_timeouts("client", "zk");
        let timer = Timer::new(Handle::current());
        let diagnosis = Diagnosis::new(&options, options.servers.hosts().into(), &|_| {});
        let pass = pass(&diagnosis, &options, &timer);
        let opening = Opening {
            connector: &connector,
            granted: Granted::unused(),
        };
        let target = targets(&pass, 0, vec![address]).remove(0);
        let hesitating = std::thread::spawn(move || {
            let (_stream, _) = server.accept().unwrap();
            // Longer than any server takes to refuse a client, and much shorter than its share.
            std::thread::sleep(SHARE / 16);
        });
        let failed = opening.connect(&pass, 0, target, SHARE).await;
        hesitating.join().unwrap();
        assert!(matches!(failed, Err(Failed::Early(addresses)) if addresses == [address]));
    }

    #[tokio::test]
    async fn each_address_is_a_target_unless_tls_needs_the_name() {
        let addresses = vec!["127.0.0.1:7".parse().unwrap(), "[::1]:7".parse().unwrap()];
        #[cfg_attr(
            not(feature = "tls"),
            expect(unused_mut, reason = "only TLS changes it")
        )]
        let mut options = SessionOptions::with_long_timeouts("client", "zk:7");
        let timer = Timer::new(Handle::current());
        let names = |options: &SessionOptions| -> Vec<String> {
            let diagnosis = Diagnosis::new(options, options.servers.hosts().into(), &|_| {});
            let targets = targets(&pass(&diagnosis, options, &timer), 0, addresses.clone());
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

    const LONG: Duration = Duration::from_secs(30);

    /// An attempt that no task polls.
    fn start(proxy: &FaultProxy) -> Attempt {
        let connector = Client::connector()
            .with_session_timeout(LONG)
            .with_connection_timeout(LONG)
            .with_fail_eagerly();
        let servers = ConnectString::parse(&proxy.connect_string()).unwrap();
        let target = Target {
            name: proxy.connect_string(),
            addresses: vec![proxy.address()],
        };
        let unverified = Unverified {
            freshness: false,
            identity: false,
        };
        let server = servers.hosts()[0].clone();
        Attempt::start(
            Link::connect(connector, server, target, unverified),
            Granted::unused(),
        )
    }

    #[tokio::test]
    async fn a_session_stays_open_when_the_attempt_that_opened_it_is_dropped() {
        let server = EmbeddedServer::start().unwrap();
        let proxy = FaultProxy::start(server.address()).unwrap();
        let attempt = start(&proxy);
        until(async || !attempt.outcome.is_empty()).await;
        drop(attempt);
        proxy.wait_for_connections(0).await.unwrap();
        assert_eq!(server.requests().get(&OpCode::CloseSession), None);
        assert_eq!(server.session_ids().len(), 1);
    }

    #[tokio::test]
    async fn a_dropped_attempt_closes_its_connection() {
        let server = EmbeddedServer::start().unwrap();
        let proxy = FaultProxy::start(server.address()).unwrap();
        proxy.hold_replies(OpCode::CreateSession);
        let attempt = start(&proxy);
        proxy
            .wait_for_request(OpCode::CreateSession, 1)
            .await
            .unwrap();
        drop(attempt);
        proxy.wait_for_connections(0).await.unwrap();
    }
}
