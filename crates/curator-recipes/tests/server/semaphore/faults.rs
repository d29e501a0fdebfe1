//! Lost answers, and who is woken.

use std::time::Duration;

use curator_recipes::SemaphoreLease;
use curator_recipes::client::RetryNTimes;
use curator_test::{FaultProxy, OpCode, TestingServer};

use super::{acquiring, free, leases, queue, semaphore, stands};
use crate::support::{
    FAULTS, LONG_SESSION, builder, client, connect, path, requests_of, soon, still_waits, until, without_probes,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_answer_is_lost_there_are_as_many_leases_as_were_asked_for() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let unlucky = builder(&proxy.connect_string(), LONG_SESSION).operation_timeout(Duration::from_millis(300));
    let (client, steady, path) = (unlucky.connect().await.unwrap(), client().await, path("lost-take"));
    free(&client, &path, 3).await;
    for op in [OpCode::Create2, OpCode::MultiRead, OpCode::Multi] {
        for (name, fault) in FAULTS {
            proxy.reset_counts();
            fault(&proxy, op);
            let held = soon(semaphore(&client, &path, 3).acquire_many(3)).await.unwrap();
            let mut expected: Vec<_> = held.iter().map(SemaphoreLease::name).collect();
            let mut found = leases(&steady, &path).await;
            expected.sort_unstable();
            found.sort();
            assert_eq!(found, expected, "{op:?}, {name}");
            assert!(queue(&steady, &path).await.is_empty(), "{op:?}, {name}");
            for lease in &held {
                let (_, stat) = steady.get_data(lease.node()).await.unwrap();
                assert_eq!((stat.ephemeral_owner, stat.czxid), (lease.session_id(), lease.fencing_token().as_i64()));
            }
            assert!(requests_of(&proxy, op) > 0, "nothing was lost");
            SemaphoreLease::release_all(held).await.unwrap();
            free(&client, &path, 3).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lost_answer_of_a_waiters_look_does_not_make_it_miss_its_turn() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let unlucky = builder(&proxy.connect_string(), LONG_SESSION).operation_timeout(Duration::from_millis(300));
    let (client, holder, path) = (unlucky.connect().await.unwrap(), client().await, path("lost-look"));
    for round in 0..4 {
        let held = semaphore(&holder, &path, 1).acquire().await.unwrap();
        proxy.reset_counts();
        if round % 2 == 0 {
            proxy.cut_before_reply(OpCode::GetChildren);
        } else {
            proxy.swallow_next_reply(OpCode::GetChildren);
        }
        let waiting = acquiring(&semaphore(&client, &path, 1), 1);
        proxy.wait_for_reply(OpCode::GetChildren, 1).await.unwrap();
        if round >= 2 {
            // It waits again, and loses its connection while it does.
            proxy.wait_for_reply(OpCode::GetChildren, 2).await.unwrap();
            proxy.cut();
        }
        held.release().await.unwrap();
        SemaphoreLease::release_all(soon(waiting).await.unwrap()).await.unwrap();
        free(&client, &path, 1).await;
    }
}

/// The connection works, and every take fails: that the leases can be looked at in between is no progress.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_retry_policy_ends_an_acquire_whose_take_always_fails() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let few = RetryNTimes::new(4, Duration::from_millis(1)).unwrap();
    let unlucky = builder(&proxy.connect_string(), LONG_SESSION).retry_policy(few).connect().await.unwrap();
    let (client, steady, path) = (unlucky, client().await, path("never-taken"));
    free(&client, &path, 1).await;
    proxy.reset_counts();
    // Between two takes there is the transaction that a resumed session begins with.
    for take in 0..40 {
        proxy.cut_before_nth_request(OpCode::Multi, 2 * take + 1);
    }
    let error = soon(semaphore(&client, &path, 1).acquire()).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    let transactions = requests_of(&proxy, OpCode::Multi);
    assert!(transactions <= 12, "{transactions} takes and beginnings");
    soon(client.janitor().idle()).await;
    stands(&steady, &path, 0, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_given_back_wakes_the_first_in_the_queue_only() {
    let server = TestingServer::shared().await;
    let (holder, path) = (client().await, path("one-wakes"));
    let mut held = semaphore(&holder, &path, 2).acquire_many(2).await.unwrap();
    let (first_proxy, others_proxy) =
        (FaultProxy::start(server.address()).unwrap(), FaultProxy::start(server.address()).unwrap());
    let first = connect(&first_proxy.connect_string()).await;
    let waiting = acquiring(&semaphore(&first, &path, 2), 2);
    first_proxy.wait_for_reply(OpCode::GetChildren, 1).await.unwrap();
    let (mut others, mut clients) = (Vec::new(), Vec::new());
    for place in 0..10 {
        let client = connect(&others_proxy.connect_string()).await;
        others.push(acquiring(&semaphore(&client, &path, 2), 1));
        // A client that nobody has any more is closed, which is a request.
        clients.push(client);
        stands(&holder, &path, 2, place + 2).await;
    }
    // Two or three for the first two of them, one for each of the others.
    let dir = super::locks_dir(&path);
    until(async || {
        let watches = server.watches_by_path().await.unwrap();
        watches.iter().filter(|(watched, _)| watched.starts_with(&dir)).map(|(_, by)| by.len()).sum::<usize>() == 13
    })
    .await;
    let before = without_probes(&others_proxy);
    held.remove(0).release().await.unwrap();
    // The first looks; it needs two.
    first_proxy.wait_for_reply(OpCode::GetChildren, 2).await.unwrap();
    assert!(still_waits(&waiting, &first).await);
    // Some round trips of those who should sleep, of the kind that is not counted.
    for client in clients.iter().cycle().take(5 * clients.len()) {
        client.sync("/").await.unwrap();
    }
    assert_eq!(without_probes(&others_proxy), before, "somebody else has woken");
    held.remove(0).release().await.unwrap();
    let both = soon(waiting).await.unwrap();
    assert_eq!(requests_of(&first_proxy, OpCode::GetChildren), 3);
    assert_eq!(requests_of(&first_proxy, OpCode::Multi), 1);
    SemaphoreLease::release_all(both).await.unwrap();
    for other in others {
        SemaphoreLease::release_all(soon(other).await.unwrap()).await.unwrap();
    }
    free(&holder, &path, 2).await;
}
