//! A future may be dropped at any await: no node stays, and nobody is stuck.

use std::task::{Poll, Waker};
use std::time::Duration;

use curator_recipes::InterProcessMutex;
use curator_test::{Direction, FaultProxy, OpCode, TestingServer};

use crate::support::{
    DEFAULT_TIMEOUT, LONG_SESSION, SHORT_SESSION, builder, client, connect, drop_after, end_session, free, mutex,
    non_reentrant, path, polled_until, queue_of, soon,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_in_the_middle_that_is_dropped_does_not_hold_up_the_others() {
    let (first, path) = (client().await, path("drop-middle"));
    let guard = mutex(&first, &path).acquire().await.unwrap();
    let mut waiters = Vec::new();
    for place in 0..5 {
        let client = client().await;
        let mutex = mutex(&client, &path);
        waiters.push(tokio::spawn(async move { mutex.acquire().await.unwrap().release().await.unwrap() }));
        queue_of(&first, &path, place + 2).await;
    }
    for middle in [1, 2] {
        waiters[middle].abort();
    }
    queue_of(&first, &path, 4).await;
    guard.release().await.unwrap();
    for (place, waiter) in waiters.into_iter().enumerate() {
        match soon(waiter).await {
            Ok(()) => assert!(![1, 2].contains(&place)),
            Err(error) => assert!(error.is_cancelled() && [1, 2].contains(&place), "{error}"),
        }
    }
    free(&first, &[&path]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_dropped_while_its_create_is_in_flight_leaves_nothing() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (client, path) = (connect(&proxy.connect_string()).await, path("drop-create"));
    free(&client, &[&path]).await;
    proxy.reset_counts();
    proxy.hold_replies(OpCode::Create2);
    let mutex = mutex(&client, &path);
    let acquiring = polled_until(mutex.acquire(), proxy.wait_for_request(OpCode::Create2, 1)).await;
    drop(acquiring);
    proxy.release_held();
    free(&client, &[&path]).await;
}

#[test]
fn an_acquire_dropped_outside_the_runtime_leaves_nothing() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let server = runtime.block_on(TestingServer::shared());
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (client, path) = (runtime.block_on(connect(&proxy.connect_string())), path("drop-outside"));
    runtime.block_on(free(&client, &[&path]));
    for held in [OpCode::Create2, OpCode::GetChildren] {
        proxy.reset_counts();
        proxy.hold_replies(held);
        let mutex: InterProcessMutex = mutex(&client, &path);
        let acquiring =
            runtime.block_on(polled_until(async move { mutex.acquire().await }, proxy.wait_for_request(held, 1)));
        std::thread::spawn(move || drop(acquiring)).join().unwrap();
        proxy.release_held();
        runtime.block_on(free(&client, &[&path]));
    }
    // And a guard.
    let guard = runtime.block_on(mutex(&client, &path).acquire()).unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    runtime.block_on(free(&client, &[&path]));
}

#[test]
fn an_acquire_can_be_driven_outside_the_runtime_too() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (client, path) = (runtime.block_on(client()), path("driven-outside"));
    let mutex = non_reentrant(&client, &path);
    let guard = std::thread::spawn(move || {
        let mut acquiring = Box::pin(async move { mutex.acquire_timeout(DEFAULT_TIMEOUT).await });
        loop {
            let mut cx = std::task::Context::from_waker(Waker::noop());
            if let Poll::Ready(guard) = acquiring.as_mut().poll(&mut cx) {
                return guard.unwrap().unwrap();
            }
            std::thread::yield_now();
        }
    })
    .join()
    .unwrap();
    assert!(guard.is_valid());
    drop(guard);
    runtime.block_on(free(&client, &[&path]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_dropped_during_a_disconnect_leaves_nothing() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (client, steady, path) = (connect(&proxy.connect_string()).await, client().await, path("drop-disconnect"));
    free(&client, &[&path]).await;
    // The create is applied and the connection breaks, so nobody knows; and nobody can ask.
    for fault in [OpCode::Create2, OpCode::GetChildren] {
        proxy.reset_counts();
        proxy.cut_before_reply(fault);
        proxy.refuse(true).unwrap();
        let mutex = mutex(&client, &path);
        let acquiring = polled_until(mutex.acquire(), queue_of(&steady, &path, 1)).await;
        drop(acquiring);
        assert!(client.janitor().pending() > 0, "nothing is left to do?");
        proxy.refuse(false).unwrap();
        free(&client, &[&path]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_dropped_in_a_silence_leaves_nothing() {
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    // The polls are woken by this timeout alone.
    let builder = builder(&proxy.connect_string(), LONG_SESSION).operation_timeout(Duration::from_millis(300));
    let (client, path) = (builder.connect().await.unwrap(), path("drop-silence"));
    free(&client, &[&path]).await;
    // The create never leaves.
    proxy.black_hole(Direction::Both);
    for polls in 0..4 {
        drop(drop_after(mutex(&client, &path).acquire(), polls).await);
    }
    proxy.heal();
    free(&client, &[&path]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_dropped_when_its_session_dies_leaves_nothing() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = builder(&proxy.connect_string(), SHORT_SESSION).connect().await.unwrap();
    let (steady, path) = (crate::support::client().await, path("drop-session"));
    // The directory is there, so the next create is that of the place in the queue.
    free(&client, &[&path]).await;
    proxy.swallow_next_reply(OpCode::Create2);
    let mutex = mutex(&client, &path);
    let acquiring = polled_until(mutex.acquire(), queue_of(&steady, &path, 1)).await;
    let session = client.session().await.unwrap();
    end_session(server, &proxy).await;
    soon(session.ended()).await;
    drop(acquiring);
    soon(client.janitor().idle()).await;
    queue_of(&steady, &path, 0).await;
}
