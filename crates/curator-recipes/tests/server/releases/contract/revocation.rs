//! Requests to release a lock.

use std::sync::Arc;

use curator_recipes::client::CuratorClient;
use curator_recipes::{InterProcessSemaphoreV2, revoke};
use futures_util::FutureExt as _;
use tokio::task::JoinHandle;

use super::stage::Stage;
use super::subjects::{Held, Kind, Lock};
use crate::support::{listening, round_trips, soon, still_waits};

async fn release(guard: Arc<Held>) {
    Arc::into_inner(guard)
        .expect("a task still waits for a request")
        .release()
        .await
        .unwrap();
}

/// Checks that the task `listening` has received no request, and aborts it.
async fn assert_no_request<T>(listening: JoinHandle<T>, client: &CuratorClient) {
    assert!(
        still_waits(&listening, client).await,
        "the task received a revocation request"
    );
    listening.abort();
    assert!(
        listening.await.is_err(),
        "the task received a revocation request"
    );
}

pub(super) async fn a_holder_that_waits_for_a_revocation_request_is_notified_of_it(kind: Kind) {
    let stage = Stage::shared(kind, "revoke").await;
    let client = stage.client().await;
    // A request to any node of the guard counts. `Kind::kinds` has one entry for each node of a
    // guard.
    for index in 0..kind.kinds().len() {
        let guard = Arc::new(stage.lock(&client).acquire().await.unwrap());
        let listener = listening(&guard).await;
        // Other data is not a request.
        let node = guard.nodes().nth(index).unwrap().clone();
        stage
            .admin
            .set_data(&node, "__REVOKE_", None)
            .await
            .unwrap();
        assert!(still_waits(&listener, &client).await);
        let participant = stage
            .lock(&stage.admin)
            .participants()
            .await
            .unwrap()
            .swap_remove(index);
        assert_eq!(participant.path, node);
        revoke(&stage.admin, &participant.path).await.unwrap();
        soon(listener).await.unwrap().unwrap();
        assert!(guard.is_valid(), "a request does not end the hold");
        // A request cannot be withdrawn.
        stage
            .admin
            .set_data(&node, "never mind", None)
            .await
            .unwrap();
        round_trips(&client).await;
        guard
            .revocation_requested()
            .now_or_never()
            .expect("the request was received")
            .unwrap();
        release(guard).await;
        stage.free(&client).await;
    }
}

pub(super) async fn a_revocation_requested_of_a_waiter_reaches_it_as_holder(kind: Kind) {
    let stage = Stage::shared(kind, "revoke-waiter").await;
    let client = stage.client().await;
    let session = client.session().await.unwrap().id();
    let lock = stage.lock(&client);
    for index in 0..kind.kinds().len() {
        let guard = stage.blocker().acquire().await.unwrap();
        let waiting = stage.acquiring(&client);
        stage.until_contenders(2).await;
        let mut places = lock.participants().await.unwrap();
        places.retain(|place| place.session_id == session);
        assert!(places.iter().all(|place| !place.owns));
        // A multi-lock of locks has one node while it waits for its first lock.
        let Some(place) = places.get(index) else {
            assert!(index > 0);
            waiting.abort();
            assert!(waiting.await.is_err());
            guard.release().await.unwrap();
            break;
        };
        revoke(&stage.admin, &place.path).await.unwrap();
        assert!(still_waits(&waiting, &client).await);
        guard.release().await.unwrap();
        let guard = soon(waiting).await.unwrap();
        soon(guard.revocation_requested()).await.unwrap();
        guard.release().await.unwrap();
        stage.free(&client).await;
    }
    stage.free(&client).await;
}

pub(super) async fn a_revocation_before_the_holder_listens_reaches_it_and_not_the_next_holder(
    kind: Kind,
) {
    let stage = Stage::shared(kind, "revoke-early").await;
    let client = stage.client().await;
    let lock = stage.lock(&client);
    for index in 0..kind.kinds().len() {
        let guard = lock.acquire().await.unwrap();
        revoke(&stage.admin, guard.nodes().nth(index).unwrap())
            .await
            .unwrap();
        soon(guard.revocation_requested()).await.unwrap();
        guard.release().await.unwrap();
        // The next holder is the same owner, and uses the same lock value.
        let next = Arc::new(lock.acquire().await.unwrap());
        assert_no_request(listening(&next).await, &client).await;
        release(next).await;
        stage.free(&client).await;
    }
}

/// Two holders of a shared lock, or two guards of one owner of a reentrant lock. `contract/mod.rs`
/// does not run this for the kinds that have one guard at a time.
pub(super) async fn the_release_of_one_guard_does_not_clear_the_revocation_request_to_another(
    kind: Kind,
) {
    let stage = Stage::shared(kind, "revoke-two").await;
    let client = stage.client().await;
    let other = stage.client().await;
    let two_holders: [Lock; 2] = match kind {
        Kind::Read => [stage.lock(&client), stage.lock(&other)],
        Kind::Semaphore => {
            let semaphore = InterProcessSemaphoreV2::new(&client, &stage.path, 2).unwrap();
            let semaphore = Lock::Semaphore(semaphore, 1);
            [semaphore.clone(), semaphore]
        }
        _ => return check_two_guards_of_one_owner(&stage, &stage.lock(&client)).await,
    };
    // In the first round, the first guard receives the request, in the second round the other one.
    for revoked in 0..2 {
        let mut guards = Vec::new();
        let mut listeners = Vec::new();
        for lock in &two_holders {
            let guard = Arc::new(soon(lock.acquire()).await.unwrap());
            listeners.push(listening(&guard).await);
            guards.push(guard);
        }
        revoke(&stage.admin, guards[revoked].node()).await.unwrap();
        soon(listeners.remove(revoked)).await.unwrap().unwrap();
        let other_listener = listeners.remove(0);
        // The other guard may belong to either client: make round trips with both.
        round_trips(&other).await;
        assert_no_request(other_listener, &client).await;
        let revoked = guards.remove(revoked);
        release(guards.remove(0)).await;
        revoked
            .revocation_requested()
            .now_or_never()
            .expect("the release of the other guard must not clear the request")
            .unwrap();
        assert!(revoked.is_valid());
        release(revoked).await;
        stage.free(&client).await;
    }
}

/// Two guards of one owner share one node: both receive the request.
async fn check_two_guards_of_one_owner(stage: &Stage, lock: &Lock) {
    let outer = Arc::new(lock.acquire().await.unwrap());
    let inner = Arc::new(lock.acquire().await.unwrap());
    let listeners = [listening(&outer).await, listening(&inner).await];
    revoke(&stage.admin, outer.node()).await.unwrap();
    for listener in listeners {
        soon(listener).await.unwrap().unwrap();
    }
    release(outer).await;
    inner
        .revocation_requested()
        .now_or_never()
        .expect("the release of the other guard must not clear the request")
        .unwrap();
    let third = lock
        .try_acquire()
        .await
        .unwrap()
        .expect("the lock is reentrant");
    third
        .revocation_requested()
        .now_or_never()
        .expect("another guard must not clear the request")
        .unwrap();
    third.release().await.unwrap();
    release(inner).await;
    stage.free(&stage.admin).await;
}
