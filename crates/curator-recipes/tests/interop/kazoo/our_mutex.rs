//! Kazoo's lock and this project's mutex on one path.

use std::sync::Arc;

use curator_recipes::{
    InterProcessLock, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreV2,
    client::CuratorClient,
};
use curator_test::{TestingServer, unique_path};

use super::start;
use crate::{
    ours::client,
    sharing::{
        Peer, killed_programs_give_way, lost_sessions_of_ours_give_way, stand_in_one_queue,
        take_turns,
    },
    turns::Ours,
};

const KAZOO: Peer = Peer {
    start,
    acquire: ("acquire lock", "ok True"),
    release: ("release lock", "ok True"),
    cycles: "cycles lock",
    mutex: like_kazoo,
};

fn like_kazoo(client: &CuratorClient, path: &str) -> InterProcessMutex {
    InterProcessMutex::compatible_with_kazoo(client, path).unwrap()
}

/// Whether kazoo's lock of this kind waits for ours, and ours for kazoo's.
async fn waits(kind: &str, lock: Ours) -> (bool, bool) {
    let server = TestingServer::shared().await;
    let path = unique_path("lock");
    let mut kazoo = start("kazoo", &server.connect_string());
    let client = client(server).await;
    let lock = lock(&client, &path);

    let guard = lock.acquire().await.unwrap();
    let kazoo_waits = kazoo.ask(&format!("try_acquire {kind} {path}")) == "ok False";
    if !kazoo_waits {
        assert_eq!(kazoo.ask(&format!("release {kind} {path}")), "ok True");
    }
    guard.release().await.unwrap();
    assert_eq!(kazoo.ask(&format!("acquire {kind} {path}")), "ok True");
    let we_wait = lock.try_acquire().await.unwrap().is_none();
    assert_eq!(kazoo.ask(&format!("release {kind} {path}")), "ok True");
    assert!(lock.try_acquire().await.unwrap().is_some());
    (kazoo_waits, we_wait)
}

fn with_kazoos_names(client: &CuratorClient, path: &str) -> Arc<dyn InterProcessLock> {
    Arc::new(like_kazoo(client, path))
}

fn with_our_names(client: &CuratorClient, path: &str) -> Arc<dyn InterProcessLock> {
    Arc::new(InterProcessMutex::new(client, path).unwrap())
}

fn writer(client: &CuratorClient, path: &str) -> Arc<dyn InterProcessLock> {
    Arc::new(
        InterProcessReadWriteLock::new(client, path)
            .unwrap()
            .write()
            .clone(),
    )
}

#[tokio::test]
async fn kazoos_lock_and_a_mutex_with_its_names_stand_in_one_queue() {
    stand_in_one_queue(&KAZOO).await;
}

#[tokio::test]
async fn with_default_names_kazoos_lock_and_a_mutex_do_not_exclude_each_other() {
    assert_eq!(waits("lock", with_our_names).await, (false, false));
}

#[tokio::test]
async fn with_extra_lock_patterns_kazoos_lock_waits_for_a_mutex_but_not_the_other_way_round() {
    assert_eq!(waits("patterned", with_our_names).await, (true, false));
}

#[tokio::test]
async fn kazoos_write_lock_and_a_mutex_with_its_names_exclude_each_other() {
    assert_eq!(waits("write", with_kazoos_names).await, (true, true));
}

#[tokio::test]
async fn kazoos_read_lock_waits_for_a_mutex_with_its_names_but_not_the_other_way_round() {
    assert_eq!(waits("read", with_kazoos_names).await, (true, false));
}

#[tokio::test]
async fn kazoos_read_write_lock_and_ours_do_not_exclude_each_other() {
    assert_eq!(waits("read", writer).await, (false, false));
    assert_eq!(waits("write", writer).await, (false, false));
}

#[tokio::test]
async fn kazoos_lock_and_a_mutex_with_its_names_take_turns_in_the_order_of_the_server() {
    take_turns(&KAZOO).await;
}

#[tokio::test]
async fn the_lock_of_a_killed_python_program_goes_to_our_mutex() {
    killed_programs_give_way(&KAZOO).await;
}

#[tokio::test]
async fn the_lock_of_our_lost_session_goes_to_kazoo() {
    lost_sessions_of_ours_give_way(&KAZOO).await;
}

#[tokio::test]
async fn kazoos_semaphore_counts_the_directories_of_ours_as_leases() {
    let server = TestingServer::shared().await;
    let path = unique_path("lock");
    let mut kazoo = start("kazoo", &server.connect_string());
    let client = client(server).await;
    let semaphore = InterProcessSemaphoreV2::new(&client, &path, 1).unwrap();

    // Kazoo's semaphore has two leases. Kazoo takes one.
    assert_eq!(kazoo.ask(&format!("acquire semaphore {path}")), "ok True");
    let lease = semaphore
        .try_acquire()
        .await
        .unwrap()
        .expect("kazoo's lease is ignored");
    assert_eq!(kazoo.ask(&format!("release semaphore {path}")), "ok True");
    lease.release().await.unwrap();
    assert_eq!(kazoo.ask(&format!("children {path}")), "ok leases locks");
    assert_eq!(
        kazoo.ask(&format!("try_acquire semaphore {path}")),
        "ok False"
    );
}
