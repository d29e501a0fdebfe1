//! Compares the cost of a release that wakes every waiter with the cost of a release of this
//! library.
//!
//! In the naive recipe, all waiters watch the holder's node. When this node is deleted, every
//! waiter lists the directory again, and all but one watch the next holder. The naive recipe is
//! implemented here as a custom driver, and compared with the library's standard driver. Each
//! waiter has a separate session, and all sessions go through a counting proxy, so the output shows
//! how many requests the server received and how many notifications it sent.
//!
//! ```console
//! cargo run --example herd_effect
//! ```
//!
//! Your own server must allow some 200 connections from one address (`maxClientCnxns`; the default
//! is 60).

use std::time::{Duration, Instant};

use curator_examples::{Ensemble, Failure, builder};
use curator_recipes::client::CuratorClient;
use curator_recipes::{
    InterProcessMutex, LockGuard,
    driver::{LockInternalsDriver, Queue, StandardLockInternalsDriver, Uuid, Verdict},
};
use curator_test::{FaultProxy, OpCode};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::task::JoinSet;

const WAITERS: [usize; 3] = [10, 50, 200];
const HAND_OVERS: usize = 10;
/// Much longer than any step takes, even on a slow machine: the example counts requests, and times
/// do not matter.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// All waiters wait for the first node of the queue.
#[derive(Clone, Debug)]
struct HerdDriver(StandardLockInternalsDriver);

impl LockInternalsDriver for HerdDriver {
    fn node_prefix(&self, id: &Uuid) -> String {
        self.0.node_prefix(id)
    }

    fn sequence(&self, child: &str) -> Option<i32> {
        self.0.sequence(child)
    }

    fn verdict(&self, _queue: &Queue, own: usize) -> Verdict {
        if own == 0 {
            Verdict::Owns
        } else {
            Verdict::WaitsFor(0)
        }
    }

    /// Returns `false`, so that a waiter lists the directory each time, as in the naive recipe.
    fn predecessors_are_final(&self) -> bool {
        false
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    allow_many_connections()?;
    let ensemble = Ensemble::find().await?;
    let (proxy, connect_string) = ensemble.proxy()?;
    let mut connecting = JoinSet::new();
    // One client more than waiters, because one client is the holder.
    for _ in 0..=WAITERS.into_iter().max().unwrap_or_default() {
        let builder = builder(&connect_string)
            .session_timeout(LIMIT)
            .connection_timeout(LIMIT);
        connecting.spawn(
            builder
                .operation_timeout(LIMIT)
                .close_timeout(LIMIT)
                .connect(),
        );
    }
    let mut clients = Vec::new();
    while let Some(client) = connecting.join_next().await {
        clients.push(
            client?.map_err(|error| {
                format!("{error}; is the server's maxClientCnxns large enough?")
            })?,
        );
    }

    println!(
        "{HAND_OVERS} hand-overs with each number of waiters; mean values of one hand-over:\n"
    );
    println!("waiters  recipe    notifications  requests  hand-over");
    for waiters in WAITERS {
        let clients = &clients[..=waiters];
        // All waiters list the queue, and all but the new holder watch a node.
        let herd = Woken {
            lists: waiters,
            watches: waiters - 1,
        };
        measure(
            "naive",
            clients,
            &proxy,
            HerdDriver(StandardLockInternalsDriver::new()),
            herd,
        )
        .await?;
        measure(
            "standard",
            clients,
            &proxy,
            StandardLockInternalsDriver::new(),
            Woken::default(),
        )
        .await?;
    }
    println!();
    println!(
        "A notification is a watch event, sent to one session. The naive release wakes every waiter. The"
    );
    println!(
        "standard release wakes two waiters, and one then owns the lock. The former holder watches its"
    );
    println!(
        "own node, and is the third to be notified. One request of each hand-over is the release itself."
    );
    for client in clients {
        client.close().await?;
    }
    Ok(())
}

/// The requests that a hand-over makes waiters send; zero if the numbers are not known. The next
/// hand-over begins after the replies.
#[derive(Clone, Copy, Default)]
struct Woken {
    lists: usize,
    watches: usize,
}

/// Counts the requests and notifications of hand-overs and measures their time, while all other
/// clients wait. Prints the row of the table.
async fn measure(
    recipe: &str,
    clients: &[CuratorClient],
    proxy: &FaultProxy,
    driver: impl LockInternalsDriver + Clone,
    woken: Woken,
) -> Result<(), Failure> {
    let waiting = clients.len() - 1;
    let dir = format!("/curator-examples/herd-effect/{recipe}-{waiting}");
    let mut waiters = JoinSet::new();
    let contend = |waiters: &mut JoinSet<_>, index: usize| -> Result<(), Failure> {
        let mutex =
            InterProcessMutex::non_reentrant(&clients[index], &dir)?.with_driver(driver.clone())?;
        waiters.spawn(async move {
            mutex
                .acquire()
                .await
                .map(|guard| (index, guard, Instant::now()))
        });
        Ok(())
    };
    contend(&mut waiters, 0)?;
    let (mut holder, mut guard, _) = next_holder(&mut waiters).await?;
    for index in 1..=waiting {
        contend(&mut waiters, index)?;
    }
    // Each waiter creates its node, lists the queue, and then watches a node before its own, and
    // its own node.
    answered(proxy, OpCode::Create2, waiting).await?;
    answered(proxy, OpCode::GetChildren, waiting).await?;
    answered(proxy, OpCode::GetData, waiting).await?;
    wait_until_quiet(proxy).await;

    let mut notifications = 0;
    let mut requests = 0;
    let mut time = Duration::ZERO;
    for _ in 0..HAND_OVERS {
        proxy.reset_counts();
        let released = Instant::now();
        guard.release().await?;
        let (new_holder, new_guard, acquired) = next_holder(&mut waiters).await?;
        time += acquired - released;
        answered(proxy, OpCode::GetChildren, woken.lists).await?;
        answered(proxy, OpCode::GetData, woken.watches).await?;
        let (woken, sent) = wait_until_quiet(proxy).await;
        notifications += woken;
        requests += sent;
        // The former holder waits again, so that the next hand-over has as many waiters. Its
        // requests are not counted.
        proxy.reset_counts();
        contend(&mut waiters, holder)?;
        // After this reply, the former holder has its place in the queue and its watch.
        answered(proxy, OpCode::GetData, 1).await?;
        (holder, guard) = (new_holder, new_guard);
    }
    let mean = |count: u64| count as f64 / HAND_OVERS as f64;
    let millis = time.as_secs_f64() * 1e3 / HAND_OVERS as f64;
    let notifications = mean(notifications);
    let requests = mean(requests);
    println!("{waiting:>7}  {recipe:<8}  {notifications:>13.1}  {requests:>8.1}  {millis:>6.1} ms");
    // Dropping a wait leaves the queue. The holder releases last, so that the release wakes no
    // waiter.
    waiters.shutdown().await;
    wait_until_quiet(proxy).await;
    Ok(guard.release().await?)
}

type Acquired = curator_recipes::Result<(usize, LockGuard, Instant)>;

async fn next_holder(
    waiters: &mut JoinSet<Acquired>,
) -> Result<(usize, LockGuard, Instant), Failure> {
    Ok(waiters.join_next().await.ok_or("no client waits")???)
}

/// Waits until the server has answered this many requests since the counts were reset.
async fn answered(proxy: &FaultProxy, op: OpCode, count: usize) -> Result<(), Failure> {
    let answered = async {
        // `wait_for_reply` ends after 30 s, which may be too short on a slow machine.
        while proxy.wait_for_reply(op, count as u64).await.is_err() {}
    };
    Ok(tokio::time::timeout(LIMIT, answered).await?)
}

/// Waits until no requests have been sent for a while. Returns the numbers of notifications and
/// requests.
async fn wait_until_quiet(proxy: &FaultProxy) -> (u64, u64) {
    let traffic = || {
        // Each session regularly sends a sync as a probe, which has nothing to do with locks.
        let requests = proxy
            .requests()
            .into_iter()
            .filter(|(op, _)| *op != OpCode::Sync);
        (
            proxy.notifications(),
            requests.map(|(_, count)| count).sum(),
        )
    };
    let mut before = traffic();
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = traffic();
        if now == before {
            return now;
        }
        before = now;
    }
}

/// A client and its connection through the proxy take five file descriptors, and 1,024 is a common
/// limit.
fn allow_many_connections() -> Result<(), Failure> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = Some(maximum.unwrap_or(4_096).min(4_096));
    Ok(setrlimit(Resource::Nofile, Rlimit { current, maximum })?)
}
