//! Sessions that end while they hold a lock or wait for it.

use curator_test::{TestingServer, soon, unique_path};

use super::{
    java::java,
    kinds::{KINDS, paths},
    mutex::mutex,
    stage::{id, ours, until_children, until_contends, until_waits, waiting, waiting_for},
};
use crate::{ours::CrashableClient, still_waits::still_waits};

#[tokio::test]
async fn a_lock_of_any_kind_goes_to_us_when_the_java_session_that_holds_it_ends() {
    let client = ours().await;
    for (kind, [our_queue, _], ours) in KINDS {
        let mut java = java().await;
        let (path, first) = paths(kind);
        assert_eq!(java.ask(&format!("acquire {kind} {path}")).await, "ok true");
        let waiting = waiting(ours.acquire(client.clone(), path));
        until_contends(&client, &format!("{first}{our_queue}"), id(&client)).await;
        assert!(still_waits(&waiting, &client).await, "{kind}");
        java.end().await;
        soon(waiting).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn our_lock_of_any_kind_goes_to_java_when_our_session_ends_and_our_guard_is_lost() {
    let server = TestingServer::shared().await;
    let mut java = java().await;
    for (kind, [_, javas_queue], ours) in KINDS {
        let crashable = CrashableClient::connect(server).await;
        let (path, first) = paths(kind);
        let client = &crashable.client;
        let guard = ours
            .acquire(client.clone(), path.clone())
            .await
            .unwrap()
            .unwrap();
        java.send(&format!("acquire {kind} {path}"));
        until_contends(client, &format!("{first}{javas_queue}"), java.id()).await;
        assert!(java.still_waits().await, "{kind}");
        crashable.end_session(server).await;
        assert_eq!(java.answer().await, "ok true", "{kind}");
        soon(guard.lost()).await;
        assert!(!guard.is_valid());
        assert!(guard.release().await.is_err());
        assert_eq!(java.ask(&format!("release {kind} {path}")).await, "ok");
    }
}

#[tokio::test]
async fn waiters_of_both_languages_whose_sessions_end_are_skipped() {
    let server = TestingServer::shared().await;
    let holder = ours().await;
    let path = unique_path("killed");
    let crashable = CrashableClient::connect(server).await;
    let mut first = java().await;
    let mut last = java().await;
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    first.send(&format!("acquire mutex {path}"));
    until_waits(&path, first.id()).await;
    let second = waiting_for(&mutex(&crashable.client, &path));
    until_waits(&path, id(&crashable.client)).await;
    last.send(&format!("acquire mutex {path}"));
    until_waits(&path, last.id()).await;

    first.end().await;
    crashable.end_session(server).await;
    guard.release().await.unwrap();
    assert_eq!(last.answer().await, "ok true");
    // `first` and `second` have reconnected with new sessions, and queue behind `last`.
    until_children(&holder, &path, 3).await;
    assert!(first.still_waits().await && still_waits(&second, &crashable.client).await);
    assert_eq!(last.ask(&format!("release mutex {path}")).await, "ok");
    // Both acquire the lock, in either order.
    soon(async {
        tokio::join!(
            async {
                assert_eq!(first.answer().await, "ok true");
                assert_eq!(first.ask(&format!("release mutex {path}")).await, "ok");
            },
            async {
                second.await.unwrap().release().await.unwrap();
            }
        )
    })
    .await;
}
