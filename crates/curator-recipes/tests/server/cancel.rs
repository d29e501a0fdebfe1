//! A future may be dropped at any await point, or may no longer be polled: no node leaks, and no
//! contender is stuck.

use curator_test::OpCode;
use futures_util::FutureExt as _;

use crate::support::{
    behind_proxy, client, end_session, free, keep_empty, mutex, non_reentrant, path, polled_until,
    queue_of, requests_of, soon,
};

#[test]
fn an_acquire_dropped_outside_the_runtime_leaves_nothing() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (proxy, client) = runtime.block_on(behind_proxy());
    let path = path("drop-outside");
    runtime.block_on(free(&client, &[&path]));
    for held in [OpCode::Create2, OpCode::GetChildren] {
        proxy.reset_counts();
        proxy.hold_replies(held);
        let mutex = mutex(&client, &path);
        let acquiring = runtime.block_on(polled_until(
            async move { mutex.acquire().await },
            proxy.wait_for_request(held, 1),
        ));
        std::thread::spawn(move || drop(acquiring)).join().unwrap();
        proxy.release_held();
        runtime.block_on(free(&client, &[&path]));
    }
    // A guard that is dropped outside the runtime is released too.
    let guard = runtime.block_on(mutex(&client, &path).acquire()).unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    runtime.block_on(free(&client, &[&path]));
}

// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_dropped_when_its_session_dies_leaves_nothing() {
    let (proxy, client) = behind_proxy().await;
    let steady = self::client().await;
    let path = path("drop-session");
    // The directory exists, so the next create creates the queue node.
    keep_empty(&steady, &[&path]).await;
    proxy.swallow_next_reply(OpCode::Create2);
    let mutex = mutex(&client, &path);
    let acquiring = polled_until(mutex.acquire(), queue_of(&steady, &path, 1)).await;
    let session = client.session().await.unwrap();
    end_session(&proxy).await;
    soon(session.ended()).await;
    drop(acquiring);
    soon(client.janitor().idle()).await;
    queue_of(&steady, &path, 0).await;
}

/// More than twice the number of pipelines that one session may have in flight (`Session::turn`).
const ACQUIRES: usize = 300;

/// One task works with a guard, and does not poll its other acquires meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_and_another_acquire_are_sent_before_any_request_of_unpolled_acquires() {
    let (proxy, client) = behind_proxy().await;
    let dir = path("unpolled");
    let free = non_reentrant(&client, &path("free"));
    let guard = soon(free.acquire()).await.unwrap();
    // Each acquire is polled once, and the replies are held back.
    let locks: Vec<_> = (0..ACQUIRES)
        .map(|lock| non_reentrant(&client, &format!("{dir}/{lock}")))
        .collect();
    proxy.hold_replies(OpCode::GetChildren2);
    proxy.hold_replies(OpCode::GetChildren);
    let mut parked: Vec<_> = locks.iter().map(|lock| lock.acquire().boxed()).collect();
    // With tokio's budget for one task, most acquires would send nothing.
    tokio::task::unconstrained(async {
        for acquire in &mut parked {
            assert!(acquire.as_mut().now_or_never().is_none());
        }
    })
    .await;
    proxy.release_held();
    // When this request is answered, the replies have arrived.
    soon(client.check_exists("/")).await.unwrap();
    let sent = || requests_of(&proxy, OpCode::Create2);
    let creates = sent();
    assert!(creates > 100, "{creates}");

    // The first poll of each future sends its request, and may already see the reply.
    let mut release = guard.release().boxed();
    let released = (&mut release).now_or_never();
    proxy.wait_for_request(OpCode::Delete, 1).await.unwrap();
    match released {
        Some(released) => released.unwrap(),
        None => soon(release).await.unwrap(),
    }
    let mut acquire = free.acquire().boxed();
    let acquired = (&mut acquire).now_or_never();
    proxy
        .wait_for_request(OpCode::Create2, creates + 1)
        .await
        .unwrap();
    let guard = match acquired {
        Some(acquired) => acquired.unwrap(),
        None => soon(acquire).await.unwrap(),
    };
    soon(guard.release()).await.unwrap();
    assert_eq!(sent(), creates + 1);
    drop(parked);
    soon(client.janitor().idle()).await;
}
