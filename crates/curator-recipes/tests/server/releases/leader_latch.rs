//! The leader latch: which participant leads, for how long, and that a latch works while its user
//! polls nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use curator_recipes::client::{
    self, Acl, AclProvider, AuthId, CreateMode, CuratorClient, Permission, SessionEnd, ZPath,
};
use curator_recipes::{Error, LeaderLatch, LeaderState, Leadership, LossReason, revoke};
use curator_test::{Direction, TestingServer};

use crate::releases::cost::{counted, spent, stated};
use crate::support::{
    LONG_SESSION, SHORT_SESSION, behind_proxy, behind_proxy_with, builder, children,
    client as connected, id_and_number, nothing_left, path, queue_of, soon, until, without_probes,
};

pub(crate) fn latch(client: &CuratorClient, path: &str) -> LeaderLatch {
    LeaderLatch::builder(client, path).unwrap().start()
}

pub(crate) fn named(client: &CuratorClient, path: &str, id: &str) -> LeaderLatch {
    LeaderLatch::builder(client, path).unwrap().id(id).start()
}

/// Waits until the latch leads, and returns its term.
pub(crate) async fn until_leader(latch: &LeaderLatch) -> Leadership {
    soon(latch.leadership()).await.unwrap()
}

pub(crate) async fn until_state(latch: &LeaderLatch, wanted: LeaderState) {
    soon(latch.state().wait_for(|state| *state == wanted))
        .await
        .unwrap();
}

/// Starts two latches: the first leads, and the second is queued behind it.
pub(crate) async fn leader_and_follower(
    first: &CuratorClient,
    second: &CuratorClient,
    path: &str,
) -> ((LeaderLatch, Leadership), LeaderLatch) {
    let leader = named(first, path, "first");
    let leadership = until_leader(&leader).await;
    let follower = named(second, path, "second");
    queue_of(second, path, 2).await;
    ((leader, leadership), follower)
}

#[tokio::test]
async fn latches_lead_one_at_a_time_in_the_order_of_arrival_and_list_the_same_participants() {
    let client = connected().await;
    let path = path("latch");
    let mut latches = Vec::new();
    for id in ["a", "b", "c"] {
        latches.push(named(&client, &path, id));
        queue_of(&client, &path, latches.len()).await;
    }
    let mut tokens = Vec::new();
    while !latches.is_empty() {
        let leadership = until_leader(&latches[0]).await;
        assert!(leadership.is_valid() && latches[0].has_leadership());
        until_state(
            &latches[0],
            LeaderState::Leader {
                token: leadership.fencing_token(),
            },
        )
        .await;
        for other in &latches[1..] {
            until_state(other, LeaderState::Follower).await;
            assert!(!other.has_leadership());
        }
        let ids: Vec<_> = ["a", "b", "c"]
            .split_at(3 - latches.len())
            .1
            .iter()
            .map(|id| id.as_bytes().to_vec())
            .collect();
        for latch in &latches {
            let participants = latch.participants().await.unwrap();
            assert_eq!(
                participants
                    .iter()
                    .map(|each| each.data.clone())
                    .collect::<Vec<_>>(),
                ids
            );
            let owns: Vec<_> = participants.iter().map(|each| each.owns).collect();
            assert!(owns[0] && !owns[1..].contains(&true), "{owns:?}");
            assert_eq!(participants[0].path, *leadership.node());
        }
        tokens.push(leadership.fencing_token());
        latches.remove(0).close().await.unwrap();
        assert!(!leadership.is_valid());
        assert_eq!(soon(leadership.lost()).await.reason, LossReason::Released);
    }
    assert!(
        tokens.is_sorted_by(|before, after| before < after),
        "{tokens:?}"
    );
    nothing_left(&client, &[path]).await;
}

#[tokio::test]
async fn latch_nodes_have_the_names_and_data_of_curator() {
    let client = connected().await;
    let path = path("latch-names");
    let _with_id = named(&client, &path, "replica-1");
    let _without = latch(&client, &path);
    queue_of(&client, &path, 2).await;
    let mut data = Vec::new();
    for child in children(&client, &path).await {
        id_and_number(&child, "-latch-");
        let (bytes, stat) = client.get_data(format!("{path}/{child}")).await.unwrap();
        assert_ne!(stat.ephemeral_owner, 0);
        data.push(bytes);
    }
    data.sort();
    // Curator writes empty data by default.
    assert_eq!(data, [b"".to_vec(), b"replica-1".to_vec()]);
}

/// In a take-over, the event makes the participant the leader: it already watches its own node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joining_takes_two_round_trips_and_a_take_over_sends_nothing() {
    let (proxy, client) = counted().await;
    let others = connected().await;
    let path = path("latch-cost");
    let until_cost = async |row| {
        let cost = stated(row).await;
        until(async || (without_probes(&proxy), proxy.round_trips()) == cost).await;
    };
    others
        .create()
        .creating_parent_containers()
        .for_path(&path, "")
        .await
        .unwrap();
    let first = latch(&client, &path);
    until_cost(("leader latch", "to join as the first, and lead")).await;
    until_leader(&first).await;
    first.close().await.unwrap();

    let leader = named(&others, &path, "other");
    let leadership = until_leader(&leader).await;
    proxy.reset_counts();
    let follower = latch(&client, &path);
    until_cost(("leader latch", "to join as the second")).await;
    until_state(&follower, LeaderState::Follower).await;
    proxy.reset_counts();
    leader.close().await.unwrap();
    let mine = until_leader(&follower).await;
    assert!(mine.fencing_token() > leadership.fencing_token());
    // When this request is answered, the new leader has sent nothing else.
    client.sync("/").await.unwrap();
    assert_eq!(
        spent(&proxy),
        stated(("leader latch", "to take over")).await
    );
}

/// The target `matrix` tests faults at each request of these commands.
#[tokio::test]
async fn commands_of_a_participant_that_does_not_lead_change_nothing() {
    let client = connected().await;
    let path = path("latch-resign");
    let ((first, leadership), second) = leader_and_follower(&client, &client, &path).await;
    let names = async || {
        let mut names = children(&client, &path).await;
        names.sort();
        names
    };
    let before = names().await;
    // No term ends, and the participant keeps its place.
    soon(second.resign()).await.unwrap();
    assert_eq!(names().await, before);
    // The nodes of both are deleted: a first node whose participant does not lead would block all
    // others, Java's included.
    for latch in [&second, &first] {
        soon(latch.stand_aside()).await.unwrap();
    }
    until_state(&second, LeaderState::Follower).await;
    soon(second.resign()).await.unwrap();
    assert_eq!(names().await, [""; 0]);
    first.stand_by();
    let again = until_leader(&first).await;
    assert!(again.fencing_token() > leadership.fencing_token());
    // This has no effect, because `first` already takes part.
    first.stand_by();
    assert!(first.has_leadership());
}

#[tokio::test]
async fn a_leader_resigns_on_a_revocation_request() {
    let client = connected().await;
    let path = path("latch-revoked");
    let ((first, leadership), second) = leader_and_follower(&client, &client, &path).await;
    revoke(&client, leadership.node()).await.unwrap();
    assert_eq!(soon(leadership.lost()).await.reason, LossReason::Released);
    assert!(until_leader(&second).await.fencing_token() > leadership.fencing_token());
    queue_of(&client, &path, 2).await;
    // The new node of `first` has its id as data.
    assert_eq!(second.participants().await.unwrap()[1].data, b"first");
    assert!(!first.has_leadership());
}

#[tokio::test]
async fn a_leader_whose_node_is_deleted_is_notified_and_joins_again_at_the_end() {
    let client = connected().await;
    let path = path("latch-deleted");
    let ((first, leadership), second) = leader_and_follower(&client, &client, &path).await;
    client.delete().for_path(leadership.node()).await.unwrap();
    let lost = soon(leadership.lost()).await;
    assert_eq!(
        (lost.reason, &lost.path),
        (LossReason::NodeDeleted, leadership.node())
    );
    let new = until_leader(&second).await;
    assert!(new.fencing_token() > leadership.fencing_token());
    queue_of(&client, &path, 2).await;
    until_state(&first, LeaderState::Follower).await;
    assert!(!first.has_leadership());
    second.close().await.unwrap();
    until_leader(&first).await;
}

// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_stops_before_another_starts_and_takes_part_again() {
    let (proxy, cut_off) =
        behind_proxy_with(|builder| builder.session_timeout(SHORT_SESSION)).await;
    let others = connected().await;
    let path = path("latch-cut-off");
    let ((first, leadership), second) = leader_and_follower(&cut_off, &others, &path).await;
    for direction in [Direction::Both, Direction::ToClient] {
        let mine = until_leader(&first).await;
        let mut connection = cut_off.connection_states();
        proxy.black_hole(direction);
        assert!(soon(connection.wait_for(client::ConnectionState::Suspended)).await);
        // A suspended latch leads only while its lease is valid.
        assert!(first.state().get().is_leader() || !mine.is_valid());
        let new = until_leader(&second).await;
        assert!(!mine.is_valid() && !first.has_leadership(), "two leaders");
        assert_eq!(
            soon(mine.lost()).await.reason,
            LossReason::SessionLost(SessionEnd::LeaseOver)
        );
        until_state(&first, LeaderState::Unknown).await;
        proxy.heal();
        queue_of(&others, &path, 2).await;
        until_state(&first, LeaderState::Follower).await;
        assert!(new.is_valid());
        soon(second.resign()).await.unwrap();
        queue_of(&others, &path, 2).await;
    }
    assert!(until_leader(&first).await.fencing_token() > leadership.fencing_token());
}

#[tokio::test]
async fn a_short_outage_ends_no_term() {
    let (proxy, client) = behind_proxy().await;
    let path = path("latch-flap");
    let latch = latch(&client, &path);
    let leadership = until_leader(&latch).await;
    let mut states = latch.state();
    states.mark_unchanged();
    let mut connection = client.connection_states();
    for _ in 0..3 {
        proxy.cut();
        assert!(soon(connection.wait_for(client::ConnectionState::Reconnected)).await);
    }
    assert!(leadership.is_valid() && latch.has_leadership());
    assert!(!states.has_changed().unwrap(), "{states:?}");
}

/// The target `matrix` tests that the node is gone when `close` returns.
#[tokio::test]
async fn a_close_is_permanent_and_ends_waiting_calls() {
    let client = connected().await;
    let path = path("latch-close");
    let ((leader, leadership), follower) = leader_and_follower(&client, &client, &path).await;
    let waiting = tokio::spawn({
        let follower = follower.clone();
        async move { follower.leadership().await }
    });
    for latch in [&follower, &leader] {
        soon(latch.close()).await.unwrap();
        soon(latch.close()).await.unwrap();
        assert!(soon(latch.resign()).await.unwrap_err().is_closed());
        latch.stand_by();
        assert!(soon(latch.leadership()).await.unwrap_err().is_closed());
        assert!(!latch.state().get().is_leader());
    }
    let error = soon(waiting).await.unwrap().unwrap_err();
    assert!(
        matches!(&error, Error::RecipeClosed { path: closed } if closed.as_str() == path),
        "{error}"
    );
    assert!(error.is_closed() && !error.is_retryable() && !leadership.is_valid());
    assert!(children(&client, &path).await.is_empty());
}

#[tokio::test]
async fn a_latch_leaves_with_its_last_handle_regardless_of_leadership_clones() {
    let client = connected().await;
    let path = path("latch-drop");
    let ((leader, leadership), follower) = leader_and_follower(&client, &client, &path).await;
    let view = leadership.clone();
    drop(leadership);
    let other = leader.clone();
    drop(leader);
    assert!(view.is_valid() && other.has_leadership());
    drop(other);
    assert_eq!(soon(view.lost()).await.reason, LossReason::Released);
    until_leader(&follower).await;
    queue_of(&client, &path, 1).await;
    drop(follower);
    nothing_left(&client, &[path]).await;
}

/// A lock's waiters beyond the sixteenth wait within the client, but all participants must be
/// visible to other clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_participant_of_a_client_has_a_node() {
    let client = connected().await;
    let path = path("latch-many");
    let latches: Vec<_> = (0..40).map(|_| latch(&client, &path)).collect();
    queue_of(&client, &path, 40).await;
    until(async || {
        latches
            .iter()
            .filter(|latch| latch.has_leadership())
            .count()
            == 1
    })
    .await;
    futures_util::future::join_all(latches.iter().map(LeaderLatch::close))
        .await
        .into_iter()
        .for_each(Result::unwrap);
    nothing_left(&client, &[path]).await;
}

#[tokio::test]
async fn a_job_ends_with_its_term_and_a_transaction_fails_after_it() {
    let client = connected().await;
    let path = path("latch-job");
    let latch = latch(&client, &path);
    let leadership = until_leader(&latch).await;
    let written = format!("{path}-written");
    leadership
        .transaction()
        .create(&written, "1", CreateMode::Persistent)
        .unwrap()
        .commit()
        .await
        .unwrap();
    assert_eq!(leadership.run(async { 7 }).await.unwrap(), 7);
    assert_eq!(
        leadership
            .try_run(async { Ok::<_, Error>(8) })
            .await
            .unwrap(),
        8
    );
    let job = tokio::spawn({
        let leadership = leadership.clone();
        async move { leadership.run(std::future::pending::<()>()).await }
    });
    soon(latch.stand_aside()).await.unwrap();
    assert_eq!(
        soon(job).await.unwrap().unwrap_err().reason,
        LossReason::Released
    );
    let error = leadership
        .transaction()
        .set_data(&written, "2", None)
        .unwrap()
        .commit()
        .await
        .unwrap_err();
    assert!(
        matches!(&error, Error::Lost(lost) if lost.reason == LossReason::Released),
        "{error}"
    );
    assert_eq!(client.get_data(&written).await.unwrap().0, b"1");
}

/// The node that remains blocks all participants behind it, Java's included.
#[tokio::test]
async fn without_permission_to_delete_its_node_a_participant_leaves_only_once_it_is_granted() {
    let client = connected().await;
    let path = path("latch-refused");
    let acl = |permissions| {
        [Acl::new(
            permissions | Permission::READ | Permission::ADMIN,
            AuthId::anyone(),
        )]
    };
    client
        .create()
        .creating_parent_containers()
        .with_acl(acl(Permission::CREATE))
        .for_path(&path, "")
        .await
        .unwrap();
    let leader = latch(&client, &path);
    let node = until_leader(&leader).await.node().clone();
    let follower = latch(&client, &path);
    queue_of(&client, &path, 2).await;
    // `close` also fails if an earlier delete was refused.
    for refused in [
        follower.stand_aside().await,
        leader.stand_aside().await,
        soon(follower.close()).await,
    ] {
        assert!(
            matches!(&refused, Err(Error::ReleaseRefused { .. })),
            "{refused:?}"
        );
    }
    queue_of(&client, &path, 2).await;
    client
        .set_acl(&path, acl(Permission::ALL), None)
        .await
        .unwrap();
    // The next command repeats the delete.
    soon(leader.stand_aside()).await.unwrap();
    assert!(client.check_exists(&node).await.unwrap().is_none());
    client
        .delete()
        .deleting_children_if_needed()
        .for_path(&path)
        .await
        .unwrap();
    leader.stand_by();
    until_leader(&leader).await;
    soon(leader.close()).await.unwrap();
}

/// An ACL provider that panics once its flag is set.
#[derive(Debug, Default, Clone)]
pub(crate) struct Panics(pub(crate) Arc<AtomicBool>);

impl AclProvider for Panics {
    fn default_acl(&self) -> Arc<[Acl]> {
        Arc::from([Acl::new(Permission::ALL, AuthId::anyone())])
    }

    fn acl_for_path(&self, path: &ZPath) -> Option<Arc<[Acl]>> {
        assert!(!self.0.load(Ordering::SeqCst), "no ACL for {path}");
        None
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_user_code_ends_the_latch_and_leaves_no_node() {
    let server = TestingServer::shared().await;
    let path = path("latch-panic");
    let panics = Panics::default();
    let client = builder(&server.connect_string(), LONG_SESSION).acl_provider(panics.clone());
    let client = client.connect().await.unwrap();
    let latch = latch(&client, &path);
    let leadership = until_leader(&latch).await;
    panics.0.store(true, Ordering::SeqCst);
    // The latch joins again, and needs an ACL for its new node.
    drop(soon(latch.resign()).await);
    let error = soon(latch.leadership()).await.unwrap_err();
    assert!(
        matches!(&error, Error::RecipePanicked { message, .. } if message.starts_with("no ACL for")),
        "{error}"
    );
    assert!(!leadership.is_valid());
    assert_eq!(latch.state().get(), LeaderState::Unknown);
    nothing_left(&client, &[path]).await;
}

#[tokio::test]
async fn participants_inside_and_outside_a_namespace_share_one_queue() {
    let client = connected().await;
    let name = path("latch-namespace");
    let inside = client.using_namespace(&name).unwrap();
    let first = named(&inside, "/leader", "inside");
    let leadership = until_leader(&first).await;
    assert!(
        leadership
            .node()
            .as_str()
            .starts_with(&format!("{name}/leader/"))
    );
    let second = named(&client, &format!("{name}/leader"), "outside");
    queue_of(&client, &format!("{name}/leader"), 2).await;
    first.close().await.unwrap();
    until_leader(&second).await;
}

/// The node's data is the participant's id, which here equals the text of a revocation request.
#[tokio::test]
async fn a_participant_whose_id_is_the_revocation_text_leads() {
    let client = connected().await;
    let path = path("latch-revoke-id");
    let latch = named(&client, &path, "__REVOKE__");
    let leadership = until_leader(&latch).await;
    client.sync(&path).await.unwrap();
    assert!(leadership.is_valid() && latch.has_leadership());
    soon(latch.close()).await.unwrap();
}
