//! A real ensemble.

use curator_test::{Error, Mode, TestingCluster, until};

use crate::support::{PERSISTENT, client};

#[tokio::test]
async fn an_ensemble_elects_a_new_leader_when_its_leader_is_killed_or_paused() {
    let cluster = TestingCluster::new(3).await.unwrap();
    assert_eq!(cluster.members().len(), 3);
    assert_eq!(cluster.connect_string().split(',').count(), 3);
    let leader = cluster.leader().await.unwrap();
    let follower = (leader + 1) % 3;
    until(async || cluster.member(leader).mode().await == Some(Mode::Leader)).await;
    until(async || cluster.member(follower).mode().await == Some(Mode::Follower)).await;

    let client = client(cluster.member(follower).address()).await;
    assert_eq!(
        cluster.member_of_session(client.session_id().0).await,
        Some(follower)
    );
    assert_eq!(cluster.member_of_session(4711).await, None);
    client.create("/a", b"data", &PERSISTENT).await.unwrap();

    cluster.member(leader).kill().unwrap();
    let next = cluster.leader().await.unwrap();
    assert_ne!(next, leader);
    cluster.member(leader).restart().await.unwrap();
    until(async || cluster.member(leader).mode().await == Some(Mode::Follower)).await;
    let back = crate::support::client(cluster.member(leader).address()).await;
    back.sync("/").await.unwrap();
    assert_eq!(back.get_data("/a").await.unwrap().0, b"data");

    cluster.member(next).pause().unwrap();
    until(async || cluster.leader().await.is_ok_and(|leader| leader != next)).await;
    cluster.member(next).resume().unwrap();
    until(async || cluster.member(next).mode().await == Some(Mode::Follower)).await;
}

#[tokio::test]
async fn members_can_restart_concurrently() {
    let cluster = TestingCluster::builder()
        .init_limit(50)
        .sync_limit(30)
        .start(3)
        .await
        .unwrap();
    for member in &cluster.members()[..2] {
        member.kill().unwrap();
    }
    let (first, second) = tokio::join!(cluster.member(0).restart(), cluster.member(1).restart());
    first.unwrap();
    second.unwrap();
    cluster.leader().await.unwrap();
}

/// An ensemble whose members can be disconnected from each other.
async fn partitionable() -> TestingCluster {
    TestingCluster::builder()
        .partitionable()
        .start(3)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_follower_that_is_cut_off_from_the_others_stops_serving_until_it_is_healed() {
    let cluster = partitionable().await;
    let leader = cluster.leader().await.unwrap();
    let follower = (leader + 1) % 3;
    cluster.isolate(follower).unwrap();
    until(async || cluster.member(follower).mode().await.is_none()).await;
    // The others continue, with the same leader.
    assert_eq!(cluster.leader().await.unwrap(), leader);
    let client = client(cluster.member(leader).address()).await;
    client.create("/meanwhile", b"", &PERSISTENT).await.unwrap();
    assert_eq!(cluster.member(follower).mode().await, None);

    cluster.heal().unwrap();
    until(async || cluster.member(follower).mode().await == Some(Mode::Follower)).await;
    let back = crate::support::client(cluster.member(follower).address()).await;
    back.sync("/").await.unwrap();
    assert!(back.check_stat("/meanwhile").await.unwrap().is_some());
}

#[tokio::test]
async fn the_other_members_elect_a_leader_when_theirs_is_cut_off() {
    let cluster = partitionable().await;
    let leader = cluster.leader().await.unwrap();
    cluster.isolate(leader).unwrap();
    until(async || cluster.leader().await.is_ok_and(|next| next != leader)).await;
    until(async || cluster.member(leader).mode().await.is_none()).await;
    cluster.heal().unwrap();
    until(async || cluster.member(leader).mode().await == Some(Mode::Follower)).await;
}

#[tokio::test]
async fn two_disconnected_members_still_reach_the_third() {
    let cluster = partitionable().await;
    let leader = cluster.leader().await.unwrap();
    let one = (leader + 1) % 3;
    let other = (leader + 2) % 3;
    // Followers need only their leader.
    cluster.disconnect(one, other).unwrap();
    let client = client(cluster.member(one).address()).await;
    client.create("/a", b"", &PERSISTENT).await.unwrap();
    cluster.disconnect(one, leader).unwrap();
    until(async || cluster.member(one).mode().await.is_none()).await;
    until(async || cluster.member(other).mode().await == Some(Mode::Follower)).await;
    cluster.heal().unwrap();
    until(async || cluster.member(one).mode().await == Some(Mode::Follower)).await;
}

#[tokio::test]
async fn a_cluster_not_built_as_partitionable_cannot_be_partitioned() {
    let cluster = TestingCluster::new(1).await.unwrap();
    assert!(matches!(cluster.isolate(0), Err(Error::NotPartitionable)));
    assert!(matches!(
        cluster.disconnect(0, 0),
        Err(Error::NotPartitionable)
    ));
    assert!(matches!(cluster.heal(), Err(Error::NotPartitionable)));
}

#[tokio::test]
async fn a_cluster_of_0_or_100_members_is_refused() {
    assert!(matches!(
        TestingCluster::new(0).await,
        Err(Error::Members(0))
    ));
    assert!(matches!(
        TestingCluster::new(100).await,
        Err(Error::Members(100))
    ));
}

#[tokio::test]
async fn members_are_added_and_removed() {
    let mut cluster = TestingCluster::builder()
        .reconfigurable()
        .start(3)
        .await
        .unwrap();
    let client = client(cluster.member(2).address()).await;
    client.create("/a", b"data", &PERSISTENT).await.unwrap();
    let config = async || {
        client.sync("/zookeeper/config").await.unwrap();
        String::from_utf8(client.get_data("/zookeeper/config").await.unwrap().0).unwrap()
    };
    for server in cluster.members() {
        assert!(config().await.contains(&format!(";{}", server.address())));
    }
    let leader = cluster.leader().await.unwrap();

    let added = cluster.add_member().await.unwrap();
    assert_eq!(added, 3);
    let address = cluster.member(added).address();
    assert!(config().await.contains(&format!(";{address}")));
    let at_new = crate::support::client(address).await;
    assert_eq!(at_new.get_data("/a").await.unwrap().0, b"data");

    // The leader too can be removed.
    let removed = cluster.remove_member(leader).await.unwrap();
    assert_eq!(cluster.members().len(), 3);
    until(async || cluster.leader().await.is_ok()).await;
    let at_new = crate::support::client(address).await;
    let (data, _) = at_new.get_data("/zookeeper/config").await.unwrap();
    let data = String::from_utf8(data).unwrap();
    assert!(
        !data.contains(&format!(";{}\n", removed.address())),
        "{data}"
    );
    removed.kill().unwrap();
    assert!(cluster.leader().await.is_ok());
}

#[tokio::test]
async fn only_a_reconfigurable_cluster_changes_its_members() {
    let mut cluster = TestingCluster::new(1).await.unwrap();
    assert!(matches!(
        cluster.add_member().await,
        Err(Error::NotReconfigurable)
    ));
    assert!(matches!(
        cluster.remove_member(0).await,
        Err(Error::NotReconfigurable)
    ));
    let both = TestingCluster::builder().partitionable().reconfigurable();
    assert!(matches!(both.start(3).await, Err(Error::NotReconfigurable)));
}
