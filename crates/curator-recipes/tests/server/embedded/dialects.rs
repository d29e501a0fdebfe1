//! Locks, leaders and counters on servers that lack operations of ZooKeeper, or do not resume
//! sessions. Runs in real time, to test both transports.

use curator_recipes::client::{CuratorClient, ServerOperation, Transport};
use curator_recipes::{DistributedAtomicLong, InterProcessMutex, LeaderLatch, LossReason};
use curator_test::{Dialect, EmbeddedServer, Simulation};

use crate::support::subjects::Kind;
use crate::support::{LONG_SESSION, builder, connect, soon, transport};

const KEEPERS: [Dialect; 3] = [
    Dialect::ClickHouseKeeper25_8,
    Dialect::ClickHouseKeeper26_3,
    Dialect::ClickHouseKeeper26_9,
];

fn server(dialect: Dialect) -> EmbeddedServer {
    EmbeddedServer::builder().dialect(dialect).start().unwrap()
}

/// Whether clients of this test program can use such a server: `zookeeper-client` refuses servers
/// without `create2`.
fn is_usable(dialect: &Dialect) -> bool {
    transport() == Transport::Native
        || !matches!(
            dialect,
            Dialect::ClickHouseKeeper25_8 | Dialect::RaftKeeper2_3
        )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_each_dialect_each_kind_of_lock_passes_from_holder_to_waiter_with_rising_tokens() {
    for dialect in Dialect::ALL.into_iter().filter(is_usable) {
        let server = server(dialect);
        let holder = connect(&server.connect_string()).await;
        let waiter = connect(&server.connect_string()).await;
        let sessions = sessions(&[&holder, &waiter]).await;
        for kind in Kind::all() {
            let name = format!("{dialect}, {}", kind.name());
            let path = format!("/dir/{}", kind.name().replace([' ', ','], "-"));
            let held = kind.blocker().lock(&holder, &path);
            let wanted = kind.lock(&waiter, &path);
            let held = soon(held.acquire())
                .await
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let token = held.fencing_token();
            // ZooKeeper 3.5 closes the connection at the client's first `multiRead`, and this call
            // does not wait for the next connection.
            if dialect != Dialect::ZooKeeper3_5 {
                let other = soon(wanted.try_acquire()).await.unwrap();
                assert!(other.is_none(), "{name}");
            }
            let waiting = tokio::spawn(async move { soon(wanted.acquire()).await });
            held.release().await.unwrap();
            let held = waiting
                .await
                .unwrap()
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(held.is_valid() && held.fencing_token() > token, "{name}");
            held.release().await.unwrap();
        }
        assert_eq!(
            self::sessions(&[&holder, &waiter]).await,
            sessions,
            "{dialect}"
        );
    }
}

async fn sessions(clients: &[&CuratorClient]) -> Vec<i64> {
    let mut ids = Vec::new();
    for client in clients {
        ids.push(client.session().await.unwrap().id());
    }
    ids
}

#[tokio::test]
async fn on_each_dialect_a_latch_leads_after_the_leader_has_closed_and_a_counter_counts() {
    for dialect in Dialect::ALL.into_iter().filter(is_usable) {
        let server = server(dialect);
        let client = connect(&server.connect_string()).await;
        let other = connect(&server.connect_string()).await;
        let latch = |client| LeaderLatch::builder(client, "/dir/latch").unwrap().start();
        let first = latch(&client);
        let term = soon(first.leadership()).await.unwrap();
        let second = latch(&other);
        assert!(!second.has_leadership(), "{dialect}");
        first.close().await.unwrap();
        let next = soon(second.leadership()).await.unwrap();
        assert!(next.fencing_token() > term.fencing_token(), "{dialect}");
        second.close().await.unwrap();
        let counter = DistributedAtomicLong::new(&client, "/dir/counter").unwrap();
        counter.increment().await.unwrap();
        counter.increment().await.unwrap();
        assert_eq!(counter.get().await.unwrap(), 2, "{dialect}");
    }
}

#[tokio::test]
async fn a_held_lock_survives_the_first_acquire_of_another_lock_in_a_missing_directory() {
    for dialect in KEEPERS.into_iter().filter(is_usable) {
        let server = server(dialect);
        let client = connect(&server.connect_string()).await;
        let session = client.session().await.unwrap();
        let held = InterProcessMutex::new(&client, "/locks/held").unwrap();
        let held = soon(held.acquire()).await.unwrap();
        let another = InterProcessMutex::new(&client, "/not/there/yet").unwrap();
        let guard = soon(another.acquire()).await.unwrap();
        assert!(held.is_valid() && guard.is_valid(), "{dialect}");
        assert!(session.is_valid(), "{dialect}");
        // The containers of other servers are removed when they are empty; these nodes stay.
        let is_container = !session.lacks(ServerOperation::CreateContainer);
        guard.release().await.unwrap();
        held.release().await.unwrap();
        let dir = client.check_exists("/not/there").await.unwrap().unwrap();
        assert_eq!(dir.ephemeral_owner != 0, is_container, "{dialect}");
    }
}

/// ClickHouse Keeper grants a new session to each connection, and deletes the nodes of the old one at
/// its timeout.
// In simulated time, because the node of a session that was not resumed stays until its timeout.
#[tokio::test(start_paused = true)]
async fn where_sessions_are_not_resumed_a_lost_connection_is_reported_as_the_loss_of_its_locks() {
    for dialect in KEEPERS {
        let simulation = Simulation::builder().dialect(dialect).start();
        let process = simulation.process("client");
        let client = builder(&simulation.connect_string(), LONG_SESSION);
        let client = process.run(client.connect()).await.unwrap();
        let other = connect(&simulation.connect_string()).await;
        let [mutex, others] =
            [&client, &other].map(|client| InterProcessMutex::new(client, "/lock").unwrap());
        let guard = mutex.acquire().await.unwrap();
        let waiting = tokio::spawn(async move { others.acquire().await });
        process.cut();
        let lost = guard.lost().await;
        assert!(
            matches!(lost.reason, LossReason::SessionLost(_)),
            "{dialect}: {lost:?}"
        );
        assert!(!guard.is_valid(), "{dialect}");
        let next = waiting.await.unwrap().unwrap();
        assert!(!guard.is_valid() && next.is_valid(), "{dialect}");
        assert!(next.fencing_token() > guard.fencing_token(), "{dialect}");
        next.release().await.unwrap();
        // The client goes on in another session.
        mutex.acquire().await.unwrap().release().await.unwrap();
    }
}
