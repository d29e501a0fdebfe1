//! Servers other than ZooKeeper 3.9.

use super::*;
use crate::Dialect;

fn three(dialect: Dialect) -> Simulation {
    Simulation::builder()
        .seed(1)
        .servers(3)
        .dialect(dialect)
        .start()
}

#[tokio::test]
async fn a_resume_of_clickhouse_keeper_opens_another_session_on_any_server() {
    let simulation = three(Dialect::ClickHouseKeeper26_9);
    let mut first = Client::new(simulation.main(), 1).await.unwrap();
    assert_eq!((first.session, first.timeout), (1, 10_000));
    first.create("/e", true).await.unwrap();
    for server in 1..=3 {
        let mut client = first.resume(simulation.main(), server, 0).await.unwrap();
        assert_eq!(client.session, 1 + i64::try_from(server).unwrap());
        client.sync().await.unwrap();
        assert_eq!(client.exists("/e", false).await, Some(true));
    }
    pass(11_000).await;
    let mut client = Client::new(simulation.main(), 1).await.unwrap();
    client.sync().await.unwrap();
    assert_eq!(client.exists("/e", false).await, Some(false));
}

#[tokio::test]
async fn raft_keeper_resumes_sessions_and_does_not_reply_to_unknown_requests() {
    let simulation = three(Dialect::RaftKeeper2_3);
    let first = Client::new(simulation.main(), 1).await.unwrap();
    let mut client = first.resume(simulation.main(), 2, 0).await.unwrap();
    assert_eq!((first.session, client.session), (1, 1));
    client.send(OpCode::Create2, |writer| {
        client::create(writer, "/a", false)
    });
    assert_eq!(client.exists("/a", false).await, Some(false));
    client.send(OpCode::CloseSession, |writer| writer);
    assert!(client.ends_within(1000).await);
    let refused = first.resume(simulation.main(), 3, 0).await.unwrap();
    assert_eq!((refused.session, refused.timeout), (1, -1));
}

#[tokio::test]
async fn a_server_without_a_leader_replies_as_in_its_dialect() {
    for (dialect, expected) in [
        (Dialect::ZooKeeper3_9, None),
        (Dialect::ClickHouseKeeper26_9, Some((-1, 10_000))),
        (Dialect::RaftKeeper2_3, Some((-1, -1))),
    ] {
        let simulation = three(dialect);
        simulation.stop(1);
        simulation.stop(2);
        pass(5000).await;
        assert_eq!(simulation.leader(), None);
        let client = Client::new(simulation.main(), 3).await;
        let reply = client.map(|client| (client.session, client.timeout));
        assert_eq!(reply, expected, "{dialect}");
    }
}

#[tokio::test]
async fn all_servers_report_a_change_of_the_ensemble() {
    let simulation = three(Dialect::ZooKeeper3_9);
    let path = "/zookeeper/config";
    for server in 1..=3 {
        let mut client = Client::new(simulation.main(), server).await.unwrap();
        client.exists(path, true).await.unwrap();
        assert!(simulation.set_ensemble(&[1, server]));
        pass(100).await;
        client.sync().await.unwrap();
        assert_eq!(client.events, [(3, path.to_owned())]);
        let read = client.call(OpCode::GetData, |writer| writer.string(path).boolean(false));
        let body = read.await.unwrap().body;
        let member = format!("server.2=zk{server}:2888:3888:participant;zk{server}:2181\n");
        assert!(String::from_utf8_lossy(&body).contains(&member));
    }
}
