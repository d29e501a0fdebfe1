//! Finds out which operations a server other than ZooKeeper lacks, before its session is used.
//!
//! Such a server may close the connection at a request that it does not know, and not resume the
//! session. So the client asks in separate sessions, one after another, and closes those that it can;
//! the others end at their timeouts. They have no nodes.

use std::sync::Arc;
use std::time::Duration;

use super::Supervisor;
use super::resume::close_session;
use crate::connect_string::HostPort;
use crate::diagnosis::Diagnosis;
use crate::ensemble::{Ensemble, EnsembleTracker};
use crate::error::SessionEnd;
use crate::options::SessionOptions;
use crate::server_operations::may_ignore_requests;
use crate::session::{OpenFailure, Session};
use crate::time::Deadline;

/// How long the close of the last session may take: the client waits for it. A session whose close
/// is not confirmed ends at its timeout.
const CLOSE_TIME: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Records in `session`, which was just opened on `server`, which operations the server lacks.
    /// Asks the server by `deadline`, unless it is one of ZooKeeper.
    ///
    /// What the server was found to lack is kept even if this fails: the next attempt does not ask
    /// for it again.
    pub(super) async fn find_missing(
        &self,
        session: &Session,
        server: &HostPort,
        deadline: Deadline,
        diagnosis: &Diagnosis<'_>,
    ) -> Result<(), OpenFailure> {
        if !may_ignore_requests(session.id()) {
            return Ok(());
        }
        diagnosis.report(&OpenFailure::asking(server).cause);
        tokio::select! {
            biased;
            // Boxed: it is large, and callers' futures contain it.
            asked = Box::pin(self.ask_all(server)) => asked?,
            () = self.timer.sleep_until(deadline) => return Err(OpenFailure::asking(server)),
        }
        let missing = self.options.server_operations.missing(server);
        let needed = missing
            .iter()
            .find(|operation| operation.is_needed_by_zookeeper_client());
        if let Some(needed) = needed
            && self.options.uses_zookeeper_client()
        {
            return Err(OpenFailure::unusable(server, needed));
        }
        session.set_missing(missing);
        let client = &*self.options.name;
        tracing::debug!(client, %server, ?missing, "not a server of ZooKeeper: asked which operations it lacks");
        Ok(())
    }

    async fn ask_all(&self, server: &HostPort) -> Result<(), OpenFailure> {
        let operations = &self.options.server_operations;
        let options = Arc::new(self.options.short_session(server));
        let mut asking = None;
        operations.begin(server);
        while let Some(operation) = operations.next_question(server) {
            let session = match asking.take() {
                Some(session) => session,
                None => self.open_to_ask(&options).await?,
            };
            let finding = session
                .ask(operation)
                .await
                .map_err(|error| OpenFailure::unanswered_question(server, operation, &error))?;
            operations.found(server, operation, finding);
            if session.link().is_some_and(|link| link.end().is_none()) {
                asking = Some(session);
            }
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
        Ok(())
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
