//! Connects to one server at a time by `zookeeper-client`.
//!
//! `zookeeper-client` can try all servers itself, but it reports neither which server failed nor
//! why, and it connects to the first address of a name that accepts a connection, even if that
//! server is silent. So a [`Pass`] gives it only one address at a time (with TLS, one name), and a
//! server that fails or is slow is examined.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::{FutureExt as _, TryFutureExt as _};
use zookeeper_client::{Connector, Error as ZkError};

use super::attempt::Attempt;
use super::{Link, Unverified};
use crate::connect_string::HostPort;
use crate::diagnosis::ExaminationCause;
use crate::pass::{Connect, Failed, Pass, Target};
use crate::transport::Granted;

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
        let addresses = async_net::resolve((server.host(), server.port())).await?;
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
        let (started, mut over) = (Instant::now(), pin!(pass.timer.sleep(limit)));
        let server = &pass.diagnosis.servers[index];
        let connector = (self.connector)(server).map_err(|error| Failed::Answered(error.into()))?;
        let unverified = Unverified {
            freshness: pass.resumes_session,
            identity: pass.options.uses_sasl(),
        };
        let (granted, addresses) = (self.granted.clone(), target.addresses.clone());
        let connect = Link::connect(connector, server.clone(), target, unverified);
        // The SASL libraries may block without a limit, which must not happen on the thread that
        // serves all connections of the process.
        let connect = if pass.options.uses_sasl() {
            connect
                .inspect_ok(move |link| granted.tell(link.session_id(), link.session_timeout()))
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
            () = &mut over => None,
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
/// name a second time.
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use curator_test::{EmbeddedServer, FaultProxy, soon};
    use tokio::runtime::Handle;
    use zookeeper_client::Client;

    use super::*;
    use crate::diagnosis::Diagnosis;
    use crate::options::SessionOptions;
    use crate::timer::{Deadline, Timer};

    const SHARE: Duration = Duration::from_secs(4);

    fn connector(_: &HostPort) -> Result<Connector, ZkError> {
        // `zookeeper-client` gives up a silent server after 2/5 of the session timeout.
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

    // In real time: a simulation does not have this transport.
    #[tokio::test]
    async fn a_silent_address_leaves_time_for_the_other_addresses_of_its_host() {
        let server = EmbeddedServer::start().unwrap();
        // The system accepts the connection; no server reads from it.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        silent.set_nonblocking(true).unwrap();
        let slow = FaultProxy::start(server.address()).unwrap();
        slow.set_delay(Duration::from_millis(20));
        let addresses = [silent.local_addr().unwrap(), slow.address()];
        let (options, timer) = (
            SessionOptions::with_long_timeouts("client", "zk"),
            Timer::new(Handle::current()),
        );
        let diagnosis = Diagnosis::new(&options, &|_| {});
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
        let (options, timer) = (
            SessionOptions::with_long_timeouts("client", "zk"),
            Timer::new(Handle::current()),
        );
        let diagnosis = Diagnosis::new(&options, &|_| {});
        let pass = pass(&diagnosis, &options, &timer);
        let opening = Opening {
            connector: &connector,
            granted: Granted::unused(),
        };
        let target = targets(&pass, 0, vec![address]).remove(0);
        let hesitating = std::thread::spawn(move || {
            let (_stream, _) = server.accept().unwrap();
            // Longer than any server takes to refuse a client, and far from the end of its time.
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
            let diagnosis = Diagnosis::new(options, &|_| {});
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
}
