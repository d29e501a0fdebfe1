//! The end of the sequence counter, where its effects differ between locks. `contract/counter.rs`
//! tests what all locks have in common.

use std::time::Duration;

use curator_recipes::client::{CreateMode, CuratorClient};
use curator_recipes::{
    Error, InterProcessMultiLock, InterProcessSemaphoreV2, ParticipantKind, SemaphoreLease,
};
use curator_test::{FaultProxy, OpCode};

use crate::support::{
    LONG_SESSION, arc, builder, children, client, connect, mutex, path, queue_of,
    read_write as lock, requests_of, server_at, soon, spawn_acquire,
};

/// The directory and the node in the error.
fn overflow(error: Error) -> (String, String) {
    match error {
        Error::SequenceOverflow { dir, node } => (dir.as_str().to_owned(), node),
        error => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_from_before_the_sequence_overflow_can_still_read_and_downgrade() {
    let (server, client) = server_at(i32::MAX - 1, "/writer").await;
    let other = connect(&server.connect_string()).await;
    let others = lock(&other, "/writer");
    let lock = lock(&client, "/writer");
    let writing = soon(lock.write().acquire()).await.unwrap();
    assert!(writing.node().name().ends_with("2147483646"), "{writing:?}");
    for _ in 0..2 {
        let reading = soon(lock.read().acquire()).await.unwrap();
        let participants = lock.participants().await.unwrap();
        assert!(
            participants.len() == 2 && participants.iter().all(|one| one.owns),
            "{participants:?}"
        );
        overflow(soon(others.read().acquire()).await.unwrap_err());
        overflow(soon(others.write().try_acquire()).await.unwrap_err());
        soon(other.janitor().idle()).await;
        reading.release().await.unwrap();
    }
    let reading = soon(writing.downgrade()).await.unwrap();
    let [reader] = &lock.participants().await.unwrap()[..] else {
        panic!("expected one participant")
    };
    assert_eq!(
        (reader.kind, reader.sequence),
        (ParticipantKind::Read, i32::MAX - 1)
    );
    overflow(soon(others.read().acquire()).await.unwrap_err());
    overflow(soon(others.write().acquire()).await.unwrap_err());
    assert!(reading.is_valid());
    reading.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_finds_a_sequence_overflow_when_it_lists_again_fails() {
    let (server, client) = server_at(i32::MAX - 2, "/waiter").await;
    let holding = lock(&client, "/waiter");
    let waiting = lock(&connect(&server.connect_string()).await, "/waiter");
    let guard = soon(holding.write().acquire()).await.unwrap();
    let waiter = spawn_acquire(arc(waiting.write().clone()));
    queue_of(&client, "/waiter", 2).await;
    // A persistent node, such as another program could create.
    let created = client
        .create()
        .with_mode(CreateMode::PersistentSequential)
        .for_path("/waiter/_c_x-__WRIT__", "");
    assert_eq!(created.await.unwrap().name(), "_c_x-__WRIT__2147483647");
    guard.release().await.unwrap();
    let (_, node) = overflow(soon(waiter).await.unwrap().unwrap_err());
    assert_eq!(node, "_c_x-__WRIT__2147483647");
    queue_of(&client, "/waiter", 1).await;
    // Ownership cannot be determined either.
    let (_, node) = overflow(holding.participants().await.unwrap_err());
    assert_eq!(node, "_c_x-__WRIT__2147483647");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_multi_lock_reports_which_of_its_paths_has_the_sequence_overflow() {
    let [first, second, third] = ["/multi-lock/a", "/multi-lock/b", "/multi-lock/c"];
    let (_, client) = server_at(i32::MAX, second).await;
    let multi = InterProcessMultiLock::new(&client, [first, second, third]).unwrap();
    assert_eq!(overflow(soon(multi.acquire()).await.unwrap_err()).0, second);
    assert_eq!(
        overflow(soon(multi.try_acquire()).await.unwrap_err()).0,
        second
    );
    soon(client.janitor().idle()).await;
    for path in [first, third] {
        mutex(&client, path)
            .try_acquire()
            .await
            .unwrap()
            .expect("the lock is free")
            .release()
            .await
            .unwrap();
    }
    assert!(children(&client, second).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_fails_when_two_contenders_have_the_same_sequence_number() {
    let client = client().await;
    let path = path("same-number");
    for id in ["a", "b"] {
        let node = format!("{path}/_c_{id}-lock-0000000007");
        client
            .create()
            .creating_parent_containers()
            .for_path(&node, "")
            .await
            .unwrap();
    }
    assert_eq!(
        overflow(soon(mutex(&client, &path).acquire()).await.unwrap_err()).1,
        "_c_b-lock-0000000007"
    );
    soon(client.janitor().idle()).await;
    assert_eq!(children(&client, &path).await.len(), 2);
}

/// Leases are counted and not ordered, so the end of the lease counter has no effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_limit_holds_after_an_overflow_of_the_lease_counter() {
    const LEASES: &str = "/leases-limited/leases";
    let (server, client) = server_at(i32::MAX - 1, LEASES).await;
    let semaphore = |client: &CuratorClient, max_leases| {
        InterProcessSemaphoreV2::new(client, "/leases-limited", max_leases).unwrap()
    };
    let mut clients = vec![client];
    clients.push(connect(&server.connect_string()).await);
    // The first transaction crosses the end of the counter. Each later transaction starts with the
    // same number.
    let mut held = Vec::new();
    for (quantity, client) in [(3, 0), (1, 1), (1, 0), (2, 1)] {
        held.extend(
            soon(semaphore(&clients[client], 7).acquire_many(quantity))
                .await
                .unwrap(),
        );
    }
    assert_eq!(children(&clients[0], LEASES).await.len(), 7);
    assert!(
        semaphore(&clients[0], 7)
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    let participants = semaphore(&clients[0], 7).participants().await.unwrap();
    assert!(
        participants.len() == 7 && participants.iter().all(|one| one.owns),
        "{participants:?}"
    );
    SemaphoreLease::release_all(held).await.unwrap();
    assert!(children(&clients[0], LEASES).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_created_after_the_overflow_are_found_after_a_lost_reply() {
    const LEASES: &str = "/leases-found/leases";
    let (server, steady) = server_at(i32::MAX, LEASES).await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = builder(&proxy.connect_string(), LONG_SESSION)
        .operation_timeout(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    let semaphore = InterProcessSemaphoreV2::new(&client, "/leases-found", 3).unwrap();
    for fault in [FaultProxy::cut_before_reply, FaultProxy::cut_before_request] {
        proxy.reset_counts();
        fault(&proxy, OpCode::Multi);
        let held = soon(semaphore.acquire_many(3)).await.unwrap();
        assert!(
            requests_of(&proxy, OpCode::Multi) > 0,
            "no transaction was sent"
        );
        let mut expected = held.iter().map(SemaphoreLease::name).collect::<Vec<_>>();
        let mut found = children(&steady, LEASES).await;
        expected.sort_unstable();
        found.sort();
        assert_eq!(found, expected);
        for lease in &held {
            let stat = steady.check_exists(lease.node()).await.unwrap().unwrap();
            assert_eq!(
                (stat.ephemeral_owner, stat.czxid),
                (lease.session_id(), lease.fencing_token().as_i64())
            );
        }
        SemaphoreLease::release_all(held).await.unwrap();
        assert!(children(&steady, LEASES).await.is_empty());
    }
}
