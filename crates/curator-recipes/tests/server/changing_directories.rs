//! Locks whose directories other clients and the server create and delete while they are acquired:
//! no acquire fails because of that. Runs in real time, on threads that run concurrently.

use std::time::Duration;

use curator_recipes::client::{
    CreateMode, CuratorClient, Error as ClientError, RetryOneTime, retry_fn,
};
use curator_recipes::{Error, InterProcessMultiLock, InterProcessSemaphoreV2, LeaderLatch};
use curator_test::{FaultProxy, OpCode, TestingServer};
use futures_util::future::join_all;
use tokio::sync::Barrier;
use tokio::task::{JoinHandle, JoinSet};
use tracing::Level;

use crate::support::subjects::Kind;
use crate::support::{
    LONG_SESSION, Logs, Numbers, behind_proxy_with, builder, children, client,
    create_dir_without_create, mutex, path, requests_of, shared_address, soon, until,
};

/// The number of nodes of the lock's path.
const NODES: u64 = 3;

/// A client that retries once, behind a proxy; the top node of a lock's path; and this path. The
/// path has [`NODES`] nodes, all of which are missing.
async fn contender() -> (FaultProxy, CuratorClient, String, String) {
    let once_more = RetryOneTime::new(Duration::from_millis(1)).unwrap();
    let (proxy, client) = behind_proxy_with(|builder| builder.retry_policy(once_more)).await;
    let top = path("changing");
    let lock = format!("{top}/a/lock");
    proxy.reset_counts();
    proxy.hold_nth_reply(OpCode::Exists, NODES);
    (proxy, client, top, lock)
}

/// Each time the acquire has checked which of its nodes are missing, creates `top` if it is
/// missing, or deletes it, so that the attempt fails. Makes `most` changes, or fewer if the acquire
/// ends earlier. Returns the number of changes, and the result of the acquire.
async fn disturb<T>(
    proxy: &FaultProxy,
    mut acquiring: JoinHandle<T>,
    top: &str,
    most: u64,
) -> (u64, T) {
    let other = client().await;
    for change in 0..most {
        tokio::select! {
            checked = proxy.wait_for_reply(OpCode::Exists, NODES * (change + 1)) => checked.unwrap(),
            ended = &mut acquiring => return (change, ended.unwrap()),
        }
        match other.check_exists(top).await.unwrap() {
            Some(_) => other.delete().for_path(top).await.unwrap(),
            None => drop(other.create().for_path(top, "").await.unwrap()),
        }
        if change + 1 < most {
            proxy.hold_nth_reply(OpCode::Exists, NODES);
        }
        proxy.release_held();
    }
    (most, soon(acquiring).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_without_a_timeout_is_retried_as_long_as_directories_change() {
    let (proxy, client, top, lock) = contender().await;
    let wanted = mutex(&client, &lock);
    let logs = Logs::at(Level::WARN);
    let acquiring = tokio::spawn(logs.capture(async move { wanted.acquire().await }));
    // An acquire makes fewer immediate attempts than 20.
    let (changes, acquired) = disturb(&proxy, acquiring, &top, 20).await;
    let guard = acquired.unwrap();
    // The warning is not repeated at each pause.
    let warnings = logs.all();
    let [warning] = &warnings[..] else {
        panic!("{warnings:?}")
    };
    assert!(
        warning.message.contains("created or deleted directories") && warning.get("lock") == lock,
        "{warning:?}"
    );
    assert_eq!(changes, 20);
    // The first transaction was sent without `exists` requests, and the last one succeeded.
    let sent = [OpCode::Exists, OpCode::Multi].map(|op| requests_of(&proxy, op));
    assert_eq!(sent, [NODES * 21, 22]);
    assert_eq!(children(&client, &lock).await, [guard.node().name()]);
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_acquire_makes_several_attempts_while_directories_change() {
    for (most, is_acquired) in [(8, true), (u64::MAX, false)] {
        let (proxy, client, top, lock) = contender().await;
        let wanted = mutex(&client, &lock);
        let acquiring = tokio::spawn(async move { wanted.try_acquire().await });
        let (changes, acquired) = disturb(&proxy, acquiring, &top, most).await;
        match acquired {
            Ok(guard) => {
                assert!(is_acquired && changes == most, "{changes} changes");
                guard.unwrap().release().await.unwrap();
            }
            Err(error) => {
                assert!(
                    !is_acquired && (10..=20).contains(&changes),
                    "{changes} changes: {error}"
                );
                assert!(error.is_retryable(), "{error:?}");
                // The first attempt to create directories is sent without `exists` requests.
                assert!(
                    matches!(error, Error::AcquireFailed { attempts, .. } if u64::from(attempts) == changes + 1),
                    "{error:?}"
                );
                assert!(
                    client
                        .check_exists(format!("{top}/a"))
                        .await
                        .unwrap()
                        .is_none()
                );
            }
        }
    }
}

/// The acquire fails at once, and leaves none of the lock's directories.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_below_a_node_that_permits_no_children_fails() {
    let client = client().await;
    let read_only = path("read-only");
    let ephemeral = path("ephemeral");
    create_dir_without_create(&client, &read_only).await;
    client
        .create()
        .with_mode(CreateMode::Ephemeral)
        .for_path(&ephemeral, "")
        .await
        .unwrap();
    for top in [&read_only, &ephemeral] {
        let lock = format!("{top}/a/lock");
        let multi = InterProcessMultiLock::new(&client, [path("free"), lock.clone()]).unwrap();
        let semaphore = InterProcessSemaphoreV2::new(&client, &lock, 1).unwrap();
        let errors = [
            soon(mutex(&client, &lock).acquire()).await.unwrap_err(),
            soon(mutex(&client, &lock).try_acquire()).await.unwrap_err(),
            soon(multi.acquire()).await.unwrap_err(),
            soon(semaphore.acquire()).await.unwrap_err(),
        ];
        for error in errors {
            let Error::Client(cause) = &error else {
                panic!("{error:?}")
            };
            let cause = if let ClientError::TransactionFailed { cause, .. } = cause {
                cause
            } else {
                cause
            };
            let is_denied = matches!(cause, ClientError::NoAuth { .. });
            assert!(
                is_denied || matches!(cause, ClientError::NoChildrenForEphemerals { .. }),
                "{error:?}"
            );
            assert_eq!(
                (is_denied, error.is_retryable()),
                (top == &read_only, false),
                "{error:?}"
            );
        }
        assert!(children(&client, top).await.is_empty());
    }
}

/// Of 24 paths whose directories do not exist yet, each client wants eight: most need directories
/// that others create.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_multi_locks_of_overlapping_fresh_paths_are_all_acquired() {
    const PATHS: usize = 24;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(connect_with_one_retry(&shared_address().await.to_string()).await);
    }
    let mut numbers = Numbers(48);
    for _ in 0..3 {
        let top = path("fleet");
        let mut acquires = JoinSet::new();
        for client in &clients {
            let mut all: Vec<_> = (0..PATHS)
                .map(|path| format!("{top}/{}/lock-{path}", path % 4))
                .collect();
            let paths: Vec<_> = (0..8)
                .map(|_| all.swap_remove(numbers.below(all.len())))
                .collect();
            let lock = InterProcessMultiLock::non_reentrant(client, paths).unwrap();
            acquires.spawn(async move { lock.acquire().await?.release().await });
        }
        for acquired in soon(acquires.join_all()).await {
            acquired.unwrap();
        }
    }
}

/// Each acquire checks 50 ancestors, in four batches of at most 16 requests. More acquires do this
/// at the same time than `Session::turn` admits, but their requests together stay below a limit
/// that the batches of all acquires would exceed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_multi_locks_of_deep_paths_in_one_client_stay_below_its_limit_of_requests_in_flight() {
    const ACQUIRES: usize = 600;
    // Two pipelines for each of the 128 turns of a session.
    const LIMIT: usize = 2 * 128 * 16 + 100;
    // A busy machine may lose a connection, which is retried; only the limit must not be reached.
    let policy = retry_fn(|context| match context.error() {
        Some(ClientError::TooManyRequests { .. }) => None,
        _ => Some(Duration::from_millis(10)),
    });
    let client = builder(&shared_address().await.to_string(), LONG_SESSION)
        .retry_policy(policy)
        .max_requests_in_flight(LIMIT)
        .connect()
        .await
        .unwrap();
    let top = path("deep");
    let mut acquires = JoinSet::new();
    let deep = [0, 1].map(|path| format!("{top}/{path}{}", "/x".repeat(20)));
    for dir in &deep {
        client
            .create()
            .creating_parent_containers()
            .for_path(dir, "")
            .await
            .unwrap();
    }
    for lock in 0..ACQUIRES {
        // The parents of the directories are missing, so the first attempt fails, and the contender
        // has to check which ones are missing.
        let paths = deep.each_ref().map(|dir| format!("{dir}/{lock}/lock"));
        let lock = InterProcessMultiLock::non_reentrant(&client, paths).unwrap();
        acquires.spawn(async move { lock.acquire().await });
    }
    let acquired = soon(acquires.join_all()).await;
    let errors: Vec<_> = acquired
        .iter()
        .filter_map(|acquired| acquired.as_ref().err())
        .collect();
    assert!(
        errors.is_empty(),
        "{} of {ACQUIRES} failed: {}",
        errors.len(),
        errors[0]
    );
    client.close().await.unwrap();
}

/// Several times, all clients acquire a lock of each kind together, after the server has removed
/// its directories. Runs in real time, because only real threads acquire at the moment of a
/// removal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_and_latches_are_acquired_while_the_server_removes_empty_directories() {
    const CLIENTS: usize = 6;
    let server = TestingServer::builder()
        .container_check_interval(Duration::from_millis(5))
        .start()
        .await
        .unwrap();
    let together = &Barrier::new(CLIENTS);
    let mut clients = Vec::new();
    for who in 0..CLIENTS {
        let client = connect_with_one_retry(&server.connect_string()).await;
        clients.push(async move {
            for kind in Kind::all() {
                let path = format!("/removed/{}/a/b", kind.name());
                let lock = kind.lock(&client, &path);
                for round in 0..5 {
                    together.wait().await;
                    let may_wait = (who + round) % 3 > 0;
                    let acquired = if may_wait {
                        lock.acquire().await.map(Some)
                    } else {
                        lock.try_acquire().await
                    };
                    let held = match acquired {
                        Ok(held) => held,
                        // On a busy machine, the server may be faster than each of the 16 attempts
                        // of `try_acquire`.
                        Err(error) if !may_wait && error.is_retryable() => None,
                        Err(error) => panic!("{}, round {round}: {error:?}", kind.name()),
                    };
                    assert!(held.is_some() || !may_wait);
                    if let Some(held) = held {
                        held.release().await.unwrap();
                    }
                    for dir in kind.dirs(&path) {
                        until(async || client.check_exists(&*dir).await.unwrap().is_none()).await;
                    }
                }
                let latch = LeaderLatch::builder(&client, format!("{path}/latch"))
                    .unwrap()
                    .start();
                latch.leadership().await.unwrap();
                latch.close().await.unwrap();
            }
        });
    }
    soon(join_all(clients)).await;
}

/// A client whose operations fail after one retry.
async fn connect_with_one_retry(connect_string: &str) -> CuratorClient {
    let once_more = RetryOneTime::new(Duration::from_millis(1)).unwrap();
    builder(connect_string, LONG_SESSION)
        .retry_policy(once_more)
        .connect()
        .await
        .unwrap()
}
