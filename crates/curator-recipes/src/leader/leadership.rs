//! What a latch and a selector share: the state of a participant, its terms, its pauses after
//! failures, and the wait until its nodes are deleted.

use std::future::pending;
use std::sync::Arc;

use curator_client::source::watch;
use curator_client::{ConnectionState, CuratorClient, PendingDelete, Retrier, ZPath};
use curator_protocol::LockInternalsDriver;

use crate::engine::hold::Hold;
use crate::engine::runner::is_stuck;
use crate::error::{Error, LockLost, Result};
use crate::fencing::FencingToken;
use crate::lock::guard::{GuardedTransaction, LossHandle, run_until};
use crate::task::follow::fired;

/// Whether a participant leads, as reported by a [`LeaderLatch`](super::LeaderLatch).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaderState {
    /// The participant leads, in the term with this token.
    Leader {
        /// Increases from leader to leader.
        token: FencingToken,
    },
    /// The participant has a connection and does not lead: it waits in the queue, or stands aside.
    Follower,
    /// The participant does not lead, and the leader is not known: there is no connection, or the
    /// session is suspended; the participant cannot take part (see
    /// [`LeaderLatch::last_error`](super::LeaderLatch::last_error)); or the latch has ended.
    Unknown,
}

impl LeaderState {
    /// Whether the state is [`Leader`](Self::Leader).
    #[must_use]
    pub fn is_leader(self) -> bool {
        matches!(self, Self::Leader { .. })
    }
}

/// A view of one term of a leader: from its election until it resigns, closes, or loses its
/// session.
///
/// Clones are views of the same term. Dropping a view does not end the term. A term ends, for all
/// views, when it is lost. The term of a latch also ends by [`resign`](super::LeaderLatch::resign),
/// [`stand_aside`](super::LeaderLatch::stand_aside), [`close`](super::LeaderLatch::close),
/// [`revoke`](crate::revoke), or when the last handle is dropped; the term of a
/// [selector](super::LeaderSelector) also ends with its job, by an interrupt, or at shutdown. A
/// view keeps the client open, like a guard.
#[derive(Clone)]
pub struct Leadership {
    hold: Arc<Hold>,
    loss: LossHandle,
    /// Whether the run of its selector is shutting down. `None` for the term of a latch.
    shutdown: Option<watch::Receiver<bool>>,
}

impl std::fmt::Debug for Leadership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leadership")
            .field("node", &self.node().as_str())
            .field("fencing_token", &self.fencing_token())
            .field("is_valid", &self.is_valid())
            .finish_non_exhaustive()
    }
}

impl Leadership {
    pub(super) fn new(hold: &Arc<Hold>, loss: LossHandle) -> Self {
        Self {
            hold: Arc::clone(hold),
            loss,
            shutdown: None,
        }
    }

    /// Sets the receiver that becomes true when the job should end.
    pub(super) fn with_shutdown(mut self, shutdown: watch::Receiver<bool>) -> Self {
        self.shutdown = Some(shutdown);
        self
    }

    pub(super) fn log_begin(&self, client: &CuratorClient) {
        tracing::info!(client = client.name(), node = %self.node(), token = %self.fencing_token(), "leadership begins");
    }

    pub(super) fn log_end(&self, client: &CuratorClient) {
        tracing::info!(client = client.name(), node = %self.node(), token = %self.fencing_token(), "leadership ends");
    }

    /// Whether the term is certainly valid now: no other participant can lead at this moment.
    ///
    /// Reads the clock, so the result is right even when no task has run for a while; but only for
    /// *this moment*. Writes that must not happen after the term need the
    /// [token](Self::fencing_token), and a store that compares it. Sends nothing.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.loss.is_valid()
    }

    /// The number that lets a store reject writes of an earlier leader: see
    /// [`fencing`](crate::fencing). It increases from leader to leader.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.hold.token()
    }

    /// The leader's node on the server, including chroot and namespace.
    #[must_use]
    pub fn node(&self) -> &ZPath {
        self.hold.path()
    }

    /// Waits until the term has ended, and returns why: [`Released`](crate::LossReason::Released)
    /// if this participant ended it.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn lost(&self) -> LockLost {
        self.loss.clone().await
    }

    /// Waits until the selector's run begins to shut down: when the `shutdown` future that was
    /// passed to [`LeaderSelector::run`](super::LeaderSelector::run) completes. A long-running job
    /// should return then, within the [grace period](super::LeaderSelectorBuilder::grace_period).
    ///
    /// This wait completes only during the term. A task that the job has spawned should wait for
    /// [`lost`](Self::lost), too. For the term of a latch, this never completes: end the work
    /// before you [close](super::LeaderLatch::close) the latch.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn shutdown_requested(&self) {
        if let Some(mut shutdown) = self.shutdown.clone()
            && shutdown.wait_for(|requested| *requested).await.is_ok()
        {
            return;
        }
        pending::<()>().await;
    }

    /// Runs a future during the term, and drops it when the term ends: see
    /// [`LockGuard::run`](crate::LockGuard::run).
    ///
    /// # Errors
    ///
    /// [`LockLost`] when the term ended first.
    ///
    /// # Cancel safety
    ///
    /// Dropping this drops `future`; the term continues.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, LockLost> {
        run_until(self.loss.clone(), future).await
    }

    /// Like [`run`](Self::run), for a future that can fail. The end of the term is converted to the
    /// future's error type.
    ///
    /// # Errors
    ///
    /// The error of the future, or one converted from [`LockLost`] when the term ended first.
    ///
    /// # Cancel safety
    ///
    /// The same as [`run`](Self::run).
    pub async fn try_run<T, E: From<LockLost>>(
        &self,
        future: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.run(future).await?
    }

    /// Starts a transaction that is applied only while the leader's node exists: see
    /// [`LockGuard::transaction`](crate::LockGuard::transaction).
    pub fn transaction(&self) -> GuardedTransaction<'_> {
        GuardedTransaction::new(std::iter::once(&self.hold))
    }
}

/// The pauses since this participant was last in the queue.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// `None` while there is no failure.
    retrier: Option<Retrier>,
}

impl Pauses {
    /// Whether the last attempt to take part has failed.
    pub(super) fn is_failing(&self) -> bool {
        self.retrier.is_some()
    }

    /// Records that an attempt has failed.
    pub(super) fn begin(&mut self, client: &CuratorClient) -> &mut Retrier {
        self.retrier.get_or_insert_with(|| client.patient_retrier())
    }

    /// Records that this participant is in the queue, leads, or stands aside: the next pause is as
    /// short as the first one. Returns whether the last attempt failed.
    pub(super) fn end(&mut self) -> bool {
        self.retrier.take().is_some()
    }

    /// Pauses after a failure.
    pub(super) async fn pause(&mut self, client: &CuratorClient) -> curator_client::Result<()> {
        pause(client, self.begin(client)).await
    }
}

/// Pauses before the next attempt. Ends early when the client is connected again, because the
/// connection or the session may have caused the failure.
async fn pause(client: &CuratorClient, retrier: &mut Retrier) -> curator_client::Result<()> {
    let mut states = client.connection_states();
    let connected_again = async {
        // The first item is the present state.
        states.next().await;
        while let Some(state) = states.next().await {
            if matches!(
                state,
                ConnectionState::Connected | ConnectionState::Reconnected
            ) {
                return;
            }
        }
        // The client is closing, which ends the pause.
        pending::<()>().await;
    };
    tokio::select! {
        biased;
        paused = retrier.again() => paused.map(drop),
        () = connected_again => Ok(()),
    }
}

/// Waits until all nodes that this client has left behind in this queue are deleted, or the client
/// closes.
///
/// # Errors
///
/// [`ReleaseRefused`](Error::ReleaseRefused) when the server denies the deletion of a node.
pub(super) async fn wait_until_left(
    client: &CuratorClient,
    dir: &ZPath,
    driver: &dyn LockInternalsDriver,
) -> Result<()> {
    let mut retrier = client.persistent_retrier();
    let mut has_checked = false;
    loop {
        let refused = tokio::select! {
            biased;
            _ = client.closing() => return Ok(()),
            refused = client.janitor().wait_until_gone_below(dir) => refused,
        };
        let refused: Vec<_> = refused
            .into_iter()
            .filter(|delete| is_in_queue(&delete.path, delete.is_prefix, dir, driver))
            .collect();
        if refused.is_empty() {
            return Ok(());
        }
        // In a further round, pause first: the last check found that the node is no longer refused,
        // or there was no session.
        if has_checked && retrier.again().await.is_err() {
            return Ok(());
        }
        has_checked = true;
        let Ok(session) = client.try_session() else {
            continue;
        };
        let refusals = client.janitor().refusals(&session);
        for PendingDelete {
            path,
            is_prefix,
            last_error,
            ..
        } in refused
        {
            if let Some(cause) = last_error
                && (is_prefix || is_stuck(&path, &session, &refusals).await)
            {
                return Err(Error::ReleaseRefused { path, cause });
            }
        }
    }
}

/// Whether a node belongs to the queue. If `is_prefix` is true, only the beginning of the name is
/// known.
fn is_in_queue(
    path: &ZPath,
    is_prefix: bool,
    dir: &ZPath,
    driver: &dyn LockInternalsDriver,
) -> bool {
    let number = if is_prefix { "0000000000" } else { "" };
    path.parent().is_some_and(|parent| parent == *dir)
        && driver
            .sequence(&format!("{}{number}", path.name()))
            .is_some()
}

/// Waits until the queue of an election has another participant than one that is in it.
pub(crate) async fn another_waits(client: &CuratorClient, election: &ZPath) {
    let mut retrier = client.persistent_retrier();
    loop {
        let queue = async {
            let session = client.session().await?;
            let (queue, watch) = session.watch_children(election).await?;
            Ok((queue, Some((session, watch))))
        };
        match queue.await {
            // The other node may belong to a process with the same id.
            Ok((queue, mut watch)) if queue.len() < 2 => drop(fired(&mut watch).await),
            Ok(_) | Err(curator_client::Error::NoNode { .. }) => return,
            Err(_) if retrier.again().await.is_ok() => {}
            // The client has closed.
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use curator_protocol::StandardLockInternalsDriver;

    use super::*;

    /// A participant may fail a few times in each of many outages.
    #[tokio::test]
    async fn a_place_in_the_queue_resets_the_pauses() {
        let client = CuratorClient::builder("127.0.0.1:1").start().unwrap();
        let mut pauses = Pauses::default();
        assert!(!pauses.is_failing() && !pauses.end());
        for outages in 1..=3 {
            pauses.pause(&client).await.unwrap();
            assert!(pauses.is_failing());
            assert_eq!(pauses.begin(&client).failures(), 1, "in outage {outages}");
            assert!(pauses.end());
        }
    }

    #[test]
    fn a_delete_of_a_node_in_the_queue_is_waited_for_even_if_the_number_is_unknown() {
        let dir = ZPath::on_server("/a/b").unwrap();
        let driver = StandardLockInternalsDriver::with_lock_name("latch-");
        let is_in_queue = |path: &str, is_prefix| {
            is_in_queue(&ZPath::on_server(path).unwrap(), is_prefix, &dir, &driver)
        };
        assert!(is_in_queue("/a/b/_c_1-latch-0000000007", false));
        assert!(is_in_queue("/a/b/_c_1-latch-", true));
        assert!(!is_in_queue("/a/b/_c_1-latch-", false));
        for path in [
            "/a/b/c/_c_1-latch-0000000007",
            "/a/_c_1-latch-0000000007",
            "/a/b/_c_1-lock-0000000007",
            "/a/b/c",
            "/",
        ] {
            assert!(!is_in_queue(path, false), "{path}");
        }
    }
}
