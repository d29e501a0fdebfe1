//! go-zookeeper's lock and this project's mutex on one path.

use curator_recipes::{InterProcessMutex, client::CuratorClient};
use curator_test::{TestingServer, soon, unique_path};

use super::start;
use crate::{
    LONG, SHORT,
    ours::{Mortal, await_nodes, client, until_another_watches, wait_in_queue},
    still_waits::{round_trips, still_waits},
    turns::take_turns,
};

fn mutex(client: &CuratorClient, path: &str) -> InterProcessMutex {
    InterProcessMutex::compatible_with_go_zookeeper(client, path).unwrap()
}

#[tokio::test]
async fn go_zookeepers_lock_and_a_mutex_stand_in_one_queue() {
    let (server, path) = (TestingServer::shared().await, unique_path("lock"));
    let (mut a, mut b) = (start("a", server, LONG), start("b", server, LONG));
    let client = client(server).await;
    let mutex = mutex(&client, &path);

    assert!(a.ask(&format!("acquire {path}")).starts_with("ok _c_"));
    assert!(mutex.try_acquire().await.unwrap().is_none());
    let second = wait_in_queue(&mutex, 2).await;
    b.send(&format!("acquire {path}"));
    await_nodes(&mutex, 3).await;
    let fourth = wait_in_queue(&mutex, 4).await;

    let seen = mutex.participants().await.unwrap();
    assert_eq!([&seen[0].data, &seen[2].data], [b"a", b"b"]);
    assert_eq!(seen.iter().map(|one| one.owns).collect::<Vec<_>>(), [true, false, false, false]);
    assert!(still_waits(&second, &client).await);
    assert_eq!(a.ask(&format!("release {path}")), "ok");
    let guard = soon(second).await.unwrap();
    until_another_watches(server, &guard).await;
    assert!(b.is_silent() && still_waits(&fourth, &client).await);
    guard.release().await.unwrap();
    assert!(b.answer().starts_with("ok _c_"));
    assert!(still_waits(&fourth, &client).await);
    assert_eq!(b.ask(&format!("release {path}")), "ok");
    soon(fourth).await.unwrap().release().await.unwrap();
    assert_eq!(a.ask(&format!("children {path}")), "ok");
    for go in [a, b] {
        go.stop();
    }
    client.close().await.unwrap();
}

#[tokio::test]
async fn go_zookeepers_lock_and_a_mutex_take_turns_in_the_order_of_the_server() {
    let (server, path) = (TestingServer::shared().await, unique_path("lock"));
    take_turns(server, &path, |name| start(name, server, LONG), "cycles", mutex).await;
}

#[tokio::test]
async fn the_lock_of_a_killed_go_program_goes_to_our_mutex() {
    let (server, path) = (TestingServer::shared().await, unique_path("lock"));
    let (mut holder, mut waiter) = (start("holder", server, SHORT), start("waiter", server, SHORT));
    let client = client(server).await;
    let mutex = mutex(&client, &path);

    assert!(holder.ask(&format!("acquire {path}")).starts_with("ok _c_"));
    waiter.send(&format!("acquire {path}"));
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
async fn the_lock_of_a_lost_session_of_ours_goes_to_go_zookeepers() {
    let (server, path) = (TestingServer::shared().await, unique_path("lock"));
    let mut go = start("go", server, LONG);
    let (holder, waiter) = (Mortal::connect(server).await, Mortal::connect(server).await);

    let guard = mutex(&holder.client, &path).acquire().await.unwrap();
    let second = wait_in_queue(&mutex(&waiter.client, &path), 2).await;
    go.send(&format!("acquire {path}"));
    await_nodes(&mutex(&waiter.client, &path), 3).await;
    waiter.end_session(server).await;
    holder.end_session(server).await;
    assert!(go.answer().starts_with("ok _c_"));
    soon(guard.lost()).await;
    assert_eq!(go.ask(&format!("release {path}")), "ok");
    // It has gone on in a session after that.
    soon(second).await.unwrap().release().await.unwrap();
    go.stop();
}

#[tokio::test]
async fn go_zookeepers_lock_waits_for_a_mutex_with_kazoos_names_but_not_the_other_way_round() {
    let (server, path) = (TestingServer::shared().await, unique_path("lock"));
    let mut go = start("go", server, LONG);
    let client = client(server).await;
    let mutex = InterProcessMutex::compatible_with_kazoo(&client, &path).unwrap();

    let guard = mutex.acquire().await.unwrap();
    go.send(&format!("acquire {path}"));
    until_another_watches(server, &guard).await;
    round_trips(&client).await;
    assert!(go.is_silent());
    guard.release().await.unwrap();
    assert!(go.answer().starts_with("ok _c_"));
    mutex.try_acquire().await.unwrap().expect("go-zookeeper's node is ignored").release().await.unwrap();
    go.stop();
    client.close().await.unwrap();
}
