//! Clients of `curator-client` on simulated servers.
//!
//! Only this suite runs them together: an outage of an hour, an expired session and a rolling restart take
//! milliseconds, and a seed repeats a run with its clients.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's failure")]

mod served;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use curator_client::{ConnectionState, CuratorClient};
use curator_test::{Faults, OpCode, Process, Simulation};

async fn client(simulation: &Simulation) -> CuratorClient {
    let builder = CuratorClient::builder(simulation.connect_string()).session_timeout(Duration::from_secs(10));
    builder.connect().await.unwrap()
}

#[tokio::test]
async fn an_outage_of_an_hour_takes_milliseconds() {
    let simulation = Simulation::new(1);
    let client = client(&simulation).await;
    client.create().for_path("/a", "data").await.unwrap();
    let mut states = client.connection_states();
    let began = Instant::now();
    simulation.stop(1);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    simulation.start(1);
    let (data, _) = client.get_data("/a").await.unwrap();
    assert_eq!(data, b"data");
    // Simulated, even on a busy machine.
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    println!("an hour took {:?}, {} attempts", began.elapsed(), simulation.trace().matches("is refused").count());
    assert!(simulation.elapsed() >= Duration::from_secs(3600));
    let mut seen = Vec::new();
    while seen.last() != Some(&Some(ConnectionState::Reconnected)) {
        seen.push(states.next().await);
    }
    assert!(seen.contains(&Some(ConnectionState::Lost)), "{seen:?}");
    client.close().await.unwrap();
    // The timeout of the lost session began again with the server.
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(simulation.session_ids(), []);
}

#[tokio::test]
async fn a_session_expires_at_a_chosen_moment() {
    let simulation = Simulation::builder().servers(3).start();
    let client = client(&simulation).await;
    client.create().for_path("/a", "data").await.unwrap();
    let session = simulation.sessions_of(simulation.main())[0];
    simulation.expire_session(session).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (data, _) = client.get_data("/a").await.unwrap();
    assert_eq!(data, b"data");
    assert_ne!(simulation.sessions_of(simulation.main()), [session]);
    assert_eq!(simulation.nodes()["/a"].data, b"data");
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_rolling_restart_keeps_the_session() {
    let simulation = Simulation::builder().servers(3).start();
    let client = client(&simulation).await;
    let session = simulation.sessions_of(simulation.main());
    for server in 1..=3 {
        simulation.stop(server);
        tokio::time::sleep(Duration::from_secs(2)).await;
        simulation.start(server);
        tokio::time::sleep(Duration::from_secs(2)).await;
        client.create().for_path(format!("/{server}"), "").await.unwrap();
    }
    assert_eq!(simulation.sessions_of(simulation.main()), session);
    client.close().await.unwrap();
}

/// Three clients write for a minute, under faults. Returns the trace's hash.
fn run(seed: u64) -> (u64, String) {
    let faults = Faults::of_network_and_servers().some(seed);
    let simulation = Simulation::builder().seed(seed).servers(3).faults(faults).heal_after(Duration::from_secs(50));
    simulation.simulate(async |simulation| {
        let processes = ["a", "b", "c"].map(|name| simulation.process(name));
        let work = |process: &Process| {
            let (process, servers) = (process.clone(), simulation.connect_string());
            async move {
                let work = async {
                    let builder = CuratorClient::builder(servers).session_timeout(Duration::from_secs(5));
                    let client = builder.start().unwrap();
                    for number in 0..60 {
                        let path = format!("/{}-{number}", process.name());
                        // Fails in an outage.
                        drop(client.create().for_path(path, "data").await);
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                    client.close().await
                };
                process.run(work).await
            }
        };
        let [a, b, c] = &processes;
        let (a, b, c) = tokio::join!(work(a), work(b), work(c));
        a.and(b).and(c).unwrap();
        assert_eq!(simulation.session_ids(), [], "left over");
        assert!(simulation.requests()[&OpCode::Create2] > 100, "{:?}", simulation.requests());
        (simulation.trace_hash(), simulation.trace())
    })
}

#[test]
fn a_seed_repeats_a_run_with_its_clients() {
    let mut hashes = BTreeSet::new();
    for seed in 0..20 {
        let (first, second) = (run(seed), run(seed));
        let differs = first.1.lines().zip(second.1.lines()).position(|(first, second)| first != second);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(first.0, second.0);
        hashes.insert(first.0);
    }
    assert_eq!(hashes.len(), 20);
}
