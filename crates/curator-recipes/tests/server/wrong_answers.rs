//! Answers that are wrong: of what a create has made, nothing is left behind.

use std::sync::Arc;
use std::time::Duration;

use curator_recipes::client::{ConnectionState, CreateMode, NodeSpec, RetryNTimes};
use curator_recipes::{Error, InterProcessMultiLock, InterProcessSemaphoreMutex};
use curator_test::{OpCode, TestingServer};

use crate::support::{
    Row, acquiring, arc, behind_proxy, behind_proxy_with, children, client, mutex, nothing_left, path, polled_until,
    queue_of, soon, still_waits,
};

/// Changes the number in the last name of a node that is in a reply.
fn another_number(reply: &mut [u8]) {
    const DIGITS: usize = 10;
    let ends = |mark: &[u8]| reply.windows(mark.len()).rposition(|window| window == mark).map(|at| at + mark.len());
    let number = [b"-lock-".as_slice(), b"-lease-"].into_iter().filter_map(ends).max().expect("no node's name");
    reply[number..number + DIGITS].copy_from_slice(b"0001234567");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_of_whose_nodes_one_is_told_by_another_number_does_not_wait_for_itself() {
    let ((proxy, client), paths) = (behind_proxy().await, [path("wrong-number"), path("wrong-two")]);
    let several = InterProcessMultiLock::new(&client, &paths).unwrap();
    for (lock, create) in [(arc(mutex(&client, &paths[0])), OpCode::Create2), (arc(several), OpCode::Multi)] {
        let _row = Row::of(create);
        lock.acquire().await.unwrap().release().await.unwrap();
        proxy.alter_next_reply(create, |reply| another_number(reply));
        let guard = soon(lock.acquire()).await.unwrap();
        soon(client.janitor().idle()).await;
        for (path, node) in paths.iter().zip(guard.nodes()) {
            assert_eq!(children(&client, path).await, [node.name()]);
        }
        guard.release().await.unwrap();
        nothing_left(&client, &paths).await;
    }
    // One that waits for nobody does not start over.
    proxy.alter_next_reply(OpCode::Create2, |reply| another_number(reply));
    let error = soon(mutex(&client, &paths[0]).try_acquire()).await.unwrap_err();
    assert!(matches!(&error, Error::PlaceDeleted { .. }), "{error}");
    nothing_left(&client, &paths).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_dropped_when_it_was_told_another_number_leaves_nothing() {
    let ((proxy, client), path) = (behind_proxy().await, path("wrong-drop"));
    // The directory is there, so that the next create is that of the place in the queue.
    mutex(&client, &path).acquire().await.unwrap().release().await.unwrap();
    proxy.alter_next_reply(OpCode::Create2, |reply| another_number(reply));
    // So that no list tells otherwise, and the connection breaks when the answer to the create is here.
    proxy.cut_before_reply(OpCode::GetChildren);
    proxy.refuse(true).unwrap();
    let mut states = client.connection_states();
    let mutex = mutex(&client, &path);
    drop(polled_until(mutex.acquire(), soon(states.wait_for(ConnectionState::Suspended))).await);
    proxy.refuse(false).unwrap();
    nothing_left(&client, &[&path]).await;
}

/// No list has shown the lease, so the guard believes the answer; its release finds nothing, and looks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_told_by_another_number_is_given_back() {
    let ((proxy, wrong), path) = (behind_proxy().await, path("wrong-lease"));
    let told = TestingServer::shared().await.version().unwrap().tells_stats_in_transactions();
    let semaphore = InterProcessSemaphoreMutex::new(&wrong, &path).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    for dropped in [false, true] {
        proxy.alter_next_reply(OpCode::Multi, |reply| another_number(reply));
        let guard = soon(semaphore.acquire()).await.unwrap();
        queue_of(&wrong, &format!("{path}/leases"), 1).await;
        if dropped {
            drop(guard);
        } else {
            let released = guard.release().await;
            if told {
                assert!(matches!(&released, Err(Error::Lost(_))), "{released:?}");
            } else {
                // Where the server tells no stats, the look for one has found that the answer was wrong.
                released.unwrap();
            }
        }
        nothing_left(&wrong, &[&format!("{path}/leases")]).await;
    }
    // Another client can have it.
    let other = InterProcessSemaphoreMutex::new(&client().await, &path).unwrap();
    soon(other.acquire()).await.unwrap().release().await.unwrap();
}

/// A recovery that finds two nodes of its contender keeps the first, and gives both up when the acquire is dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_dropped_while_it_has_two_nodes_leaves_neither() {
    let (other, path) = (client().await, path("surplus"));
    let held = mutex(&other, &path).acquire().await.unwrap();
    // The recovery comes after a pause that is long enough to put a second node there.
    let policy = RetryNTimes::new(5, Duration::from_secs(2)).unwrap();
    let (proxy, client) = behind_proxy_with(|builder| builder.retry_policy(policy)).await;
    proxy.cut_before_reply(OpCode::Create2);
    let waiter = acquiring(&client, &path);
    queue_of(&other, &path, 2).await;
    let names = children(&other, &path).await;
    let own = names.iter().find(|name| *name != held.node().name()).unwrap();
    let prefix = &own[..own.len() - 10];
    let second = NodeSpec {
        path: held.node().parent().unwrap().join(prefix).unwrap(),
        data: Arc::clone(client.default_lock_data()),
        mode: CreateMode::EphemeralSequential,
        acl: Arc::clone(client.default_acl()),
    };
    client.session().await.unwrap().create(&second).await.unwrap();
    // Both are looked at, and then the one ahead and the first of them are watched.
    proxy.wait_for_reply(OpCode::GetData, 4).await.unwrap();
    assert!(still_waits(&waiter, &client).await);
    waiter.abort();
    assert!(waiter.await.unwrap_err().is_cancelled());
    soon(client.janitor().idle()).await;
    assert_eq!(children(&other, &path).await, [held.node().name()]);
    held.release().await.unwrap();
}
