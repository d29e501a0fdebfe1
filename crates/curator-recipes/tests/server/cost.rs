//! Requests and round trips: counted, not timed.

use std::collections::BTreeMap;
use std::time::Duration;

use curator_recipes::client::CuratorClient;
use curator_recipes::{InterProcessMultiLock, InterProcessReadWriteLock, InterProcessSemaphoreMutex, LockGuard};
use curator_test::{FaultProxy, OpCode, TestingServer};

use crate::support::{
    acquiring, behind_proxy, client, connect, creating, mutex, path, queue_of, requests_of, soon, until, without_probes,
};

type Cost = (BTreeMap<OpCode, u64>, u64);

const DELAY: Duration = Duration::from_millis(5);

/// A client whose requests are counted, on a server that is far away.
pub(crate) async fn counted() -> (FaultProxy, CuratorClient) {
    let (proxy, client) = behind_proxy().await;
    // A probe of the lease could fall into the count.
    proxy.ignore(OpCode::Sync);
    proxy.set_delay(DELAY);
    (proxy, client)
}

/// What was sent since the last call: all requests, and all round trips.
pub(crate) fn spent(proxy: &FaultProxy) -> Cost {
    let spent = (without_probes(proxy), proxy.round_trips());
    proxy.reset_counts();
    spent
}

/// What a cycle costs that makes one node, and its round trips.
fn of_one_node() -> Cost {
    (BTreeMap::from([(OpCode::Create2, 1), (OpCode::GetChildren, 1), (OpCode::Delete, 1)]), 2)
}

/// Counts what an uncontended cycle costs on a far server, when the lock's directory is there.
async fn far_cycle() {
    let ((proxy, client), path) = (counted().await, path("far"));
    let mutex = mutex(&client, &path);
    mutex.acquire().await.unwrap().release().await.unwrap();
    for _ in 0..10 {
        proxy.reset_counts();
        let guard = mutex.acquire().await.unwrap();
        assert_eq!(proxy.round_trips(), 1, "{:?}", proxy.requests());
        guard.release().await.unwrap();
        assert_eq!(spent(&proxy), of_one_node());
    }
}

#[test]
fn an_uncontended_acquire_is_one_round_trip_on_every_runtime() {
    for spawned in [false, true] {
        let runtimes = [
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap(),
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
        ];
        for runtime in runtimes {
            runtime
                .block_on(async { if spawned { tokio::spawn(far_cycle()).await.unwrap() } else { far_cycle().await } });
        }
    }
}

/// A waiter that is next in line gets the lock without sending anything: the delete and its event are one round trip.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_is_one_round_trip() {
    let path = path("hand-over");
    let (holder_proxy, holder) = counted().await;
    let mut guard = mutex(&holder, &path).acquire().await.unwrap();
    let mut releasing = None;
    let (mut proxies, mut clients, mut waiters) = (Vec::new(), Vec::new(), Vec::new());
    for place in 0..4 {
        let (proxy, client) = counted().await;
        waiters.push(acquiring(&client, &path));
        queue_of(&holder, &path, place + 2).await;
        proxies.push(proxy);
        // A client that nobody has any more is closed, which is a request.
        clients.push(client);
    }
    for (place, (waiter, proxy)) in waiters.into_iter().zip(&proxies).enumerate() {
        // The next in line has made ready: watches on all that is before it, and on itself.
        proxy.wait_for_reply(OpCode::GetData, if place == 0 { 2 } else { 3 }).await.unwrap();
        let (sent, probes) = (without_probes(proxy), requests_of(proxy, OpCode::Sync));
        // The release is one round trip of the holder, and its delete is half of the hand-over's.
        let holders: &FaultProxy = releasing.replace(proxy).unwrap_or(&holder_proxy);
        holders.reset_counts();
        guard.release().await.unwrap();
        guard = soon(waiter).await.unwrap().unwrap();
        assert_eq!(without_probes(proxy), sent, "place {place} has sent something between the release and its acquire");
        // One may have been due.
        assert!(requests_of(proxy, OpCode::Sync) <= probes + 1);
        assert_eq!(spent(holders), (BTreeMap::from([(OpCode::Delete, 1)]), 1));
    }
    guard.release().await.unwrap();
}

/// What a cycle costs on a far server, when the directories are there: requests by kind, and round trips.
async fn cost_of(acquire: impl AsyncFn(CuratorClient) -> LockGuard) -> Cost {
    let (proxy, client) = counted().await;
    acquire(client.clone()).await.release().await.unwrap();
    proxy.reset_counts();
    let mut costs = Vec::new();
    for _ in 0..3 {
        acquire(client.clone()).await.release().await.unwrap();
        costs.push(spent(&proxy));
    }
    assert_eq!((&costs[0], &costs[0]), (&costs[1], &costs[2]));
    costs.remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_and_write_are_three_requests_and_two_round_trips() {
    let path = path("read-write");
    let lock = |client: &CuratorClient| InterProcessReadWriteLock::new(client, &path).unwrap();
    let read = cost_of(async |client| lock(&client).read().acquire().await.unwrap());
    assert_eq!(read.await, of_one_node());
    let write = cost_of(async |client| lock(&client).write().acquire().await.unwrap().into());
    assert_eq!(write.await, of_one_node());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_lock_beside_or_after_a_write_lock_is_two_requests_and_on_old_servers_a_look() {
    let ((proxy, client), path) = (counted().await, path("downgraded"));
    let lock = InterProcessReadWriteLock::new(&client, &path).unwrap();
    let writing = lock.write().acquire().await.unwrap();
    proxy.reset_counts();
    lock.read().acquire().await.unwrap().release().await.unwrap();
    let with_release = creating(&[(OpCode::Delete, 1)], 1).await;
    assert_eq!(spent(&proxy), with_release);

    let reading = writing.downgrade().await.unwrap();
    assert_eq!((without_probes(&proxy), proxy.round_trips()), creating(&[], 0).await);
    reading.release().await.unwrap();
    assert_eq!(spent(&proxy), with_release);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_semaphore_mutex_is_four_requests_and_three_round_trips_and_on_old_servers_a_look() {
    let path = path("semaphore-mutex");
    let cost =
        cost_of(async |client| InterProcessSemaphoreMutex::new(&client, &path).unwrap().acquire().await.unwrap());
    let other = [(OpCode::Create2, 1), (OpCode::MultiRead, 1), (OpCode::Delete, 1)];
    assert_eq!(cost.await, creating(&other, 2).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_multi_lock_of_any_number_of_paths_is_three_requests_and_two_round_trips_and_on_old_servers_a_look() {
    for number in [1, 2, 3, 20] {
        let paths: Vec<_> = (0..number).map(|_| path("multi")).collect();
        let cost =
            cost_of(async |client| InterProcessMultiLock::new(&client, &paths).unwrap().acquire().await.unwrap());
        // The release is a transaction too, and so is the acquire, beside which the queues are listed.
        let several = creating(&[(OpCode::Multi, 1), (OpCode::MultiRead, 1)], 1).await;
        let expected = if number == 1 { of_one_node() } else { several };
        assert_eq!(cost.await, expected, "{number} paths");
    }
}

/// What an acquire costs that is the first below a node: requests by kind, and round trips.
async fn first_cost<G>(acquire: impl AsyncFnOnce(CuratorClient, String) -> G) -> Cost {
    let ((proxy, client), top) = (counted().await, path("first"));
    client.create().for_path(&top, "").await.unwrap();
    proxy.reset_counts();
    let _guard = acquire(client, top).await;
    spent(&proxy)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_acquire_takes_two_round_trips_with_one_missing_directory_and_four_with_more() {
    let one = async |client, top| mutex(&client, &format!("{top}/lock")).acquire().await.unwrap();
    // Node and list; then both once more, with the directory.
    let expected = [(OpCode::Create2, 1), (OpCode::Multi, 1), (OpCode::GetChildren, 2)];
    assert_eq!(first_cost(one).await, (BTreeMap::from(expected), 2));
    let three = async |client, top| mutex(&client, &format!("{top}/a/b/lock")).acquire().await.unwrap();
    // The directory was not the only one: a look at all four shows which are missing.
    let expected = [(OpCode::Create2, 1), (OpCode::Multi, 2), (OpCode::GetChildren, 3), (OpCode::Exists, 4)];
    assert_eq!(first_cost(three).await, (BTreeMap::from(expected), 4));
    let several = async |client, top| {
        let paths = [1, 2, 3].map(|number| format!("{top}/{number}"));
        InterProcessMultiLock::new(&client, paths).unwrap().acquire().await.unwrap()
    };
    let expected = [(OpCode::Multi, 2), (OpCode::MultiRead, 2)];
    assert_eq!(first_cost(several).await, (BTreeMap::from(expected), 2));
    // Two directories for the place, and then one for the lease.
    let lease = async |client, top| {
        InterProcessSemaphoreMutex::new(&client, format!("{top}/mutex")).unwrap().acquire().await.unwrap()
    };
    let expected = [(OpCode::Create2, 1), (OpCode::Multi, 3), (OpCode::MultiRead, 3), (OpCode::Exists, 3)];
    assert_eq!(first_cost(lease).await, (BTreeMap::from(expected), 5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_with_fifty_waiters_wakes_at_most_two_of_them() {
    const ROUNDS: u64 = 10;
    let server = TestingServer::shared().await;
    let path = path("fifty");
    let holder = client().await;
    let mut guard = mutex(&holder, &path).acquire().await.unwrap();
    // All waiters talk through one proxy, so whatever one of them does when it wakes is counted.
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
    // Two or three for the first two, one for each of the others.
    until(async || watched().await.values().map(Vec::len).sum::<usize>() == 2 + 3 + 48).await;
    proxy.reset_counts();
    for round in 1..=ROUNDS {
        let watching = watched().await.remove(guard.node().as_str()).unwrap_or_default();
        let woken = watching.iter().filter(|session| **session != guard.session_id()).count();
        assert!((1..=2).contains(&woken), "round {round}: {woken} sessions wait for the holder's node");
        guard.release().await.unwrap();
        guard = soon(waiters.pop_front().unwrap()).await.unwrap().unwrap();
        // The holder watches itself, the next one the holder and itself, and each other one node before it.
        let left = waiters.len();
        until(async || watched().await.values().map(Vec::len).sum::<usize>() == 1 + 2 + left - 1).await;
    }
    // In the first round nobody has to make ready. In each other one waiter does, by three requests, and all others sleep.
    // The holders of all rounds but the first have released by a delete, and closed their clients.
    let mut requests = without_probes(&proxy);
    let expected = [
        (OpCode::GetChildren, ROUNDS - 1),
        (OpCode::GetData, 2 * (ROUNDS - 1)),
        (OpCode::Delete, ROUNDS - 1),
        (OpCode::CloseSession, ROUNDS - 1),
    ];
    for (op, most) in expected {
        assert!(requests.remove(&op).is_none_or(|sent| sent <= most), "too many {op:?}");
    }
    assert_eq!(requests, BTreeMap::new());
    for waiter in &waiters {
        waiter.abort();
    }
    drop(guard);
}
