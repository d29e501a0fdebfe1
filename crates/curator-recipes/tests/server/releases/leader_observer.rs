//! Leader observers, which report the leader to clients that do not take part.

use curator_recipes::client::{ConnectionState, CuratorClient};
use curator_recipes::{
    ConfigStatus, InterProcessMutex, LeaderLatch, LeaderObserver, LeaderSelector, ObservedLeader,
    Participant,
};
use curator_test::Direction;
use futures_util::StreamExt as _;

use crate::releases::config::{is_watching, number, until_status, write};
use crate::releases::cost::{counted, spent, stated};
use crate::support::{
    SHORT_SESSION, behind_proxy, builder, client as connected, path, proxy, queue_of, remove_empty,
    soon, until, without_probes,
};

fn latch(client: &CuratorClient, path: &str, id: &str) -> LeaderLatch {
    LeaderLatch::builder(client, path).unwrap().id(id).start()
}

fn observer(client: &CuratorClient, path: &str) -> LeaderObserver {
    LeaderObserver::observe_latch(client, path).unwrap()
}

/// Waits until the participant with this id is reported.
async fn until_reported(observer: &LeaderObserver, id: &str) -> Participant {
    let has_id = |state: &ObservedLeader| matches!(state, ObservedLeader::Leader(leader) if leader.data == id.as_bytes());
    let mut state = observer.state();
    let state = soon(state.wait_for(has_id)).await.unwrap();
    let ObservedLeader::Leader(leader) = state else {
        unreachable!()
    };
    leader
}

async fn until_state(observer: &LeaderObserver, wanted: ObservedLeader) {
    soon(observer.state().wait_for(|state| *state == wanted))
        .await
        .unwrap();
}

#[tokio::test]
async fn an_observer_reports_each_leader_and_the_absence_of_a_leader() {
    let client = connected().await;
    let participant = connected().await;
    let path = path("observed");
    let observer = observer(&client, &path);
    let mut changes = observer.changes();
    // The directory is missing.
    assert_eq!(soon(observer.leader()).await.unwrap(), None);
    let first = latch(&participant, &path, "first");
    let leader = until_reported(&observer, "first").await;
    let leadership = soon(first.leadership()).await.unwrap();
    assert_eq!(
        (&leader.path, leader.fencing_token),
        (leadership.node(), leadership.fencing_token())
    );
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
    remove_empty(&participant, &path).await;
    let _third = latch(&participant, &path, "third");
    until_reported(&observer, "third").await;
    // A late reader of the stream receives the latest state.
    assert!(
        matches!(soon(changes.next()).await, Some(ObservedLeader::Leader(leader)) if leader.data == b"third")
    );
}

#[tokio::test]
async fn a_selector_and_a_mutex_can_be_observed() {
    let client = connected().await;
    let path = path("observed-selector");
    let observer = LeaderObserver::observe_selector(&client, &path).unwrap();
    let selector = LeaderSelector::builder(&client, &path)
        .unwrap()
        .id("one")
        .build();
    let (stop_tx, stop_rx) = tokio::sync::oneshot::channel::<()>();
    let job = |_| async {
        std::future::pending::<()>().await;
        Ok::<_, std::io::Error>(())
    };
    let running = tokio::spawn(LeaderSelector::clone(&selector).run(job, stop_rx));
    let leader = until_reported(&observer, "one").await;
    assert_eq!(soon(selector.leader()).await.unwrap(), Some(leader));
    selector.interrupt_leadership();
    let mutex = InterProcessMutex::non_reentrant(&client, &path)
        .unwrap()
        .with_lock_data(&b"a mutex"[..]);
    drop(stop_tx);
    let _guard = soon(mutex.acquire()).await.unwrap();
    until_reported(&observer, "a mutex").await;
    // This detaches the task of the run.
    drop(running);
}

/// An observer watches only the leader's node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_leader_costs_one_request_or_two_and_a_new_participant_none() {
    let (proxy, client) = counted().await;
    let participant = connected().await;
    let path = path("observed-cost");
    let first = latch(&participant, &path, "first");
    soon(first.leadership()).await.unwrap();
    let second = latch(&participant, &path, "second");
    queue_of(&participant, &path, 2).await;
    proxy.reset_counts();
    let observer = observer(&client, &path);
    until_reported(&observer, "first").await;
    assert_eq!(
        spent(&proxy),
        stated(("leader latch", "an observer starts")).await
    );
    let _third = latch(&participant, &path, "third");
    queue_of(&participant, &path, 3).await;
    for (leaves, next, cost) in [
        (
            &first,
            "second",
            (
                "leader latch",
                "an observer, when the second in its list leads",
            ),
        ),
        (
            &second,
            "third",
            (
                "leader latch",
                "an observer, when a participant leads that joined later",
            ),
        ),
    ] {
        soon(leaves.close()).await.unwrap();
        assert!(until_reported(&observer, next).await.owns);
        assert_eq!(spent(&proxy), stated(cost).await);
    }
    let selector = LeaderSelector::builder(&client, &path).unwrap().build();
    assert_eq!(
        soon(selector.leader()).await.unwrap(),
        None,
        "a selector's nodes have another name"
    );
    proxy.reset_counts();
    let fourth = latch(&client, &path, "fourth");
    let joined = stated(("leader latch", "to join as the second")).await;
    until(async || (without_probes(&proxy), proxy.round_trips()) == joined).await;
    proxy.reset_counts();
    assert_eq!(soon(fourth.leader()).await.unwrap().unwrap().data, b"third");
    assert_eq!(spent(&proxy), stated(("leader latch", "`leader()`")).await);
}

/// The connection of the lost session looks open for a while, and its watch has not fired.
// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_previous_leader_is_not_reported_again_in_a_new_session() {
    let one = proxy().await;
    let other = proxy().await;
    let participant = connected().await;
    let path = path("observed-lost");
    let servers = format!("{},{}", one.connect_string(), other.connect_string());
    let client = builder(&servers, SHORT_SESSION).connect().await.unwrap();
    let first = latch(&participant, &path, "first");
    let second = latch(&participant, &path, "second");
    queue_of(&participant, &path, 2).await;
    let observer = observer(&client, &path);
    let before = soon(observer.leader()).await.unwrap().unwrap();
    write(&participant, &format!("{path}-config"), "1").await;
    let config = number(&client, &format!("{path}-config"))
        .open()
        .await
        .unwrap();
    let mut changes = observer.changes();
    assert_eq!(
        soon(changes.next()).await,
        Some(ObservedLeader::Leader(before.clone()))
    );
    let (used, spare) = if one.connections() > 0 {
        (&one, &other)
    } else {
        (&other, &one)
    };
    // The session cannot be resumed over the other connection before it is lost.
    spare.refuse(true).unwrap();
    used.black_hole(Direction::Both);
    let mut connection = client.connection_states();
    assert!(soon(connection.wait_for(ConnectionState::Lost)).await);
    until_status(&config, |status| {
        matches!(status, ConfigStatus::Stale { .. })
    })
    .await;
    let mut status = config.status();
    status.mark_unchanged();
    write(&participant, &format!("{path}-config"), "2").await;
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
                other => assert_eq!(other, ObservedLeader::Unknown),
            }
        }
    });
    assert!(next.await.fencing_token > before.fencing_token);
    // Nor is the old value of a config ever current again.
    soon(status.changed()).await.unwrap();
    assert!(
        status.get().is_current() && *config.current() == 2,
        "{config:?}: {}",
        config.current()
    );
}

#[tokio::test]
async fn a_dropped_observer_leaves_no_watch() {
    let (_proxy, client) = behind_proxy().await;
    let participant = connected().await;
    let path = path("observed-dropped");
    let first = latch(&participant, &path, "first");
    let observer = observer(&client, &path);
    let node = until_reported(&observer, "first").await.path;
    let session = client.try_session().unwrap().id();
    assert!(is_watching(session, node.as_str()).await);
    // A receiver or a clone keeps the observer running.
    let mut state = observer.state();
    let clone = observer.clone();
    drop(observer);
    soon(first.resign()).await.unwrap();
    let is_new = |value: &ObservedLeader| matches!(value, ObservedLeader::Leader(leader) if leader.path != node);
    soon(state.wait_for(is_new)).await.unwrap();
    drop(state);
    let node_now = soon(clone.leader()).await.unwrap().unwrap().path;
    drop(clone);
    until(async || !is_watching(session, node_now.as_str()).await).await;
}
