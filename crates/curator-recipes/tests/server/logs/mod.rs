//! Log lines and spans of the locks.

mod acquire;
mod hold;

use std::time::Duration;

use curator_recipes::client::{Acl, AuthId, Permission, RetryNTimes};
use curator_recipes::{InterProcessMultiLock, InterProcessSemaphoreMutex, InterProcessSemaphoreV2, LockGuard};
use futures_util::FutureExt as _;
use tracing::Level;

use crate::support::{Line, Logs, arc, behind_proxy_with, client, mutex, path, read_write, soon, unplug, until};

fn hex(guard: &LockGuard) -> String {
    format!("{:#x}", guard.session_id())
}

/// Checks that the line is about this guard and its lock.
#[track_caller]
fn check_hold(line: &Line, kind: &str, lock: &str, guard: &LockGuard) {
    let of_line = ["kind", "lock", "session", "node", "token"].map(|field| line.get(field).to_owned());
    let nodes: Vec<_> = guard.nodes().map(ToString::to_string).collect();
    let expected = [kind, lock, &hex(guard), &nodes.join(", "), &guard.fencing_token().to_string()];
    assert_eq!(of_line, expected);
    assert!(!line.get("client").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lock_logs_its_kind() {
    let (holder, path, logs) = (client().await, path("logs/kinds"), Logs::at(Level::DEBUG));
    let paths: Vec<_> = (0..6).map(|index| format!("{path}/multi/{index}")).collect();
    let lock = read_write(&holder, &path);
    logs.capture(async {
        mutex(&holder, &path).acquire().await.unwrap().release().await.unwrap();
        lock.read().acquire().await.unwrap().release().await.unwrap();
        let writing = lock.write().acquire().await.unwrap();
        writing.downgrade().await.unwrap().release().await.unwrap();
        // For a writer that also reads, each side logs its own guards only.
        let (writing, reading) = (lock.write().acquire().await.unwrap(), lock.read().acquire().await.unwrap());
        writing.release().await.unwrap();
        reading.release().await.unwrap();
        let semaphore = InterProcessSemaphoreV2::new(&holder, &path, 2).unwrap();
        semaphore.acquire().await.unwrap().release().await.unwrap();
        let exclusive = InterProcessSemaphoreMutex::new(&holder, &path).unwrap();
        exclusive.acquire().await.unwrap().release().await.unwrap();
        // The members of a multi-lock of locks log their holds.
        let of_locks = InterProcessMultiLock::of([arc(mutex(&holder, &path)), arc(exclusive)]).unwrap();
        of_locks.acquire().await.unwrap().release().await.unwrap();
        let multi = InterProcessMultiLock::new(&holder, &paths).unwrap();
        multi.acquire().await.unwrap().release().await.unwrap();
    })
    .await;
    let kinds: Vec<_> =
        logs.lines("hold").iter().map(|line| format!("{}: {}", line.get("kind"), line.message)).collect();
    let cycle = |kind| vec![format!("{kind}: owned"), format!("{kind}: released")];
    let both = ["write: owned", "read: owned", "write: released", "read: released"].map(str::to_owned).to_vec();
    let members = ["mutex: owned", "semaphore mutex: owned", "semaphore mutex: released", "mutex: released"];
    let members = members.map(str::to_owned).to_vec();
    let sides = [cycle("mutex"), cycle("read"), cycle("write"), cycle("read"), both].concat();
    let others = [cycle("semaphore"), cycle("semaphore mutex"), members, cycle("multi-lock")].concat();
    assert_eq!(kinds, [sides, others].concat());
    let mut locks: Vec<_> = logs.lines("hold").iter().map(|line| line.get("lock").to_owned()).collect();
    // The last two lines are those of the multi-lock, whose list of paths is truncated.
    assert_eq!(locks.pop().unwrap(), format!("{} and 2 more", paths[..4].join(", ")));
    locks.pop();
    assert!(locks.iter().all(|lock| *lock == path), "{locks:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_logged_with_their_owner() {
    let (holder, path, logs) = (client().await, path("logs/owners"), Logs::at(Level::DEBUG));
    let semaphore = InterProcessSemaphoreV2::new(&holder, &path, 3).unwrap();
    let (one, many) =
        logs.capture(async { (semaphore.acquire().await.unwrap(), semaphore.acquire_many(2).await.unwrap()) }).await;
    let owners: Vec<_> = [&one].into_iter().chain(&many).map(|lease| lease.owner().to_string()).collect();
    let owned = logs.lines("hold");
    assert_eq!(owned.iter().map(|line| line.get("owner")).collect::<Vec<_>>(), owners);
    let acquires = logs.lines("acquire");
    assert_eq!(acquires.iter().map(|line| line.get("owner")).collect::<Vec<_>>(), owners[..2]);
    assert_ne!(owners[1], owners[2]);
}

/// The lock has a path of the maximum length, and the client a password.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_lines_are_short_and_contain_no_secret() {
    let no_reading = [Acl::new(Permission::CREATE | Permission::DELETE, AuthId::anyone())];
    let once_more = RetryNTimes::new(1, Duration::from_millis(10)).unwrap();
    let (proxy, admin) = behind_proxy_with(|builder| {
        let builder = builder.authorization("digest", "orders:open-sesame").retry_policy(once_more);
        builder.connection_timeout(Duration::from_secs(3))
    })
    .await;
    let (dir, logs) = (path("logs/long"), Logs::at(Level::TRACE));
    let lock = mutex(&admin, &format!("{dir}/{}", "x".repeat(2000)));
    logs.capture(async {
        let guard = lock.acquire().await.unwrap();
        let again = lock.acquire().await.unwrap();
        // The node is unreadable from now on.
        admin.set_acl(guard.node(), no_reading, None).await.unwrap();
        assert!(guard.loss().now_or_never().is_none());
        until(async || guard.loss().now_or_never().is_some() || logs.messages("hold").len() == 3).await;
        drop(again);
        guard.release().await.unwrap();
        unplug(&proxy, &admin).await;
        soon(lock.acquire()).await.unwrap_err();
    })
    .await;
    let expected = ["owned", "re-entered", "cannot watch its own node", "left", "released", "pipeline"];
    assert_eq!(logs.messages("hold"), expected);
    assert!(logs.messages("acquire").ends_with(&["acquiring".to_owned(), "given up".to_owned()]));
    for line in logs.all() {
        let texts = line.fields.values().chain([&line.message]);
        for text in texts {
            assert!(text.len() <= 320 && !text.contains("sesame"), "{line:?}");
        }
        line.get("span");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelines_are_logged_at_level_trace() {
    let (holder, path, logs) = (client().await, path("logs/trace"), Logs::at(Level::TRACE));
    let mutex = mutex(&holder, &path);
    mutex.acquire().await.unwrap().release().await.unwrap();
    logs.capture(async { mutex.acquire().await.unwrap().release().await.unwrap() }).await;
    let lines = logs.lines("acquire");
    assert_eq!(logs.messages("acquire"), ["acquiring", "pipeline"]);
    assert_eq!([lines[1].get("requests"), lines[1].get("what")], ["2", "create, list"]);
    assert_eq!(logs.messages("hold"), ["owned", "released", "pipeline"]);
    let delete = logs.lines("hold").remove(2);
    assert_eq!([delete.get("requests"), delete.get("what"), delete.get("nodes")], ["1", "delete", "1"]);
}
