//! Opens a connection, for a new session or an existing one, and makes its first request.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use zookeeper_client::{
    Acls, Client, Connector, CreateMode as ZkCreateMode, Error as ZkError, MultiWriteError,
    SessionInfo,
};

use super::connect::Opening;
use super::{Link, Unverified};
use crate::connect_string::HostPort;
use crate::diagnosis::Diagnosis;
use crate::options::{Credentials, SessionOptions};
use crate::pass::{Pass, Target};
use crate::path::ZPath;
#[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
use crate::sasl::{Mechanism, SaslOptions};
use crate::time::{ClockInstant, Timer};
#[cfg(feature = "tls")]
use crate::tls::Certificates;
use crate::transport::{
    ANY_VERSION, Answer, ConfirmedBy, ConnectFailure, Granted, IDENTITY_NODE, NO_VERSION,
    RequestError,
};
use crate::zk::in_place::start_translated;
use crate::zk::sockets::Socket;
use crate::zk::task::{SessionTask, catch_task};
use crate::zk::watchdog::Watchdog;

impl Link {
    /// See [`Link::open`](crate::link::Link::open).
    pub(crate) async fn open(
        options: &SessionOptions,
        timer: &Timer,
        diagnosis: &Diagnosis<'_>,
    ) -> Result<(Self, ClockInstant), ConnectFailure> {
        let connector = |server: &HostPort| connector(options, server);
        let granted = Granted::unused();
        let pass = Pass {
            diagnosis,
            options,
            share: diagnosis.share,
            timer,
            resumes_session: false,
        };
        pass.run(&Opening {
            connector: &connector,
            granted,
        })
        .await
    }

    /// Connects to `server`. A panic of `zookeeper-client` is returned as an error.
    pub(super) async fn connect(
        connector: Connector,
        server: HostPort,
        target: Target,
        unverified: Unverified,
    ) -> Result<Self, ZkError> {
        AssertUnwindSafe(Self::handshake(connector, server, target, unverified))
            .catch_unwind()
            .await
            .unwrap_or_else(|_| {
                Err(ZkError::UnexpectedError(
                    "zookeeper-client has panicked".to_owned(),
                ))
            })
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
        let work = work.ok_or_else(|| {
            ZkError::UnexpectedError("zookeeper-client has spawned its task elsewhere".to_owned())
        })?;
        let task = SessionTask::start(
            Box::pin(watchdog.watch(work)),
            client.state_watcher(),
            client.session_timeout(),
        );
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

    /// The key that resumes this connection's session.
    pub(crate) fn session_key(&self) -> SessionKey {
        SessionKey {
            session: self.client.session().clone(),
            timeout: self.session_timeout(),
        }
    }

    /// See [`Link::probe`](crate::link::Link::probe).
    pub(crate) fn probe(&self) -> Answer<ConfirmedBy> {
        if let Some(by) = self.verified.get().copied() {
            let unfired = Arc::clone(self.task.unfired());
            let drops = unfired.drops();
            let synced = self.sync(&ZPath::root());
            return start_translated(async move {
                synced.await?;
                unfired.probed(drops);
                Ok(by)
            });
        }
        let client = self.client.clone();
        let verifies_identity = self.unverified.identity;
        let verified = Arc::clone(&self.verified);
        start_translated(async move {
            let mut writer = client.new_multi_writer();
            if verifies_identity {
                let options = ZkCreateMode::Persistent.with_acls(Acls::creator_all());
                writer.add_create(IDENTITY_NODE, &[], &options)?;
            }
            writer.add_check_version(
                ZPath::root().as_str(),
                if verifies_identity {
                    NO_VERSION
                } else {
                    ANY_VERSION
                },
            )?;
            // `join` polls both in this order, and polling sends a request, so they are pipelined.
            let (written, synced) =
                futures_util::future::join(writer.commit(), client.sync("/")).await;
            let by = ConfirmedBy::from_write(written.map(drop).map_err(|error| match error {
                MultiWriteError::RequestFailed { source } => (None, source.into()),
                MultiWriteError::OperationFailed { index, source } => (Some(index), source.into()),
            }))?;
            let _first = verified.set(by);
            synced.map(|()| by).map_err(RequestError::from)
        })
    }
}

/// The key that resumes a session: its id and password, and the timeout to request. Holding
/// it does not keep the session open.
#[derive(Clone)]
pub(crate) struct SessionKey {
    session: SessionInfo,
    timeout: Duration,
}

impl SessionKey {
    pub(crate) fn session_id(&self) -> i64 {
        self.session.id().0
    }

    /// See [`SessionKey::resume`](crate::link::SessionKey::resume).
    pub(crate) async fn resume(
        &self,
        options: &SessionOptions,
        timer: &Timer,
        diagnosis: &Diagnosis<'_>,
        granted: &Granted,
    ) -> Result<(Link, ClockInstant), ConnectFailure> {
        let connector = |server: &HostPort| {
            let connector = connector(options, server)?;
            let connector = connector.with_session_timeout(self.timeout);
            Ok(connector.with_session(self.session.clone()))
        };
        let granted = granted.clone();
        let pass = Pass {
            diagnosis,
            options,
            share: diagnosis.share,
            timer,
            resumes_session: true,
        };
        pass.run(&Opening {
            connector: &connector,
            granted,
        })
        .await
    }
}

/// The connector for a connection to `server`.
///
/// By default, `zookeeper-client` waits 2/5 of the session timeout for a silent server, both during
/// and after the connect. That may be longer than the limit for the whole connect, especially as
/// the granted timeout may be far longer than the requested timeout. So the connector waits no
/// longer than the longest share of a server. The share of the pass would be too short after the
/// connect.
#[cfg_attr(
    not(any(feature = "sasl-digest-md5", feature = "sasl-gssapi")),
    expect(unused_variables, reason = "only SASL needs the server")
)]
fn connector(options: &SessionOptions, server: &HostPort) -> Result<Connector, ZkError> {
    let mut connector = Client::connector()
        .with_session_timeout(options.session_timeout)
        .with_connection_timeout(options.longest_share())
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
        connector = connector.with_sasl(to_zk_sasl(sasl, server));
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

/// The SASL options of `zookeeper-client`, for a connection to `server`. `zookeeper-client` may
/// connect to an address, but Kerberos needs the name.
#[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
#[cfg_attr(
    not(feature = "sasl-gssapi"),
    expect(unused_variables, reason = "only Kerberos needs it")
)]
fn to_zk_sasl(options: &SaslOptions, server: &HostPort) -> zookeeper_client::SaslOptions {
    match &options.mechanism {
        #[cfg(feature = "sasl-digest-md5")]
        Mechanism::DigestMd5 { user, password } => {
            zookeeper_client::SaslOptions::digest_md5(user.clone(), password.clone()).into()
        }
        #[cfg(feature = "sasl-gssapi")]
        Mechanism::Gssapi { server: principal } => {
            let (service, host) = principal
                .split_once('/')
                .unwrap_or((principal.as_str(), server.host()));
            let options = zookeeper_client::SaslOptions::gssapi().with_username(service.to_owned());
            options.with_hostname(host.to_owned()).into()
        }
    }
}
