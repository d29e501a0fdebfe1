//! Locks of a client that has no session yet.

use std::time::Duration;

use curator_recipes::client::{ConnectionState, RetryForever};
use curator_recipes::{InterProcessMutex, InterProcessSemaphoreV2};
use curator_test::TestingServer;

use crate::support::{LONG_SESSION, builder, path, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_that_are_made_before_the_first_session_are_acquired_in_it() {
    let server = TestingServer::start().await.unwrap();
    server.stop().await.unwrap();
    let client = builder(&server.connect_string(), LONG_SESSION).connection_timeout(Duration::from_millis(50));
    let client = client.retry_policy(RetryForever::new(Duration::from_millis(10)).unwrap()).start().unwrap();
    let mutex = InterProcessMutex::new(&client, path("early")).unwrap();
    let semaphore = InterProcessSemaphoreV2::new(&client, path("early"), 2).unwrap();
    let early = tokio::spawn(async move { (mutex.acquire().await, semaphore.acquire().await) });
    let mut states = client.connection_states();
    server.restart().await.unwrap();
    assert!(soon(states.wait_for(ConnectionState::Connected)).await);
    let (guard, lease) = soon(early).await.unwrap();
    let (guard, lease) = (guard.unwrap(), lease.unwrap());
    // The client did not know its address when the locks were made.
    assert_eq!(&client.get_data(guard.node()).await.unwrap().0[..], b"127.0.0.1");
    assert_eq!(lease.data(), b"127.0.0.1");
    guard.release().await.unwrap();
    lease.release().await.unwrap();
    client.close().await.unwrap();
}
