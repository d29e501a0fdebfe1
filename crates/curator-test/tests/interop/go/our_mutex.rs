//! go-zookeeper's lock and this project's mutex on one path.

use curator_recipes::{InterProcessMutex, client::CuratorClient};
use curator_test::{TestingServer, soon};

use super::start;
use crate::{
    LONG, SHORT,
    ours::{Mortal, await_nodes, client, until_another_watches, wait_in_queue},
    still_waits::{round_trips, still_waits},
    turns::take_turns,
};

const PATH: &str = "/lock";

fn mutex(client: &CuratorClient) -> InterProcessMutex {
    InterProcessMutex::compatible_with_go_zookeeper(client, PATH).unwrap()
}

#[tokio::test]
async fn go_zookeepers_lock_and_a_mutex_stand_in_one_queue() {
    let server = TestingServer::start().await.unwrap();
    let (mut a, mut b) = (start("a", &server, LONG), start("b", &server, LONG));
    let client = client(&server).await;
    let mutex = mutex(&client);

    assert!(a.ask("acquire /lock").starts_with("ok _c_"));
    assert!(mutex.try_acquire().await.unwrap().is_none());
    let second = wait_in_queue(&mutex, 2).await;
    b.send("acquire /lock");
    await_nodes(&mutex, 3).await;
    let fourth = wait_in_queue(&mutex, 4).await;

    let seen = mutex.participants().await.unwrap();
    assert_eq!([&seen[0].data, &seen[2].data], [b"a", b"b"]);
    assert_eq!(seen.iter().map(|one| one.owns).collect::<Vec<_>>(), [true, false, false, false]);
    assert!(still_waits(&second, &client).await);
    assert_eq!(a.ask("release /lock"), "ok");
    let guard = soon(second).await.unwrap();
    until_another_watches(&server, &guard).await;
    assert!(b.is_silent() && still_waits(&fourth, &client).await);
    guard.release().await.unwrap();
    assert!(b.answer().starts_with("ok _c_"));
    assert!(still_waits(&fourth, &client).await);
    assert_eq!(b.ask("release /lock"), "ok");
    soon(fourth).await.unwrap().release().await.unwrap();
    assert_eq!(a.ask("children /lock"), "ok");
    for go in [a, b] {
        go.stop();
    }
    client.close().await.unwrap();
}

#[tokio::test]
async fn go_zookeepers_lock_and_a_mutex_take_turns_in_the_order_of_the_server() {
    let server = TestingServer::start().await.unwrap();
    take_turns(&server, |name| start(name, &server, LONG), "cycles /lock", mutex).await;
}

#[tokio::test]
async fn the_lock_of_a_killed_go_program_goes_to_our_mutex() {
    let server = TestingServer::start().await.unwrap();
    let (mut holder, mut waiter) = (start("holder", &server, SHORT), start("waiter", &server, SHORT));
    let client = client(&server).await;
    let mutex = mutex(&client);

    assert!(holder.ask("acquire /lock").starts_with("ok _c_"));
    waiter.send("acquire /lock");
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
    let server = TestingServer::start().await.unwrap();
    let mut go = start("go", &server, LONG);
    let (holder, waiter) = (Mortal::connect(&server).await, Mortal::connect(&server).await);

    let guard = mutex(&holder.client).acquire().await.unwrap();
    let second = wait_in_queue(&mutex(&waiter.client), 2).await;
    go.send("acquire /lock");
    await_nodes(&mutex(&waiter.client), 3).await;
    // It would go on behind them otherwise.
    second.abort();
    waiter.end_session(&server).await;
    holder.end_session(&server).await;
    assert!(go.answer().starts_with("ok _c_"));
    soon(guard.lost()).await;
    assert_eq!(go.ask("release /lock"), "ok");
    go.stop();
}

#[tokio::test]
async fn on_a_child_that_is_no_lock_node_go_zookeepers_lock_fails_and_leaves_its_node_in_the_queue() {
    let server = TestingServer::start().await.unwrap();
    let mut go = start("go", &server, LONG);
    let client = client(&server).await;
    let mutex = mutex(&client);

    mutex.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(go.ask("create /lock/guest"), "ok /lock/guest");
    mutex.acquire().await.unwrap().release().await.unwrap();
    let answer = go.ask("acquire /lock");
    assert!(answer.starts_with("error strconv.Atoi: parsing \"guest\""), "{answer}");
    assert_eq!(go.ask("release /lock"), "error zk: not locked");
    assert!(mutex.try_acquire().await.unwrap().is_none());
    // Its node goes with its session.
    go.stop();
    assert!(mutex.try_acquire().await.unwrap().is_some());
    client.close().await.unwrap();
}

#[tokio::test]
async fn go_zookeepers_lock_waits_for_a_mutex_with_kazoos_names_but_not_the_other_way_round() {
    let server = TestingServer::start().await.unwrap();
    let mut go = start("go", &server, LONG);
    let client = client(&server).await;
    let mutex = InterProcessMutex::compatible_with_kazoo(&client, PATH).unwrap();

    let guard = mutex.acquire().await.unwrap();
    go.send("acquire /lock");
    until_another_watches(&server, &guard).await;
    round_trips(&client).await;
    assert!(go.is_silent());
    guard.release().await.unwrap();
    assert!(go.answer().starts_with("ok _c_"));
    mutex.try_acquire().await.unwrap().expect("go-zookeeper's node is ignored").release().await.unwrap();
    go.stop();
    client.close().await.unwrap();
}
