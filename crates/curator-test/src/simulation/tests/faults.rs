//! Faults that a test calls.

use curator_client::{Acl, AuthId, Permission, codec::NewNode};

use super::*;
use tokio::time::Instant;

use crate::RequestInfo;

fn is_create(request: &RequestInfo) -> bool {
    request.op() == OpCode::Create
}

#[tokio::test]
async fn a_connection_is_cut_before_or_after_a_request_is_applied() {
    let simulation = Simulation::new(1);
    let mut client = Client::new(simulation.main(), 1).await.unwrap();
    simulation.cut_before_request(is_create);
    assert!(client.create("/a", false).await.is_none());
    assert!(!simulation.nodes().contains_key("/a"));
    let mut client = client.resume(simulation.main(), 1, 0).await.unwrap();
    simulation.cut_before_reply(is_create);
    assert!(client.create("/a", false).await.is_none());
    assert_eq!(simulation.nodes()["/a"].data, b"data");
    let mut client = client.resume(simulation.main(), 1, 0).await.unwrap();
    assert_eq!(simulation.sessions_of(simulation.main()), [client.session]);
    assert_eq!(client.create("/b", true).await.unwrap().error, 0);
    assert_eq!(simulation.nodes()["/b"].owner, Some(client.session));
    // A handshake can be cut too.
    let before = simulation.session_ids().len();
    simulation.cut_before_reply(|request| request.op() == OpCode::CreateSession);
    assert!(Client::new(simulation.main(), 1).await.is_none());
    assert_eq!(simulation.session_ids().len(), before + 1);
}

#[tokio::test]
async fn a_full_queue_refuses_a_request() {
    let simulation = Simulation::new(3);
    let mut client = Client::new(simulation.main(), 1).await.unwrap();
    simulation.throttle(is_create);
    assert_eq!(client.create("/a", false).await.unwrap().error, -127);
    assert_eq!(client.create("/a", false).await.unwrap().error, 0);
}

#[tokio::test]
async fn a_process_is_cut_off_from_one_server_only() {
    let simulation = Simulation::builder().seed(4).servers(3).start();
    let a = simulation.process("a");
    let b = simulation.process("b");
    let mut client = Client::new(&a, 1).await.unwrap();
    simulation.partition(&a, 1);
    assert!(client.ping().await.is_none());
    assert!(Client::new(&a, 1).await.is_none());
    assert!(Client::new(&a, 2).await.is_some());
    assert!(Client::new(&b, 1).await.is_some());
    simulation.heal_partition(&a, 1);
    assert!(Client::new(&a, 1).await.is_some());
    assert_eq!(simulation.requests_of(&a)[&OpCode::CreateSession], 3);
}

#[tokio::test]
async fn a_paused_process_is_not_polled() {
    let simulation = Simulation::new(5);
    let process = simulation.process("a");
    let start = Instant::now();
    process.pause_for(ms(1000));
    process.run(async {}).await;
    assert_eq!(start.elapsed(), ms(1000));
    process.pause();
    let ended = tokio::time::timeout(ms(5000), process.run(async {})).await;
    assert!(ended.is_err());
    process.resume();
    process.run(async {}).await;
}

#[tokio::test]
async fn a_killed_process_is_never_polled_and_its_session_expires() {
    let simulation = Simulation::builder().seed(5).servers(3).start();
    let process = simulation.process("a\nb");
    assert_eq!(process.name(), "a\\nb");
    let mut client = Client::new(&process, 1).await.unwrap();
    client.send(OpCode::Create, |writer| client::create(writer, "/a", true));
    process.kill();
    assert!(client.ends_within(0).await);
    // The create that was sent before the kill still arrives.
    pass(100).await;
    assert_eq!(simulation.nodes()["/a"].owner, Some(client.session));
    assert!(simulation.sessions_of(&process).is_empty());
    simulation.heal();
    process.resume();
    assert!(
        tokio::time::timeout(ms(5000), process.run(async {}))
            .await
            .is_err()
    );
    assert_eq!(simulation.node("/a"), None);
    let again = simulation.process("a\nb");
    assert!(Client::new(&again, 1).await.is_some());
}

#[tokio::test]
async fn all_faults_end_also_a_cut_that_waits_for_its_reply() {
    let simulation = Simulation::builder()
        .seed(5)
        .servers(3)
        .lag(ms(100)..=ms(100))
        .start();
    let follower = (1..=3)
        .find(|server| simulation.leader() != Some(*server))
        .unwrap();
    let mut client = Client::new(simulation.main(), follower).await.unwrap();
    simulation.cut_before_reply(is_create);
    let sent = client.send(OpCode::Create, |writer| client::create(writer, "/a", false));
    pass(10).await;
    assert_eq!(simulation.requests()[&OpCode::Create], 1);
    simulation.heal();
    assert_eq!(client.reply().await.unwrap().0, sent);
}

#[tokio::test]
async fn the_longest_times_are_no_error() {
    let simulation = Simulation::builder()
        .lag(ms(0)..=Duration::MAX)
        .heal_after(Duration::MAX)
        .start();
    simulation.process("a").pause_for(Duration::MAX);
    let mut client = Client::new(simulation.main(), 1).await.unwrap();
    simulation.set_latency(Duration::MAX..=Duration::MAX);
    client.send(OpCode::Ping, |writer| writer);
    simulation.restore_older(Duration::MAX);
    simulation.restart_with_older_disk(1, Duration::MAX);
    // The sums of times are computed only now.
    pass(1000).await;
    assert_eq!(simulation.elapsed().as_secs(), 1);
}

#[tokio::test]
#[should_panic(expected = "the process a belongs to another simulation")]
async fn a_fault_of_a_process_of_another_simulation_panics() {
    let one = Simulation::new(1);
    let other = Simulation::new(2);
    one.partition(&other.process("a"), 1);
}

#[tokio::test]
async fn a_paused_server_answers_later_and_a_paused_leader_is_replaced() {
    let simulation = Simulation::new(6);
    let mut client = Client::connect(simulation.main(), 1, 20_000, 0, 0, &[0; 16])
        .await
        .unwrap();
    simulation.pause_server(1);
    let xid = client.send(OpCode::Ping, |writer| writer);
    assert!(!client.ends_within(1000).await);
    simulation.resume_server(1);
    assert_eq!(client.reply().await.unwrap().0, xid);
    drop(simulation);

    let simulation = Simulation::builder().seed(6).servers(3).start();
    let leader = simulation.leader().unwrap();
    let mut client = Client::connect(simulation.main(), leader, 20_000, 0, 0, &[0; 16])
        .await
        .unwrap();
    simulation.pause_server(leader);
    pass(2000).await;
    assert_ne!(simulation.leader(), Some(leader));
    simulation.resume_server(leader);
    // The old leader may answer a read before it notices, but no write.
    assert_ne!(client.exists("/a", false).await, Some(true));
    assert!(client.create("/a", false).await.is_none());
}

#[tokio::test]
async fn an_expired_session_keeps_its_nodes_until_its_client_knows() {
    for seed in 0..20 {
        let simulation = Simulation::builder().seed(seed).servers(3).start();
        let mut client = Client::connect(simulation.main(), 1, 20_000, 0, 0, &[0; 16])
            .await
            .unwrap();
        client.create("/a", true).await.unwrap();
        simulation.expire_session(client.session).unwrap();
        assert!(simulation.expire_session(client.session).is_err());
        assert!(client.ends_within(10).await);
        pass(5000).await;
        assert!(simulation.nodes().contains_key("/a"));
        let again = client.resume(simulation.main(), 2, 0).await.unwrap();
        assert_eq!(again.session, 0);
        assert!(simulation.nodes().contains_key("/a"));
        pass(300).await;
        assert!(!simulation.nodes().contains_key("/a"));
    }
}

#[tokio::test]
async fn an_operator_takes_access_gives_it_back_and_deletes() {
    let simulation = Simulation::builder().seed(7).servers(3).start();
    let mut client = Client::new(simulation.main(), 1).await.unwrap();
    client.create("/a", false).await.unwrap();
    client.create("/a/b", false).await.unwrap();
    simulation.take_access("/a").unwrap();
    assert!(simulation.take_access("/a").is_ok() && simulation.take_access("/x").is_err());
    pass(20).await;
    assert_eq!(client.create("/a/c", false).await.unwrap().error, -102);
    simulation.give_access("/a");
    pass(20).await;
    assert_eq!(client.create("/a/c", false).await.unwrap().error, 0);
    let zxid = simulation.last_zxid();
    simulation.delete("/a").unwrap();
    assert!(simulation.delete("/x").is_err());
    pass(20).await;
    assert_eq!(client.exists("/a", false).await, Some(false));
    assert_eq!(simulation.nodes().len(), 0);
    assert_eq!(
        simulation.nodes_at(zxid).into_keys().collect::<Vec<_>>(),
        ["/a", "/a/b", "/a/c"]
    );
}

#[tokio::test]
async fn access_that_is_given_back_stays_so_after_a_change_of_the_leader() {
    for seed in 0..10 {
        let simulation = Simulation::builder().seed(seed).servers(3).start();
        let leader = simulation.leader().unwrap();
        let mut client = Client::new(simulation.main(), leader).await.unwrap();
        client.create("/a", false).await.unwrap();
        for _ in 0..2 {
            simulation.take_access("/a").unwrap();
            pass(20).await;
            // The leader may lose this change.
            simulation.give_access("/a");
            let leader = simulation.leader().unwrap();
            simulation.pause_server(leader);
            pass(2000).await;
            simulation.resume_server(leader);
            let mut client = Client::new(simulation.main(), simulation.leader().unwrap())
                .await
                .unwrap();
            assert_eq!(
                client.create("/a/b", true).await.unwrap().error,
                0,
                "seed {seed}"
            );
            client.call(OpCode::CloseSession, |writer| writer).await;
        }
        simulation.take_access("/a").unwrap();
        pass(100).await;
        simulation.give_access("/a");
        pass(100).await;
        simulation.restore_older(ms(100));
        pass(2000).await;
        let mut client = Client::new(simulation.main(), simulation.leader().unwrap())
            .await
            .unwrap();
        assert_eq!(
            client.create("/a/b", true).await.unwrap().error,
            0,
            "seed {seed}"
        );
    }
}

#[tokio::test]
async fn servers_grant_less_and_count_from_another_number() {
    let simulation = Simulation::builder().seed(8).servers(3).start();
    let mut client = Client::new(simulation.main(), 1).await.unwrap();
    simulation.set_session_timeouts(ms(200), ms(400));
    assert_eq!(
        client
            .resume(simulation.main(), 2, 0)
            .await
            .unwrap()
            .timeout,
        400
    );
    simulation.heal();
    assert_eq!(
        client
            .resume(simulation.main(), 2, 0)
            .await
            .unwrap()
            .timeout,
        1000
    );
    client = client.resume(simulation.main(), 3, 0).await.unwrap();
    client.create("/a", false).await.unwrap();
    simulation.set_create_counter("/a", 41).unwrap();
    assert!(simulation.set_create_counter("/x", 41).is_err());
    pass(20).await;
    let reply = client.call(OpCode::Create, |writer| {
        let acl = &[Acl::new(Permission::ALL, AuthId::anyone())][..];
        writer.write(&NewNode {
            path: "/a/",
            data: None::<&[u8]>,
            acl,
            flags: 2,
        })
    });
    assert_eq!(reply.await.unwrap().body[4..], *b"/a/0000000041");
}

#[tokio::test]
#[should_panic(
    expected = "there is no server 0: the servers of this simulation are numbered from 1 to 3"
)]
async fn a_fault_of_a_server_that_does_not_exist_panics() {
    Simulation::builder().servers(3).start().stop(0);
}

#[tokio::test]
async fn a_server_that_stopped_long_ago_refuses_at_once() {
    let simulation = Simulation::new(9);
    simulation.stop(1);
    assert!(Client::new(simulation.main(), 1).await.is_none());
    assert!(simulation.elapsed() > ms(0));
    pass(60_000).await;
    let now = simulation.elapsed();
    let trace = simulation.trace_hash();
    assert!(Client::new(simulation.main(), 1).await.is_none());
    assert_eq!(
        (simulation.elapsed(), simulation.trace_hash()),
        (now, trace)
    );
    simulation.start(1);
    assert!(Client::new(simulation.main(), 1).await.is_some());
}
