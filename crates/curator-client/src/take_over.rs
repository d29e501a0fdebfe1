//! Takes a session over from a client crate that is slow to come back.
//!
//! The crate's pause between two tries to reconnect doubles without a cap, so after an outage of some seconds, or after a
//! few handshakes that failed, the session would go without a connection for long after there could be one: until the
//! lease is over, and with it every lock. So the crate is given a second. Then its task is parked, and the session is
//! resumed by its id and password over another connection, at a pace of our own. With that the parked task is ended, and
//! has done nothing meanwhile; if the session ends first, or the client closes, the task goes on, and closes the session
//! when it can.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::retry::{Persistently, Retrier};
use crate::session::Session;
use crate::shared::Shared;
use crate::timer::Deadline;
use crate::zk::link::{Link, LinkState};
use crate::zk::task::Parked;

/// How long the crate may be without a connection that answers. It tries four times in that.
const GRACE: Duration = Duration::from_secs(1);

type Resumed = Result<Link, LinkState>;

/// Watches over the connection of one session.
pub(crate) struct TakeOver {
    shared: Arc<Shared>,
    stage: Stage,
    /// How long a connection may go without an answer to a probe.
    patience: Duration,
}

enum Stage {
    /// There is a connection, and it has answered a probe.
    Idle,
    /// The crate has until then.
    Grace(Deadline),
    /// The crate is parked.
    Trying(Pin<Box<dyn Future<Output = Resumed> + Send>>),
}

impl TakeOver {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), stage: Stage::Idle, patience: GRACE }
    }

    /// What the crate says of its connection now.
    pub(crate) fn note(&mut self, state: LinkState) {
        match (state, &self.stage) {
            // A handshake that fails may show as two changes to the same state, and is no reason to wait longer.
            (LinkState::Disconnected, Stage::Idle) => self.stage = Stage::Grace(Deadline::after(GRACE)),
            (LinkState::Disconnected, _) => {}
            // The crate says so before the handshake is over, and says nothing else while it fails to connect again.
            (LinkState::Connected, _) => self.stage = Stage::Grace(Deadline::after(self.patience)),
            _ => self.stage = Stage::Idle,
        }
    }

    /// The connection has answered a probe.
    pub(crate) fn confirmed(&mut self) {
        self.stage = Stage::Idle;
        self.patience = GRACE;
    }

    /// Waits until there is another connection for the session, or its end is known.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped, but a result that is dropped closes the session.
    pub(crate) async fn resumed(&mut self, session: &Session) -> Resumed {
        loop {
            match &mut self.stage {
                Stage::Idle => pending::<()>().await,
                Stage::Grace(deadline) => {
                    self.shared.timer.sleep_until(*deadline).await;
                    // Answers may be slow. The next one gets more time.
                    self.patience = self.patience.saturating_mul(2);
                    self.stage = match session.link() {
                        Some(old) => Stage::Trying(Box::pin(resume(Arc::clone(&self.shared), old.park(), old))),
                        None => Stage::Idle,
                    };
                }
                Stage::Trying(trying) => {
                    let resumed = trying.as_mut().await;
                    self.stage = Stage::Idle;
                    return resumed;
                }
            }
        }
    }
}

/// Tries to resume the session of `old`, which is parked, until it is done or the session is found to be over.
async fn resume(shared: Arc<Shared>, parked: Parked, old: Link) -> Resumed {
    // A pause before the first try as well: whoever lost the same server would come at the same moment.
    // A closing client may have deletes to make before it ends the session.
    let mut retrier = Retrier::with_policy(&shared, Arc::new(Persistently)).even_while_closing();
    loop {
        // It never gives up, and so says nothing.
        drop(retrier.again().await);
        let tried = tokio::select! {
            biased;
            tried = old.resume(&shared.options.link) => tried,
            () = shared.timer.sleep(shared.options.connection_timeout) => continue,
        };
        match tried {
            Ok(link) => {
                tracing::info!(session = ?link, "the session goes on over another connection");
                parked.end();
                return Ok(link);
            }
            Err(error) => {
                tracing::debug!(%error, session = ?old, "cannot resume the session");
                if let Some(end) = Link::end_of_session(&error) {
                    return Err(end);
                }
            }
        }
    }
}
