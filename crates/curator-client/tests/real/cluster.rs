//! An ensemble whose members freeze: a session is lost or moved, and never trusted after its end.

use std::time::Duration;

use curator_client::ConnectionState::{Connected, Lost, Reconnected, Suspended};
use curator_client::{
    ClockInstant, ConnectionStates, CuratorClient, Error, Session, SessionEnd, ZPath,
};
use curator_test::TestingCluster;

use crate::support::{builder, ephemeral, expect, soon, until, watch_over};

/// A session timeout that a test waits for.
const SHORT: Duration = Duration::from_secs(4);

/// Long enough for an ensemble to elect another leader.
const LONG: Duration = Duration::from_secs(30);

/// Three members that tolerate each other's silence for longer than the timeout of a short session.
/// Also returns the indices of the leader and of another member.
async fn ensemble() -> (TestingCluster, usize, usize) {
    let cluster = TestingCluster::builder()
        .sync_limit(60)
        .start(3)
        .await
        .unwrap();
    let leader = cluster.leader().await.unwrap();
    (cluster, leader, (leader + 1) % 3)
}

async fn connect(
    connect_string: String,
    session_timeout: Duration,
) -> (CuratorClient, Session, ConnectionStates) {
    let client = builder(connect_string)
        .session_timeout(session_timeout)
        .connect()
        .await
        .unwrap();
    let mut states = client.connection_states();
    expect(&mut states, Connected).await;
    let session = client.session().await.unwrap();
    (client, session, states)
}

/// Waits until `observer` sees that `node` is gone, and checks that `client` does not trust its
/// session at that moment.
async fn wait_until_gone(observer: &CuratorClient, node: &str, client: &CuratorClient) {
    let session = client.current_session();
    until(async || match observer.check_exists(node).await {
        Ok(None) => {
            assert!(
                session.as_ref().is_none_or(|session| !session.is_valid()),
                "the node is gone, and its owner still trusts its session"
            );
            true
        }
        _ => false,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_on_a_frozen_follower_is_invalid_before_its_node_is_gone() {
    let (cluster, leader, follower) = ensemble().await;
    let (observer, ..) = connect(cluster.member(leader).connect_string(), LONG).await;
    let (client, session, mut states) =
        connect(cluster.member(follower).connect_string(), SHORT).await;
    let node = ephemeral(&client).await;
    cluster.member(follower).pause().unwrap();
    let paused_at = ClockInstant::now();
    let (promised, ()) = tokio::join!(
        watch_over(session.lease()),
        wait_until_gone(&observer, &node, &client)
    );
    assert!(promised < paused_at + session.timeout());
    assert!(soon(states.wait_for(Lost)).await);
    assert_eq!(session.end(), Some(SessionEnd::LeaseOver));
    cluster.member(follower).resume().unwrap();
    assert!(soon(states.wait_for(Reconnected)).await);
    assert!(!session.is_valid());
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_of_a_follower_without_a_leader_do_not_renew_a_lease() {
    let (cluster, leader, follower) = ensemble().await;
    // The probes of this client are too rare to coincide with the pause.
    let (_bystander, reader, _) =
        connect(cluster.member(follower).connect_string(), 2 * LONG).await;
    let (client, session, mut states) =
        connect(cluster.member(follower).connect_string(), SHORT).await;
    cluster.member(leader).pause().unwrap();
    let paused_at = ClockInstant::now();
    // The follower waits for its leader for syncLimit ticks, and continues to answer reads.
    let reads = async {
        let mut answers = 0;
        while session.is_valid() {
            soon(reader.get_data(&ZPath::root())).await?;
            answers += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok::<_, Error>(answers)
    };
    let (promised, answers) = tokio::join!(watch_over(session.lease()), reads);
    // Replies of the follower do not prove that the leader keeps the session.
    assert!(
        promised < paused_at + session.timeout(),
        "the lease was renewed without a leader"
    );
    assert!(
        answers.unwrap() > 0,
        "the lease ended before the follower answered a read"
    );
    assert!(soon(states.wait_for(Lost)).await);
    assert_eq!(session.end(), Some(SessionEnd::LeaseOver));
    // The other members elect a leader, and the client reconnects.
    assert!(soon(states.wait_for(Reconnected)).await);
    assert_eq!(client.session().await.unwrap().epoch(), 2);
    cluster.member(leader).resume().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_a_long_timeout_is_resumed_when_the_leader_freezes() {
    let (cluster, leader, _) = ensemble().await;
    let (client, session, mut states) = connect(cluster.connect_string(), LONG).await;
    let node = ephemeral(&client).await;
    cluster.member(leader).pause().unwrap();
    expect(&mut states, Suspended).await;
    expect(&mut states, Reconnected).await;
    assert!(session.is_valid());
    assert_eq!(client.session().await.unwrap().id(), session.id());
    assert_eq!(
        client
            .check_exists(&node)
            .await
            .unwrap()
            .unwrap()
            .ephemeral_owner,
        session.id()
    );
    let now = cluster.member_of_session(session.id()).await;
    assert!(now.is_some_and(|member| member != leader), "{now:?}");
    cluster.member(leader).resume().unwrap();
}
