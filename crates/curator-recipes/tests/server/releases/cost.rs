//! The cost of acquires and releases, in requests and round trips, compared with the tables in
//! `costs.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use curator_recipes::client::CuratorClient;
use curator_recipes::{
    InterProcessMultiLock, InterProcessReadWriteLock, InterProcessSemaphoreMutex,
};
use curator_test::{FaultProxy, OpCode, TestingServer};

use crate::costs::TABLES;
use crate::support::subjects::{Kind, Lock};
use crate::support::{
    acquiring, behind_proxy, client, connect, keep, mutex, path, queue_of, requests_of, soon,
    until, without_probes,
};

/// Requests by kind, and round trips.
pub(crate) type Cost = (BTreeMap<OpCode, u64>, u64);

/// Longer than a busy machine delays the requests of one pipeline behind each other: otherwise they
/// would count as two.
const DELAY: Duration = Duration::from_millis(100);

/// A client whose requests are counted, with a delay to its server.
pub(crate) async fn counted() -> (FaultProxy, CuratorClient) {
    let (proxy, client) = behind_proxy().await;
    // Lease probes would distort the count.
    proxy.ignore(OpCode::Sync);
    proxy.set_delay(DELAY);
    proxy.reset_counts();
    (proxy, client)
}

/// The requests and round trips since the last call.
pub(crate) fn spent(proxy: &FaultProxy) -> Cost {
    let spent = (without_probes(proxy), proxy.round_trips());
    proxy.reset_counts();
    spent
}

/// A table in the pages, and one of its rows.
type Row = (&'static str, &'static str);

/// The cost that the row states for the server in use.
pub(crate) async fn stated((table, operation): Row) -> Cost {
    let (_, rows) = TABLES.iter().find(|(name, _)| *name == table).expect(table);
    let row = rows
        .iter()
        .find(|row| row.name == operation)
        .expect(operation);
    let version = TestingServer::shared()
        .await
        .version()
        .expect("the server is running");
    let pipelines = row.pipelines(!version.returns_stats_in_transactions());
    let mut requests = BTreeMap::new();
    for (verb, number) in pipelines.concat() {
        let op = match verb {
            "add" => OpCode::AddWatch,
            "create" => OpCode::Create2,
            "delete" => OpCode::Delete,
            "get" | "watch" => OpCode::GetData,
            "list" => OpCode::GetChildren,
            "look" => OpCode::Exists,
            "read" => OpCode::MultiRead,
            // Not counted, because lease probes are `sync` too.
            "sync" => continue,
            "transaction" => OpCode::Multi,
            "write" => OpCode::SetData,
            other => panic!("{operation}: unknown verb `{other}`"),
        };
        *requests.entry(op).or_default() += number;
    }
    (requests, pipelines.len() as u64)
}

const FREE: Row = ("mutex", "acquire, when it is free");
const RELEASE: Row = ("mutex", "release");

/// The directories of a lock, and a function that makes the lock.
type Subject<F> = (Vec<String>, F);

/// Acquires and releases while the directories exist. Compares the costs of the acquire, of the
/// release, and of both with these rows.
async fn check_cycle(rows: [Row; 3], (dirs, lock): Subject<impl FnOnce(&CuratorClient) -> Lock>) {
    let (proxy, client) = counted().await;
    keep(&client, &dirs).await;
    let lock = lock(&client);
    lock.acquire().await.unwrap().release().await.unwrap();
    proxy.reset_counts();
    for _ in 0..3 {
        let guard = lock.acquire().await.unwrap();
        assert_eq!(spent(&proxy), stated(rows[0]).await, "{:?}", rows[0]);
        guard.release().await.unwrap();
        assert_eq!(spent(&proxy), stated(rows[1]).await, "{:?}", rows[1]);
        lock.acquire().await.unwrap().release().await.unwrap();
        assert_eq!(spent(&proxy), stated(rows[2]).await, "{:?}", rows[2]);
    }
}

async fn check_cycles() {
    let read_write = [
        ("read-write lock", "acquire, when it is free"),
        ("read-write lock", "release"),
        ("cycles", "read lock, write lock"),
    ];
    let semaphore_mutex = [
        (
            "semaphore",
            "acquire, when the queue is empty and there are enough leases",
        ),
        ("semaphore", "release"),
        ("cycles", "semaphore mutex, one lease of a semaphore"),
    ];
    let several = [
        ("multi-lock", "acquire, when all are free"),
        ("multi-lock", "release"),
        ("cycles", "multi-lock of three paths (ours: of any number)"),
    ];
    let mutex = [FREE, RELEASE, ("cycles", "mutex")];
    let of_path = |kind: Kind| {
        let path = path("cycle");
        let dirs = kind.dirs(&path);
        (dirs, move |client: &CuratorClient| kind.lock(client, &path))
    };
    let of_paths = |number| {
        let paths: Vec<_> = (0..number).map(|_| path("cycle")).collect();
        let lock = {
            let paths = paths.clone();
            move |client: &CuratorClient| {
                Lock::Exclusive(Arc::new(InterProcessMultiLock::new(client, paths).unwrap()))
            }
        };
        (paths, lock)
    };
    tokio::join!(
        check_cycle(mutex, of_path(Kind::Mutex)),
        check_cycle(read_write, of_path(Kind::Read)),
        check_cycle(read_write, of_path(Kind::Write)),
        check_cycle(semaphore_mutex, of_path(Kind::SemaphoreMutex)),
        check_cycle(several, of_path(Kind::Paths)),
        check_cycle(mutex, of_paths(1)),
        check_cycle(several, of_paths(20)),
    );
}

#[test]
fn an_uncontended_acquire_and_its_release_cost_what_the_tables_state_on_every_runtime() {
    let runtimes = [
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap(),
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap(),
    ];
    for runtime in runtimes {
        runtime.block_on(check_cycles());
        runtime.block_on(runtime.spawn(check_cycles())).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cost_of_a_waiter_is_bounded_for_any_queue_length() {
    // For each contender before us, the number of watches that we have set before that contender
    // leaves.
    let cases = [
        (("mutex", "acquire, one contender before us"), vec![2]),
        (("mutex", "acquire, two before us"), vec![3, 3]),
        (("mutex", "acquire, more before us"), vec![1, 1, 3]),
        (("mutex", "acquire, more before us"), vec![1, 1, 1, 3]),
    ];
    for (row, watches) in cases {
        let others = client().await;
        let (proxy, client) = counted().await;
        let path = path("waiter");
        mutex(&others, &path)
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
        let mut before = Vec::new();
        for place in 0..watches.len() {
            before.push(acquiring(&others, &path));
            queue_of(&others, &path, place + 1).await;
        }
        proxy.reset_counts();
        let waiting = acquiring(&client, &path);
        for (other, watches) in before.into_iter().zip(watches) {
            proxy
                .wait_for_reply(OpCode::GetData, watches)
                .await
                .unwrap();
            // The reply to this `sync` comes after the replies to all requests that were sent with
            // the watches.
            client.sync("/").await.unwrap();
            soon(other).await.unwrap().unwrap().release().await.unwrap();
        }
        let guard = soon(waiting).await.unwrap().unwrap();
        assert_eq!(spent(&proxy), stated(row).await, "{row:?}");
        guard.release().await.unwrap();
    }
}

/// The next waiter in the queue gets the lock without a request: the delete and its event are one
/// round trip.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_is_one_round_trip() {
    let path = path("hand-over");
    let (holder_proxy, holder) = counted().await;
    let mut guard = mutex(&holder, &path).acquire().await.unwrap();
    let mut last_proxy = None;
    let mut proxies = Vec::new();
    let mut clients = Vec::new();
    let mut waiters = Vec::new();
    for place in 0..4 {
        let (proxy, client) = counted().await;
        waiters.push(acquiring(&client, &path));
        queue_of(&holder, &path, place + 2).await;
        proxies.push(proxy);
        // Dropping the last handle closes a client, which sends a request.
        clients.push(client);
    }
    for (place, (waiter, proxy)) in waiters.into_iter().zip(&proxies).enumerate() {
        // The next waiter is prepared: it watches all nodes ahead and its own.
        proxy
            .wait_for_reply(OpCode::GetData, if place == 0 { 2 } else { 3 })
            .await
            .unwrap();
        let sent = without_probes(proxy);
        let probes = requests_of(proxy, OpCode::Sync);
        // The release is one round trip of the holder; its delete is also the first half of the
        // hand-over.
        let releasing_proxy: &FaultProxy = last_proxy.replace(proxy).unwrap_or(&holder_proxy);
        releasing_proxy.reset_counts();
        guard.release().await.unwrap();
        guard = soon(waiter).await.unwrap().unwrap();
        assert_eq!(
            without_probes(proxy),
            sent,
            "waiter {place} must send nothing between the release and the end of its acquire"
        );
        // One lease probe may have been sent.
        assert!(requests_of(proxy, OpCode::Sync) <= probes + 1);
        assert_eq!(spent(releasing_proxy), stated(RELEASE).await);
    }
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_lock_of_a_writer_is_two_requests_plus_an_exists_on_old_servers() {
    let (proxy, client) = counted().await;
    let path = path("downgraded");
    let lock = InterProcessReadWriteLock::new(&client, &path).unwrap();
    let writing = lock.write().acquire().await.unwrap();
    proxy.reset_counts();
    let beside = lock.read().acquire().await.unwrap();
    assert_eq!(
        spent(&proxy),
        stated(("read-write lock", "read beside the owner's write lock")).await
    );
    beside.release().await.unwrap();
    proxy.reset_counts();
    lock.read()
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let read_lock_of_a_writer = stated(("cycles", "read lock of a writer")).await;
    assert_eq!(spent(&proxy), read_lock_of_a_writer);

    let reading = writing.downgrade().await.unwrap();
    let downgrade = stated(("read-write lock", "`downgrade` of the last guard")).await;
    assert_eq!((without_probes(&proxy), proxy.round_trips()), downgrade);
    reading.release().await.unwrap();
    assert_eq!(spent(&proxy), read_lock_of_a_writer);
}

/// The cost of the first acquire below a node.
async fn first_cost<G>(acquire: impl AsyncFnOnce(CuratorClient, String) -> G) -> Cost {
    let (proxy, client) = counted().await;
    let top = path("first");
    client.create().for_path(&top, "").await.unwrap();
    proxy.reset_counts();
    let _guard = acquire(client, top).await;
    spent(&proxy)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_acquire_takes_two_round_trips_with_one_missing_directory_and_four_with_more() {
    let one = async |client, top| {
        mutex(&client, &format!("{top}/lock"))
            .acquire()
            .await
            .unwrap()
    };
    assert_eq!(
        first_cost(one).await,
        stated(("mutex", "acquire, when only the directory is missing")).await
    );
    let three = async |client, top| {
        mutex(&client, &format!("{top}/a/b/lock"))
            .acquire()
            .await
            .unwrap()
    };
    let four_nodes = (
        "mutex",
        "acquire, when three of the path's four nodes are missing",
    );
    assert_eq!(first_cost(three).await, stated(four_nodes).await);
    let several = async |client, top| {
        let paths = [1, 2, 3].map(|number| format!("{top}/{number}"));
        InterProcessMultiLock::new(&client, paths)
            .unwrap()
            .acquire()
            .await
            .unwrap()
    };
    assert_eq!(
        first_cost(several).await,
        stated(("multi-lock", "acquire, when the directories are missing")).await
    );
    let lease = async |client, top| {
        InterProcessSemaphoreMutex::new(&client, format!("{top}/mutex"))
            .unwrap()
            .acquire()
            .await
            .unwrap()
    };
    assert_eq!(
        first_cost(lease).await,
        stated(("semaphore", "acquire, the first below a node")).await
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_with_fifty_waiters_wakes_at_most_two_of_them() {
    const ROUNDS: u64 = 10;
    let server = TestingServer::shared().await;
    let path = path("fifty");
    let holder = client().await;
    let mut guard = mutex(&holder, &path).acquire().await.unwrap();
    // All waiters use one proxy, so every request that a wake-up causes is counted.
    let proxy = FaultProxy::start(server.address()).unwrap();
    let mut waiters = std::collections::VecDeque::new();
    for place in 0..50 {
        waiters.push_back(acquiring(&connect(&proxy.connect_string()).await, &path));
        queue_of(&holder, &path, place + 2).await;
    }
    let watched = async || {
        let mut watches = server.watches_by_path().await.unwrap();
        watches.retain(|watched, _| watched.starts_with(&path));
        watches
    };
    // The first waiter has two watches, the second three, and each other waiter one.
    until(async || watched().await.values().map(Vec::len).sum::<usize>() == 2 + 3 + 48).await;
    proxy.reset_counts();
    for round in 1..=ROUNDS {
        let watching = watched()
            .await
            .remove(guard.node().as_str())
            .unwrap_or_default();
        let woken = watching
            .iter()
            .filter(|session| **session != guard.session_id())
            .count();
        assert!(
            (1..=2).contains(&woken),
            "round {round}: {woken} sessions watch the holder's node"
        );
        guard.release().await.unwrap();
        guard = soon(waiters.pop_front().unwrap()).await.unwrap().unwrap();
        // The holder watches its own node, the next waiter the holder's and its own, and each other
        // waiter one node ahead.
        let left = waiters.len();
        until(async || watched().await.values().map(Vec::len).sum::<usize>() == 1 + 2 + left - 1)
            .await;
    }
    // In the first round, no waiter has to prepare. In each later round, one waiter prepares with
    // three requests, and the others send none. The holder of each round but the first sends a
    // delete, and then closes its client.
    let mut requests = without_probes(&proxy);
    let expected = [
        (OpCode::GetChildren, ROUNDS - 1),
        (OpCode::GetData, 2 * (ROUNDS - 1)),
        (OpCode::Delete, ROUNDS - 1),
        (OpCode::CloseSession, ROUNDS - 1),
    ];
    for (op, most) in expected {
        assert!(
            requests.remove(&op).is_none_or(|sent| sent <= most),
            "too many {op:?}"
        );
    }
    assert_eq!(requests, BTreeMap::new());
    for waiter in &waiters {
        waiter.abort();
    }
    drop(guard);
}
