//! Effects of a lost session on a hold, and on a place in the queue.

use curator_recipes::LossReason;
use curator_recipes::client::SessionEnd;

use super::stage::Stage;
use super::subjects::Kind;
use crate::support::{behind_proxy, end_session, soon, still_waits, until};

pub(super) async fn a_holder_whose_session_ended_is_notified_and_the_next_one_holds(kind: Kind) {
    let stage = Stage::shared(kind, "holder-lost").await;
    let (proxy, holder) = behind_proxy().await;
    let guard = stage.lock(&holder).acquire().await.unwrap();
    let blocker = stage.blocker();
    let waiting = tokio::spawn(async move { blocker.acquire().await.unwrap() });
    stage.until_contenders(2).await;
    assert!(guard.is_valid());
    end_session(&proxy).await;
    assert_eq!(soon(guard.lost()).await.reason, LossReason::SessionLost(SessionEnd::Expired));
    assert!(!guard.is_valid());
    let next = soon(waiting).await.unwrap();
    assert!(next.is_valid());
    assert!(next.fencing_token() > guard.fencing_token());
    assert!(guard.release().await.is_err(), "the release did not report the loss");
    assert!(next.is_valid());
    next.release().await.unwrap();
    stage.free(&holder).await;
}

pub(super) async fn a_waiter_whose_session_ended_queues_again_with_a_new_node(kind: Kind) {
    let stage = Stage::shared(kind, "waiter-lost").await;
    let guard = stage.blocker().acquire().await.unwrap();
    let held = stage.nodes().await;
    let (proxy, unlucky) = behind_proxy().await;
    let old_session = unlucky.session().await.unwrap().id();
    let waiting = stage.acquiring(&unlucky);
    stage.until_contenders(2).await;
    let before = stage.nodes().await;
    end_session(&proxy).await;
    // As many nodes as before: the holder's are the same, the waiter's are new.
    until(async || {
        let now = stage.nodes().await;
        now.len() == before.len() && now.iter().all(|node| held.contains(node) || !before.contains(node))
    })
    .await;
    assert!(still_waits(&waiting, &unlucky).await);
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    let guard = soon(waiting).await.unwrap();
    assert!(guard.is_valid());
    assert_ne!(guard.session_id(), old_session);
    for node in guard.nodes() {
        assert!(!before.contains(&node.to_string()), "the node of the dead session was adopted");
        assert_eq!(stage.admin.get_data(node).await.unwrap().1.ephemeral_owner, guard.session_id());
    }
    guard.release().await.unwrap();
    stage.free(&unlucky).await;
}
