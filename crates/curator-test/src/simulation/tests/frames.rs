//! Faults at chosen frames of a process.

use super::*;
use tokio::time::Instant;

/// A client of a simulation with exact latencies, and its process.
async fn start() -> (Simulation, Process, Client) {
    let simulation = Simulation::builder().latency(ms(1)..=ms(1)).start();
    let process = simulation.process("a");
    let client = Client::connect(&process, 1, 60_000, 0, 0, &[0; 16])
        .await
        .unwrap();
    (simulation, process, client)
}

/// The xid of the next reply, which must arrive within 10 s.
async fn reply(client: &mut Client) -> i32 {
    tokio::time::timeout(ms(10_000), client.reply())
        .await
        .unwrap()
        .unwrap()
        .0
}

async fn resumed(client: &Client, process: &Process) -> Client {
    client.resume(process, 1, 0).await.unwrap()
}

#[tokio::test]
async fn a_fault_strikes_the_nth_request_of_its_kind_only() {
    let (simulation, process, mut client) = start().await;
    process.cut_before_nth_request(OpCode::Create, 2);
    process.cut_before_nth_reply(OpCode::Create, 3);
    assert_eq!(client.create("/a", false).await.unwrap().error, 0);
    assert_eq!(client.exists("/a", false).await, Some(true));
    assert!(client.create("/b", false).await.is_none());
    assert_eq!(process.connections(), 0);
    let mut client = resumed(&client, &process).await;
    assert!(client.create("/c", false).await.is_none());
    assert_eq!(process.connections(), 0);
    process.wait_for_faults().await.unwrap();
    let paths: Vec<_> = simulation.nodes().into_keys().collect();
    assert_eq!(paths, ["/a", "/c"]);
    assert_eq!(process.requests()[&OpCode::Create], 3);
    assert_eq!((process.handshakes(), process.sessions().len()), (2, 1));
}

#[tokio::test]
async fn a_lost_reply_leaves_the_connection_open() {
    let (_simulation, process, mut client) = start().await;
    process.swallow_nth_reply(OpCode::Create, 1);
    assert!(client.create("/a", false).await.is_none());
    assert_eq!(client.exists("/a", false).await, Some(true));
    assert_eq!(process.connections(), 1);
}

#[tokio::test]
async fn a_late_reply_delays_everything_behind_it() {
    let (_simulation, process, mut client) = start().await;
    process.delay_nth_reply(OpCode::Create, 1, ms(6000));
    let start = Instant::now();
    client.send(OpCode::Create, |writer| client::create(writer, "/a", false));
    client.send(OpCode::Ping, |writer| writer);
    assert_eq!(reply(&mut client).await, 1);
    assert_eq!(start.elapsed(), ms(6002));
    reply(&mut client).await;
    assert_eq!(start.elapsed(), ms(6002));
}

#[tokio::test]
async fn a_held_reply_and_the_end_behind_it_arrive_after_the_release() {
    let (simulation, process, mut client) = start().await;
    process.hold_nth_reply(OpCode::Create, 1);
    client.send(OpCode::Create, |writer| client::create(writer, "/a", true));
    process.wait_for_reply(OpCode::Create, 1).await.unwrap();
    simulation.close_session(client.session).unwrap();
    assert!(simulation.close_session(client.session).is_err());
    assert!(simulation.nodes().is_empty());
    assert!(
        tokio::time::timeout(ms(5000), client.frame())
            .await
            .is_err()
    );
    assert_eq!(process.connections(), 1);
    process.release_held();
    assert_eq!(reply(&mut client).await, 1);
    assert!(client.ends_within(5).await);
    process.wait_for_connections(0).await.unwrap();
    // A reply that is held when the connection breaks is lost.
    let mut client = Client::new(&process, 1).await.unwrap();
    process.hold_replies(OpCode::Create);
    client.send(OpCode::Create, |writer| client::create(writer, "/b", true));
    process.wait_for_reply(OpCode::Create, 2).await.unwrap();
    process.cut();
    assert!(matches!(
        tokio::time::timeout(ms(5), client.frame()).await,
        Ok(None)
    ));
}

#[tokio::test]
async fn a_reply_is_altered_and_a_connection_ends_behind_another() {
    let (_simulation, process, mut client) = start().await;
    process.alter_next_reply(OpCode::Create, |reply| reply[15] = 1);
    process.cut_after_nth_reply(OpCode::Create, 2);
    assert_eq!(client.create("/a", false).await.unwrap().error, 1);
    assert_eq!(client.create("/b", false).await.unwrap().error, 0);
    assert!(client.ends_within(5).await);
}

#[tokio::test]
async fn servers_refuse_the_connections_of_a_process() {
    let (simulation, process, mut client) = start().await;
    process.refuse(true);
    assert!(Client::new(&process, 1).await.is_none());
    assert!(Client::new(&simulation.process("b"), 1).await.is_some());
    assert!(client.ping().await.is_some());
    process.refuse(false);
    assert!(Client::new(&process, 1).await.is_some());
}

#[tokio::test]
async fn a_heal_ends_the_faults_at_chosen_frames() {
    let (simulation, process, mut client) = start().await;
    process.refuse(true);
    process.hold_nth_reply(OpCode::Create, 1);
    client.send(OpCode::Create, |writer| client::create(writer, "/a", false));
    process.wait_for_reply(OpCode::Create, 1).await.unwrap();
    process.cut_before_request(OpCode::Exists);
    simulation.heal();
    assert_eq!(reply(&mut client).await, 1);
    assert_eq!(client.exists("/a", false).await, Some(true));
    assert!(Client::new(&process, 1).await.is_some());
}

#[tokio::test]
async fn exempt_paths_are_not_counted_and_pipelines_are_round_trips() {
    let (_simulation, process, mut client) = start().await;
    process.exempt_path("/");
    process.cut_before_request(OpCode::Sync);
    assert!(client.sync().await.is_some());
    process.disarm();
    client.send(OpCode::Create, |writer| client::create(writer, "/a", false));
    client.send(OpCode::Exists, |writer| writer.string("/a").boolean(false));
    reply(&mut client).await;
    reply(&mut client).await;
    assert_eq!(client.exists("/b", true).await, Some(false));
    assert_eq!((process.round_trips(), process.requests().len()), (2, 2));
    process.reset_counts();
    assert!(process.requests().is_empty());
    assert!(process.wait_for_request(OpCode::Exists, 1).await.is_err());
}
