//! An owner that holds the lock re-enters it; other owners cannot.

use curator_recipes::{Error, LossReason};
use curator_test::OpCode;
use futures_util::FutureExt as _;

use crate::releases::cost::{counted, spent, stated};
use crate::support::{
    self, LOSSES, behind_proxy, client, lose, mutex, path, polled_until, queue_of, soon,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re_entry_to_any_depth_costs_no_request() {
    let (proxy, client) = counted().await;
    let path = path("depth");
    let mutex = mutex(&client, &path);
    let first = mutex.acquire().await.unwrap();
    proxy.reset_counts();
    let mut guards = Vec::new();
    for _ in 0..50 {
        guards.push(mutex.acquire().await.unwrap());
        guards.push(mutex.try_acquire().await.unwrap().unwrap());
    }
    assert!(
        guards
            .iter()
            .all(|guard| guard.fencing_token() == first.fencing_token())
    );
    while let Some(guard) = guards.pop() {
        guard.release().await.unwrap();
    }
    // Any request would have arrived before the reply to this `sync`, which is not counted.
    client.sync("/").await.unwrap();
    assert_eq!(spent(&proxy), stated(("mutex", "re-entry")).await);

    assert!(mutex.is_owned_by_current());
    first.release().await.unwrap();
    assert!(!mutex.is_owned_by_current());
    assert!(!mutex.is_acquired_in_this_process());
    queue_of(&client, &path, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_task_does_not_re_enter_the_hold_of_a_task() {
    let client = client().await;
    let path = path("other-task");
    let mutex = mutex(&client, &path);
    let guard = mutex.acquire().await.unwrap();
    let other = mutex.clone();
    tokio::spawn(async move {
        assert!(!other.is_owned_by_current());
        assert!(other.is_acquired_in_this_process());
        assert!(other.try_acquire().await.unwrap().is_none());
    })
    .await
    .unwrap();
    // Another mutex on the same path does not re-enter either, even in the same task.
    assert!(
        support::mutex(&client, &path)
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn futures_joined_in_one_task_are_one_owner_and_hold_together() {
    let client = client().await;
    let path = path("joined");
    let mutex = mutex(&client, &path);
    let (a, b) = soon(async { tokio::join!(mutex.acquire(), mutex.acquire()) }).await;
    let a = a.unwrap();
    let b = b.unwrap();
    assert_eq!(a.fencing_token(), b.fencing_token());
    assert_eq!(mutex.participants().await.unwrap().len(), 1);
    a.release().await.unwrap();
    b.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_first_of_two_joined_futures_is_dropped_the_second_takes_its_turn() {
    let (proxy, client) = behind_proxy().await;
    let path = path("joined-drop");
    let mutex = mutex(&client, &path);
    // The first acquire waits for the reply to its list request, and the second waits for the
    // first.
    proxy.hold_replies(OpCode::GetChildren);
    let first = polled_until(
        mutex.acquire(),
        proxy.wait_for_request(OpCode::GetChildren, 1),
    )
    .await;
    let mut second = Box::pin(mutex.acquire());
    assert!((&mut second).now_or_never().is_none());
    drop(first);
    proxy.release_held();
    let guard = soon(second).await.unwrap();
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re_entry_on_a_lost_hold_acquires_anew() {
    for expected in LOSSES {
        let (proxy, holder) = behind_proxy().await;
        let path = path("re-entry-lost");
        let mutex = mutex(&holder, &path);
        let lost = mutex.acquire().await.unwrap();
        let waiting = polled_until(lost.lost(), proxy.wait_for_reply(OpCode::GetData, 1)).await;
        lose(&lost, &proxy, expected).await;
        let reason = soon(waiting).await.reason;
        assert_eq!(reason, expected);
        assert!(
            !lost.is_valid()
                && !mutex.is_owned_by_current()
                && !mutex.is_acquired_in_this_process()
        );

        let anew = soon(mutex.acquire()).await.unwrap();
        assert!(anew.is_valid() && !anew.is_reentry());
        assert!(anew.fencing_token() > lost.fencing_token());
        assert_eq!(
            anew.session_id() == lost.session_id(),
            reason == LossReason::NodeDeleted
        );
        // The old guard does not affect the new hold.
        let error = lost.release().await.unwrap_err();
        assert!(
            matches!(&error, Error::Lost(lost) if lost.reason == reason),
            "{error}"
        );
        assert!(anew.is_valid() && mutex.is_owned_by_current());
        anew.release().await.unwrap();
    }
}
