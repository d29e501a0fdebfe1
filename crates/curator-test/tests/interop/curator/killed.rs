//! Sessions that end while they hold a lock or wait for it.

use curator_recipes::client::CuratorClient;
use curator_test::{FaultProxy, TestingServer, close_session, soon, unique_path};

use super::{
    cycles::Ours,
    java::{Java, java},
    mutex::{mutex, semaphore_mutex},
    read_write::write,
    stage::{connect, id, ours, until_children, until_contends, until_waits, waiting_for},
};
use crate::still_waits::still_waits;

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
async fn the_lock_of_a_java_process_that_is_killed_goes_to_us_with_the_end_of_its_session() {
    let (process, client, path) = (Java::start(), ours().await, unique_path("killed"));
    let mut java = process.open().await;
    assert_eq!(java.ask(&format!("acquire mutex {path}")).await, "ok true");
    let waiting = waiting_for(&mutex(&client, &path));
    until_waits(&path, id(&client)).await;
    process.kill();
    assert!(still_waits(&waiting, &client).await);
    // The server would do it at the session's timeout.
    java.end().await;
    soon(waiting).await.unwrap().release().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_lock_of_any_kind_goes_to_us_when_the_java_session_that_holds_it_ends() {
    let client = ours().await;
    let cases: [(&str, &str, Ours); 4] = [
        ("mutex", "", mutex),
        ("read", "", write),
        ("write", "", write),
        ("semaphore-mutex", "/locks", semaphore_mutex),
    ];
    for (kind, queue, make) in cases {
        let (mut java, path) = (java().await, unique_path("killed"));
        assert_eq!(java.ask(&format!("acquire {kind} {path}")).await, "ok true");
        let waiting = waiting_for(&make(&client, &path));
        until_contends(&client, &format!("{path}{queue}"), id(&client)).await;
        assert!(still_waits(&waiting, &client).await, "{kind}");
        java.end().await;
        soon(waiting).await.unwrap().release().await.unwrap();
        java.close().await;
    }
    client.close().await.unwrap();
}

#[tokio::test]
async fn our_lock_of_any_kind_goes_to_java_when_our_session_ends_and_we_know() {
    let mut java = java().await;
    let cases: [(&str, &str, Ours); 4] = [
        ("mutex", "", mutex),
        ("read", "", write),
        ("write", "", write),
        ("semaphore-mutex", "/leases", semaphore_mutex),
    ];
    for (kind, queue, make) in cases {
        let ((proxy, client), path) = (mortal().await, unique_path("killed"));
        let guard = make(&client, &path).acquire().await.unwrap();
        java.send(&format!("acquire {kind} {path}"));
        until_contends(&client, &format!("{path}{queue}"), java.id()).await;
        assert!(java.still_waits().await, "{kind}");
        end(&proxy).await;
        assert_eq!(java.answer().await, "ok true", "{kind}");
        soon(guard.lost()).await;
        assert!(!guard.is_valid());
        assert!(guard.release().await.is_err());
        assert_eq!(java.ask(&format!("release {kind} {path}")).await, "ok");
        client.close().await.unwrap();
    }
    java.close().await;
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
