//! Finds out which operations a server other than ZooKeeper lacks, before its session is used.
//!
//! Such a server may close the connection at a request that it does not know, and not resume the
//! session. So the client asks in separate sessions, one after another, and closes those that it can;
//! the others end at their timeouts. They have no nodes.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::Supervisor;
use super::resume::close_session;
use crate::connect_string::HostPort;
use crate::diagnosis::Diagnosis;
use crate::ensemble::{Ensemble, EnsembleTracker};
use crate::error::SessionEnd;
use crate::options::SessionOptions;
use crate::server_operations::{Finding, MissingOperations, Questions, ServerKey, ServerOperation};
use crate::session::{OpenFailure, Session};
use crate::text::Truncated;

/// How long the close of the last session may take: the client waits for it. A session whose close
/// is not confirmed ends at its timeout.
const CLOSE_TIME: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Records in `session`, which was just opened on `server`, which operations the server lacks.
    /// Asks the server, unless it is one of ZooKeeper. Each connection for that, and each question,
    /// may take the connection timeout; there are at most two questions for each operation.
    ///
    /// What the server was found to lack is kept even if this fails: the next attempt does not ask
    /// for it again.
    pub(super) async fn find_missing(
        &self,
        session: &Session,
        server: &HostPort,
        diagnosis: &Diagnosis<'_>,
    ) -> Result<(), OpenFailure> {
        if !session.is_on_other_server() {
            return Ok(());
        }
        diagnosis.report(&OpenFailure::asking(server).cause);
        let missing = tokio::select! {
            biased;
            // Boxed: it is large, and callers' futures contain it.
            asked = Box::pin(self.ask_all(session, server)) => asked?,
            never = self.keep_lease(session) => match never {},
        };
        let needed = missing
            .iter()
            .find(|operation| operation.is_needed_by_zookeeper_client());
        if let Some(needed) = needed
            && self.options.uses_zookeeper_client()
        {
            let is_last = tokio::select! {
                biased;
                is_last = are_unusable(&self.options, &diagnosis.servers) => is_last,
                () = self.timer.sleep(self.options.connection_timeout) => false,
            };
            return Err(OpenFailure::unusable(server, needed, is_last));
        }
        session.set_missing(missing);
        let client = &*self.options.name;
        tracing::debug!(client, %server, ?missing, "not a server of ZooKeeper: asked which operations it lacks");
        Ok(())
    }

    /// Probes `session` while its server is asked, so that its lease is still long enough
    /// afterwards. The proof that follows reports a session that has ended.
    async fn keep_lease(&self, session: &Session) -> Infallible {
        loop {
            // Twice as often as later: the lease must also last until the probes of a session that
            // is used.
            self.timer.sleep(session.probe_interval() / 2).await;
            let (sent, answer) = session.probe().await;
            match answer {
                Ok(_) => session.lease().probe_answered(sent),
                Err(error) => {
                    let client = &*self.options.name;
                    tracing::debug!(client, error = %Truncated(&error), "probe failed");
                }
            }
        }
    }

    /// Asks `server` in separate sessions, at the address of the connection of `session`. Returns
    /// what it lacks.
    async fn ask_all(
        &self,
        session: &Session,
        server: &HostPort,
    ) -> Result<MissingOperations, OpenFailure> {
        let address = session.link().and_then(|link| link.address());
        let options = Arc::new(self.options.short_session(server, address));
        let key = server_key(&self.options, server, address);
        let mut questions = Questions::begin(&self.options.server_operations, &key);
        let mut asking = None;
        while let Some(operation) = questions.next() {
            let session = match asking.take() {
                Some(session) => session,
                None => self.open_to_ask(&options).await?,
            };
            let finding = self
                .within_limit(server, session.ask(operation))
                .await?
                .map_err(|error| OpenFailure::unanswered_question(server, operation, &error))?;
            if (operation, finding) == (ServerOperation::AddWatch, Finding::Skipped) {
                // The watch may be set, and must not be set twice in a session.
                drop(session.finish(SessionEnd::Closed));
            } else if session.link().is_some_and(|link| link.end().is_none()) {
                asking = Some(session);
            } else if finding == Finding::Ended {
                // The network may have broken the connection. So this counts only if a session
                // without the question survives; the next question is asked in that session.
                let control = self.open_to_ask(&options).await?;
                if !self
                    .within_limit(server, control.answers_known_requests())
                    .await?
                {
                    return Err(OpenFailure::unreliable(server, operation));
                }
                asking = Some(control);
            }
            questions.found(operation, finding);
        }
        if let Some(link) = asking.and_then(|session| session.finish(SessionEnd::Closed)) {
            let only = Ensemble::new(EnsembleTracker::Never, options.servers.hosts());
            close_session(
                options,
                Arc::new(only),
                self.timer.clone(),
                link,
                CLOSE_TIME,
            )
            .await;
        }
        Ok(questions.missing())
    }

    /// Waits for a question to `server`, or a control, within the connection timeout. A limit for
    /// all of them together would make each attempt fail if the timeout is short and the server slow.
    async fn within_limit<T>(
        &self,
        server: &HostPort,
        asked: impl Future<Output = T>,
    ) -> Result<T, OpenFailure> {
        tokio::select! {
            biased;
            asked = asked => Ok(asked),
            () = self.timer.sleep(self.options.connection_timeout) => Err(OpenFailure::asking(server)),
        }
    }

    /// Opens a session that is used for nothing else than questions.
    async fn open_to_ask(&self, options: &Arc<SessionOptions>) -> Result<Session, OpenFailure> {
        /// The sessions of a client count from 1.
        const NO_EPOCH: u64 = 0;
        let unreported = |_: &str| {};
        let diagnosis = Diagnosis::new(options, options.servers.hosts().into(), &unreported);
        let (session, _) = Session::open(NO_EPOCH, options, &self.timer, &diagnosis).await?;
        Ok(session)
    }
}

/// The server of a connection to `server`, at `address` if that is known.
fn server_key(
    options: &SessionOptions,
    server: &HostPort,
    address: Option<SocketAddr>,
) -> ServerKey {
    // Over TLS, `zookeeper-client` resolves the name, and does not report the address.
    let is_hidden = options.uses_tls() && options.uses_zookeeper_client();
    match address {
        Some(address) if !is_hidden => ServerKey::Address(address),
        _ => ServerKey::Name(server.clone()),
    }
}

/// Whether `zookeeper-client` can use none of the servers, at any of their addresses. False if that
/// is not known.
#[expect(
    clippy::disallowed_methods,
    reason = "`zookeeper-client` does not run in a simulation"
)]
async fn are_unusable(options: &SessionOptions, servers: &[HostPort]) -> bool {
    for server in servers {
        // `async_net` looks names up on its own threads, which do not delay the end of a runtime.
        match async_net::resolve((server.host(), server.port())).await {
            Ok(addresses) if is_unusable(options, server, &addresses) => {}
            _ => return false,
        }
    }
    true
}

/// Whether `zookeeper-client` cannot use `server` at any of its `addresses`. False if that is not
/// known.
fn is_unusable(options: &SessionOptions, server: &HostPort, addresses: &[SocketAddr]) -> bool {
    let is_unusable_at = |address: &SocketAddr| {
        let key = server_key(options, server, Some(*address));
        // What is known of a name may be true at one of its addresses only.
        let is_certain = addresses.len() == 1 || matches!(key, ServerKey::Address(_));
        is_certain
            && options
                .server_operations
                .is_unusable_by_zookeeper_client(&key)
    };
    !addresses.is_empty() && addresses.iter().all(is_unusable_at)
}

#[cfg(test)]
mod tests {
    use curator_test::{Dialect, EmbeddedServer, soon};
    use tokio::runtime::Handle;

    use super::*;
    use crate::link::Link;
    use crate::time::Timer;

    // Runs in real time, because a simulated server has no address.
    #[tokio::test]
    async fn the_server_is_asked_at_the_address_of_the_session_and_its_name_is_not_resolved_again()
    {
        let server = EmbeddedServer::builder()
            .dialect(Dialect::ClickHouseKeeper26_9)
            .start()
            .unwrap();
        let options = SessionOptions::with_long_timeouts("client", "unknown.invalid:2181");
        let name = options.servers.hosts()[0].clone();
        let options = options.short_session(&name, Some(server.address()));
        let diagnosis = Diagnosis::new(&options, options.servers.hosts().into(), &|_| {});
        let timer = Timer::new(Handle::current());
        let opened = soon(Link::open(&options, &timer, &diagnosis)).await;
        let link = opened.map(|(link, _)| link).unwrap();
        assert_eq!(link.address(), Some(server.address()));
        assert_eq!(**link.server(), name);
    }

    #[test]
    fn a_name_is_unusable_only_if_the_servers_at_all_its_addresses_are() {
        let options = SessionOptions::with_long_timeouts("client", "keeper:9181");
        let server = &options.servers.hosts()[0];
        let old = "127.0.0.1:9181".parse().unwrap();
        let new = "127.0.0.2:9181".parse().unwrap();
        let is_unusable = |addresses: &[SocketAddr]| is_unusable(&options, server, addresses);
        let lacks_create2 = |address| {
            let key = server_key(&options, server, Some(address));
            let mut questions = Questions::begin(&options.server_operations, &key);
            questions.found(ServerOperation::Create2, Finding::Refused);
        };
        assert!(!is_unusable(&[old]));
        lacks_create2(old);
        assert!(is_unusable(&[old]));
        assert!(!is_unusable(&[old, new]));
        assert!(!is_unusable(&[new]) && !is_unusable(&[]));
        lacks_create2(new);
        assert!(is_unusable(&[old, new]));
    }
}
