//! The environment of one cell: a lock's path, the contender that the fault strikes, and its
//! neighbours.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use curator_recipes::client::{
    CuratorClient, Error as ClientError, ReadOperation, ReadResult, RetryNTimes,
};
use curator_test::OpCode;
use tokio::time::{Instant, sleep};

use super::cells::Requests;
use super::fault::{LATE, Strike};
use super::neighbour::{Neighbour, make_round_trips};
use super::run::within_bound;
use super::support::subjects::{Held, Kind, Lock};
use super::world::{World, network};
use crate::support::Witness;

/// The session timeout of the contender. A reply that is [`LATE`] must not end the contender's
/// lease, even on a busy machine: the shortest lease is 0.4 of the session timeout.
const SESSION: Duration = Duration::from_secs(60);
/// The operation timeout of the contender.
const OPERATION: Duration = Duration::from_secs(2);
/// The longest time that a cell may take after its fault. Cells take far less; only a contender
/// that never acquires the lock takes as long.
pub(crate) const BOUND: Duration = LATE
    .saturating_add(OPERATION)
    .saturating_add(SESSION)
    .saturating_mul(2);
/// A contender that sends nothing for this long is idle: its retries are at shorter intervals.
const QUIET: Duration = Duration::from_millis(200);
/// The pause before a retry of the contender.
const RETRY: Duration = Duration::from_millis(50);
/// The pause between two polls.
const PAUSE: Duration = Duration::from_millis(10);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) kind: Kind,
    /// The path of the lock.
    path: String,
    pub(crate) actor: CuratorClient,
    lock: Lock,
    pub(crate) others: CuratorClient,
    witness: Witness,
    seat: Arc<Mutex<Seat>>,
}

/// The number of the contender that the fault strikes, for the witness.
pub(crate) const ACTOR: usize = 100;
/// The number of the contender behind [`ACTOR`].
pub(crate) const BEHIND: usize = 101;

/// Whether the contender holds the lock, according to the witness.
#[derive(Debug, Default)]
struct Seat {
    is_inside: bool,
    /// The contender's session that was ended on the server: its holds no longer count.
    ended: Option<i64>,
}

impl Seat {
    fn leave(&mut self, witness: &Witness, shares: bool) {
        if std::mem::take(&mut self.is_inside) {
            witness.leave(shares);
        }
    }
}

/// See [`Stage::exit`].
pub(crate) struct Exit {
    seat: Arc<Mutex<Seat>>,
    witness: Witness,
    shares: bool,
}

impl Drop for Exit {
    fn drop(&mut self) {
        locked(&self.seat).leave(&self.witness, self.shares);
    }
}

impl Stage {
    /// Connects the clients.
    pub(crate) async fn open(world: World, kind: Kind) -> Self {
        // Excludes the client's probes and this stage's round trips.
        network!(world, network => network.exempt_path("/"));
        let retries = RetryNTimes::new(40, RETRY).unwrap();
        let actor = world
            .connect_contender(SESSION, |builder| {
                builder
                    .retry_policy(retries)
                    // Longer than [`LATE`], because the close of a latch waits for a late reply.
                    .close_timeout(SESSION)
                    .operation_timeout(OPERATION)
            })
            .await;
        let others = world.connect_others().await;
        let path = world.lock_path();
        let lock = kind.lock(&actor, &path);
        Self {
            world,
            kind,
            path,
            actor,
            lock,
            others,
            witness: Witness::default(),
            seat: Arc::default(),
        }
    }

    /// The lock that the fault strikes.
    pub(crate) fn lock(&self) -> Lock {
        self.lock.clone()
    }

    /// The path of the lock.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// A node that the holder of the lock writes to.
    pub(crate) fn data_path(&self) -> String {
        format!("{}-data", self.path)
    }

    /// Creates the directories of the lock.
    pub(crate) async fn create_directories(&self) {
        let held = self
            .kind
            .lock(&self.others, &self.path)
            .acquire()
            .await
            .unwrap();
        held.release().await.unwrap();
    }

    /// Creates the node that the holder of the lock writes to.
    pub(crate) async fn create_data(&self) {
        self.others
            .create()
            .creating_parent_containers()
            .for_path(self.data_path(), "old")
            .await
            .unwrap();
    }

    /// Returns a closure that records that the contender has the lock, unless its session was
    /// ended.
    pub(crate) fn entrance(&self) -> impl FnOnce(&Held, bool) + Send + use<> {
        let seat = Arc::clone(&self.seat);
        let witness = self.witness.clone();
        move |held, shares| {
            let mut seat = locked(&seat);
            if seat.ended != Some(held.session_id()) {
                witness.enter(ACTOR, shares, held);
                seat.is_inside = true;
            }
        }
    }

    /// Records that the contender no longer has the lock.
    pub(crate) fn leave(&self) {
        drop(self.exit());
    }

    /// Returns a guard that records on drop that the contender no longer has the lock.
    pub(crate) fn exit(&self) -> Exit {
        Exit {
            seat: Arc::clone(&self.seat),
            witness: self.witness.clone(),
            shares: self.lock().shares(),
        }
    }

    fn seat(&self) -> MutexGuard<'_, Seat> {
        locked(&self.seat)
    }

    /// Ends the contender's session on the server, and then lets the contender notice.
    pub(crate) async fn end_session(&self) {
        self.end_session_unnoticed().await;
        network!(self.world, network => network.release_held());
    }

    /// Ends the contender's session on the server. The contender does not notice yet.
    pub(crate) async fn end_session_unnoticed(&self) {
        {
            let mut seat = self.seat();
            seat.ended = Some(self.world.session_id());
            seat.leave(&self.witness, self.lock().shares());
        }
        self.world.close_session().await;
    }

    /// Whether the session of `held` was ended on the server.
    pub(crate) fn has_ended(&self, held: &Held) -> bool {
        self.seat().ended == Some(held.session_id())
    }

    /// Starts another contender: either the contender behind (`who` is [`BEHIND`]), which releases
    /// the lock as soon as it has held it, or the contender ahead with this number, counted from
    /// the first.
    pub(crate) fn begin(&self, who: usize) -> Neighbour {
        let kind = if who == BEHIND {
            self.kind.blocker()
        } else {
            self.kind.before(who)
        };
        let lock = kind.lock(&self.others, &self.path);
        let mut neighbour = Neighbour::begin(who, lock, self.witness.clone(), self.others.clone());
        if who == BEHIND {
            neighbour.go();
        }
        neighbour
    }

    /// Starts a contender, and returns when it is queued.
    pub(crate) async fn line_up(&self, who: usize) -> Neighbour {
        let before = self.nodes().await;
        let neighbour = self.begin(who);
        self.until_nodes(|nodes| nodes > before).await;
        neighbour
    }

    /// Waits until the contender has nothing more to send.
    pub(crate) async fn settle(&self) {
        loop {
            let sent = self.sent();
            sleep(QUIET).await;
            // Replies and events arrive in order, so no earlier event follows this reply.
            let is_answered = self.actor.get_acl("/").await.is_ok();
            if is_answered && self.sent() == sent {
                return;
            }
        }
    }

    /// Waits until the contender has handled a fault.
    ///
    /// The contender notices a lost reply (`reply_is_lost`) when its request times out, or never if
    /// the reply does not matter.
    pub(crate) async fn recover(&self, reply_is_lost: bool) {
        if reply_is_lost {
            sleep(OPERATION).await;
        }
        self.settle().await;
    }

    fn sent(&self) -> u64 {
        self.requests().values().sum()
    }

    /// The contender's requests for the lock and its handshakes, without probes and the round trips
    /// of [`settle`](Self::settle).
    pub(crate) fn requests(&self) -> Requests {
        let mut requests = network!(self.world, network => network.requests());
        let handshakes = network!(self.world, network => network.handshakes());
        if handshakes > 0 {
            requests.insert(OpCode::CreateSession, handshakes);
        }
        requests
    }

    /// Makes some round trips, during which a second holder would be detected.
    pub(crate) async fn make_round_trips(&self) {
        make_round_trips(&self.others).await;
    }

    /// The number of the lock's nodes.
    pub(crate) async fn nodes(&self) -> usize {
        // One request for all directories.
        let dirs = self.kind.dirs(&self.path);
        let lists: Vec<_> = dirs
            .iter()
            .map(|dir| ReadOperation::Children(self.others.resolve(dir).unwrap()))
            .collect();
        let results = loop {
            match self
                .others
                .session()
                .await
                .unwrap()
                .read_all(lists.clone())
                .await
            {
                Ok(results) => break results,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
            sleep(PAUSE).await;
        };
        results
            .into_iter()
            .map(|result| match result {
                Ok(ReadResult::Children(children)) => children.len(),
                Err(ClientError::NoNode { .. }) => 0,
                other => panic!("{other:?}"),
            })
            .sum()
    }

    /// Waits until `are_right` returns true for the number of the lock's nodes.
    pub(crate) async fn until_nodes(&self, are_right: impl Fn(usize) -> bool) {
        while !are_right(self.nodes().await) {
            sleep(PAUSE).await;
        }
    }

    /// Checks that the contender has no work left, that no node of the lock is left, and that no
    /// contender holds the lock.
    pub(crate) async fn check_nothing_is_left(&self) {
        self.actor.janitor().idle().await;
        self.until_nodes(|nodes| nodes == 0).await;
        assert_eq!(self.witness.holders(), 0);
    }

    /// Checks that the lock is free.
    pub(crate) async fn check_free(&self) {
        let blocker = self.kind.blocker().lock(&self.others, &self.path);
        let held = blocker
            .try_acquire()
            .await
            .unwrap()
            .expect("the lock is not free");
        self.witness.enter(BEHIND, blocker.shares(), &held);
        self.witness.leave(blocker.shares());
        held.release().await.unwrap();
        assert_eq!((self.nodes().await, self.witness.holders()), (0, 0));
    }

    /// Checks that no nodes and no watches are left, and then closes the clients. After the close,
    /// a node that was created late, or a watch, would have ended with its session.
    pub(crate) async fn close(self, strike: Option<Strike>) {
        if strike.is_some_and(Strike::loses_a_watch) {
            self.world.free_watches();
        }
        self.settle().await;
        assert_eq!(self.nodes().await, 0, "nodes are left");
        within_bound(Instant::now(), "watches are left on the server", async {
            while self.world.watch_count().await > 0 {
                sleep(PAUSE).await;
            }
        })
        .await;
        self.actor.close().await.unwrap();
        self.others.close().await.unwrap();
    }
}

/// Ignores poison: the witness has already reported the failure.
fn locked(seat: &Mutex<Seat>) -> MutexGuard<'_, Seat> {
    seat.lock().unwrap_or_else(PoisonError::into_inner)
}
