//! Kazoo's lock and this project's mutex on one path.

use curator_recipes::{InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreV2, client::CuratorClient};
use curator_test::{TestingServer, soon, unique_path};

use super::start;
use crate::{
    LONG, SHORT,
    ours::{Mortal, await_nodes, client, until_another_watches, wait_in_queue},
    still_waits::still_waits,
    turns::take_turns,
};

fn like_kazoo(client: &CuratorClient, path: &str) -> InterProcessMutex {
    InterProcessMutex::compatible_with_kazoo(client, path).unwrap()
}

#[tokio::test]
async fn kazoos_lock_and_a_mutex_with_its_names_exclude_each_other() {
    let (server, path) = (TestingServer::shared().await, unique_path("lock"));
    let mut kazoo = start("kazoo", server, LONG);
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
    let (server, path) = (TestingServer::shared().await, unique_path("lock"));
    let (mut a, mut b) = (start("a", server, LONG), start("b", server, LONG));
    let client = client(server).await;
    let mutex = like_kazoo(&client, &path);

    assert_eq!(a.ask(&format!("acquire lock {path}")), "ok True");
    let second = wait_in_queue(&mutex, 2).await;
    b.send(&format!("acquire lock {path}"));
    await_nodes(&mutex, 3).await;
    let fourth = wait_in_queue(&mutex, 4).await;

    assert!(still_waits(&second, &client).await);
    assert_eq!(a.ask(&format!("release lock {path}")), "ok True");
    let guard = soon(second).await.unwrap();
    until_another_watches(server, &guard).await;
    assert!(b.is_silent() && still_waits(&fourth, &client).await);
    guard.release().await.unwrap();
    assert_eq!(b.answer(), "ok True");
    assert!(still_waits(&fourth, &client).await);
    assert_eq!(b.ask(&format!("release lock {path}")), "ok True");
    soon(fourth).await.unwrap().release().await.unwrap();
    for kazoo in [a, b] {
        kazoo.stop();
    }
    client.close().await.unwrap();
}

#[tokio::test]
async fn under_their_own_names_kazoos_lock_and_a_mutex_do_not_see_each_other() {
    let (server, path) = (TestingServer::shared().await, unique_path("lock"));
    let mut kazoo = start("kazoo", server, LONG);
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
    let mut kazoo = start("kazoo", server, LONG);
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
    let (server, path) = (TestingServer::shared().await, unique_path("lock"));
    take_turns(server, &path, |name| start(name, server, LONG), "cycles lock", like_kazoo).await;
}

#[tokio::test]
async fn the_lock_of_a_killed_python_program_goes_to_our_mutex() {
    let (server, path) = (TestingServer::shared().await, unique_path("lock"));
    let (mut holder, mut waiter) = (start("holder", server, SHORT), start("waiter", server, SHORT));
    let client = client(server).await;
    let mutex = like_kazoo(&client, &path);

    assert_eq!(holder.ask(&format!("acquire lock {path}")), "ok True");
    waiter.send(&format!("acquire lock {path}"));
    await_nodes(&mutex, 2).await;
    let third = wait_in_queue(&mutex, 3).await;
    waiter.kill();
    holder.kill();
    let guard = soon(third).await.unwrap();
    assert_eq!(mutex.participants().await.unwrap().len(), 1);
    guard.release().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn the_lock_of_a_lost_session_of_ours_goes_to_kazoo() {
    let (server, path) = (TestingServer::shared().await, unique_path("lock"));
    let mut kazoo = start("kazoo", server, LONG);
    let (holder, waiter) = (Mortal::connect(server).await, Mortal::connect(server).await);

    let guard = like_kazoo(&holder.client, &path).acquire().await.unwrap();
    let second = wait_in_queue(&like_kazoo(&waiter.client, &path), 2).await;
    kazoo.send(&format!("acquire lock {path}"));
    await_nodes(&like_kazoo(&waiter.client, &path), 3).await;
    waiter.end_session(server).await;
    holder.end_session(server).await;
    assert_eq!(kazoo.answer(), "ok True");
    soon(guard.lost()).await;
    assert_eq!(kazoo.ask(&format!("release lock {path}")), "ok True");
    // It has gone on in a session after that.
    soon(second).await.unwrap().release().await.unwrap();
    kazoo.stop();
}

#[tokio::test]
async fn kazoos_write_lock_and_a_mutex_with_its_names_exclude_each_other() {
    let (server, path) = (TestingServer::shared().await, unique_path("lock"));
    let mut kazoo = start("kazoo", server, LONG);
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
    let mut kazoo = start("kazoo", server, LONG);
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
    let mut kazoo = start("kazoo", server, LONG);
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
    let mut kazoo = start("kazoo", server, LONG);
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
