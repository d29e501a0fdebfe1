//! One holder at a time, unless the holders share the lock; the holders are in order of arrival.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::stage::Stage;
use super::subjects::{Kind, Lock};
use crate::support::{Witness, soon};

const SESSIONS: usize = 20;

/// Acquires the lock and holds it for some round trips, in which a second holder would be detected.
async fn hold_once(who: usize, lock: Lock, stage: &Stage, witness: &Witness) {
    let guard = soon(lock.acquire()).await.unwrap();
    witness.enter(who, lock.shares(), &guard);
    for _ in 0..3 {
        stage.admin.check_exists("/").await.unwrap();
    }
    witness.leave(lock.shares());
    guard.release().await.unwrap();
}

pub(super) async fn twenty_sessions_acquire_in_the_order_of_their_arrival(kind: Kind) {
    let stage = Arc::new(Stage::shared(kind, "twenty").await);
    let witness = Witness::default();
    let blocker = stage.blocker().acquire().await.unwrap();
    let mut contenders = JoinSet::new();
    for who in 0..SESSIONS {
        contenders.spawn({
            let stage = Arc::clone(&stage);
            let witness = witness.clone();
            async move {
                let client = stage.client().await;
                let lock = kind.contender(who, &client, &stage.path);
                hold_once(who, lock, &stage, &witness).await;
                client.close().await.unwrap();
            }
        });
        stage.until_contenders(who + 2).await;
    }
    blocker.release().await.unwrap();
    soon(contenders.join_all()).await;
    stage.free(&stage.admin).await;
    assert_eq!(witness.order(), (0..SESSIONS).collect::<Vec<_>>());
}

pub(super) async fn a_nested_acquire_succeeds_only_if_the_lock_is_reentrant(kind: Kind) {
    let stage = Stage::shared(kind, "nested").await;
    let client = stage.client().await;
    let lock = stage.lock(&client);
    let outer = lock.acquire().await.unwrap();
    let held = stage.nodes().await;
    let tried = lock.try_acquire().await.unwrap();
    let waited = soon(lock.acquire_timeout(Duration::from_millis(100)))
        .await
        .unwrap();
    soon(client.janitor().idle()).await;
    assert_eq!(stage.nodes().await, held);
    let (Some(tried), Some(waited)) = (tried, waited) else {
        assert!(
            !kind.is_reentrant(),
            "{kind:?} refused its holder a second guard"
        );
        // The attempt has not affected the hold.
        assert!(outer.is_valid());
        outer.release().await.unwrap();
        return stage.free(&client).await;
    };
    assert!(
        kind.is_reentrant(),
        "{kind:?} gave its holder a second guard"
    );
    assert_eq!(
        [tried.fencing_token(), waited.fencing_token()],
        [outer.fencing_token(); 2]
    );
    assert_eq!(
        [&outer, &tried, &waited].map(|guard| guard.is_reentry()),
        [false, true, true]
    );
    // The lock is held until the last guard is released, although the first guard is released
    // before the others.
    for guard in [outer, waited] {
        guard.release().await.unwrap();
        assert_eq!(stage.nodes().await, held);
        assert!(stage.blocker().try_acquire().await.unwrap().is_none());
        assert!(tried.is_valid());
    }
    tried.release().await.unwrap();
    stage.free(&client).await;
}
