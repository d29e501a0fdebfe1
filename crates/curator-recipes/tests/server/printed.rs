//! The `Debug` output of the locks, which appears in logs: the lock, and whether it is held.

use std::sync::Arc;

use curator_recipes::{InterProcessMultiLock, InterProcessMutex, InterProcessSemaphoreV2, SharedCount};

use crate::support::{client, mutex, path, read_write};

#[track_caller]
fn assert_short_line(printed: &str, start: &str) {
    assert!(printed.starts_with(start) && printed.len() < 250, "{printed}");
    for inside in ["Mutex {", "Arc", "DashMap", "Holds", "Handle", "Sides", "inner"] {
        assert!(printed.starts_with(inside) || !printed[start.len()..].contains(inside), "{inside}: {printed}");
    }
}

#[tokio::test]
async fn debug_of_a_mutex_shows_its_path_hold_and_connection() {
    let (client, path) = (client().await, path("printed"));
    let mutex = mutex(&client, &path);
    assert_eq!(
        format!("{mutex:?}"),
        format!("InterProcessMutex {{ path: {path:?}, held: false, connection: Connected, .. }}")
    );
    let guard = mutex.acquire().await.unwrap();
    assert!(format!("{mutex:?}").contains("held: true"));
    guard.release().await.unwrap();
    client.close().await.unwrap();
    assert!(format!("{mutex:?}").contains("connection: Lost"));
}

#[tokio::test]
async fn debug_of_every_lock_is_short_and_shows_no_internals() {
    let (client, path) = (client().await, path("printed"));
    let start = |name: &str| format!("{name} {{ path: {path:?}, ");
    let lock = read_write(&client, &path);
    assert_short_line(&format!("{lock:?}"), &start("InterProcessReadWriteLock"));
    assert_short_line(&format!("{:?}", lock.read()), &start("ReadLock"));
    assert_short_line(&format!("{:?}", lock.write()), &start("WriteLock"));
    let guard = lock.write().acquire().await.unwrap();
    assert_short_line(&format!("{guard:?}"), "WriteGuard { node: ");
    assert_short_line(
        &format!("{:?}", guard.transaction()),
        "GuardedTransaction { transaction: Transaction { operations: [",
    );
    guard.release().await.unwrap();
    let semaphore = InterProcessSemaphoreV2::new(&client, &path, 2).unwrap();
    assert_short_line(&format!("{semaphore:?}"), &start("InterProcessSemaphoreV2"));
    assert_short_line(&format!("{:?}", semaphore.acquire().await.unwrap()), "SemaphoreLease { node: ");
    assert_short_line(&format!("{:?}", SharedCount::new(&client, &path, 0).unwrap()), &start("SharedValue"));
    let paths = InterProcessMultiLock::new(&client, ["/a", "/b"]).unwrap();
    assert_short_line(&format!("{paths:?}"), r#"InterProcessMultiLock { paths: ["/a", "/b"], held: false"#);
    let locks = InterProcessMultiLock::of([Arc::new(InterProcessMutex::new(&client, "/a").unwrap()) as _]).unwrap();
    assert_short_line(&format!("{locks:?}"), r#"InterProcessMultiLock { paths: ["/a"], held: false"#);
}
