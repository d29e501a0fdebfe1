//! The paths that a multi-lock of paths accepts.

use curator_recipes::{Error, InterProcessMultiLock, InterProcessSemaphoreMutex};

use super::{multi, paths, queues_of};
use crate::support::{arc, children, client, mutex, soon, spawn_acquire, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_paths_duplicate_paths_and_paths_inside_a_contender_are_rejected() {
    let client = client().await;
    let [one, two] = paths("refused");
    // A mutex at `{two}/locks` shares the queue of a semaphore mutex at `two`.
    let semaphore_mutex = InterProcessSemaphoreMutex::new(&client, &two).unwrap();
    let queue = format!("{two}/locks");
    let contender = format!("{two}/order-lock-0000000007/deeper");
    let refusals = [
        (
            InterProcessMultiLock::new(&client, [""; 0]),
            vec![],
            "at least one path",
        ),
        (
            InterProcessMultiLock::new(&client, [&one, &two, &one]),
            vec![&one, &two, &one],
            "each path only once",
        ),
        (InterProcessMultiLock::of([]), vec![], "at least one path"),
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
    ];
    for (refused, named, wanted) in refusals {
        let error = refused.unwrap_err();
        let Error::InvalidMultiLock {
            paths, expected, ..
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!(
            (paths.iter().collect::<Vec<_>>(), *expected),
            (named, wanted)
        );
        assert!(!error.is_retryable());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_paths_have_separate_queues() {
    let other = client().await;
    let client = client().await;
    let [outer] = paths("within");
    let inner = [format!("{outer}/b"), outer.clone(), format!("{outer}/b/c")];
    let guard = soon(multi(&client, &inner).acquire()).await.unwrap();
    assert!(
        guard
            .nodes()
            .map(|node| node.parent().unwrap().to_string())
            .eq(inner.clone())
    );
    let waiting = spawn_acquire(arc(multi(&other, &inner)));
    // The children of each path: two contenders' nodes and, if there is one, the nested directory.
    queues_of(&client, &inner, &[3, 3, 2]).await;
    guard.release().await.unwrap();
    soon(waiting)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    // Only nested directories are left, or none if the server has removed them.
    until(async || {
        for path in &inner {
            let mut names = children(&client, path).await.into_iter();
            if !names.all(|name| inner.contains(&format!("{path}/{name}"))) {
                return false;
            }
        }
        true
    })
    .await;
}
