//! Requests to release a lock, from Java to us and from us to Java.

use std::sync::Arc;

use curator_recipes::{InterProcessLock, InterProcessMutex, revoke};
use curator_test::{soon, unique_path};

use super::{
    java::java,
    stage::{id, ours, until_waits, waiting_for},
};

#[tokio::test]
async fn java_releases_its_mutex_on_our_revocation_request() {
    let client = ours().await;
    let mut java = java().await;
    let path = unique_path("revoked");
    let mutex: Arc<dyn InterProcessLock> =
        Arc::new(InterProcessMutex::new(&client, &path).unwrap());
    assert_eq!(java.ask(&format!("revocable {path}")).await, "ok");
    assert_eq!(java.ask(&format!("acquire mutex {path}")).await, "ok true");
    let waiting = waiting_for(&mutex);
    until_waits(&path, id(&client)).await;
    let participants = mutex.participants().await.unwrap();
    assert!(participants[0].owns);
    revoke(&client, &participants[0].path).await.unwrap();
    assert_eq!(java.ask("event").await, "ok revoked");
    assert_eq!(java.ask(&format!("release mutex {path}")).await, "ok");
    soon(waiting).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn our_mutex_is_released_on_a_revocation_request_of_java() {
    let client = ours().await;
    let mut java = java().await;
    let path = unique_path("revoked");
    let mut asking = self::java().await;
    let mutex = InterProcessMutex::new(&client, &path).unwrap();
    let guard = mutex.acquire().await.unwrap();
    java.send(&format!("acquire mutex {path}"));
    until_waits(&path, java.id()).await;
    let revoke = format!("revoke {}", guard.node());
    let (asked, answer) =
        soon(async { tokio::join!(guard.revocation_requested(), asking.ask(&revoke)) }).await;
    asked.unwrap();
    assert_eq!(answer, "ok");
    assert!(guard.is_valid());
    assert!(java.still_waits().await);
    guard.release().await.unwrap();
    assert_eq!(java.answer().await, "ok true");
}
