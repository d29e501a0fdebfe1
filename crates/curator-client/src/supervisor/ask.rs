//! Finds out which operations a server other than ZooKeeper lacks, before its session is used.
//!
//! Such a server may close the connection at a request that it does not know, and not resume the
//! session. So the client asks in separate sessions, one after another, and closes those that it can;
//! the others end at their timeouts. They have no nodes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use super::Supervisor;
use super::resume::close_session;
use crate::connect_string::HostPort;
use crate::diagnosis::Diagnosis;
use crate::ensemble::{Ensemble, EnsembleTracker};
use crate::error::SessionEnd;
use crate::options::SessionOptions;
use crate::server_operations::{Finding, MissingOperations};
use crate::session::{OpenFailure, Session};
use crate::text::Truncated;

/// How long the close of the last session may take: the client waits for it. A session whose close
/// is not confirmed ends at its timeout.
const CLOSE_TIME: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Records in `session`, which was just opened on `server`, which operations the server lacks.
    /// Asks the server, within the connection timeout, unless it is one of ZooKeeper.
    ///
    /// What the server was found to lack is kept even if this fails: the next attempt does not ask
    /// for it again.
    pub(super) async fn find_missing(
        &self,
        session: &Session,
        server: &HostPort,
        diagnosis: &Diagnosis<'_>,
    ) -> Result<(), OpenFailure> {
        if !session.is_foreign() {
            return Ok(());
        }
        diagnosis.report(&OpenFailure::asking(server).cause);
        // Several connections are opened, each of which may be slow. So this time is separate from
        // the one of the attempt to open the session.
        let limit = self.options.connection_timeout;
        let missing = tokio::select! {
            biased;
            // Boxed: it is large, and callers' futures contain it.
            asked = Box::pin(self.ask_all(session, server)) => asked?,
            () = self.timer.sleep(limit) => return Err(OpenFailure::asking(server)),
            never = self.keep_lease(session) => match never {},
        };
        let needed = missing
            .iter()
            .find(|operation| operation.is_needed_by_zookeeper_client());
        if let Some(needed) = needed
            && self.options.uses_zookeeper_client()
        {
            let operations = &self.options.server_operations;
            let is_last = diagnosis
                .servers
                .iter()
                .all(|server| operations.is_unusable_by_zookeeper_client(server));
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
        let mut questions = self.options.server_operations.begin(server);
        let mut asking = None;
        while let Some(operation) = questions.next() {
            let session = match asking.take() {
                Some(session) => session,
                None => self.open_to_ask(&options).await?,
            };
            let finding = session
                .ask(operation)
                .await
                .map_err(|error| OpenFailure::unanswered_question(server, operation, &error))?;
            if session.link().is_some_and(|link| link.end().is_none()) {
                asking = Some(session);
            } else if finding == Finding::Ended {
                // The network may have broken the connection. So this counts only if a session
                // without the question survives; the next question is asked in that session.
                let control = self.open_to_ask(&options).await?;
                if !control.answers_known_requests().await {
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
}
