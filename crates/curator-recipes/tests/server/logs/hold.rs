//! Log lines of a hold.

use std::time::Duration;

use curator_recipes::{LossReason, OwnerId, revoke};
use curator_test::OpCode;
use tracing::Level;

use super::check_hold;
use crate::support::{
    LOSSES, Logs, behind_proxy, behind_proxy_with, client, lose, mutex, path, polled_until, soon, until,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_life_of_a_hold_is_logged() {
    let (holder, path, logs) = (client().await, path("logs/hold"), Logs::at(Level::DEBUG));
    let (mutex, owner) = (mutex(&holder, &path), OwnerId::new());
    logs.capture(async {
        let guard = mutex.acquire_as(&owner).await.unwrap();
        let acquire = logs.lines("acquire").remove(0);
        assert_eq!((acquire.message.as_str(), acquire.get("wait")), ("acquiring", "forever"));
        let about = ["kind", "lock", "owner"].map(|field| acquire.get(field));
        assert_eq!(about, ["mutex", &path, &owner.to_string()]);
        let again = mutex.acquire_as(&owner).await.unwrap();
        let third = mutex.try_acquire_as(&owner).await.unwrap().unwrap();
        drop(third);
        again.release().await.unwrap();
        check_hold(&logs.lines("hold")[0], "mutex", &path, &guard);
        guard.release().await.unwrap();
    })
    .await;
    let lines = logs.lines("hold");
    assert_eq!(logs.messages("hold"), ["owned", "re-entered", "re-entered", "left", "left", "released"]);
    let guards: Vec<_> = lines[1..5].iter().map(|line| line.get("guards")).collect();
    assert_eq!(guards, ["2", "3", "2", "1"]);
    lines[0].get("waited");
    lines[5].get("held");
    assert!(lines.iter().all(|line| line.get("owner") == owner.to_string()));
    assert_eq!(logs.messages("acquire"), ["acquiring"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_is_logged_once() {
    let (holder, other, path) = (client().await, client().await, path("logs/revoked"));
    let logs = Logs::at(Level::DEBUG);
    logs.capture(async {
        let guard = mutex(&holder, &path).acquire().await.unwrap();
        for _ in 0..2 {
            revoke(&other, guard.node()).await.unwrap();
            soon(guard.revocation_requested()).await.unwrap();
        }
        guard.release().await.unwrap();
    })
    .await;
    assert_eq!(logs.messages("hold"), ["owned", "revocation requested", "released"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_is_logged_once() {
    let ((proxy, holder), path) = (behind_proxy().await, path("logs/lost"));
    for reason in LOSSES {
        let logs = Logs::at(Level::DEBUG);
        let losing = logs.capture(async {
            let guard = mutex(&holder, &path).acquire().await.unwrap();
            let handle = guard.loss();
            if reason == LossReason::NodeDeleted {
                // The handle's watch has to be set before the delete.
                let watched = until(async || holder.check_exists("/").await.is_ok() && guard.is_valid());
                let waiting = soon(polled_until(handle.clone(), watched)).await;
                lose(&guard, &proxy, reason).await;
                soon(waiting).await;
            } else {
                lose(&guard, &proxy, reason).await;
            }
            assert_eq!(soon(guard.lost()).await.reason, reason);
            soon(handle).await;
            assert!(!guard.is_valid());
            check_hold(&logs.lines("hold")[1], "mutex", &path, &guard);
            guard.release().await.unwrap_err();
        });
        losing.await;
        assert_eq!(logs.messages("hold"), ["owned", "lost"], "{reason}");
        let lost = logs.lines("hold").remove(1);
        lost.get("held");
        assert_eq!(lost.get("why"), reason.to_string());
    }
}

/// The hold logs one line for any number of attempts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_whose_node_cannot_be_watched_logs_that_once() {
    let (proxy, holder) = behind_proxy_with(|builder| builder.operation_timeout(Duration::from_millis(100))).await;
    let path = path("logs/unwatched");
    let logs = Logs::at(Level::DEBUG);
    let guard = logs.capture(mutex(&holder, &path).acquire()).await.unwrap();
    proxy.hold_replies(OpCode::GetData);
    let watching = tokio::spawn(logs.capture(guard.loss()));
    proxy.wait_for_request(OpCode::GetData, 4).await.unwrap();
    assert_eq!(logs.messages("hold"), ["owned", "cannot watch its own node"]);
    let line = logs.lines("hold").remove(1);
    assert_eq!(line.get("watched"), guard.node().as_str());
    check_hold(&line, "mutex", &path, &guard);
    proxy.release_held();
    logs.capture(guard.release()).await.unwrap();
    soon(watching).await.unwrap();
    assert_eq!(logs.messages("hold"), ["owned", "cannot watch its own node", "released"]);
}
