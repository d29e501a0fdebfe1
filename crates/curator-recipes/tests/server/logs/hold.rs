//! What is told of a hold.

use std::time::Duration;

use curator_recipes::client::SessionEnd;
use curator_recipes::{LossReason, OwnerId, revoke};
use curator_test::{FaultProxy, OpCode, TestingServer};
use tracing::Level;

use super::check_hold;
use crate::support::{
    LONG_SESSION, Logs, behind_proxy, builder, client, end_session, mutex, path, polled_until, soon, until,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_life_of_a_hold_is_told() {
    let (holder, path, logs) = (client().await, path("logs/hold"), Logs::at(Level::DEBUG));
    let (mutex, owner) = (mutex(&holder, &path), OwnerId::new());
    logs.hear(async {
        let guard = mutex.acquire_as(&owner).await.unwrap();
        let asked = logs.lines("acquire").remove(0);
        assert_eq!((asked.message.as_str(), asked.get("wait")), ("asked", "forever"));
        let about = ["kind", "lock", "owner"].map(|field| asked.get(field));
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
    assert_eq!(logs.messages("hold"), ["owned", "entered again", "entered again", "left", "left", "released"]);
    let guards: Vec<_> = lines[1..5].iter().map(|line| line.get("guards")).collect();
    assert_eq!(guards, ["2", "3", "2", "1"]);
    lines[0].get("waited");
    lines[5].get("held");
    assert!(lines.iter().all(|line| line.get("owner") == owner.to_string()));
    assert_eq!(logs.messages("acquire"), ["asked"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_is_told_once() {
    let (holder, other, path) = (client().await, client().await, path("logs/revoked"));
    let logs = Logs::at(Level::DEBUG);
    logs.hear(async {
        let guard = mutex(&holder, &path).acquire().await.unwrap();
        for _ in 0..2 {
            revoke(&other, guard.node()).await.unwrap();
            soon(guard.revocation_requested()).await.unwrap();
        }
        guard.release().await.unwrap();
    })
    .await;
    assert_eq!(logs.messages("hold"), ["owned", "asked to give the lock back", "released"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_is_told_once_by_whoever_notices_it_first() {
    let (server, (proxy, holder), path) = (TestingServer::shared().await, behind_proxy().await, path("logs/lost"));
    for deleted in [true, false] {
        let logs = Logs::at(Level::DEBUG);
        let reason = logs.hear(async {
            let guard = mutex(&holder, &path).acquire().await.unwrap();
            let handle = guard.loss();
            if deleted {
                // It has to be watched first.
                let watched = until(async || holder.check_exists("/").await.is_ok() && guard.is_valid());
                let mut handle = soon(polled_until(handle.clone(), watched)).await;
                client().await.delete().for_path(guard.node()).await.unwrap();
                soon(&mut handle).await;
            } else {
                end_session(server, &proxy).await;
            }
            let lost = soon(guard.lost()).await;
            soon(handle).await;
            assert!(!guard.is_valid());
            check_hold(&logs.lines("hold")[1], "mutex", &path, &guard);
            guard.release().await.unwrap_err();
            lost.reason
        });
        let reason = reason.await;
        assert_eq!(logs.messages("hold"), ["owned", "lost"], "{reason}");
        let lost = logs.lines("hold").remove(1);
        lost.get("held");
        assert_eq!(lost.get("why"), reason.to_string());
        let expected = if deleted { LossReason::NodeDeleted } else { LossReason::SessionLost(SessionEnd::Expired) };
        assert_eq!(reason, expected);
    }
}

/// However often it is tried.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_whose_node_cannot_be_watched_says_so_once() {
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    let builder = builder(&proxy.connect_string(), LONG_SESSION).operation_timeout(Duration::from_millis(100));
    let (holder, path) = (builder.connect().await.unwrap(), path("logs/unwatched"));
    let logs = Logs::at(Level::DEBUG);
    let guard = logs.hear(mutex(&holder, &path).acquire()).await.unwrap();
    proxy.hold_replies(OpCode::GetData);
    let watching = tokio::spawn(logs.hear(guard.loss()));
    proxy.wait_for_request(OpCode::GetData, 4).await.unwrap();
    assert_eq!(logs.messages("hold"), ["owned", "cannot watch its own node"]);
    let line = logs.lines("hold").remove(1);
    assert_eq!(line.get("watched"), guard.node().as_str());
    check_hold(&line, "mutex", &path, &guard);
    proxy.release_held();
    logs.hear(guard.release()).await.unwrap();
    soon(watching).await.unwrap();
    assert_eq!(logs.messages("hold"), ["owned", "cannot watch its own node", "released"]);
}
