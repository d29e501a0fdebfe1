//! The token is cancelled when the lock is no longer held.

use curator_test::{FaultProxy, OpCode, TestingServer};
use tokio::runtime::Handle;

use crate::support::{behind_proxy, client, connect, end_session, mutex, path, round_trips, soon, still_waits, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_cancelled_by_a_loss() {
    let server = TestingServer::shared().await;
    let ((proxy, holder), admin) = (behind_proxy().await, client().await);
    for deleted in [true, false] {
        let guard = mutex(&holder, &path("token/lost")).acquire().await.unwrap();
        let (token, on_loss) = (guard.cancellation_token(), guard.cancellation_token_on_loss());
        let work = tokio::spawn({
            let token = token.clone();
            async move { token.run_until_cancelled(std::future::pending::<()>()).await }
        });
        assert!(still_waits(&work, &holder).await);
        assert!(!token.is_cancelled() && !on_loss.is_cancelled());
        if deleted {
            admin.delete().for_path(guard.node()).await.unwrap();
        } else {
            end_session(server, &proxy).await;
        }
        assert_eq!(soon(work).await.unwrap(), None);
        soon(on_loss.cancelled()).await;
        assert!(!guard.is_valid());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_cancelled_by_the_release_of_the_last_guard_and_by_no_other() {
    let holder = client().await;
    let mutex = mutex(&holder, &path("token/released"));
    for drops in [true, false] {
        let (guard, again) = (mutex.acquire().await.unwrap(), mutex.acquire().await.unwrap());
        let token = again.cancellation_token();
        again.release().await.unwrap();
        round_trips(&holder).await;
        assert!(!token.is_cancelled());
        if drops {
            drop(guard);
        } else {
            guard.release().await.unwrap();
        }
        soon(token.cancelled()).await;
    }
}

/// Nor by the end of the task that drives it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_on_loss_is_not_cancelled_by_a_release_and_its_task_ends_with_the_hold() {
    let (holder, path) = (client().await, path("token/on-loss"));
    for drops in [true, false] {
        let tasks = Handle::current().metrics().num_alive_tasks();
        let guard = mutex(&holder, &path).acquire().await.unwrap();
        let token = guard.cancellation_token_on_loss();
        assert!(Handle::current().metrics().num_alive_tasks() > tasks);
        if drops {
            drop(guard);
        } else {
            guard.release().await.unwrap();
        }
        until(async || Handle::current().metrics().num_alive_tasks() <= tasks).await;
        assert!(!token.is_cancelled());
    }
}

/// Somebody else's cancel, or a dropped token, is no end of the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_cancelled_by_its_user_leaves_the_lock_alone() {
    let holder = client().await;
    let guard = mutex(&holder, &path("token/cancelled")).acquire().await.unwrap();
    let (one, other) = (guard.cancellation_token(), guard.cancellation_token());
    let _ = guard.cancellation_token();
    one.cancel();
    round_trips(&holder).await;
    assert!(!other.is_cancelled() && guard.is_valid());
    guard.release().await.unwrap();
    soon(other.cancelled()).await;
}

/// The task goes with the runtime, and nobody would cancel the token any more.
#[test]
fn a_token_is_cancelled_when_the_runtime_ends() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (servers, clients) = (runtime(), runtime());
    let (_server, proxy) = servers.block_on(async {
        let server = TestingServer::start().await.unwrap();
        let proxy = FaultProxy::start(server.address()).unwrap();
        (server, proxy)
    });
    let (guard, token) = clients.block_on(async {
        let guard = mutex(&connect(&proxy.connect_string()).await, "/token").acquire().await.unwrap();
        let token = guard.cancellation_token();
        // By then the task waits.
        proxy.wait_for_reply(OpCode::GetData, 1).await.unwrap();
        (guard, token)
    });
    assert!(!token.is_cancelled() && guard.is_valid());
    drop(clients);
    assert!(token.is_cancelled() && !guard.is_valid());
}
