//! Opening a connection, for a new session or an existing one, and its first request.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use zookeeper_client::{
    Acls, Client, Connector, CreateMode as ZkCreateMode, Error as ZkError, MultiWriteError, SessionInfo,
};

use super::diagnosis::Diagnosis;
use super::hosts::{ConnectFailure, Pass, Target};
use super::{Answer, Granted, Link, Unverified};
use crate::clock::ClockInstant;
use crate::connect_string::HostPort;
use crate::options::{Credentials, SessionOptions};
use crate::path::ZPath;
use crate::timer::Timer;
#[cfg(feature = "tls")]
use crate::tls::Certificates;
use crate::zk::error::is_server_reply;
use crate::zk::sockets::Socket;
use crate::zk::start::start;
use crate::zk::task::{LinkEnd, SessionTask, catch_task};
use crate::zk::watchdog::Watchdog;

impl Link {
    /// Opens a session: one pass over the servers, no longer than the connection timeout. Also returns an instant before
    /// its connect request was sent.
    ///
    /// Nothing is awaited once there is a session.
    pub(crate) async fn open(
        options: &SessionOptions,
        timer: &Timer,
        diagnosis: &Diagnosis<'_>,
    ) -> Result<(Self, ClockInstant), ConnectFailure> {
        let connector = |server: &HostPort| connector(options, server);
        let share = share(options, options.connection_timeout);
        let granted: Granted = Arc::new(|_| {});
        Pass { diagnosis, options, share, timer, connector: &connector, granted, is_behind: false }.run().await
    }

    /// Connects to `server`, and calls `granted`. A panic of the client crate is an error.
    pub(super) async fn connect(
        connector: Connector,
        server: HostPort,
        target: Target,
        unverified: Unverified,
        granted: Granted,
    ) -> Result<Self, ZkError> {
        let connect = AssertUnwindSafe(Self::handshake(connector, server, target, unverified)).catch_unwind();
        let panicked = || ZkError::UnexpectedError("the client crate has panicked".to_owned());
        let link = connect.await.unwrap_or_else(|_| Err(panicked()))?;
        granted(link.session_timeout());
        Ok(link)
    }

    async fn handshake(
        connector: Connector,
        server: HostPort,
        target: Target,
        unverified: Unverified,
    ) -> Result<Self, ZkError> {
        let socket = Socket::to(target.addresses.clone());
        let watchdog = Watchdog::new(&server, &socket);
        // A connect is large, and a future that waits for it should not be.
        let connect = socket.opened_by(Box::pin(connector.connect(&target.name)));
        let (client, work) = catch_task(watchdog.watch(Box::pin(connect))).await;
        let client = client?;
        socket.set_nodelay();
        let work =
            work.ok_or_else(|| ZkError::UnexpectedError("the client crate spawned its task elsewhere".to_owned()))?;
        let task = SessionTask::start(Box::pin(watchdog.watch(work)), client.state_watcher(), client.session_timeout());
        let is_proved = Arc::new(AtomicBool::new(!unverified.freshness && !unverified.identity));
        Ok(Self {
            client,
            task,
            server: Arc::new(server),
            address: target.addresses.first().copied(),
            unverified,
            is_proved,
        })
    }

    /// The key by which this connection's session can be resumed.
    pub(crate) fn session_key(&self) -> SessionKey {
        SessionKey { session: self.client.session().clone(), timeout: self.session_timeout() }
    }

    /// A request that only the leader can answer.
    ///
    /// A server does not accept a session that has seen more than the server has; but a session that is resumed claims
    /// to have seen nothing. So the first probe of a resumed session has a write before it, which changes nothing: what
    /// was seen before had been confirmed by a quorum, so no quorum confirms a write that does not come after it.
    ///
    /// A server on which SASL is not set up answers it as if all were well, and lets the client in. So for a client that wants
    /// to be known, the write asks for a node that is for those whom the server knows; and for what is never true, so that
    /// there is no node (3.6 closes the connection on `whoAmI`). If the session is not authenticated, the answer is the error `InvalidAcl`.
    pub(crate) fn probe(&self) -> Answer<()> {
        if self.is_proved.load(Ordering::Acquire) {
            let unfired = Arc::clone(self.task.unfired());
            let (drops, synced) = (unfired.drops(), self.sync(&ZPath::root()));
            return start(async move {
                synced.await?;
                unfired.probed(drops);
                Ok(())
            });
        }
        let (client, verifies_identity, is_proved) =
            (self.client.clone(), self.unverified.identity, Arc::clone(&self.is_proved));
        start(async move {
            let mut writer = client.new_multi_writer();
            if verifies_identity {
                let for_us = ZkCreateMode::Persistent.with_acls(Acls::creator_all());
                writer.add_create("/curator-client-asks-who-it-is", &[], &for_us)?;
            }
            writer.add_check_version(ZPath::root().as_str(), if verifies_identity { NEVER } else { ANY })?;
            // `join` polls them in this order, and polling sends them: pipelined.
            let (written, synced) = futures_util::future::join(writer.commit(), client.sync("/")).await;
            match written {
                Err(MultiWriteError::OperationFailed { index: 0, source: ZkError::InvalidAcl }) => {
                    Err(ZkError::InvalidAcl)
                }
                Err(MultiWriteError::RequestFailed { source }) if !is_word_of_the_leader(&source) => Err(source),
                _ => {
                    is_proved.store(true, Ordering::Release);
                    synced
                }
            }
        })
    }
}

/// The version that any node has, as far as a check is concerned.
const ANY: i32 = -1;
/// The version that no node has.
const NEVER: i32 = -2;

/// The key by which a session is resumed: its id and password, and the timeout to request. Holding it does not keep the
/// session open.
#[derive(Clone)]
pub(crate) struct SessionKey {
    session: SessionInfo,
    timeout: Duration,
}

impl SessionKey {
    /// Opens another connection for the session, whose last one has ended: one pass over the servers, no longer than
    /// `limit`.
    ///
    /// Returns it with a moment before its connect request was sent. The server negotiates the session's timeout again: `granted` is called with it as soon as it is known, on the thread
    /// that has read it. Nothing may be awaited between the end of this and the use of the result: dropping the result closes
    /// the session.
    pub(crate) async fn resume(
        &self,
        options: &SessionOptions,
        timer: &Timer,
        limit: Duration,
        diagnosis: &Diagnosis<'_>,
        granted: &Granted,
    ) -> Result<(Link, ClockInstant), ConnectFailure> {
        let connector = |server: &HostPort| {
            let connector = connector(options, server)?.with_session_timeout(self.timeout);
            Ok(connector.with_session(self.session.clone()))
        };
        let share = share(options, limit);
        let granted = Arc::clone(granted);
        let pass = Pass { diagnosis, options, share, timer, connector: &connector, granted, is_behind: true };
        pass.run().await
    }

    /// What a failed [`resume`](Self::resume) says about the session, if anything.
    pub(crate) fn end_of_session(failure: &ConnectFailure) -> Option<LinkEnd> {
        match failure {
            ConnectFailure::Answered { error: ZkError::SessionExpired | ZkError::SessionMoved, .. } => {
                Some(LinkEnd::Expired)
            }
            ConnectFailure::Answered { error: ZkError::AuthFailed, .. } => Some(LinkEnd::AuthFailed),
            _ => None,
        }
    }
}

/// The id, as ZooKeeper's own logs have it. No password.
impl std::fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.session.id())
    }
}

/// How long one server may take, where all of them together may take `limit`.
fn share(options: &SessionOptions, limit: Duration) -> Duration {
    let servers = u32::try_from(options.servers.hosts().len()).unwrap_or(u32::MAX);
    let share = (limit / servers.max(1)).min(options.session_timeout / 5 * 2);
    // In whole milliseconds, because errors name it.
    let rest = Duration::from_nanos(u64::from(share.subsec_nanos() % 1_000_000));
    share.saturating_sub(rest).max(Duration::from_millis(1))
}

/// The connector with which a connection to `server` is opened.
///
/// By itself, the crate waits 2/5 of the session timeout for a server that is silent, also later. That may be longer than
/// the whole connect may take; and the timeout is the one that the server grants, which may be far longer than the one that
/// was asked for. So it waits no longer than a server's share.
#[cfg_attr(
    not(any(feature = "sasl-digest-md5", feature = "sasl-gssapi")),
    expect(unused_variables, reason = "only SASL needs the server")
)]
fn connector(options: &SessionOptions, server: &HostPort) -> Result<Connector, ZkError> {
    let share = share(options, options.connection_timeout);
    let mut connector = Client::connector()
        .with_session_timeout(options.session_timeout)
        .with_connection_timeout(share)
        .with_fail_eagerly();
    for Credentials { scheme, auth } in &options.auth {
        connector = connector.with_auth(scheme, auth);
    }
    #[cfg(feature = "tls")]
    if let Some(tls) = &options.tls {
        connector = connector.with_tls(to_zk_tls(&tls.current())?);
    }
    #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
    if let Some(sasl) = &options.sasl {
        connector = connector.with_sasl(crate::zk::sasl::options(sasl, server));
    }
    Ok(connector)
}

/// The crate reads the same texts, which have been read before, so it finds nothing wrong with them.
#[cfg(feature = "tls")]
fn to_zk_tls(certificates: &Certificates) -> Result<zookeeper_client::TlsOptions, ZkError> {
    let tls = zookeeper_client::TlsOptions::new().with_pem_ca(&certificates.ca_pem)?;
    match &certificates.identity {
        Some(identity) => tls.with_pem_identity(&identity.certificate_pem, &identity.key_pem),
        None => Ok(tls),
    }
}

/// An overloaded server says so on its own, without asking the leader.
fn is_word_of_the_leader(error: &ZkError) -> bool {
    is_server_reply(error) && !matches!(error, ZkError::Throttled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_by_itself_proves_nothing() {
        assert!(is_word_of_the_leader(&ZkError::NoAuth));
        assert!(!is_word_of_the_leader(&ZkError::Throttled));
        assert!(!is_word_of_the_leader(&ZkError::ConnectionLoss));
    }
}
