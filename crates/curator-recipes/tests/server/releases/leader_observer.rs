//! Leader observers, which report the leader to clients that do not take part.

use std::time::Duration;

use curator_recipes::client::{Acl, AuthId, ConnectionState, CuratorClient, Error as ClientError, Permission};
use curator_recipes::{
    Error, InterProcessMutex, LeaderLatch, LeaderObserver, LeaderSelector, ObservedLeader, Participant, revoke,
};
use curator_test::{Direction, OpCode, TestingServer};
use futures_util::{FutureExt as _, StreamExt as _};

use crate::releases::cost::{counted, spent, stated};
use crate::support::{
    LONG_SESSION, SHORT_SESSION, behind_proxy, behind_proxy_with, builder, client as connected, end_session, path,
    proxy, queue_of, soon, unplug, until, until_watched, without_probes,
};

fn latch(client: &CuratorClient, path: &str, id: &str) -> LeaderLatch {
    LeaderLatch::builder(client, path).unwrap().id(id).start()
}

fn observer(client: &CuratorClient, path: &str) -> LeaderObserver {
    LeaderObserver::observe_latch(client, path).unwrap()
}

/// Waits until the participant with this id is reported.
async fn until_reported(observer: &LeaderObserver, id: &str) -> Participant {
    let is_it = |value: &ObservedLeader| matches!(value, ObservedLeader::Leader(it) if it.data == id.as_bytes());
    let mut state = observer.state();
    let state = soon(state.wait_for(is_it)).await.unwrap();
    let ObservedLeader::Leader(leader) = state else { unreachable!() };
    leader
}

async fn until_state(observer: &LeaderObserver, wanted: ObservedLeader) {
    soon(observer.state().wait_for(|state| *state == wanted)).await.unwrap();
}

#[tokio::test]
async fn an_observer_reports_each_leader_and_the_absence_of_a_leader() {
    let (client, participant, path) = (connected().await, connected().await, path("observed"));
    let observer = observer(&client, &path);
    let mut changes = observer.changes();
    // The directory is missing.
    assert_eq!(soon(observer.leader()).await.unwrap(), None);
    let first = latch(&participant, &path, "first");
    let leader = until_reported(&observer, "first").await;
    let leadership = soon(first.leadership()).await.unwrap();
    assert_eq!((&leader.path, leader.fencing_token), (leadership.node(), leadership.fencing_token()));
    assert!(leader.owns);
    let second = latch(&participant, &path, "second");
    queue_of(&participant, &path, 2).await;
    soon(first.resign()).await.unwrap();
    let next = until_reported(&observer, "second").await;
    assert!(next.owns && next.fencing_token > leader.fencing_token);
    assert_eq!(soon(observer.leader()).await.unwrap().as_ref(), Some(&next));
    assert_eq!(soon(second.leader()).await.unwrap(), Some(next));
    soon(first.close()).await.unwrap();
    soon(second.close()).await.unwrap();
    // The directory is empty, and then missing.
    until_state(&observer, ObservedLeader::NoLeader).await;
    assert_eq!(first.leader().await.unwrap(), None);
    participant.delete().for_path(&path).await.unwrap();
    let _third = latch(&participant, &path, "third");
    until_reported(&observer, "third").await;
    // A late reader of the stream receives the latest state.
    assert!(matches!(soon(changes.next()).await, Some(ObservedLeader::Leader(it)) if it.data == b"third"));
}

#[tokio::test]
async fn a_selector_and_a_mutex_can_be_observed() {
    let (client, path) = (connected().await, path("observed-selector"));
    let observer = LeaderObserver::observe_selector(&client, &path).unwrap();
    let selector = LeaderSelector::builder(&client, &path).unwrap().id("one").build();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let job = |_| async {
        std::future::pending::<()>().await;
        Ok::<_, std::io::Error>(())
    };
    let running = tokio::spawn(LeaderSelector::clone(&selector).run(job, stopped));
    let leader = until_reported(&observer, "one").await;
    assert_eq!(soon(selector.leader()).await.unwrap(), Some(leader));
    selector.interrupt_leadership();
    let mutex = InterProcessMutex::non_reentrant(&client, &path).unwrap().with_lock_data(&b"a mutex"[..]);
    drop(stop);
    let _guard = soon(mutex.acquire()).await.unwrap();
    until_reported(&observer, "a mutex").await;
    // This detaches the task of the run.
    drop(running);
}

/// An observer watches only the leader's node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_leader_costs_one_request_or_two_and_a_new_participant_none() {
    let ((proxy, client), participant, path) = (counted().await, connected().await, path("observed-cost"));
    let first = latch(&participant, &path, "first");
    soon(first.leadership()).await.unwrap();
    let second = latch(&participant, &path, "second");
    queue_of(&participant, &path, 2).await;
    proxy.reset_counts();
    let observer = observer(&client, &path);
    until_reported(&observer, "first").await;
    assert_eq!(spent(&proxy), stated(("leader latch", "an observer starts")).await);
    let _third = latch(&participant, &path, "third");
    queue_of(&participant, &path, 3).await;
    for (leaves, next, cost) in [
        (&first, "second", ("leader latch", "an observer, when the second in its list leads")),
        (&second, "third", ("leader latch", "an observer, when a participant leads that joined later")),
    ] {
        soon(leaves.close()).await.unwrap();
        assert!(until_reported(&observer, next).await.owns);
        assert_eq!(spent(&proxy), stated(cost).await);
    }
    let selector = LeaderSelector::builder(&client, &path).unwrap().build();
    assert_eq!(soon(selector.leader()).await.unwrap(), None, "a selector's nodes have another name");
    proxy.reset_counts();
    let fourth = latch(&client, &path, "fourth");
    let joined = stated(("leader latch", "to join as the second")).await;
    until(async || (without_probes(&proxy), proxy.round_trips()) == joined).await;
    proxy.reset_counts();
    assert_eq!(soon(fourth.leader()).await.unwrap().unwrap().data, b"third");
    assert_eq!(spent(&proxy), stated(("leader latch", "`leader()`")).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_there_is_no_connection_the_leader_is_unknown() {
    // With this timeout, no read times out during the outage and reveals the lost connection.
    let client = behind_proxy_with(|builder| builder.connection_timeout(Duration::from_secs(3_600)));
    let ((proxy, client), participant, path) = (client.await, connected().await, path("observed-outage"));
    let first = latch(&participant, &path, "first");
    let observer = observer(&client, &path);
    let before = until_reported(&observer, "first").await;
    let second = latch(&participant, &path, "second");
    queue_of(&participant, &path, 2).await;
    unplug(&proxy, &client).await;
    until_state(&observer, ObservedLeader::Unknown).await;
    let mut waiting = Box::pin(observer.leader());
    soon(first.close()).await.unwrap();
    soon(second.leadership()).await.unwrap();
    assert!(futures_util::FutureExt::now_or_never(&mut waiting).is_none());
    let mut changes = observer.changes();
    assert_eq!(soon(changes.next()).await, Some(ObservedLeader::Unknown));
    proxy.refuse(false).unwrap();
    let leader = soon(waiting).await.unwrap().unwrap();
    assert!(leader.fencing_token > before.fencing_token);
    // The old leader is never reported again.
    assert_eq!(soon(changes.next()).await, Some(ObservedLeader::Leader(leader.clone())));
    let before = client.session().await.unwrap();
    end_session(&proxy).await;
    soon(before.ended()).await;
    let has_new_session = async || client.try_session().is_ok_and(|session| !session.is_same(&before));
    until(has_new_session).await;
    until_watched(client.try_session().unwrap().id(), leader.path.as_str()).await;
    until_state(&observer, ObservedLeader::Leader(leader)).await;
    soon(second.close()).await.unwrap();
    until_state(&observer, ObservedLeader::NoLeader).await;
}

/// The connection looks open, and the observer's watch is in place.
#[tokio::test]
async fn while_the_session_is_suspended_the_leader_is_unknown() {
    let client = behind_proxy_with(|builder| builder.session_timeout(SHORT_SESSION));
    let ((proxy, client), participant, path) = (client.await, connected().await, path("observed-silence"));
    let _leader = latch(&participant, &path, "first");
    let observer = observer(&client, &path);
    let leader = until_reported(&observer, "first").await;
    proxy.hold_replies(OpCode::Sync);
    until_state(&observer, ObservedLeader::Unknown).await;
    proxy.release_held();
    until_state(&observer, ObservedLeader::Leader(leader)).await;
}

/// The connection of the lost session looks open for a while, and its watch has not fired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_previous_leader_is_not_reported_again_in_a_new_session() {
    let (one, other, participant, path) = (proxy().await, proxy().await, connected().await, path("observed-lost"));
    let servers = format!("{},{}", one.connect_string(), other.connect_string());
    let client = builder(&servers, SHORT_SESSION).connect().await.unwrap();
    let (first, second) = (latch(&participant, &path, "first"), latch(&participant, &path, "second"));
    queue_of(&participant, &path, 2).await;
    let observer = observer(&client, &path);
    let before = soon(observer.leader()).await.unwrap().unwrap();
    let mut changes = observer.changes();
    assert_eq!(soon(changes.next()).await, Some(ObservedLeader::Leader(before.clone())));
    let (used, spare) = if one.connections() > 0 { (&one, &other) } else { (&other, &one) };
    // The session cannot be resumed over the other connection before it is lost.
    spare.refuse(true).unwrap();
    used.black_hole(Direction::Both);
    let mut connection = client.connection_states();
    assert!(soon(connection.wait_for(ConnectionState::Lost)).await);
    for latch in [&first, &second] {
        if latch.has_leadership() {
            soon(latch.resign()).await.unwrap();
            break;
        }
    }
    spare.refuse(false).unwrap();
    let next = soon(async {
        loop {
            match changes.next().await.unwrap() {
                ObservedLeader::Leader(leader) => break leader,
                none => assert_eq!(none, ObservedLeader::Unknown),
            }
        }
    });
    assert!(next.await.fencing_token > before.fencing_token);
}

#[tokio::test]
async fn a_leader_that_is_revoked_keeps_its_id() {
    let (client, path) = (connected().await, path("observed-revoked"));
    let observer = LeaderObserver::observe_selector(&client, &path).unwrap();
    let mutex = InterProcessMutex::non_reentrant(&client, &path).unwrap().with_lock_data(&b"replica"[..]);
    let guard = soon(mutex.acquire()).await.unwrap();
    let leader = until_reported(&observer, "replica").await;
    let mut state = observer.state();
    state.mark_unchanged();
    revoke(&client, guard.node()).await.unwrap();
    // By the time of these replies, the observer has read the node again.
    for _ in 0..5 {
        client.check_exists("/").await.unwrap();
    }
    assert!(!state.has_changed().unwrap(), "{:?}", state.get());
    guard.release().await.unwrap();
    soon(state.changed()).await.unwrap();
    assert_eq!(state.get(), ObservedLeader::NoLeader, "after {leader:?}");
}

#[tokio::test]
async fn last_error_reports_a_missing_permission_until_it_is_granted() {
    let (client, path) = (connected().await, path("observed-acl"));
    let all = |permissions| [Acl::new(permissions, AuthId::anyone())];
    let create = client.create().creating_parent_containers().with_acl(all(Permission::ADMIN));
    create.for_path(&path, "").await.unwrap();
    let observer = observer(&client, &path);
    until(async || observer.last_error().is_some()).await;
    let error = observer.last_error().unwrap();
    assert!(matches!(error, Error::Client(ClientError::NoAuth { .. })), "{error:?}");
    assert_eq!(observer.state().get(), ObservedLeader::Unknown);
    client.set_acl(&path, all(Permission::ALL), None).await.unwrap();
    until_state(&observer, ObservedLeader::NoLeader).await;
    assert!(observer.last_error().is_none());
}

#[tokio::test]
async fn an_observer_reports_a_sequence_overflow_as_an_error() {
    let (client, path) = (connected().await, path("observed-overflow"));
    client.create().for_path(&path, "").await.unwrap();
    let observer = observer(&client, &path);
    until_state(&observer, ObservedLeader::NoLeader).await;
    client.create().for_path(format!("{path}/x-latch-{}", i32::MAX), "").await.unwrap();
    until(async || matches!(observer.last_error(), Some(Error::SequenceOverflow { .. }))).await;
    assert_eq!(observer.state().get(), ObservedLeader::Unknown);
}

#[tokio::test]
async fn a_dropped_observer_leaves_no_watch() {
    let ((_proxy, client), participant, path) = (behind_proxy().await, connected().await, path("observed-dropped"));
    let first = latch(&participant, &path, "first");
    let observer = observer(&client, &path);
    let node = until_reported(&observer, "first").await.path;
    let session = client.try_session().unwrap().id();
    let is_watched = async || {
        let watches = TestingServer::shared().await.watches_by_path().await.unwrap();
        watches.get(node.as_str()).is_some_and(|sessions| sessions.contains(&session))
    };
    assert!(is_watched().await);
    // A receiver or a clone keeps the observer running.
    let (mut state, clone) = (observer.state(), observer.clone());
    drop(observer);
    soon(first.resign()).await.unwrap();
    let is_new = |value: &ObservedLeader| matches!(value, ObservedLeader::Leader(leader) if leader.path != node);
    soon(state.wait_for(is_new)).await.unwrap();
    drop(state);
    let node_now = soon(clone.leader()).await.unwrap().unwrap().path;
    drop(clone);
    until(async || {
        let watches = TestingServer::shared().await.watches_by_path().await.unwrap();
        !watches.get(node_now.as_str()).is_some_and(|sessions| sessions.contains(&session))
    })
    .await;
}

#[tokio::test]
async fn an_observer_starts_before_its_client_is_connected_and_ends_with_its_client() {
    let (proxy, path) = (proxy().await, path("observed-closed"));
    proxy.refuse(true).unwrap();
    let client = builder(&proxy.connect_string(), LONG_SESSION).start().unwrap();
    let observer = observer(&client, &path);
    let mut changes = observer.changes();
    assert_eq!(observer.leader().now_or_never().map(|leader| leader.is_ok()), None);
    assert_eq!(observer.state().get(), ObservedLeader::Unknown);
    proxy.refuse(false).unwrap();
    assert_eq!(soon(observer.leader()).await.unwrap(), None);
    client.close().await.unwrap();
    let last = soon(async {
        let mut last = None;
        while let Some(value) = changes.next().await {
            last = Some(value);
        }
        last
    });
    assert_eq!(last.await, Some(ObservedLeader::Unknown));
    assert!(soon(observer.leader()).await.unwrap_err().is_closed());
    let after = LeaderObserver::observe_latch(&client, &path).unwrap();
    assert!(soon(after.leader()).await.unwrap_err().is_closed());
}
