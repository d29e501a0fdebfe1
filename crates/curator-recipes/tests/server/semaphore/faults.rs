//! Lost answers, lost sessions, and who is woken.

use std::time::Duration;

use curator_recipes::SemaphoreLease;
use curator_recipes::client::{ConnectionState, RetryNTimes};
use curator_test::{Direction, FaultProxy, OpCode, TestingServer};

use super::{acquiring, free, leases, locks_dir, semaphore, stands};
use crate::support::{
    LONG_SESSION, SHORT_SESSION, builder, client, connect, path, requests_of, soon, until, without_probes,
};

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
    // All who wait talk through one proxy, so whatever one of them does when it wakes is counted.
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (mut waiting, mut clients) = (Vec::new(), Vec::new());
    for (place, quantity) in [2, 1, 1, 1].into_iter().enumerate() {
        let client = connect(&proxy.connect_string()).await;
        waiting.push(acquiring(&semaphore(&client, &path, 2), quantity));
        stands(&holder, &path, 2, place + 1).await;
        // A client that nobody has any more is closed, which is a request.
        clients.push(client);
    }
    // The first watches the list of leases. Of places, the second watches two, the third three, and the last one.
    let dir = locks_dir(&path);
    until(async || {
        let watches = server.watches_by_path().await.unwrap();
        watches.iter().filter(|(watched, _)| watched.starts_with(&dir)).map(|(_, by)| by.len()).sum::<usize>() == 6
    })
    .await;
    let mut expected = without_probes(&proxy);
    assert_eq!(expected.insert(OpCode::GetChildren, 2), Some(1));
    held.remove(0).release().await.unwrap();
    // The first looks; it needs two.
    proxy.wait_for_reply(OpCode::GetChildren, 2).await.unwrap();
    // Some round trips of all of them, of the kind that is not counted.
    for client in clients.iter().cycle().take(5 * clients.len()) {
        client.sync("/").await.unwrap();
    }
    assert!(!waiting[0].is_finished());
    assert_eq!(without_probes(&proxy), expected, "somebody else has woken");
    held.remove(0).release().await.unwrap();
    for waiter in waiting {
        SemaphoreLease::release_all(soon(waiter).await.unwrap()).await.unwrap();
    }
    free(&holder, &path, 2).await;
}

/// The take is applied, and the session is over before its answer could come: nobody holds those leases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_of_a_dead_session_are_never_adopted() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let unlucky = builder(&proxy.connect_string(), SHORT_SESSION).connect().await.unwrap();
    let (steady, path) = (client().await, path("dead-leases"));
    free(&unlucky, &path, 2).await;
    let old_session = proxy.sessions().pop().unwrap().session_id;
    proxy.swallow_next_reply(OpCode::Multi);
    let waiting = acquiring(&semaphore(&unlucky, &path, 2), 2);
    stands(&steady, &path, 2, 0).await;
    let old = leases(&steady, &path).await;
    let mut states = unlucky.connection_states();
    proxy.black_hole(Direction::Both);
    assert!(soon(states.wait_for(ConnectionState::Lost)).await);
    proxy.heal();
    let held = soon(waiting).await.unwrap();
    let now = leases(&steady, &path).await;
    assert_eq!(now.len(), 2);
    for lease in &held {
        assert!(lease.is_valid() && lease.session_id() != old_session);
        assert!(!old.contains(&lease.name().to_owned()));
        assert!(now.contains(&lease.name().to_owned()));
    }
    SemaphoreLease::release_all(held).await.unwrap();
    free(&unlucky, &path, 2).await;
}
