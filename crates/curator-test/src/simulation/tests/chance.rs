//! Faults by chance.

use std::{cell::RefCell, collections::BTreeSet};

use super::*;

/// Lets three processes write for a minute, under faults. Returns the paths that were confirmed.
async fn write_under_faults(simulation: &Simulation) -> BTreeSet<String> {
    let confirmed = RefCell::new(BTreeSet::new());
    let processes = ["a", "b", "c"].map(|name| simulation.process(name));
    let work = |process: &Process, first: usize| {
        let process = process.clone();
        let confirmed = &confirmed;
        async move {
            let mut round = first;
            let mut client = None::<Client>;
            while simulation.elapsed() < Duration::from_secs(60) {
                round += 3;
                let path = format!("/{round:06}");
                client = match client {
                    Some(client) if client.session != 0 => {
                        client.resume(&process, round % 3 + 1, 0).await
                    }
                    _ => Client::new(&process, round % 3 + 1).await,
                };
                let Some(client) = &mut client else { continue };
                for number in 0..20 {
                    let path = format!("{path}-{number}");
                    match client.create(&path, false).await {
                        Some(reply) if reply.error == 0 => {
                            confirmed.borrow_mut().insert(path);
                        }
                        Some(reply) => assert!([-127, -110].contains(&reply.error), "{reply:?}"),
                        None => break,
                    }
                    pass(50).await;
                }
            }
        }
    };
    let [a, b, c] = &processes;
    tokio::join!(
        process_run(a, work(a, 0)),
        process_run(b, work(b, 1)),
        process_run(c, work(c, 2))
    );
    confirmed.into_inner()
}

async fn process_run(process: &Process, work: impl Future<Output = ()>) {
    process.run(work).await;
}

fn three_under(faults: Faults) -> SimulationBuilder {
    Simulation::builder()
        .servers(3)
        .faults(faults)
        .heal_after(Duration::from_secs(55))
}

#[test]
fn no_confirmed_write_is_lost_and_all_servers_agree_in_the_end() {
    three_under(Faults::of_network_and_servers()).search(0..20, async |simulation| {
        let confirmed = write_under_faults(simulation).await;
        pass(2000).await;
        assert!(simulation.leader().is_some());
        let nodes = simulation.nodes();
        assert!(confirmed.len() > 100, "{}", confirmed.len());
        for path in &confirmed {
            assert!(nodes.contains_key(path), "{path}");
        }
        for server in 1..=3 {
            assert_eq!(simulation.nodes_of(server), nodes, "{server}");
            assert!(Client::new(simulation.main(), server).await.is_some());
        }
    });
}

/// The nodes of the first session stay until it expires.
#[test]
fn a_session_is_resumed_as_another() {
    let faults = Faults {
        other_session: 1.0,
        ..Faults::default()
    };
    three_under(faults).simulate(async |simulation| {
        let mut first = Client::new(simulation.main(), 1).await.unwrap();
        first.create("/a", true).await.unwrap();
        let second = first.resume(simulation.main(), 2, 0).await.unwrap();
        assert!(second.session != 0 && second.session != first.session);
        pass(100).await;
        assert_eq!(simulation.nodes()["/a"].owner, Some(first.session));
        simulation.heal();
        let resumed = first.resume(simulation.main(), 3, 0).await.unwrap();
        assert_eq!(resumed.session, first.session);
    });
}

#[test]
fn no_fault_by_chance_ends_one_that_the_test_has_called() {
    let often = Fault::new(1.0, Duration::from_secs(3));
    let faults = Faults {
        silence: Fault::new(0.2, Duration::from_secs(1)),
        crash: often,
        lose_disk: often,
        pause_server: often,
        partition_servers: often,
        partition: often,
        pause_process: often,
        shorter_timeouts: often,
        restore: often,
        ..Faults::default()
    };
    Simulation::builder()
        .servers(3)
        .faults(faults)
        .search(0..20, async |simulation| {
            let process = simulation.process("a");
            for heals in [false, true] {
                pass(5000).await;
                if heals {
                    simulation.heal();
                }
                process.pause();
                simulation.partition(&process, 1);
                simulation.stop(2);
                simulation.start(3);
                simulation.pause_server(3);
                simulation.set_session_timeouts(ms(300), ms(301));
                simulation.partition_servers(&[2]);
                for _ in 0..20 {
                    pass(1000).await;
                    simulation.shared.update(|world| {
                        assert!(
                            world.processes[process.id()].is_paused
                                && !world.can_reach(process.id(), 0)
                        );
                        assert!(!world.servers[1].is_up && world.servers[2].is_paused);
                        assert!(world.is_parted(0, 1) && !world.is_parted(0, 2));
                        assert_eq!(world.settings.negotiate(0), 300);
                    });
                }
                simulation.heal();
                process.resume();
                simulation.set_faults(faults);
            }
        });
}

#[test]
fn a_silence_that_the_test_has_called_lasts_until_all_faults_end() {
    let faults = Faults {
        silence: Fault::new(0.5, ms(100)),
        ..Faults::default()
    };
    Simulation::builder()
        .faults(faults)
        .search(0..20, async |simulation| {
            let mut client = loop {
                if let Some(client) =
                    Client::connect(simulation.main(), 1, 60_000, 0, 0, &[0; 16]).await
                {
                    break client;
                }
            };
            simulation.silence(|request| request.op() == OpCode::Exists);
            client.send(OpCode::Exists, |writer| writer.string("/a").boolean(false));
            let reply = tokio::time::timeout(Duration::from_secs(20), client.reply());
            assert!(reply.await.is_err());
            simulation.heal();
            assert!(client.reply().await.is_some());
        });
}

#[test]
fn each_seed_has_its_trace_and_its_faults() {
    let run = |seed: u64| {
        let faults = Faults::all().some(seed);
        three_under(faults)
            .seed(seed)
            .trace_lines(50)
            .simulate(async |simulation| {
                write_under_faults(simulation).await;
                (simulation.trace_hash(), simulation.trace())
            })
    };
    let mut hashes = BTreeSet::new();
    for seed in 0..20 {
        let first = run(seed);
        assert_eq!(first, run(seed), "{seed}");
        hashes.insert(first.0);
    }
    assert_eq!(hashes.len(), 20);
}
