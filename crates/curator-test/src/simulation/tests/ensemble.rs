//! Three servers.

use super::*;

/// The numbers of the leader and of the others.
fn roles(simulation: &Simulation) -> (usize, Vec<usize>) {
    let leader = simulation.leader().unwrap();
    (leader, (1..=3).filter(|server| *server != leader).collect())
}

fn three(seed: u64) -> Simulation {
    Simulation::builder()
        .seed(seed)
        .servers(3)
        .lag(ms(100)..=ms(100))
        .start()
}

#[tokio::test]
async fn a_follower_serves_a_stale_read_until_a_sync() {
    let simulation = three(1);
    let (leader, followers) = roles(&simulation);
    let mut writer = Client::new(simulation.main(), leader).await.unwrap();
    let mut reader = Client::new(simulation.main(), followers[0]).await.unwrap();
    writer.create("/a", false).await.unwrap();
    assert_eq!(reader.exists("/a", true).await, Some(false));
    assert_eq!(reader.sync().await.unwrap().error, 0);
    assert_eq!(reader.events, [(1, "/a".to_owned())]);
    assert_eq!(reader.exists("/a", false).await, Some(true));
}

#[tokio::test]
async fn a_new_leader_has_what_was_written_and_the_sessions() {
    let simulation = three(3);
    let (leader, followers) = roles(&simulation);
    let mut client = Client::new(simulation.main(), leader).await.unwrap();
    let zxid = client.create("/a", true).await.unwrap().zxid;
    simulation.stop(leader);
    assert!(client.ends_within(10).await);
    pass(1000).await;
    let (next, _) = roles(&simulation);
    assert_ne!(next, leader);
    for server in followers {
        let mut client = client
            .resume(simulation.main(), server, zxid)
            .await
            .unwrap();
        assert_ne!(client.session, 0);
        assert_eq!(client.exists("/a", false).await, Some(true));
        assert!(client.create("/b", false).await.unwrap().zxid > zxid);
        client
            .call(OpCode::Delete, |writer| writer.string("/b").int(-1))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_minority_closes_its_connections_and_refuses_new_ones() {
    let simulation = three(4);
    let (leader, followers) = roles(&simulation);
    let mut client = Client::new(simulation.main(), leader).await.unwrap();
    simulation.partition_servers(&[leader]);
    let xid = client.send(OpCode::Create, |writer| client::create(writer, "/a", false));
    assert!(client.ends_within(700).await, "{xid}");
    assert!(Client::new(simulation.main(), leader).await.is_none());
    pass(1000).await;
    let mut other = Client::new(simulation.main(), followers[0]).await.unwrap();
    assert_eq!(other.exists("/a", false).await, Some(false));
    other.create("/b", false).await.unwrap();
    simulation.heal();
    pass(1000).await;
    let mut client = Client::new(simulation.main(), leader).await.unwrap();
    assert_eq!(client.exists("/a", false).await, Some(false));
    assert_eq!(client.exists("/b", false).await, Some(true));
}

#[tokio::test]
async fn the_leader_expires_a_session_after_its_last_request_at_any_server() {
    let simulation = three(5);
    let (leader, followers) = roles(&simulation);
    let mut owner = Client::new(simulation.main(), followers[0]).await.unwrap();
    let mut other = Client::new(simulation.main(), leader).await.unwrap();
    owner.create("/a", true).await.unwrap();
    for _ in 0..5 {
        pass(900).await;
        assert!(owner.ping().await.is_some() && other.ping().await.is_some());
    }
    assert_eq!(other.exists("/a", true).await, Some(true));
    pass(900).await;
    assert!(other.ping().await.is_some());
    assert_eq!(other.exists("/a", true).await, Some(true));
    assert!(owner.ends_within(500).await);
    assert!(other.ping().await.is_some());
    assert_eq!(other.events, [(2, "/a".to_owned())]);
    let owner = owner.resume(simulation.main(), leader, 0).await.unwrap();
    assert_eq!(owner.session, 0);
}

#[tokio::test]
async fn a_session_moves_to_another_server_with_its_password_only() {
    let simulation = three(6);
    let (leader, followers) = roles(&simulation);
    let mut old = Client::new(simulation.main(), followers[0]).await.unwrap();
    let stranger = Client::connect(simulation.main(), leader, 1000, 0, old.session, &[7; 16])
        .await
        .unwrap();
    assert_eq!(stranger.session, 0);
    let mut new = old
        .resume(simulation.main(), followers[1], 0)
        .await
        .unwrap();
    assert_eq!(new.session, old.session);
    assert!(old.ends_within(500).await);
    assert_eq!(new.create("/a", true).await.unwrap().error, 0);
}

#[tokio::test]
async fn a_restored_ensemble_has_lost_the_last_writes_but_continues_sessions() {
    let simulation = three(7);
    let (leader, _) = roles(&simulation);
    let mut client = Client::new(simulation.main(), leader).await.unwrap();
    client.create("/a", true).await.unwrap();
    pass(500).await;
    let zxid = client.create("/b", true).await.unwrap().zxid;
    simulation.restore_older(ms(300));
    assert!(client.ends_within(10).await);
    pass(1000).await;
    let mut client = client
        .resume(simulation.main(), leader, zxid)
        .await
        .unwrap();
    assert_ne!(client.session, 0);
    assert_eq!(client.exists("/a", false).await, Some(true));
    assert_eq!(client.exists("/b", false).await, Some(false));
}

/// A write that exists only on the leader's disk survives if that server takes part in the next
/// election.
#[tokio::test]
async fn a_leader_brings_back_what_only_its_disk_has() {
    for (seed, takes_part) in [(1, true), (2, true), (3, false), (4, false)] {
        let simulation = three(seed);
        let (leader, followers) = roles(&simulation);
        let mut client = Client::new(simulation.main(), leader).await.unwrap();
        followers
            .iter()
            .for_each(|server| simulation.pause_server(*server));
        client.send(OpCode::Create, |writer| client::create(writer, "/a", false));
        pass(10).await;
        (1..=3).for_each(|server| simulation.stop(server));
        followers
            .iter()
            .for_each(|server| simulation.start(*server));
        if takes_part {
            simulation.start(leader);
        }
        pass(2000).await;
        simulation.start(leader);
        pass(2000).await;
        assert_eq!(simulation.node("/a").is_some(), takes_part, "seed {seed}");
        for server in 1..=3 {
            assert_eq!(
                simulation.nodes_of(server),
                simulation.nodes(),
                "seed {seed}"
            );
        }
    }
}

#[tokio::test]
async fn servers_with_older_disks_get_what_the_others_have() {
    let simulation = three(5);
    let (leader, followers) = roles(&simulation);
    let mut client = Client::new(simulation.main(), leader).await.unwrap();
    client.create("/a", false).await.unwrap();
    pass(2000).await;
    let mut client = Client::new(simulation.main(), leader).await.unwrap();
    client.create("/b", false).await.unwrap();
    pass(200).await;
    simulation.restart_with_older_disk(followers[0], ms(1000));
    pass(1000).await;
    assert_eq!(
        simulation
            .nodes_of(followers[0])
            .into_keys()
            .collect::<Vec<_>>(),
        ["/a", "/b"]
    );
    // Data that no server has is lost.
    (1..=3).for_each(|server| simulation.stop(server));
    (1..=3).for_each(|server| simulation.restart_with_older_disk(server, ms(2000)));
    pass(2000).await;
    assert_eq!(simulation.nodes().into_keys().collect::<Vec<_>>(), ["/a"]);
}
