//! Opens a connection, for a new session or an existing one, and makes its first request.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use zookeeper_client::{
    Acls, Client, Connector, CreateMode as ZkCreateMode, Error as ZkError, MultiWriteError, SessionInfo,
};

use super::diagnosis::Diagnosis;
use super::hosts::{ConnectFailure, Pass, Target};
use super::{Answer, ConfirmedBy, Granted, Link, Unverified};
use crate::clock::ClockInstant;
use crate::connect_string::HostPort;
use crate::options::{Credentials, SessionOptions};
use crate::path::ZPath;
use crate::timer::Timer;
#[cfg(feature = "tls")]
use crate::tls::Certificates;
use crate::zk::error::{ends_session, is_server_reply};
use crate::zk::sockets::Socket;
use crate::zk::start::start;
use crate::zk::task::{LinkEnd, SessionTask, catch_task};
use crate::zk::watchdog::Watchdog;

impl Link {
    /// Opens a session: one pass over the servers, no longer than the connection timeout. Also returns a time before
    /// its connect request was sent.
    ///
    /// Nothing is awaited after the session is opened.
    pub(crate) async fn open(
        options: &SessionOptions,
        timer: &Timer,
        diagnosis: &Diagnosis<'_>,
    ) -> Result<(Self, ClockInstant), ConnectFailure> {
        let connector = |server: &HostPort| connector(options, server);
        let share = share(options, options.connection_timeout);
        let granted: Granted = Arc::new(|_, _| {});
        Pass { diagnosis, options, share, timer, connector: &connector, granted, resumes_session: false }.run().await
    }

    /// Connects to `server`. A panic of `zookeeper-client` is returned as an error.
    pub(super) async fn connect(
        connector: Connector,
        server: HostPort,
        target: Target,
        unverified: Unverified,
    ) -> Result<Self, ZkError> {
        let connect = AssertUnwindSafe(Self::handshake(connector, server, target, unverified)).catch_unwind();
        let panicked = || ZkError::UnexpectedError("zookeeper-client has panicked".to_owned());
        connect.await.unwrap_or_else(|_| Err(panicked()))
    }

    async fn handshake(
        connector: Connector,
        server: HostPort,
        target: Target,
        unverified: Unverified,
    ) -> Result<Self, ZkError> {
        let socket = Socket::to(target.addresses.clone());
        let watchdog = Watchdog::new(&server, &socket);
        // Boxed: the connect future is large, and callers' futures contain it.
        let connect = socket.opened_by(Box::pin(connector.connect(&target.name)));
        let (client, work) = catch_task(watchdog.watch(Box::pin(connect))).await;
        let client = client?;
        socket.set_nodelay();
        let work =
            work.ok_or_else(|| ZkError::UnexpectedError("zookeeper-client has spawned its task elsewhere".to_owned()))?;
        let task = SessionTask::start(Box::pin(watchdog.watch(work)), client.state_watcher(), client.session_timeout());
        let verified = OnceLock::new();
        if !unverified.freshness && !unverified.identity {
            let _first = verified.set(ConfirmedBy::Leader);
        }
        Ok(Self {
            client,
            task,
            server: Arc::new(server),
            address: target.addresses.first().copied(),
            unverified,
            verified: Arc::new(verified),
        })
    }

    /// The key by which this connection's session can be resumed.
    pub(crate) fn session_key(&self) -> SessionKey {
        SessionKey { session: self.client.session().clone(), timeout: self.session_timeout() }
    }

    /// Sends a request that only the leader can answer.
    ///
    /// A server rejects a session that has seen newer state than the server has; but `zookeeper-client` resumes a
    /// session as one that has seen nothing. So the first probe after a resume includes a write, which changes nothing:
    /// a quorum has confirmed everything the session has seen, so a quorum confirms only a write that comes after it.
    /// That quorum also proves the lease, see `session_lease.rs`.
    ///
    /// A server without SASL accepts an authenticating client as anonymous. So for such a client, the write includes a
    /// create whose ACL is for authenticated clients, followed by a check that always fails, so that no node is created
    /// (3.6 closes the connection on `whoAmI`). If the session is not authenticated, the reply is the error
    /// `InvalidAcl`.
    ///
    /// Returns what has confirmed the session over this connection, in this probe or an earlier one.
    pub(crate) fn probe(&self) -> Answer<ConfirmedBy> {
        if let Some(by) = self.verified.get().copied() {
            let unfired = Arc::clone(self.task.unfired());
            let (drops, synced) = (unfired.drops(), self.sync(&ZPath::root()));
            return start(async move {
                synced.await?;
                unfired.probed(drops);
                Ok(by)
            });
        }
        let (client, verifies_identity, verified) =
            (self.client.clone(), self.unverified.identity, Arc::clone(&self.verified));
        start(async move {
            let mut writer = client.new_multi_writer();
            if verifies_identity {
                let for_us = ZkCreateMode::Persistent.with_acls(Acls::creator_all());
                writer.add_create("/curator-client-asks-who-it-is", &[], &for_us)?;
            }
            writer
                .add_check_version(ZPath::root().as_str(), if verifies_identity { NO_VERSION } else { ANY_VERSION })?;
            // `join` polls them in this order, and polling sends them: pipelined.
            let (written, synced) = futures_util::future::join(writer.commit(), client.sync("/")).await;
            let by = confirmed_by(written.map(drop))?;
            let _first = verified.set(by);
            synced.map(|()| by)
        })
    }
}

/// What has confirmed the write of a probe, by the reply to it.
fn confirmed_by(written: Result<(), MultiWriteError>) -> Result<ConfirmedBy, ZkError> {
    match written {
        Ok(()) => Ok(ConfirmedBy::Quorum),
        Err(MultiWriteError::OperationFailed { index: 0, source: ZkError::InvalidAcl }) => Err(ZkError::InvalidAcl),
        // The leader reports an ended session as the failure of an operation.
        Err(MultiWriteError::OperationFailed { source, .. }) if ends_session(&source) => Err(source),
        // The leader checks the session before the operation, and proposes the failure of a transaction to the quorum
        // as well.
        Err(MultiWriteError::OperationFailed { source, .. }) if is_server_reply(&source) => Ok(ConfirmedBy::Quorum),
        // A reply without the results of the operations: no transaction was proposed.
        Err(MultiWriteError::RequestFailed { source }) if !is_leader_reply(&source) => Err(source),
        Err(_) => Ok(ConfirmedBy::Leader),
    }
}

/// The version with which a check accepts any version.
const ANY_VERSION: i32 = -1;
/// The version that no node has.
const NO_VERSION: i32 = -2;

/// The key by which a session is resumed: its id and password, and the timeout to request. Holding it does not keep the
/// session open.
#[derive(Clone)]
pub(crate) struct SessionKey {
    session: SessionInfo,
    timeout: Duration,
}

impl SessionKey {
    pub(crate) fn session_id(&self) -> i64 {
        self.session.id().0
    }

    /// Opens another connection for the session, whose previous one has ended: one pass over the servers, no longer
    /// than `limit`.
    ///
    /// Also returns a time before its connect request was sent. The server negotiates the session's timeout again, and
    /// may open another session instead, as ClickHouse Keeper does (its issue 116690): `granted` is called with both as
    /// soon as they are known, on the thread that has read them. Use the result without awaiting anything in between:
    /// dropping the result closes its session.
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
        let pass = Pass { diagnosis, options, share, timer, connector: &connector, granted, resumes_session: true };
        pass.run().await
    }

    /// Returns how the session has ended, if a failed [`resume`](Self::resume) shows that it has.
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

/// The id, in the format of ZooKeeper's own logs. Not the password.
impl std::fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.session.id())
    }
}

/// The time limit for one server, if all of them together may take `limit`.
fn share(options: &SessionOptions, limit: Duration) -> Duration {
    let servers = u32::try_from(options.servers.hosts().len()).unwrap_or(u32::MAX);
    let share = (limit / servers.max(1)).min(options.session_timeout / 5 * 2);
    // In whole milliseconds, because error messages contain it.
    let rest = Duration::from_nanos(u64::from(share.subsec_nanos() % 1_000_000));
    share.saturating_sub(rest).max(Duration::from_millis(1))
}

/// The connector with which a connection to `server` is opened.
///
/// By default, `zookeeper-client` waits 2/5 of the session timeout for a silent server, also after the connect. That
/// may be longer than the limit for the whole connect; and the timeout is the granted one, which may be far longer than
/// the requested one. So the connector waits no longer than a server's share.
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

/// The certificates were parsed from the same texts before, so `zookeeper-client` accepts them.
#[cfg(feature = "tls")]
fn to_zk_tls(certificates: &Certificates) -> Result<zookeeper_client::TlsOptions, ZkError> {
    let tls = zookeeper_client::TlsOptions::new().with_pem_ca(&certificates.ca_pem)?;
    match &certificates.identity {
        Some(identity) => tls.with_pem_identity(&identity.certificate_pem, &identity.key_pem),
        None => Ok(tls),
    }
}

/// Whether the leader has answered. An overloaded server sends `Throttled` without asking the leader.
fn is_leader_reply(error: &ZkError) -> bool {
    is_server_reply(error) && !matches!(error, ZkError::Throttled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_committed_transaction_counts_as_confirmed_by_a_quorum() {
        let failed = |index, source| Err(MultiWriteError::OperationFailed { index, source });
        let refused = |source| Err(MultiWriteError::RequestFailed { source });
        for (written, by) in [
            (Ok(()), Ok(ConfirmedBy::Quorum)),
            // The check that always fails, and a root that this client may not read.
            (failed(1, ZkError::BadVersion), Ok(ConfirmedBy::Quorum)),
            (failed(0, ZkError::NoAuth), Ok(ConfirmedBy::Quorum)),
            (failed(0, ZkError::InvalidAcl), Err(ZkError::InvalidAcl)),
            (failed(0, ZkError::SessionExpired), Err(ZkError::SessionExpired)),
            (failed(0, ZkError::SessionMoved), Err(ZkError::SessionMoved)),
            // The code of an unknown session.
            (failed(0, ZkError::UnexpectedErrorCode(-12)), Err(ZkError::UnexpectedErrorCode(-12))),
            (failed(0, ZkError::UnexpectedErrorCode(-77)), Ok(ConfirmedBy::Leader)),
            (refused(ZkError::Unimplemented), Ok(ConfirmedBy::Leader)),
            (refused(ZkError::NoAuth), Ok(ConfirmedBy::Leader)),
            (refused(ZkError::Throttled), Err(ZkError::Throttled)),
            (refused(ZkError::ConnectionLoss), Err(ZkError::ConnectionLoss)),
        ] {
            let case = format!("{written:?}");
            assert_eq!(confirmed_by(written), by, "{case}");
        }
    }

    #[test]
    fn throttled_and_connection_loss_do_not_count_as_replies_of_the_leader() {
        assert!(is_leader_reply(&ZkError::NoAuth));
        assert!(!is_leader_reply(&ZkError::Throttled));
        assert!(!is_leader_reply(&ZkError::ConnectionLoss));
    }
}
