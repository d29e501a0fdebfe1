//! A task works on one guard, and does not poll its other acquires meanwhile.

use curator_test::OpCode;
use futures_util::FutureExt as _;

use crate::support::{behind_proxy, non_reentrant, path, requests_of, soon};

/// More than may be in flight at once, twice.
const ACQUIRES: usize = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_and_another_acquire_are_sent_before_any_request_of_unpolled_acquires() {
    let ((proxy, client), dir) = (behind_proxy().await, path("unpolled"));
    let free = non_reentrant(&client, &path("free"));
    let guard = soon(free.acquire()).await.unwrap();
    // Each is polled once, and the answers are held.
    let locks: Vec<_> = (0..ACQUIRES).map(|lock| non_reentrant(&client, &format!("{dir}/{lock}"))).collect();
    proxy.hold_replies(OpCode::GetChildren2);
    proxy.hold_replies(OpCode::GetChildren);
    let mut parked: Vec<_> = locks.iter().map(|lock| lock.acquire().boxed()).collect();
    // With tokio's budget for one task, most of them would not get as far.
    let polled = tokio::task::unconstrained(async {
        parked.iter_mut().for_each(|acquire| assert!(acquire.as_mut().now_or_never().is_none()));
    });
    polled.await;
    proxy.release_held();
    // By then the answers have arrived.
    soon(client.check_exists("/")).await.unwrap();
    let sent = || requests_of(&proxy, OpCode::Create2);
    let creates = sent();
    assert!(creates > 100, "{creates}");

    // Each is sent by the first poll. It may even be answered by then.
    let mut release = guard.release().boxed();
    let released = (&mut release).now_or_never();
    proxy.wait_for_request(OpCode::Delete, 1).await.unwrap();
    match released {
        Some(released) => released.unwrap(),
        None => soon(release).await.unwrap(),
    }
    let mut acquire = free.acquire().boxed();
    let acquired = (&mut acquire).now_or_never();
    proxy.wait_for_request(OpCode::Create2, creates + 1).await.unwrap();
    let guard = match acquired {
        Some(acquired) => acquired.unwrap(),
        None => soon(acquire).await.unwrap(),
    };
    soon(guard.release()).await.unwrap();
    assert_eq!(sent(), creates + 1);
    drop(parked);
    soon(client.janitor().idle()).await;
}
