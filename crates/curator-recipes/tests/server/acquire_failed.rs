//! Acquires whose session, or whose place in the queue, is lost.

use std::time::Duration;

use curator_recipes::client::{self, RetryForever, RetryNTimes};
use curator_recipes::{Error, InterProcessSemaphoreV2};
use curator_test::{OpCode, TestingServer, close_session};

use crate::support::{
    self, LONG_SESSION, acquiring, behind_proxy, behind_proxy_with, builder, children, mutex, path,
    queue_of, soon,
};

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// A server that ends a session replies with `UNKNOWNSESSION` (-12) to requests that arrive before
/// it closes the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_continues_in_a_new_session_after_the_reply_that_its_session_is_unknown() {
    let (proxy, client) = behind_proxy().await;
    let steady = support::client().await;
    let path = path("unknown-session");
    let held = mutex(&steady, &path).acquire().await.unwrap();
    proxy.alter_next_reply(OpCode::GetData, |reply| {
        reply.truncate(16);
        reply[12..16].copy_from_slice(&(-12_i32).to_be_bytes());
    });
    let waiter = acquiring(&client, &path);
    soon(proxy.wait_for_reply(OpCode::GetData, 1))
        .await
        .unwrap();
    for session in proxy.sessions() {
        close_session(TestingServer::shared().await.address(), &session)
            .await
            .unwrap();
    }
    queue_of(&steady, &path, 2).await;
    held.release().await.unwrap();
    soon(waiter)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_created_before_the_first_session_are_acquired_in_it() {
    let server = TestingServer::start().await.unwrap();
    server.stop().await.unwrap();
    let client = builder(&server.connect_string(), LONG_SESSION)
        .retry_policy(RetryForever::new(PAUSE).unwrap())
        .start()
        .unwrap();
    let mutex = mutex(&client, &path("early"));
    let semaphore = InterProcessSemaphoreV2::new(&client, path("early"), 2).unwrap();
    let early = tokio::spawn(async move { (mutex.acquire().await, semaphore.acquire().await) });
    let mut states = client.connection_states();
    server.restart().await.unwrap();
    assert!(soon(states.wait_for(client::ConnectionState::Connected)).await);
    let (guard, lease) = soon(early).await.unwrap();
    let guard = guard.unwrap();
    let lease = lease.unwrap();
    // The client did not know its address when the locks were created.
    assert_eq!(
        &client.get_data(guard.node()).await.unwrap().0[..],
        b"127.0.0.1"
    );
    assert_eq!(lease.data(), b"127.0.0.1");
    guard.release().await.unwrap();
    lease.release().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_place_is_deleted_more_often_than_the_policy_retries_gives_up() {
    let holder = support::client().await;
    let path = path("place-deleted");
    let twice = RetryNTimes::new(2, PAUSE).unwrap();
    let (_proxy, waiter) = behind_proxy_with(|builder| builder.retry_policy(twice)).await;
    let held = mutex(&holder, &path).acquire().await.unwrap();
    let waiting = acquiring(&waiter, &path);
    let mut deleted = Vec::new();
    for _ in 0..3 {
        assert!(!waiting.is_finished());
        queue_of(&holder, &path, 2).await;
        let place = children(&holder, &path)
            .await
            .into_iter()
            .find(|name| name != held.node().name())
            .unwrap();
        assert!(!deleted.contains(&place), "the name {place} is used again");
        holder
            .delete()
            .for_path(&format!("{path}/{place}"))
            .await
            .unwrap();
        deleted.push(place);
    }
    let error = soon(waiting).await.unwrap().unwrap_err();
    assert!(
        matches!(&error, Error::PlaceDeleted { dir } if dir.as_str() == path),
        "{error}"
    );
    assert!(held.is_valid());
    queue_of(&holder, &path, 1).await;
}
