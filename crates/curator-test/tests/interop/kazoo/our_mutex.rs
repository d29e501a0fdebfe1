//! Kazoo's lock and this project's mutex on one path.

use curator_recipes::{InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreV2, client::CuratorClient};
use curator_test::{TestingServer, unique_path};

use super::{connect, start};
use crate::{
    ours::client,
    sharing::{Peer, killed_programs_give_way, lost_sessions_of_ours_give_way, stand_in_one_queue},
    turns::take_turns,
};

const KAZOO: Peer = Peer {
    start: connect,
    acquire: ("acquire lock", "ok True"),
    release: ("release lock", "ok True"),
    cycles: "cycles lock",
    mutex: like_kazoo,
};

fn like_kazoo(client: &CuratorClient, path: &str) -> InterProcessMutex {
    InterProcessMutex::compatible_with_kazoo(client, path).unwrap()
}

#[tokio::test]
async fn kazoos_lock_and_a_mutex_with_its_names_exclude_each_other() {
    let (server, path) = (TestingServer::shared().await, unique_path("lock"));
    let mut kazoo = start("kazoo", server);
    let client = client(server).await;
    let mutex = like_kazoo(&client, &path);

    let guard = mutex.acquire().await.unwrap();
    assert_eq!(kazoo.ask(&format!("try_acquire lock {path}")), "ok False");
    guard.release().await.unwrap();

    assert_eq!(kazoo.ask(&format!("acquire lock {path}")), "ok True");
    assert!(mutex.try_acquire().await.unwrap().is_none());
    assert_eq!(kazoo.ask(&format!("release lock {path}")), "ok True");
    assert!(mutex.try_acquire().await.unwrap().is_some());
    kazoo.stop();
    client.close().await.unwrap();
}

#[tokio::test]
async fn kazoos_lock_and_a_mutex_with_its_names_stand_in_one_queue() {
    stand_in_one_queue(&KAZOO).await;
}

#[tokio::test]
async fn under_their_own_names_kazoos_lock_and_a_mutex_do_not_see_each_other() {
    let (server, path) = (TestingServer::shared().await, unique_path("lock"));
    let mut kazoo = start("kazoo", server);
    let client = client(server).await;
    let mutex = InterProcessMutex::new(&client, &path).unwrap();

    let guard = mutex.acquire().await.unwrap();
    assert_eq!(kazoo.ask(&format!("try_acquire lock {path}")), "ok True");
    guard.release().await.unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_some());
    kazoo.stop();
    client.close().await.unwrap();
}

#[tokio::test]
async fn kazoos_extra_lock_patterns_help_one_way_only() {
    let (server, path) = (TestingServer::shared().await, unique_path("lock"));
    let mut kazoo = start("kazoo", server);
    let client = client(server).await;
    let mutex = InterProcessMutex::new(&client, &path).unwrap();

    let guard = mutex.acquire().await.unwrap();
    assert_eq!(kazoo.ask(&format!("try_acquire patterned {path}")), "ok False");
    guard.release().await.unwrap();
    assert_eq!(kazoo.ask(&format!("acquire patterned {path}")), "ok True");
    assert!(mutex.try_acquire().await.unwrap().is_some());
    kazoo.stop();
    client.close().await.unwrap();
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
async fn the_lock_of_a_lost_session_of_ours_goes_to_kazoo() {
    lost_sessions_of_ours_give_way(&KAZOO).await;
}

#[tokio::test]
async fn kazoos_write_lock_and_a_mutex_with_its_names_exclude_each_other() {
    let (server, path) = (TestingServer::shared().await, unique_path("lock"));
    let mut kazoo = start("kazoo", server);
    let client = client(server).await;
    let mutex = like_kazoo(&client, &path);

    let guard = mutex.acquire().await.unwrap();
    assert_eq!(kazoo.ask(&format!("try_acquire write {path}")), "ok False");
    guard.release().await.unwrap();
    assert_eq!(kazoo.ask(&format!("acquire write {path}")), "ok True");
    assert!(mutex.try_acquire().await.unwrap().is_none());
    assert_eq!(kazoo.ask(&format!("release write {path}")), "ok True");
    assert!(mutex.try_acquire().await.unwrap().is_some());
    kazoo.stop();
    client.close().await.unwrap();
}

#[tokio::test]
async fn kazoos_read_lock_waits_for_a_mutex_with_its_names_but_not_the_other_way_round() {
    let (server, path) = (TestingServer::shared().await, unique_path("lock"));
    let mut kazoo = start("kazoo", server);
    let client = client(server).await;
    let mutex = like_kazoo(&client, &path);

    let guard = mutex.acquire().await.unwrap();
    assert_eq!(kazoo.ask(&format!("try_acquire read {path}")), "ok False");
    guard.release().await.unwrap();
    assert_eq!(kazoo.ask(&format!("acquire read {path}")), "ok True");
    mutex.try_acquire().await.unwrap().expect("kazoo's reader is ignored").release().await.unwrap();
    // As kazoo's own lock.
    assert_eq!(kazoo.ask(&format!("try_acquire lock {path}")), "ok True");
    kazoo.stop();
    client.close().await.unwrap();
}

#[tokio::test]
async fn kazoos_read_write_lock_and_ours_do_not_see_each_other() {
    let (server, path) = (TestingServer::shared().await, unique_path("lock"));
    let mut kazoo = start("kazoo", server);
    let client = client(server).await;
    let lock = InterProcessReadWriteLock::new(&client, &path).unwrap();

    let guard = lock.write().acquire().await.unwrap();
    assert_eq!(kazoo.ask(&format!("try_acquire read {path}")), "ok True");
    assert_eq!(kazoo.ask(&format!("release read {path}")), "ok True");
    assert_eq!(kazoo.ask(&format!("acquire write {path}")), "ok True");
    guard.release().await.unwrap();
    lock.read().try_acquire().await.unwrap().expect("kazoo's writer is ignored").release().await.unwrap();
    lock.write().try_acquire().await.unwrap().expect("kazoo's writer is ignored").release().await.unwrap();
    kazoo.stop();
    client.close().await.unwrap();
}

#[tokio::test]
async fn kazoos_semaphore_counts_the_directories_of_ours_as_leases() {
    let (server, path) = (TestingServer::shared().await, unique_path("lock"));
    let mut kazoo = start("kazoo", server);
    let client = client(server).await;
    let semaphore = InterProcessSemaphoreV2::new(&client, &path, 1).unwrap();

    // Of its two leases.
    assert_eq!(kazoo.ask(&format!("acquire semaphore {path}")), "ok True");
    let lease = semaphore.try_acquire().await.unwrap().expect("kazoo's lease is ignored");
    assert_eq!(kazoo.ask(&format!("release semaphore {path}")), "ok True");
    lease.release().await.unwrap();
    assert_eq!(kazoo.ask(&format!("children {path}")), "ok leases locks");
    assert_eq!(kazoo.ask(&format!("try_acquire semaphore {path}")), "ok False");
    kazoo.stop();
    client.close().await.unwrap();
}
