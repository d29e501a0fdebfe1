//! Sessions that end while they hold a lock or wait for it.

use std::sync::Arc;

use curator_recipes::{InterProcessLock, InterProcessMutex, client::CuratorClient};
use curator_test::{FaultProxy, TestingServer, close_session, soon, unique_path};

use super::{
    java::{Java, java},
    stage::{connect, id, ours, until_children, until_waits, waiting_for},
};
use crate::{SHORT, still_waits::still_waits};

fn mutex(client: &CuratorClient, path: &str) -> Arc<dyn InterProcessLock> {
    Arc::new(InterProcessMutex::new(client, path).unwrap())
}

/// A session of ours, and the proxy that knows how to end it.
async fn mortal() -> (FaultProxy, CuratorClient) {
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    let client = connect(&proxy.connect_string()).await;
    (proxy, client)
}

/// Ends our session on the server, behind its back.
async fn end(proxy: &FaultProxy) {
    let address = TestingServer::shared().await.address();
    close_session(address, &proxy.sessions().pop().unwrap()).await.unwrap();
}

#[tokio::test]
async fn the_lock_of_a_java_process_that_is_killed_goes_to_us() {
    let (process, client, path) = (Java::start(), ours().await, unique_path("killed"));
    let mut java = process.open(SHORT).await;
    assert_eq!(java.ask(&format!("acquire mutex {path}")).await, "ok true");
    let waiting = waiting_for(&mutex(&client, &path));
    until_waits(&path, id(&client)).await;
    assert!(still_waits(&waiting, &client).await);
    process.kill();
    soon(waiting).await.unwrap().release().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn the_lock_of_a_java_session_that_ends_goes_to_us() {
    let (mut java, client, path) = (java().await, ours().await, unique_path("killed"));
    assert_eq!(java.ask(&format!("acquire mutex {path}")).await, "ok true");
    let waiting = waiting_for(&mutex(&client, &path));
    until_waits(&path, id(&client)).await;
    java.end().await;
    soon(waiting).await.unwrap().release().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn our_lock_goes_to_java_when_our_session_ends_and_we_know() {
    let ((proxy, client), mut java, path) = (mortal().await, java().await, unique_path("killed"));
    let guard = mutex(&client, &path).acquire().await.unwrap();
    java.send(&format!("acquire mutex {path}"));
    until_waits(&path, java.id()).await;
    end(&proxy).await;
    assert_eq!(java.answer().await, "ok true");
    soon(guard.lost()).await;
    assert!(!guard.is_valid());
    assert!(guard.release().await.is_err());
    assert_eq!(java.ask(&format!("release mutex {path}")).await, "ok");
    java.close().await;
    client.close().await.unwrap();
}

#[tokio::test]
async fn waiters_of_both_languages_that_end_are_passed_over() {
    let (holder, (proxy, mortal), path) = (ours().await, mortal().await, unique_path("killed"));
    let (mut first, mut last) = (java().await, java().await);
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    first.send(&format!("acquire mutex {path}"));
    until_waits(&path, first.id()).await;
    let second = waiting_for(&mutex(&mortal, &path));
    until_waits(&path, id(&mortal)).await;
    last.send(&format!("acquire mutex {path}"));
    until_waits(&path, last.id()).await;

    first.end().await;
    end(&proxy).await;
    guard.release().await.unwrap();
    assert_eq!(last.answer().await, "ok true");
    // They have come back with new sessions, and stand behind it.
    until_children(&holder, &path, 3).await;
    assert!(first.still_waits().await && still_waits(&second, &mortal).await);
    assert_eq!(last.ask(&format!("release mutex {path}")).await, "ok");
    // In either order.
    let java = async {
        assert_eq!(first.answer().await, "ok true");
        assert_eq!(first.ask(&format!("release mutex {path}")).await, "ok");
    };
    soon(async { tokio::join!(java, async { second.await.unwrap().release().await.unwrap() }) }).await;
    for session in [first, last] {
        session.close().await;
    }
    for client in [holder, mortal] {
        client.close().await.unwrap();
    }
}
