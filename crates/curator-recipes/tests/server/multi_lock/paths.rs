//! Multi-locks of paths: which paths, and what they cost.

use std::collections::BTreeMap;

use curator_recipes::client::{self, Outcome};
use curator_recipes::{Error, InterProcessLock, InterProcessMultiLock, InterProcessSemaphoreMutex};
use curator_test::{FaultProxy, OpCode, TestingServer};

use super::own::arc;
use super::{acquiring, holds_all, multi, paths, queues_of};
use crate::support::{children, client, connect, free, mutex, requests_of, soon, without_probes};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_path_and_a_path_that_is_there_twice_are_refused() {
    let client = client().await;
    let [one, two] = paths("refused");
    // What a semaphore mutex on a path stands in is the queue of a mutex on another.
    let semaphore_mutex = InterProcessSemaphoreMutex::new(&client, &two).unwrap();
    let (queue, contender) = (format!("{two}/locks"), format!("{two}/order-lock-0000000007/deeper"));
    let refusals = [
        (InterProcessMultiLock::new(&client, [""; 0]), vec![], "at least one path"),
        (InterProcessMultiLock::new(&client, [&one, &two, &one]), vec![&one, &two, &one], "each path only once"),
        (InterProcessMultiLock::of([]), vec![], "at least one path"),
        (
            InterProcessMultiLock::of([arc(mutex(&client, &one)), arc(mutex(&client, &one))]),
            vec![&one, &one],
            "each path only once",
        ),
        (
            InterProcessMultiLock::of([arc(mutex(&client, &queue)), arc(semaphore_mutex)]),
            vec![&queue, &queue],
            "each path only once",
        ),
        (
            InterProcessMultiLock::new(&client, [&two, &contender]),
            vec![&two, &contender],
            "no path within another that looks like one of its contenders",
        ),
        (
            InterProcessMultiLock::of([arc(mutex(&client, &one)), arc(multi(&client, &[two.clone(), one.clone()]))]),
            vec![&one, &two, &one],
            "each path only once",
        ),
    ];
    for (refused, named, wanted) in refusals {
        let error = refused.unwrap_err();
        let Error::InvalidMultiLock { paths, expected, .. } = &error else { panic!("{error}") };
        assert_eq!((paths.iter().collect::<Vec<_>>(), *expected), (named, wanted));
        assert!(!error.is_retryable());
    }
    let error = InterProcessMultiLock::new(&client, [&*one, "locks"]).unwrap_err();
    assert!(matches!(&error, Error::Client(client::Error::InvalidPath(_))), "{error}");
    assert!(error.to_string().contains(r#""locks""#), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_within_one_another_are_queues_of_their_own() {
    let (client, other) = (client().await, client().await);
    let [outer] = paths("within");
    let inner = [format!("{outer}/b"), outer.clone(), format!("{outer}/b/c")];
    let guard = soon(multi(&client, &inner).acquire()).await.unwrap();
    assert_eq!(guard.nodes().count(), 3);
    for (node, path) in guard.nodes().zip(&inner) {
        assert_eq!(node.parent().unwrap().as_str(), path);
        assert!(mutex(&other, path).try_acquire().await.unwrap().is_none());
    }
    let waiting = acquiring(&multi(&other, &inner));
    // Two places and, where there is one, the directory within.
    queues_of(&client, &inner, &[3, 3, 2]).await;
    guard.release().await.unwrap();
    soon(waiting).await.unwrap().release().await.unwrap();
    queues_of(&client, &inner, &[1, 1, 0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directories_that_do_not_exist_are_made() {
    let client = client().await;
    for missing in [vec![0], vec![1], vec![2], vec![0, 2], vec![0, 1, 2]] {
        let paths = paths::<3>("some-missing").map(|path| format!("{path}/deep/lock"));
        for (place, path) in paths.iter().enumerate() {
            if !missing.contains(&place) {
                mutex(&client, path).acquire().await.unwrap().release().await.unwrap();
            }
        }
        let guard = soon(multi(&client, &paths).acquire()).await.unwrap();
        holds_all(&client, &guard, &paths).await;
        guard.release().await.unwrap();
        free(&client, &paths).await;
    }
    // Who may not wait makes them too.
    let paths = paths::<2>("some-missing").map(|path| format!("{path}/deep/lock"));
    let guard = multi(&client, &paths).try_acquire().await.unwrap().expect("nobody has it");
    holds_all(&client, &guard, &paths).await;
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re_entry_costs_nothing_and_the_last_guard_releases_all_by_one_request() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (client, steady, paths) = (connect(&proxy.connect_string()).await, client().await, paths::<3>("re-entry"));
    let lock = multi(&client, &paths);
    for dropped in [false, true] {
        let first = lock.acquire().await.unwrap();
        proxy.reset_counts();
        let again = lock.acquire().await.unwrap();
        let third = lock.clone().try_acquire().await.unwrap().unwrap();
        assert_eq!(first.fencing_token(), again.fencing_token());
        assert!(first.nodes().eq(third.nodes()));
        first.release().await.unwrap();
        drop(third);
        assert!(lock.is_acquired_in_this_process());
        // Nor is anything on its way.
        soon(client.janitor().idle()).await;
        client.sync("/").await.unwrap();
        assert_eq!(without_probes(&proxy), BTreeMap::new());
        holds_all(&steady, &again, &paths).await;
        if dropped {
            drop(again);
            soon(client.janitor().idle()).await;
        } else {
            again.release().await.unwrap();
        }
        assert_eq!(without_probes(&proxy), BTreeMap::from([(OpCode::Multi, 1)]));
        assert!(!lock.is_acquired_in_this_process());
        free(&steady, &paths).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn participants_are_told_path_by_path() {
    let (client, other, paths) = (client().await, client().await, paths::<3>("participants"));
    let lock = multi(&client, &paths).with_lock_data(*b"the holder");
    assert_eq!(lock.participants().await.unwrap(), []);
    let guard = lock.acquire().await.unwrap();
    // One behind it in the first two queues only.
    let waiting = acquiring(&multi(&other, &paths[..2]));
    queues_of(&client, &paths, &[2, 2, 1]).await;
    let participants = lock.participants().await.unwrap();
    let seen: Vec<_> =
        participants.iter().map(|each| (each.path.parent().unwrap().to_string(), each.owns, each.session_id)).collect();
    let (ours, theirs) = (guard.session_id(), other.session().await.unwrap().id());
    let [first, second, third] = paths.clone();
    let expected = [
        (first.clone(), true, ours),
        (first, false, theirs),
        (second.clone(), true, ours),
        (second, false, theirs),
        (third, true, ours),
    ];
    assert_eq!(seen, expected);
    let owners: Vec<_> = participants.iter().filter(|each| each.owns).collect();
    assert!(owners.iter().map(|each| &each.path).eq(guard.nodes()));
    assert!(owners.iter().all(|each| each.data == b"the holder"));
    guard.release().await.unwrap();
    soon(waiting).await.unwrap().release().await.unwrap();
    free(&client, &paths).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_large_is_refused_and_leaves_nothing() {
    let (client, paths) = (client().await, paths::<3>("too-large"));
    let session = client.session().await.unwrap().id();
    // Each node alone would be small enough.
    let mut long = paths.to_vec();
    long.push(format!("/{}", "x".repeat(2 << 20)));
    let locks = [multi(&client, &paths).with_lock_data(vec![b'x'; 0xf_ffff / 2]), multi(&client, &long)];
    for lock in locks {
        for error in [soon(lock.acquire()).await.unwrap_err(), lock.try_acquire().await.unwrap_err()] {
            let Error::Client(client::Error::RequestTooLarge { limit: 0xf_ffff, .. }) = &error else {
                panic!("{error}")
            };
            assert_eq!(error.outcome(), Outcome::NotApplied);
            assert!(!error.is_retryable());
        }
        free(&client, &paths).await;
    }
    assert_eq!(client.session().await.unwrap().id(), session);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_multi_lock_of_one_path_is_a_mutex() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (client, other, paths) = (connect(&proxy.connect_string()).await, client().await, paths::<1>("one-path"));
    let lock = multi(&client, &paths);
    // This creates the directory.
    lock.acquire().await.unwrap().release().await.unwrap();
    proxy.reset_counts();
    let guard = lock.acquire().await.unwrap();
    assert_eq!(requests_of(&proxy, OpCode::Multi), 0);
    assert!(mutex(&other, &paths[0]).try_acquire().await.unwrap().is_none());
    assert_eq!(InterProcessLock::paths(&lock).len(), 1);
    soon(other.janitor().idle()).await;
    assert_eq!(children(&other, &paths[0]).await, [guard.node().name()]);
    guard.release().await.unwrap();
    free(&other, &paths).await;
}
