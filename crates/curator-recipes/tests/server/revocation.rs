//! Requests of other clients to release a lock. `contract/revocation.rs` tests what all locks have
//! in common.

use std::sync::Arc;

use curator_recipes::client::Error as ClientError;
use curator_recipes::{Error, revoke};
use curator_test::OpCode;
use futures_util::FutureExt as _;

use crate::support::subjects::Held;
use crate::support::{
    LOSSES, acquiring, behind_proxy, children, client, drop_after, listening, lose, mutex, path,
    queue_of, read_write, soon, still_waits,
};

/// A waiter so far back does not watch its own node yet. The contract's tests send the request to a
/// waiter that does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_of_a_waiter_far_back_in_the_queue_reaches_it_as_holder() {
    let first = client().await;
    let last = client().await;
    let path = path("revoke-waiting");
    let guard = mutex(&first, &path).acquire().await.unwrap();
    for place in 1..=3 {
        let waiting = acquiring(&client().await, &path);
        tokio::spawn(async move { waiting.await.unwrap().unwrap().release().await.unwrap() });
        queue_of(&first, &path, place + 1).await;
    }
    let waiting = acquiring(&last, &path);
    queue_of(&first, &path, 5).await;
    let participants = mutex(&first, &path).participants().await.unwrap();
    revoke(&first, &participants[4].path).await.unwrap();
    assert!(
        still_waits(&waiting, &last).await,
        "a revocation request must not end the wait"
    );
    guard.release().await.unwrap();
    let guard = soon(waiting).await.unwrap().unwrap();
    soon(guard.revocation_requested()).await.unwrap();
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_participant_that_leaves_before_a_retry_of_the_request_is_reported_as_gone() {
    let (proxy, admin) = behind_proxy().await;
    let holder = client().await;
    let path = path("revoke-gone");
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    proxy.hold_nth_reply(OpCode::SetData, 1);
    let node = guard.node().clone();
    let revoking = tokio::spawn(async move { revoke(&admin, &node).await });
    soon(proxy.wait_for_reply(OpCode::SetData, 1))
        .await
        .unwrap();
    guard.release().await.unwrap();
    proxy.cut();
    let error = soon(revoking).await.unwrap().unwrap_err();
    assert!(
        matches!(error, Error::Client(ClientError::NoNode { .. })),
        "{error}"
    );
    assert_eq!(
        children(&holder, &path).await,
        [""; 0],
        "the request has created the node again"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_waits_for_a_revocation_is_notified_of_the_loss() {
    let (proxy, holder) = behind_proxy().await;
    let path = path("revoke-lost");
    for reason in LOSSES {
        let guard = Arc::new(Held::Guard(mutex(&holder, &path).acquire().await.unwrap()));
        let waiting = listening(&guard).await;
        lose(&guard, &proxy, reason).await;
        let lost = soon(waiting).await.unwrap().unwrap_err();
        assert_eq!((&lost.path, lost.reason), (guard.node(), reason));
        assert_eq!(soon(guard.revocation_requested()).await, Err(lost));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_wait_for_a_revocation_loses_no_request() {
    let holder = client().await;
    let admin = client().await;
    let path = path("revoke-dropped");
    for polls in 0..6 {
        let guard = mutex(&holder, &path).acquire().await.unwrap();
        // Without a request, the future would never wake, so the request is made concurrently.
        let (_, revoked) = tokio::join!(
            drop_after(guard.revocation_requested(), polls),
            revoke(&admin, guard.node())
        );
        revoked.unwrap();
        soon(guard.revocation_requested()).await.unwrap();
        guard.release().await.unwrap();
    }
    // An unpolled wait does not keep another one from receiving the request.
    let guard = Arc::new(Held::Guard(mutex(&holder, &path).acquire().await.unwrap()));
    let mut parked = Box::pin(guard.revocation_requested());
    assert!((&mut parked).now_or_never().is_none());
    let waiting = listening(&guard).await;
    revoke(&admin, guard.node()).await.unwrap();
    soon(waiting).await.unwrap().unwrap();
    soon(parked).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgraded_writer_receives_revocations_from_before_and_after_the_downgrade() {
    let holder = client().await;
    let admin = client().await;
    for requested_before in [false, true] {
        let lock = read_write(&holder, &path("revoke-downgraded"));
        let writing = lock.write().acquire().await.unwrap();
        if requested_before {
            revoke(&admin, writing.node()).await.unwrap();
            soon(writing.revocation_requested()).await.unwrap();
        }
        let reading = writing.downgrade().await.unwrap();
        if !requested_before {
            assert!(reading.revocation_requested().now_or_never().is_none());
            revoke(&admin, reading.node()).await.unwrap();
        }
        soon(reading.revocation_requested()).await.unwrap();
    }
}
