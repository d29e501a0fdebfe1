//! Thousands of tasks of one session wait, on one lock or each on a separate lock; a cache has tens
//! of thousands of nodes. All are served, no session is lost, and the cost grows linearly with
//! their number.
//!
//! Only this target has so many waiters that a client that is busy with them could miss the
//! deadlines of its session.
//!
//! `CROWD` sets the number of tasks; the default is 2,000.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test, a panic is the way to fail"
)]

mod caches;
mod latches;
#[path = "../support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use curator_recipes::client::CuratorClient;
use curator_recipes::{InterProcessMutex, OwnerId};
use curator_test::{FaultProxy, TestingServer, within};
use futures_util::poll;
use tokio::task::{JoinSet, unconstrained};

use self::support::{LONG_SESSION, Witness, number, say, transport};

/// The limit of each wait. Much longer than needed: only a failing test waits so long.
const CROWD_TIMEOUT: Duration = Duration::from_secs(300);
/// The session timeout of the client whose tasks wait: just long enough to keep the session on a
/// busy machine.
const SESSION: Duration = Duration::from_secs(10);
/// The limit of received bytes per waiter, for any number of waiters: a few short lists, and the
/// waiter's own nodes.
const BYTES_EACH: u64 = 12 * 1024;

/// Serializes the tests: crowds would disturb each other.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A client whose tasks wait, behind a proxy, and a client that holds the locks that they wait for.
struct Stage {
    crowd: usize,
    _server: TestingServer,
    proxy: FaultProxy,
    waiting: CuratorClient,
    holding: CuratorClient,
}

impl Stage {
    async fn new() -> Self {
        let crowd = number("CROWD", 2_000) as usize;
        let server = TestingServer::start().await.unwrap();
        let proxy = FaultProxy::start(server.address()).unwrap();
        let connect = |to: String, session_timeout| {
            CuratorClient::builder(to)
                .transport(transport())
                .session_timeout(session_timeout)
                .connect()
        };
        let waiting = connect(proxy.connect_string(), SESSION).await.unwrap();
        let holding = connect(server.connect_string(), LONG_SESSION)
            .await
            .unwrap();
        Self {
            crowd,
            _server: server,
            proxy,
            waiting,
            holding,
        }
    }

    /// Waits until all tasks have held their lock. Checks that the client has kept its first
    /// session, and checks the bytes that it has received since the counts were reset. Times are
    /// printed and not checked: machines differ.
    async fn serve(self, what: &str, mut tasks: JoinSet<()>) {
        let begun = Instant::now();
        within(CROWD_TIMEOUT, async {
            while tasks.join_next().await.transpose().unwrap().is_some() {}
        })
        .await;
        let Self {
            crowd,
            _server,
            proxy,
            waiting,
            holding,
        } = self;
        let each = proxy.bytes_received() / crowd as u64;
        say(&format!(
            "crowd: {crowd} tasks on {what} served in {:.1?}, {each} bytes received each",
            begun.elapsed()
        ));
        assert!(proxy.handshakes() > 0, "the client has not reconnected");
        assert!(
            each <= BYTES_EACH,
            "{each} bytes were received for each of {crowd} tasks"
        );
        // A session exists, even if the first was lost just now.
        waiting.session().await.unwrap();
        assert_eq!(waiting.health().sessions_replaced, 0, "a session was lost");
        for client in [waiting, holding] {
            within(CROWD_TIMEOUT, client.janitor().idle()).await;
            client.close().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_waiters_acquire_one_lock_in_order_despite_a_cut_connection() {
    let _alone = ALONE.lock().await;
    let stage = Stage::new().await;
    let held = InterProcessMutex::new(&stage.holding, "/crowd")
        .unwrap()
        .acquire()
        .await
        .unwrap();
    stage.proxy.reset_counts();
    let witness = Witness::default();
    let mut tasks = JoinSet::new();
    for number in 0..stage.crowd {
        // A new mutex per use, as in most programs.
        let mutex = InterProcessMutex::new(&stage.waiting, "/crowd").unwrap();
        let mut acquire = Box::pin(async move { mutex.acquire_as(&OwnerId::new()).await.unwrap() });
        // The first poll puts the acquire in the queue. It is unconstrained because tokio's budget
        // could end it before that.
        assert!(poll!(unconstrained(&mut acquire)).is_pending());
        let witness = witness.clone();
        tasks.spawn(async move {
            let guard = acquire.await;
            witness.enter(number, false, &guard);
            witness.leave(false);
            guard.release().await.unwrap();
        });
    }
    stage.proxy.cut();
    held.release().await.unwrap();
    let crowd = stage.crowd;
    stage.serve("one lock", tasks).await;
    assert!(
        witness.order().into_iter().eq(0..crowd),
        "the tasks did not hold in the order of their calls"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_waiters_each_acquire_a_separate_lock_despite_a_cut_connection() {
    let _alone = ALONE.lock().await;
    let stage = Stage::new().await;
    let path = |number: usize| format!("/crowd/{number}");
    let mut holders = JoinSet::new();
    for number in 0..stage.crowd {
        let mutex = InterProcessMutex::new(&stage.holding, path(number)).unwrap();
        holders.spawn(async move { mutex.acquire().await.unwrap() });
    }
    let held = within(CROWD_TIMEOUT, holders.join_all()).await;
    stage.proxy.reset_counts();
    let mut tasks = JoinSet::new();
    for number in 0..stage.crowd {
        let mutex = InterProcessMutex::new(&stage.waiting, path(number)).unwrap();
        tasks.spawn(async move { mutex.acquire().await.unwrap().release().await.unwrap() });
    }
    // Waits until every lock has the nodes of its holder and its waiter.
    within(CROWD_TIMEOUT, async {
        for number in 0..stage.crowd {
            while stage
                .holding
                .get_children(path(number))
                .await
                .unwrap()
                .len()
                < 2
            {}
        }
    })
    .await;
    stage.proxy.cut();
    for guard in held {
        tasks.spawn(async { guard.release().await.unwrap() });
    }
    stage.serve("a lock each", tasks).await;
}
