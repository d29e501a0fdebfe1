//! A future may be dropped at any await: no node stays, and nobody is stuck.

use curator_recipes::InterProcessMutex;
use curator_test::{FaultProxy, OpCode, TestingServer};

use crate::support::{
    SHORT_SESSION, builder, client, connect, end_session, free, mutex, path, polled_until, queue_of, soon,
};

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
async fn an_acquire_dropped_when_its_session_dies_leaves_nothing() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (steady, path) = (client().await, path("drop-session"));
    let client = builder(&proxy.connect_string(), SHORT_SESSION).connect().await.unwrap();
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
