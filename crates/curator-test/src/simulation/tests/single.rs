//! One server.

use super::*;

#[tokio::test]
async fn a_client_creates_reads_and_watches_in_simulated_time() {
    let simulation = Simulation::new(1);
    let began = std::time::Instant::now();
    let main = simulation.main();
    let mut client = Client::new(main, 1).await.unwrap();
    assert_eq!(client.timeout, 1000);
    assert_eq!(client.exists("/a", true).await, Some(false));
    assert_eq!(client.create("/a", false).await.unwrap().error, 0);
    assert_eq!(client.events, [(1, "/a".to_owned())]);
    assert_eq!(client.exists("/a", false).await, Some(true));
    pass(1000 * 3600).await;
    // Its session has expired.
    assert!(client.ends_within(1).await);
    assert!(simulation.elapsed() > Duration::from_secs(3600), "{:?}", simulation.elapsed());
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    let requests = simulation.requests();
    assert_eq!((requests[&OpCode::Exists], requests[&OpCode::Create], requests[&OpCode::CreateSession]), (2, 1, 1));
}

#[tokio::test]
async fn a_restarted_server_keeps_its_nodes_and_sessions() {
    let simulation = Simulation::new(1);
    let mut client = Client::new(simulation.main(), 1).await.unwrap();
    let zxid = client.create("/a", true).await.unwrap().zxid;
    simulation.stop(1);
    assert!(client.ends_within(10).await);
    assert!(client.resume(simulation.main(), 1, zxid).await.is_none());
    simulation.start(1);
    let mut client = client.resume(simulation.main(), 1, zxid).await.unwrap();
    assert_ne!(client.session, 0);
    assert_eq!(client.exists("/a", false).await, Some(true));
    // A client that has seen later changes is turned away.
    assert!(client.resume(simulation.main(), 1, zxid + 10).await.is_none());
}
