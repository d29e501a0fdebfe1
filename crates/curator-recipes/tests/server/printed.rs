//! The `Debug` output of the locks, which appears in logs: the lock, and whether it is held.

use crate::support::subjects::Kind;
use crate::support::{client, mutex, path, read_write};

#[tokio::test]
async fn debug_of_a_mutex_shows_its_path_hold_and_connection() {
    let client = client().await;
    let path = path("printed");
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
    let client = client().await;
    let path = path("printed");
    let assert_short = |printed: String| {
        assert!(printed.contains(&path) && printed.len() < 450, "{printed}");
        for inside in ["Arc", "DashMap", "Holds", "Handle", "Sides", "inner"] {
            assert!(!printed.contains(inside), "{inside}: {printed}");
        }
    };
    for kind in Kind::all() {
        let lock = kind.lock(&client, &format!("{path}/{kind:?}"));
        assert_short(format!("{lock:?}"));
        let held = lock.acquire().await.unwrap();
        assert_short(format!("{held:?}"));
        held.release().await.unwrap();
    }
    let guard = read_write(&client, &path).write().acquire().await.unwrap();
    assert_short(format!("{:?}", guard.transaction()));
}
