//! An ensemble whose members are replaced one at a time, under load: the clients follow it with their
//! sessions, locks and caches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use curator_recipes::CuratorCache;
use curator_recipes::client::{CuratorClient, EnsembleTracker, RetryOneTime};
use curator_test::TestingCluster;
use tokio::task::JoinSet;

use crate::support::{LONG_SESSION, builder, mutex, soon, until};

/// How many turns the load takes between two changes of the ensemble.
const TURNS: u64 = 20;

/// Clients that acquire one lock after another, and write below `/load` while they hold it.
struct Load {
    turns: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    clients: JoinSet<()>,
}

impl Load {
    fn start(clients: &[CuratorClient]) -> Self {
        let turns = Arc::new(AtomicU64::new(0));
        let ends = Arc::new(AtomicBool::new(false));
        let mut working = JoinSet::new();
        for (number, client) in clients.iter().enumerate() {
            let turns = Arc::clone(&turns);
            let ends = Arc::clone(&ends);
            let client = client.clone();
            working.spawn(async move {
                let lock = mutex(&client, "/busy");
                let path = format!("/load/{number}");
                while !ends.load(Ordering::SeqCst) {
                    let held = lock.acquire().await.unwrap();
                    let turn = turns.fetch_add(1, Ordering::SeqCst).to_string();
                    client
                        .create()
                        .or_set_data()
                        .creating_parent_containers()
                        .for_path(&path, turn)
                        .await
                        .unwrap();
                    assert!(held.is_valid());
                    held.release().await.unwrap();
                }
            });
        }
        Self {
            turns,
            ends,
            clients: working,
        }
    }

    /// Waits until the load has made progress.
    async fn goes_on(&self) {
        let before = self.turns.load(Ordering::SeqCst);
        until(async || self.turns.load(Ordering::SeqCst) >= before + TURNS).await;
    }

    async fn end(mut self) {
        self.ends.store(true, Ordering::SeqCst);
        while let Some(ended) = soon(self.clients.join_next()).await {
            ended.unwrap();
        }
    }
}

fn addresses(cluster: &TestingCluster) -> Vec<String> {
    let mut addresses: Vec<_> = cluster
        .members()
        .iter()
        .map(curator_test::TestingServer::connect_string)
        .collect();
    addresses.sort();
    addresses
}

fn tried(client: &CuratorClient) -> Vec<String> {
    let mut tried = client.health().servers;
    tried.sort();
    tried
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_locks_and_caches_survive_an_ensemble_of_three_that_becomes_another_three() {
    let mut cluster = TestingCluster::builder()
        .tick_time(Duration::from_millis(500))
        .reconfigurable()
        .start(3)
        .await
        .unwrap();
    let old = cluster.connect_string();
    let mut clients = Vec::new();
    for _ in 0..3 {
        let client = builder(&old, LONG_SESSION).ensemble_tracker(EnsembleTracker::Auto);
        clients.push(client.connect().await.unwrap());
    }
    let mut sessions = Vec::new();
    for client in &clients {
        sessions.push(client.session().await.unwrap());
    }
    let held = soon(mutex(&clients[0], "/held").acquire()).await.unwrap();
    let load = Load::start(&clients);
    load.goes_on().await;
    let cache = CuratorCache::builder(&clients[1], "/load")
        .unwrap()
        .start()
        .unwrap();
    soon(cache.ready()).await.unwrap();

    for _ in 0..3 {
        cluster.add_member().await.unwrap();
        load.goes_on().await;
        let removed = cluster.remove_member(0).await.unwrap();
        for client in &clients {
            until(async || tried(client) == addresses(&cluster)).await;
        }
        // Ends the connections of its clients.
        removed.kill().unwrap();
        load.goes_on().await;
        assert!(held.is_valid());
    }

    load.end().await;
    for (client, session) in clients.iter().zip(&sessions) {
        assert!(session.is_valid());
        assert!(client.session().await.unwrap().is_same(session));
        let health = client.health();
        assert_eq!(health.sessions_replaced, 0, "{health}");
        assert!(addresses(&cluster).contains(&health.server.unwrap()));
    }
    held.release().await.unwrap();
    let cached = soon(cache.caught_up()).await.unwrap();
    for number in 0..clients.len() {
        let path = clients[0].resolve(format!("/load/{number}")).unwrap();
        let (data, stat) = clients[0].get_data(&path).await.unwrap();
        let cached = cached.get(&path).node().unwrap();
        assert_eq!((cached.data(), cached.stat()), (&*data, &stat));
    }

    // The connect string of these clients names no server that is still there.
    let late = builder(&old, LONG_SESSION)
        .retry_policy(RetryOneTime::new(Duration::from_millis(10)).unwrap())
        .connection_timeout(Duration::from_secs(2));
    soon(late.connect()).await.unwrap_err();
}
