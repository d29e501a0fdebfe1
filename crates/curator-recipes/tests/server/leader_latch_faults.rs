//! The leader latch under faults that broke Curator's `LeaderLatch`, with one test for each fault.

use std::cell::Cell;
use std::time::Duration;

use curator_recipes::client::{CuratorClient, SessionEnd};
use curator_recipes::{Error, LeaderLatch, LeaderState, Leadership, LossReason};
use curator_test::{Direction, FaultProxy, OpCode};

use crate::releases::leader_latch::{latch, leader_and_follower, named, until_leader, until_state};
use crate::support::{
    SHORT_SESSION, behind_proxy, behind_proxy_with, children, client as connected, connect, path,
    queue_of, requests_of, server_at, soon, unplug, until,
};

/// The timeout of sessions that clients lose in a test.
const SESSION: Duration = SHORT_SESSION;

async fn with_a_brief_session() -> (FaultProxy, CuratorClient) {
    behind_proxy_with(|builder| builder.session_timeout(SESSION)).await
}

/// Makes the client lose its session in an outage, which lasts until the next [`FaultProxy::heal`].
/// The client cannot close the session on the server until the next [`FaultProxy::disarm`].
async fn lose_session_but_not_its_node(proxy: &FaultProxy, term: &Leadership) {
    proxy.black_hole(Direction::Both);
    assert_eq!(
        soon(term.lost()).await.reason,
        LossReason::SessionLost(SessionEnd::LeaseOver)
    );
    (1..=1_000).for_each(|nth| proxy.cut_before_nth_request(OpCode::CloseSession, nth));
}

/// Waits until the session's earlier requests, and the requests that their replies cause, are
/// answered.
async fn until_settled(client: &CuratorClient) {
    for _ in 0..5 {
        client.check_exists("/").await.unwrap();
    }
}

/// Curator had two leaders after a reconnect: CURATOR-444, 620, 653, 696.
// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_participant_does_not_lead_by_the_node_of_its_lost_session() {
    let (proxy, cut_off) = with_a_brief_session().await;
    let others = connected().await;
    let path = path("latch-old-node");
    let ((first, term), second) = leader_and_follower(&cut_off, &others, &path).await;
    lose_session_but_not_its_node(&proxy, &term).await;
    proxy.heal();
    // The queue has the old node, the second participant's node, and the new node.
    queue_of(&others, &path, 3).await;
    until_settled(&cut_off).await;
    assert!(others.check_exists(term.node()).await.unwrap().is_some());
    assert!(!first.has_leadership() && !second.has_leadership());
    proxy.disarm();
    let new = until_leader(&second).await;
    assert!(new.fencing_token() > term.fencing_token());
    queue_of(&others, &path, 2).await;
    until_settled(&cut_off).await;
    assert!(!first.has_leadership() && new.is_valid());
    second.close().await.unwrap();
    until_leader(&first).await;
}

/// In Curator, such a latch led briefly: CURATOR-87.
// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn latches_closed_or_opened_during_an_outage_do_not_lead_by_an_old_node() {
    let (proxy, cut_off) = with_a_brief_session().await;
    let others = connected().await;
    let path = path("latch-reopened");
    let old = latch(&cut_off, &path);
    let term = until_leader(&old).await;
    lose_session_but_not_its_node(&proxy, &term).await;
    let closing = tokio::spawn({
        let old = old.clone();
        async move { old.close().await }
    });
    let new = latch(&cut_off, &path);
    proxy.heal();
    soon(closing).await.unwrap().unwrap();
    queue_of(&others, &path, 2).await;
    until_settled(&cut_off).await;
    assert!(others.check_exists(term.node()).await.unwrap().is_some());
    assert!(!old.has_leadership() && !new.has_leadership());
    proxy.disarm();
    let leadership = until_leader(&new).await;
    let mut states = new.state();
    until_state(
        &new,
        LeaderState::Leader {
            token: leadership.fencing_token(),
        },
    )
    .await;
    states.mark_unchanged();
    until_settled(&cut_off).await;
    assert!(leadership.is_valid() && !states.has_changed().unwrap());
}

/// Curator had a livelock, in which all participants kept creating new nodes: CURATOR-504, 644,
/// 645.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn participants_reconnecting_while_the_leader_closes_lead_by_their_existing_nodes() {
    let (second_proxy, second) = behind_proxy().await;
    let (third_proxy, third) = behind_proxy().await;
    let client = connected().await;
    let path = path("latch-reconnect");
    let ((first, _), second_latch) = leader_and_follower(&client, &second, &path).await;
    let third_latch = named(&third, &path, "third");
    queue_of(&client, &path, 3).await;
    for (proxy, client) in [(&second_proxy, &second), (&third_proxy, &third)] {
        unplug(proxy, client).await;
        proxy.reset_counts();
    }
    first.close().await.unwrap();
    for proxy in [&third_proxy, &second_proxy] {
        proxy.refuse(false).unwrap();
    }
    until_leader(&second_latch).await;
    until(async || third.check_exists(&path).await.is_ok()).await;
    assert!(!third_latch.has_leadership());
    second_latch.close().await.unwrap();
    until_leader(&third_latch).await;
    assert_eq!(
        [&second_proxy, &third_proxy].map(|proxy| requests_of(proxy, OpCode::Create2)),
        [0, 0]
    );
    assert_eq!(children(&client, &path).await.len(), 1);
}

/// In Curator, all participants stopped when the directory was deleted: CURATOR-724.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_deleted_during_an_outage_is_recreated() {
    let (proxy, cut_off) = behind_proxy().await;
    let others = connected().await;
    let path = path("latch-outage");
    let ((first, term), second) = leader_and_follower(&cut_off, &cut_off, &path).await;
    unplug(&proxy, &cut_off).await;
    others
        .delete()
        .deleting_children_if_needed()
        .for_path(&path)
        .await
        .unwrap();
    // A lost connection alone does not end a term.
    proxy.refuse(false).unwrap();
    assert_eq!(soon(term.lost()).await.reason, LossReason::NodeDeleted);
    queue_of(&others, &path, 2).await;
    until(async || first.has_leadership() != second.has_leadership()).await;
    assert_eq!(first.participants().await.unwrap().len(), 2);
}

/// In Curator, a child whose name sorts before the digits stays first forever.
#[tokio::test]
async fn foreign_children_do_not_keep_a_participant_from_leading() {
    let client = connected().await;
    let path = path("latch-foreign");
    for name in [
        "!x",
        "-foo",
        "latch-",
        "_c_x-latch-",
        "latch-!",
        "_c_x-lock-0000000000",
    ] {
        client
            .create()
            .creating_parent_containers()
            .for_path(format!("{path}/{name}"), "")
            .await
            .unwrap();
    }
    let first = latch(&client, &path);
    until_leader(&first).await;
    let second = latch(&client, &path);
    queue_of(&client, &path, 6 + 2).await;
    assert_eq!(first.participants().await.unwrap().len(), 2);
    assert!(!second.has_leadership());
    first.close().await.unwrap();
    until_leader(&second).await;
}

/// After the overflow, sequence numbers are negative and sort first, so a newcomer would lead
/// beside the leader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_continues_after_a_sequence_overflow_and_newcomers_do_not_lead() {
    let (server, client) = server_at(i32::MAX - 1, "/latch").await;
    let first = latch(&client, "/latch");
    let leadership = until_leader(&first).await;
    assert!(
        leadership.node().name().ends_with("2147483646"),
        "{leadership:?}"
    );
    let newcomers = [
        latch(&client, "/latch"),
        latch(&connect(&server.connect_string()).await, "/latch"),
    ];
    for newcomer in &newcomers {
        until(async || matches!(newcomer.last_error(), Some(Error::SequenceOverflow { .. }))).await;
        assert!(leadership.is_valid() && first.has_leadership() && !newcomer.has_leadership());
    }
    // After the leader has left, the newcomers do not lead either. The third participant's error
    // comes after any take-over by the newcomers.
    first.close().await.unwrap();
    let third = latch(&client, "/latch");
    until(async || matches!(third.last_error(), Some(Error::SequenceOverflow { .. }))).await;
    assert!(!newcomers.iter().any(LeaderLatch::has_leadership));
    // The remedy is to delete the directory. The delete is retried, because participants keep
    // creating nodes.
    until(async || {
        client
            .delete()
            .deleting_children_if_needed()
            .for_path("/latch")
            .await
            .is_ok()
    })
    .await;
    until(async || {
        newcomers
            .iter()
            .chain([&third])
            .filter(|latch| latch.has_leadership())
            .count()
            == 1
    })
    .await;
}

/// Curator's list failed with `NoNode` if the leader left in between: CURATOR-358.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn participants_are_listed_while_leaders_change() {
    let client = connected().await;
    let others = connected().await;
    let path = path("latch-listed");
    let ((first, _), second) = leader_and_follower(&client, &client, &path).await;
    let observer = latch(&others, &path);
    observer.stand_aside().await.unwrap();
    let resigned = Cell::new(0);
    let changing_leaders = async {
        loop {
            for latch in [&first, &second] {
                until_leader(latch).await;
                // Both have rejoined, so the other one is next.
                queue_of(&client, &path, 2).await;
                latch.resign().await.unwrap();
                resigned.update(|times| times + 1);
            }
        }
    };
    let listing = async {
        let mut lists = 0;
        while lists < 100 || resigned.get() < 100 {
            let participants = observer.participants().await.unwrap();
            assert!(
                participants.is_sorted_by_key(|one| one.fencing_token),
                "{participants:?}"
            );
            lists += 1;
        }
    };
    tokio::select! {
        () = changing_leaders => {}
        () = listing => {}
    }
}
