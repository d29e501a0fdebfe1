//! Cancellation tokens, which are cancelled when their lock is no longer held.

use curator_test::OpCode;
use tokio::runtime::Handle;

use crate::support::{client, connect, mutex, path, proxy, round_trips, soon, until};

/// The token's task ends with the hold, whether it cancels the token or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_cancelled_by_the_release_of_the_last_guard_unless_it_is_for_losses_only() {
    let holder = client().await;
    let mutex = mutex(&holder, &path("token/released"));
    for drops in [true, false] {
        let tasks = Handle::current().metrics().num_alive_tasks();
        let guard = mutex.acquire().await.unwrap();
        let again = mutex.acquire().await.unwrap();
        let token = again.cancellation_token();
        let other = again.cancellation_token();
        let on_loss = again.cancellation_token_on_loss();
        assert!(Handle::current().metrics().num_alive_tasks() > tasks);
        again.release().await.unwrap();
        // Cancelling a token ends neither the lock nor the other tokens.
        other.cancel();
        round_trips(&holder).await;
        assert!(!token.is_cancelled() && guard.is_valid());
        if drops {
            drop(guard);
        } else {
            guard.release().await.unwrap();
        }
        soon(token.cancelled()).await;
        until(async || Handle::current().metrics().num_alive_tasks() <= tasks).await;
        assert!(!on_loss.is_cancelled());
    }
}

/// The runtime drops the token's task, and this drop must cancel the token.
#[test]
fn a_token_is_cancelled_when_the_runtime_ends() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    };
    let servers = runtime();
    let clients = runtime();
    let proxy = servers.block_on(proxy());
    let (guard, token) = clients.block_on(async {
        let guard = mutex(
            &connect(&proxy.connect_string()).await,
            &path("token/runtime"),
        )
        .acquire()
        .await
        .unwrap();
        let token = guard.cancellation_token();
        // After this reply, the token's task waits.
        proxy.wait_for_reply(OpCode::GetData, 1).await.unwrap();
        (guard, token)
    });
    assert!(!token.is_cancelled() && guard.is_valid());
    drop(clients);
    assert!(token.is_cancelled() && !guard.is_valid());
}
