//! Thousands of tasks of one session wait: on one lock, and on a lock each. All are served, no session is lost, and what
//! that costs grows with their number and not with its square.
//!
//! `CROWD` says how many, 2,000 if it is not set. The marks are printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failure here is the test's failure")]

mod marks;
#[path = "../support/mod.rs"]
mod support;

use std::future::Future;
use std::time::{Duration, Instant};

use curator_recipes::client::CuratorClient;
use curator_recipes::{InterProcessMutex, LockGuard, OwnerId};
use curator_test::{FaultProxy, TestingServer, within};
use futures_util::poll;
use tokio::task::{JoinSet, unconstrained};

use self::marks::Marks;
use self::support::{LONG_SESSION, Witness};

/// Far more than is needed: only a failing test waits so long.
const PATIENCE_WITH_A_CROWD: Duration = Duration::from_secs(300);
/// A session that a busy machine may need to be kept, and no more.
const SHORT: Duration = Duration::from_secs(4);

/// Crowds would get into each other's way.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn crowd() -> usize {
    std::env::var("CROWD").map_or(2_000, |crowd| crowd.parse().expect("CROWD is a number"))
}

/// A client that waits, behind a proxy of its own, and one that holds what it waits for.
struct Stage {
    proxy: FaultProxy,
    waiting: CuratorClient,
    holding: CuratorClient,
    epoch: u64,
}

impl Stage {
    async fn new(server: &TestingServer, session_timeout: Duration) -> Self {
        let proxy = FaultProxy::start(server.address()).unwrap();
        let connect = |to: String, timeout| CuratorClient::builder(to).session_timeout(timeout).connect();
        let waiting = connect(proxy.connect_string(), session_timeout).await.unwrap();
        let holding = connect(server.connect_string(), LONG_SESSION).await.unwrap();
        let epoch = waiting.session().await.unwrap().epoch();
        Self { proxy, waiting, holding, epoch }
    }

    /// The waiting session is the first one still, which is what it was to be through all of this.
    async fn close(self) {
        assert_eq!(self.waiting.session().await.unwrap().epoch(), self.epoch, "a session was lost");
        for client in [self.waiting, self.holding] {
            within(PATIENCE_WITH_A_CROWD, client.janitor().idle()).await;
            client.close().await.unwrap();
        }
    }
}

/// Begins an acquire: it is in line when this returns, behind those that began before.
async fn begin(mutex: &InterProcessMutex) -> impl Future<Output = LockGuard> + Send + 'static {
    let mutex = mutex.clone();
    let mut acquire = Box::pin(async move { mutex.acquire_as(&OwnerId::new()).await.unwrap() });
    // Else the runtime would make a task that does so much at a time pause before it is in line.
    assert!(poll!(unconstrained(&mut acquire)).is_pending());
    acquire
}

/// All on one lock.
async fn on_one_lock(session_timeout: Duration, cut: bool) {
    let _alone = ALONE.lock().await;
    let (server, crowd) = (TestingServer::start().await.unwrap(), crowd());
    let stage = Stage::new(&server, session_timeout).await;
    let held = InterProcessMutex::new(&stage.holding, "/crowd").unwrap().acquire().await.unwrap();
    let marks = Marks::begin("one lock", crowd, session_timeout, cut, &server, &stage.proxy);
    let witness = Witness::default();
    let mut tasks = JoinSet::new();
    for number in 0..crowd {
        // As most programs do it: a new one each time it is needed.
        let mutex = InterProcessMutex::new(&stage.waiting, "/crowd").unwrap();
        let (acquire, witness) = (begin(&mutex).await, witness.clone());
        tasks.spawn(async move {
            let guard = acquire.await;
            witness.enter(number, false, &guard);
            witness.leave(false);
            guard.release().await.unwrap();
        });
    }
    if cut {
        stage.proxy.cut();
    }
    held.release().await.unwrap();
    let begun = Instant::now();
    within(PATIENCE_WITH_A_CROWD, async { while tasks.join_next().await.transpose().unwrap().is_some() {} }).await;
    marks.end(begun.elapsed());
    assert!(witness.order().into_iter().eq(0..crowd), "not in the order of their coming");
    stage.close().await;
}

/// Each on a lock of its own.
async fn on_a_lock_each(session_timeout: Duration, cut: bool) {
    let _alone = ALONE.lock().await;
    let (server, crowd) = (TestingServer::start().await.unwrap(), crowd());
    let stage = Stage::new(&server, session_timeout).await;
    let path = |number: usize| format!("/crowd/{number}");
    let mut holders = JoinSet::new();
    for number in 0..crowd {
        let mutex = InterProcessMutex::new(&stage.holding, path(number)).unwrap();
        holders.spawn(async move { mutex.acquire().await.unwrap() });
    }
    let held = within(PATIENCE_WITH_A_CROWD, holders.join_all()).await;
    let marks = Marks::begin("a lock each", crowd, session_timeout, cut, &server, &stage.proxy);
    let mut tasks = JoinSet::new();
    for number in 0..crowd {
        let mutex = InterProcessMutex::new(&stage.waiting, path(number)).unwrap();
        tasks.spawn(async move { mutex.acquire().await.unwrap().release().await.unwrap() });
    }
    // The last of them have come when all nodes are there.
    let last = async {
        for number in 0..crowd {
            while stage.holding.get_children(path(number)).await.unwrap().len() < 2 {}
        }
    };
    within(PATIENCE_WITH_A_CROWD, last).await;
    if cut {
        stage.proxy.cut();
    }
    let begun = Instant::now();
    let mut releases: JoinSet<()> = held.into_iter().map(|guard| async { guard.release().await.unwrap() }).collect();
    within(PATIENCE_WITH_A_CROWD, async { while releases.join_next().await.transpose().unwrap().is_some() {} }).await;
    within(PATIENCE_WITH_A_CROWD, async { while tasks.join_next().await.transpose().unwrap().is_some() {} }).await;
    marks.end(begun.elapsed());
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_on_one_lock_is_served_in_order() {
    on_one_lock(LONG_SESSION, false).await;
    on_one_lock(SHORT, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_on_one_lock_is_served_in_order_when_its_connection_is_cut() {
    on_one_lock(LONG_SESSION, true).await;
    on_one_lock(SHORT, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_on_a_lock_each_is_served() {
    on_a_lock_each(LONG_SESSION, false).await;
    on_a_lock_each(SHORT, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_on_a_lock_each_is_served_when_its_connection_is_cut() {
    on_a_lock_each(LONG_SESSION, true).await;
    on_a_lock_each(SHORT, true).await;
}
