//! A real ensemble.

use curator_test::{Error, Mode, TestingCluster, until};

use crate::support::{PERSISTENT, client};

#[tokio::test]
async fn an_ensemble_survives_its_leader() {
    let cluster = TestingCluster::new(3).await.unwrap();
    assert_eq!(cluster.members().len(), 3);
    assert_eq!(cluster.connect_string().split(',').count(), 3);
    let leader = cluster.leader().await.unwrap();
    let follower = (leader + 1) % 3;
    assert_eq!(cluster.member(leader).mode().await, Some(Mode::Leader));
    assert_eq!(cluster.member(follower).mode().await, Some(Mode::Follower));

    let client = client(cluster.member(follower).address()).await;
    assert_eq!(cluster.member_of_session(client.session_id().0).await, Some(follower));
    assert_eq!(cluster.member_of_session(4711).await, None);
    client.create("/a", b"data", &PERSISTENT).await.unwrap();

    cluster.member(leader).kill().unwrap();
    let next = cluster.leader().await.unwrap();
    assert_ne!(next, leader);
    cluster.member(leader).restart().await.unwrap();
    assert_eq!(cluster.member(leader).mode().await, Some(Mode::Follower));
    let back = crate::support::client(cluster.member(leader).address()).await;
    back.sync("/").await.unwrap();
    assert_eq!(back.get_data("/a").await.unwrap().0, b"data");

    cluster.member(next).pause().unwrap();
    until(async || cluster.leader().await.is_ok_and(|leader| leader != next)).await;
    cluster.member(next).resume().unwrap();
    until(async || cluster.member(next).mode().await == Some(Mode::Follower)).await;
}

#[tokio::test]
async fn members_can_come_back_together() {
    let cluster = TestingCluster::builder().init_limit(50).sync_limit(30).start(3).await.unwrap();
    for member in &cluster.members()[..2] {
        member.kill().unwrap();
    }
    let (first, second) = tokio::join!(cluster.member(0).restart(), cluster.member(1).restart());
    first.unwrap();
    second.unwrap();
    cluster.leader().await.unwrap();
}

#[tokio::test]
async fn an_ensemble_has_members() {
    assert!(matches!(TestingCluster::new(0).await, Err(Error::Members(0))));
    assert!(matches!(TestingCluster::new(100).await, Err(Error::Members(100))));
}
