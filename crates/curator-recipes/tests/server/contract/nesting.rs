//! A holder that asks again.

use std::time::Duration;

use curator_recipes::LockGuard;

use super::stage::Stage;
use super::subjects::Kind;
use crate::support::soon;

pub(super) async fn a_nested_acquire_succeeds_if_the_lock_is_reentrant_and_only_then(kind: Kind) {
    let stage = Stage::shared(kind, "nested").await;
    let client = stage.client().await;
    let lock = stage.lock(&client);
    let outer = lock.acquire().await.unwrap();
    let held = stage.nodes().await;
    let tried = lock.try_acquire().await.unwrap();
    let waited = soon(lock.acquire_timeout(Duration::from_millis(100))).await.unwrap();
    soon(client.janitor().idle()).await;
    assert_eq!(stage.nodes().await, held);
    let (Some(tried), Some(waited)) = (tried, waited) else {
        assert!(!kind.is_reentrant(), "{kind:?} let its holder not in again");
        // Nor was anything lost by asking.
        assert!(outer.is_valid());
        outer.release().await.unwrap();
        return stage.free(&client).await;
    };
    assert!(kind.is_reentrant(), "{kind:?} let its holder in again");
    assert_eq!([tried.fencing_token(), waited.fencing_token()], [outer.fencing_token(); 2]);
    assert_eq!([&outer, &tried, &waited].map(LockGuard::is_reentry), [false, true, true]);
    // Whichever goes first, the lock is held until the last one goes.
    for guard in [outer, waited] {
        guard.release().await.unwrap();
        assert_eq!(stage.nodes().await, held);
        assert!(stage.blocker().try_acquire().await.unwrap().is_none());
        assert!(tried.is_valid());
    }
    tried.release().await.unwrap();
    stage.free(&client).await;
}
