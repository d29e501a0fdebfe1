//! Kazoo's lock and this project's mutex on one path.

use curator_recipes::{InterProcessMutex, LockGuard, StandardLockInternalsDriver, client::CuratorClient};
use curator_test::{DEFAULT_TIMEOUT, TestingServer, soon, until};
use tokio::task::JoinHandle;

use super::start;
use crate::{LONG, still_waits::still_waits};

const PATH: &str = "/lock";
/// What kazoo puts between the id and the number in its nodes' names.
const KAZOO: &str = "__lock__";

async fn client(server: &TestingServer) -> CuratorClient {
    CuratorClient::builder(server.connect_string()).session_timeout(LONG).connect().await.unwrap()
}

fn like_kazoo(client: &CuratorClient) -> InterProcessMutex {
    InterProcessMutex::with_driver(client, PATH, StandardLockInternalsDriver::with_lock_name(KAZOO)).unwrap()
}

/// Starts to wait, and returns when so many nodes are in the queue.
async fn wait_in_queue(mutex: &InterProcessMutex, nodes: usize) -> JoinHandle<LockGuard> {
    let waiting = {
        let mutex = mutex.clone();
        tokio::spawn(async move {
            mutex.acquire_timeout(DEFAULT_TIMEOUT).await.unwrap().expect("the lock has not become free")
        })
    };
    await_nodes(mutex, nodes).await;
    waiting
}

/// Waits until another session watches the guard's node: it has looked, and found that it is not its turn.
async fn until_another_watches(server: &TestingServer, guard: &LockGuard) {
    until(async || {
        let watches = server.watches_by_path().await.unwrap();
        let sessions = watches.get(guard.node().as_str());
        sessions.is_some_and(|sessions| sessions.iter().any(|session| *session != guard.session_id()))
    })
    .await;
}

async fn await_nodes(mutex: &InterProcessMutex, nodes: usize) {
    until(async || mutex.participants().await.unwrap().len() >= nodes).await;
}

#[tokio::test]
async fn kazoos_lock_and_a_mutex_with_its_lock_name_exclude_each_other() {
    let server = TestingServer::start().await.unwrap();
    let mut kazoo = start("kazoo", &server, LONG);
    let client = client(&server).await;
    let mutex = like_kazoo(&client);

    let guard = mutex.acquire().await.unwrap();
    assert_eq!(kazoo.ask("try_acquire lock /lock"), "ok False");
    guard.release().await.unwrap();

    assert_eq!(kazoo.ask("acquire lock /lock"), "ok True");
    assert!(mutex.try_acquire().await.unwrap().is_none());
    assert_eq!(kazoo.ask("release lock /lock"), "ok True");
    assert!(mutex.try_acquire().await.unwrap().is_some());
    kazoo.stop();
    client.close().await.unwrap();
}

#[tokio::test]
async fn kazoos_lock_and_a_mutex_with_its_lock_name_stand_in_one_queue() {
    let server = TestingServer::start().await.unwrap();
    let (mut a, mut b) = (start("a", &server, LONG), start("b", &server, LONG));
    let client = client(&server).await;
    let mutex = like_kazoo(&client);

    assert_eq!(a.ask("acquire lock /lock"), "ok True");
    let second = wait_in_queue(&mutex, 2).await;
    b.send("acquire lock /lock");
    await_nodes(&mutex, 3).await;
    let fourth = wait_in_queue(&mutex, 4).await;

    assert!(still_waits(&second, &client).await);
    assert_eq!(a.ask("release lock /lock"), "ok True");
    let guard = soon(second).await.unwrap();
    until_another_watches(&server, &guard).await;
    assert!(b.is_silent() && still_waits(&fourth, &client).await);
    guard.release().await.unwrap();
    assert_eq!(b.answer(), "ok True");
    assert!(still_waits(&fourth, &client).await);
    assert_eq!(b.ask("release lock /lock"), "ok True");
    soon(fourth).await.unwrap().release().await.unwrap();
    for kazoo in [a, b] {
        kazoo.stop();
    }
    client.close().await.unwrap();
}

#[tokio::test]
async fn under_their_own_names_kazoos_lock_and_a_mutex_do_not_see_each_other() {
    let server = TestingServer::start().await.unwrap();
    let mut kazoo = start("kazoo", &server, LONG);
    let client = client(&server).await;
    let mutex = InterProcessMutex::new(&client, PATH).unwrap();

    let guard = mutex.acquire().await.unwrap();
    assert_eq!(kazoo.ask("try_acquire lock /lock"), "ok True");
    guard.release().await.unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_some());
    kazoo.stop();
    client.close().await.unwrap();
}

#[tokio::test]
async fn kazoos_extra_lock_patterns_help_one_way_only() {
    let server = TestingServer::start().await.unwrap();
    let mut kazoo = start("kazoo", &server, LONG);
    let client = client(&server).await;
    let mutex = InterProcessMutex::new(&client, PATH).unwrap();

    let guard = mutex.acquire().await.unwrap();
    assert_eq!(kazoo.ask("try_acquire patterned /lock"), "ok False");
    guard.release().await.unwrap();
    assert_eq!(kazoo.ask("acquire patterned /lock"), "ok True");
    assert!(mutex.try_acquire().await.unwrap().is_some());
    kazoo.stop();
    client.close().await.unwrap();
}
