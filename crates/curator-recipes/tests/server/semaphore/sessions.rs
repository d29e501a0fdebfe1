//! Sessions that are lost.

use curator_recipes::client::SessionEnd;
use curator_recipes::{Error, LossReason, SemaphoreLease};
use curator_test::{Direction, FaultProxy, TestingServer};

use super::{acquiring, free, leases, queue, semaphore, stands};
use crate::support::{SHORT_SESSION, builder, client, connect, end_session, path, soon, still_waits, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_loses_its_session_is_told_before_another_has_its_leases() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let holder = builder(&proxy.connect_string(), SHORT_SESSION).connect().await.unwrap();
    let (waiter, path) = (client().await, path("holder-lost"));
    for direction in [Direction::Both, Direction::ToServer, Direction::ToClient] {
        let held = soon(semaphore(&holder, &path, 3).acquire_many(2)).await.unwrap();
        let waiting = acquiring(&semaphore(&waiter, &path, 3), 3);
        stands(&waiter, &path, 2, 1).await;
        proxy.black_hole(direction);
        let all = soon(waiting).await.unwrap();
        assert!(held.iter().all(|lease| !lease.is_valid()), "{direction:?}: more than there are");
        for lease in &held {
            let lost = soon(lease.lost()).await;
            assert_eq!(lost.reason, LossReason::SessionLost(SessionEnd::LeaseOver));
            assert!(lease.fencing_token() < all[0].fencing_token());
        }
        proxy.heal();
        let error = soon(SemaphoreLease::release_all(held)).await.unwrap_err();
        let Error::ReleasesFailed { failures } = &error else { panic!("{error}") };
        assert!(failures.len() == 2 && failures.iter().all(|each| matches!(each, Error::Lost(_))), "{error}");
        SemaphoreLease::release_all(all).await.unwrap();
    }
    free(&waiter, &path, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_that_lose_their_session_come_back_at_the_end_of_the_queue() {
    let server = TestingServer::shared().await;
    let (holder, steady, path) = (client().await, client().await, path("waiters-lost"));
    // One that is the first in the queue and waits for a lease, and one behind it.
    for unlucky_is_first in [true, false] {
        let held = semaphore(&holder, &path, 1).acquire().await.unwrap();
        let proxy = FaultProxy::start(server.address()).unwrap();
        let unlucky = connect(&proxy.connect_string()).await;
        let mut clients = [&unlucky, &steady];
        if !unlucky_is_first {
            clients.reverse();
        }
        let mut waiters = Vec::new();
        for (place, client) in clients.into_iter().enumerate() {
            waiters.push(acquiring(&semaphore(client, &path, 1), 1));
            stands(&holder, &path, 1, place + 1).await;
        }
        let before = queue(&holder, &path).await;
        let old_session = unlucky.session().await.unwrap().id();
        end_session(server, &proxy).await;
        until(async || {
            let now = queue(&holder, &path).await;
            now.len() == 2 && now.iter().any(|name| !before.contains(name))
        })
        .await;
        for (waiter, client) in waiters.iter().zip(clients) {
            assert!(still_waits(waiter, client).await);
        }
        if unlucky_is_first {
            waiters.reverse();
        }
        held.release().await.unwrap();
        let lease = soon(waiters.remove(0)).await.unwrap().remove(0);
        assert_eq!(lease.session_id(), steady.session().await.unwrap().id());
        assert!(still_waits(&waiters[0], &unlucky).await);
        lease.release().await.unwrap();
        let lease = soon(waiters.remove(0)).await.unwrap().remove(0);
        assert_ne!(lease.session_id(), old_session);
        assert_eq!(leases(&holder, &path).await, [lease.name()]);
        lease.release().await.unwrap();
        free(&holder, &path, 1).await;
    }
}

/// The take is applied, and the session is over before its answer could come: those leases are nobody's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_of_a_dead_session_are_never_adopted() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let unlucky = builder(&proxy.connect_string(), SHORT_SESSION).connect().await.unwrap();
    let (steady, path) = (client().await, path("dead-leases"));
    free(&unlucky, &path, 2).await;
    let old_session = proxy.sessions().pop().unwrap().session_id;
    proxy.swallow_next_reply(curator_test::OpCode::Multi);
    let waiting = acquiring(&semaphore(&unlucky, &path, 2), 2);
    stands(&steady, &path, 2, 0).await;
    let old = leases(&steady, &path).await;
    let mut states = unlucky.connection_states();
    proxy.black_hole(Direction::Both);
    assert!(soon(states.wait_for(curator_recipes::client::ConnectionState::Lost)).await);
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
