//! Clients in a simulation.
use curator_recipes::InterProcessMutex;
use curator_recipes::client::CuratorClient;
use curator_test::Simulation;
use std::time::Duration;

#[tokio::test]
async fn a_lock_is_acquired_in_a_simulation() {
    for servers in [1, 3, 5] {
        let real = std::time::Instant::now();
        let simulation = Simulation::builder().seed(7).servers(servers).start();
        let client = CuratorClient::builder(simulation.connect_string()).connect().await.unwrap();
        let mutex = InterProcessMutex::new(&client, "/lock").unwrap();
        let guard = mutex.acquire().await.unwrap();
        tokio::time::sleep(Duration::from_secs(100)).await;
        guard.release().await.unwrap();
        let guard = mutex.acquire().await.unwrap();
        println!("{:?} {:?}", simulation.elapsed(), real.elapsed());
        for server in 1..=servers {
            simulation.stop(server);
        }
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_secs(5)).await;
            println!("{:?} {:?} {:?}", simulation.elapsed(), client.connection_state(), guard.is_valid());
        }
        println!("{}", simulation.trace().lines().rev().take(10).collect::<Vec<_>>().join("\n"));
        guard.lost().await;
        println!("lost {:?} {:?}", simulation.elapsed(), real.elapsed());
        tokio::time::sleep(Duration::from_secs(3600)).await;
        for server in 1..=servers {
            simulation.start(server);
        }
        println!("hour {:?} {:?}", simulation.elapsed(), real.elapsed());
        let guard = mutex.acquire().await.unwrap();
        println!("again {:?} {:?}", simulation.elapsed(), real.elapsed());
        drop(guard);
        client.close().await.unwrap();
        println!("{:?} {:?}", simulation.elapsed(), real.elapsed());
        println!("{:#x} {}", simulation.trace_hash(), simulation.trace().lines().count());
    }
}
