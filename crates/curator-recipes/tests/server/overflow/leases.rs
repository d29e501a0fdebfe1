//! Leases are counted and not lined up: the end of *their* counter means nothing.

use std::time::Duration;

use curator_recipes::client::CuratorClient;
use curator_recipes::{InterProcessSemaphoreV2, SemaphoreLease};
use curator_test::{FaultProxy, OpCode};
use tokio::task::JoinSet;

use crate::support::{LONG_SESSION, builder, children, connect, requests_of, server_at, soon};

const LEASES: &str = "/s/leases";

fn semaphore(client: &CuratorClient, max_leases: usize) -> InterProcessSemaphoreV2 {
    InterProcessSemaphoreV2::new(client, "/s", max_leases).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn past_the_end_of_their_counter_there_are_still_never_too_many_leases() {
    let (server, client) = server_at(i32::MAX - 1, &[LEASES]).await;
    let mut clients = vec![client];
    clients.push(connect(&server.connect_string()).await);
    // In one transaction, over the end; then the same number again, by one and by several.
    let mut held = Vec::new();
    for (quantity, client) in [(3, 0), (1, 1), (1, 0), (2, 1)] {
        held.extend(soon(semaphore(&clients[client], 7).acquire_many(quantity)).await.unwrap());
    }
    assert_eq!(children(&clients[0], LEASES).await.len(), 7);
    assert!(semaphore(&clients[0], 7).try_acquire().await.unwrap().is_none());
    let participants = semaphore(&clients[0], 7).participants().await.unwrap();
    assert!(participants.len() == 7 && participants.iter().all(|one| one.owns), "{participants:?}");
    SemaphoreLease::release_all(held).await.unwrap();
    assert!(children(&clients[0], LEASES).await.is_empty());

    let mut taking = JoinSet::new();
    for who in 0..12 {
        let semaphore = semaphore(&clients[who % 2], 3);
        taking.spawn(async move { soon(semaphore.acquire()).await.unwrap() });
    }
    while let Some(lease) = taking.join_next().await {
        let there = children(&clients[0], LEASES).await.len();
        assert!(there <= 3, "{there} leases of 3");
        lease.unwrap().release().await.unwrap();
    }
    assert!(children(&clients[0], LEASES).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_past_the_end_are_found_when_the_answer_was_lost() {
    let (server, steady) = server_at(i32::MAX, &[LEASES]).await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let unlucky = builder(&proxy.connect_string(), LONG_SESSION).operation_timeout(Duration::from_millis(300));
    let client = unlucky.connect().await.unwrap();
    for fault in [FaultProxy::cut_before_reply, FaultProxy::cut_before_request] {
        proxy.reset_counts();
        fault(&proxy, OpCode::Multi);
        let held = soon(semaphore(&client, 3).acquire_many(3)).await.unwrap();
        assert!(requests_of(&proxy, OpCode::Multi) > 0, "nothing was lost");
        let (mut expected, mut found) =
            (held.iter().map(SemaphoreLease::name).collect::<Vec<_>>(), children(&steady, LEASES).await);
        expected.sort_unstable();
        found.sort();
        assert_eq!(found, expected);
        for lease in &held {
            let stat = steady.check_exists(lease.node()).await.unwrap().unwrap();
            assert_eq!((stat.ephemeral_owner, stat.czxid), (lease.session_id(), lease.fencing_token().as_i64()));
        }
        SemaphoreLease::release_all(held).await.unwrap();
        assert!(children(&steady, LEASES).await.is_empty());
    }
}
