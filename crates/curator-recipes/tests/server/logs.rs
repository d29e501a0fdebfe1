//! What the locks tell whoever listens.

use std::time::Duration;

use curator_recipes::client::{Acl, AuthId, Permission, RetryNTimes, SessionEnd};
use curator_recipes::{
    InterProcessMultiLock, InterProcessSemaphoreMutex, InterProcessSemaphoreV2, LockGuard, LossReason, OwnerId, revoke,
};
use curator_test::{FaultProxy, OpCode, TestingServer};
use futures_util::FutureExt as _;
use tracing::Level;

use crate::support::{
    LONG_SESSION, Line, Logs, behind_proxy, builder, client, end_session, mutex, path, polled_until, queue_of,
    read_write, soon, until,
};

fn hex(guard: &LockGuard) -> String {
    format!("{:#x}", guard.session_id())
}

/// Whether the line is about this guard, and its lock.
#[track_caller]
fn check_hold(line: &Line, kind: &str, lock: &str, guard: &LockGuard) {
    let of_line = ["kind", "lock", "session", "node", "token"].map(|field| line.get(field).to_owned());
    let nodes: Vec<_> = guard.nodes().map(ToString::to_string).collect();
    let expected = [kind, lock, &hex(guard), &nodes.join(", "), &guard.fencing_token().to_string()];
    assert_eq!(of_line, expected);
    assert!(!line.get("client").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_life_of_a_hold_is_told() {
    let (holder, path, logs) = (client().await, path("logs/hold"), Logs::at(Level::DEBUG));
    let (mutex, owner) = (mutex(&holder, &path), OwnerId::new());
    logs.hear(async {
        let guard = mutex.acquire_as(&owner).await.unwrap();
        let asked = logs.lines("acquire").remove(0);
        assert_eq!((asked.message.as_str(), asked.get("wait")), ("asked", "forever"));
        let about = ["kind", "lock", "owner"].map(|field| asked.get(field));
        assert_eq!(about, ["mutex", &path, &owner.to_string()]);
        let again = mutex.acquire_as(&owner).await.unwrap();
        let third = mutex.try_acquire_as(&owner).await.unwrap().unwrap();
        drop(third);
        again.release().await.unwrap();
        check_hold(&logs.lines("hold")[0], "mutex", &path, &guard);
        guard.release().await.unwrap();
    })
    .await;
    let lines = logs.lines("hold");
    assert_eq!(logs.messages("hold"), ["owned", "entered again", "entered again", "left", "left", "released"]);
    let guards: Vec<_> = lines[1..5].iter().map(|line| line.get("guards")).collect();
    assert_eq!(guards, ["2", "3", "2", "1"]);
    lines[0].get("waited");
    lines[5].get("held");
    assert!(lines.iter().all(|line| line.get("owner") == owner.to_string()));
    assert_eq!(logs.messages("acquire"), ["asked"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_tells_behind_whom_it_waits() {
    let (holder, waiter, path) = (client().await, client().await, path("logs/waiter"));
    let mut before = vec![mutex(&holder, &path).acquire().await.unwrap()];
    let mut between = Vec::new();
    for length in 2..=3 {
        let mutex = mutex(&holder, &path);
        between.push(tokio::spawn(async move { mutex.acquire().await.unwrap() }));
        queue_of(&waiter, &path, length).await;
    }
    let logs = Logs::at(Level::DEBUG);
    let waiting = tokio::spawn(logs.hear({
        let mutex = mutex(&waiter, &path);
        async move { mutex.acquire().await.unwrap() }
    }));
    until(async || logs.messages("acquire") == ["asked", "queued"]).await;
    let queued = logs.lines("acquire").remove(1);
    assert_eq!(queued.get("place"), "3");
    let (node, behind) = (queued.get("node").to_owned(), queued.get("behind").to_owned());
    assert!(behind.starts_with(&format!("{path}/_c_")) && behind.ends_with("-lock-0000000002"), "{behind}");
    assert!(node.ends_with("-lock-0000000003"), "{node}");
    for task in between {
        before.pop().unwrap().release().await.unwrap();
        before.push(soon(task).await.unwrap());
    }
    // It looks once more on the way.
    until(async || logs.messages("acquire") == ["asked", "queued", "queued"]).await;
    before.pop().unwrap().release().await.unwrap();
    let guard = soon(waiting).await.unwrap();
    assert_eq!((guard.node().as_str(), hex(&guard)), (node.as_str(), queued.get("session").to_owned()));
    let told = logs.lines("acquire");
    assert_eq!(told.len(), 3);
    assert_eq!((told[2].get("place"), told[2].get("behind")), ("1", behind.as_str()));
    let owned = logs.lines("hold").remove(0);
    check_hold(&owned, "mutex", &path, &guard);
    assert_ne!(owned.get("waited"), "0ns");
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_that_ends_without_the_lock_tells_why() {
    let (holder, waiter, path) = (client().await, client().await, path("logs/given-up"));
    let held = mutex(&holder, &path).acquire().await.unwrap();
    let wanted = mutex(&waiter, &path);
    let why = |logs: &Logs| {
        let last = logs.lines("acquire").pop().unwrap();
        assert_eq!(last.message, "given up");
        last.get("waited");
        last.get("why").to_owned()
    };

    let logs = Logs::at(Level::DEBUG);
    assert!(logs.hear(wanted.try_acquire()).await.unwrap().is_none());
    assert_eq!(why(&logs), "others are before it");
    assert_eq!(logs.lines("acquire")[0].get("wait"), "none");

    let logs = Logs::at(Level::DEBUG);
    assert!(soon(logs.hear(wanted.acquire_timeout(Duration::from_millis(200)))).await.unwrap().is_none());
    assert_eq!(why(&logs), "the time is up");

    let logs = Logs::at(Level::DEBUG);
    let queued = until(async || logs.messages("acquire") == ["asked", "queued"]);
    let dropped = soon(polled_until(logs.hear(wanted.acquire()), queued)).await;
    logs.hear_now(|| drop(dropped));
    assert_eq!(why(&logs), "its future was dropped");

    let logs = Logs::at(Level::DEBUG);
    let waiting = tokio::spawn(logs.hear({
        let wanted = wanted.clone();
        async move { wanted.acquire().await }
    }));
    until(async || logs.messages("acquire") == ["asked", "queued"]).await;
    waiter.close().await.unwrap();
    soon(waiting).await.unwrap().unwrap_err();
    assert_eq!(why(&logs), "the client closes");

    // One that the server refuses.
    let logs = Logs::at(Level::DEBUG);
    let below_an_ephemeral = mutex(&holder, held.node().as_str());
    let error = logs.hear(below_an_ephemeral.acquire()).await.unwrap_err();
    assert_eq!(why(&logs), error.to_string());
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_is_told_once_whenever_it_comes() {
    let (holder, other, path) = (client().await, client().await, path("logs/revoked"));
    let logs = Logs::at(Level::DEBUG);
    logs.hear(async {
        let guard = mutex(&holder, &path).acquire().await.unwrap();
        for _ in 0..2 {
            revoke(&other, guard.node()).await.unwrap();
            soon(guard.revocation_requested()).await.unwrap();
        }
        guard.release().await.unwrap();
    })
    .await;
    assert_eq!(logs.messages("hold"), ["owned", "asked to give the lock back", "released"]);

    // Asked for before it was held.
    let logs = Logs::at(Level::DEBUG);
    let held = mutex(&other, &path).acquire().await.unwrap();
    let waiting = tokio::spawn(logs.hear({
        let mutex = mutex(&holder, &path);
        async move { mutex.acquire().await.unwrap() }
    }));
    until(async || logs.messages("acquire") == ["asked", "queued"]).await;
    let participants = mutex(&other, &path).participants().await.unwrap();
    revoke(&other, &participants[1].path).await.unwrap();
    held.release().await.unwrap();
    let guard = soon(waiting).await.unwrap();
    soon(logs.hear(guard.revocation_requested())).await.unwrap();
    assert_eq!(logs.messages("hold"), ["owned", "asked to give the lock back"]);
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_is_told_once_by_whoever_notices_it_first() {
    let server = TestingServer::shared().await;
    let ((proxy, holder), path) = (behind_proxy().await, path("logs/lost"));
    for deleted in [true, false] {
        let logs = Logs::at(Level::DEBUG);
        let reason = logs.hear(async {
            let guard = mutex(&holder, &path).acquire().await.unwrap();
            let handle = guard.loss();
            if deleted {
                // It has to be watched first.
                let watched = until(async || holder.check_exists("/").await.is_ok() && guard.is_valid());
                let mut handle = soon(polled_until(handle.clone(), watched)).await;
                client().await.delete().for_path(guard.node()).await.unwrap();
                soon(&mut handle).await;
            } else {
                end_session(server, &proxy).await;
            }
            let lost = soon(guard.lost()).await;
            soon(handle).await;
            assert!(!guard.is_valid());
            check_hold(&logs.lines("hold")[1], "mutex", &path, &guard);
            guard.release().await.unwrap_err();
            lost.reason
        });
        let reason = reason.await;
        assert_eq!(logs.messages("hold"), ["owned", "lost"], "{reason}");
        let lost = logs.lines("hold").remove(1);
        lost.get("held");
        assert_eq!(lost.get("why"), reason.to_string());
        let expected = if deleted { LossReason::NodeDeleted } else { LossReason::SessionLost(SessionEnd::Expired) };
        assert_eq!(reason, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lock_tells_what_it_is() {
    let (holder, path, logs) = (client().await, path("logs/kinds"), Logs::at(Level::DEBUG));
    let paths: Vec<_> = (0..6).map(|index| format!("{path}/multi/{index}")).collect();
    let lock = read_write(&holder, &path);
    logs.hear(async {
        lock.read().acquire().await.unwrap().release().await.unwrap();
        let writing = lock.write().acquire().await.unwrap();
        writing.downgrade().await.unwrap().release().await.unwrap();
        let semaphore = InterProcessSemaphoreV2::new(&holder, &path, 2).unwrap();
        semaphore.acquire().await.unwrap().release().await.unwrap();
        let exclusive = InterProcessSemaphoreMutex::new(&holder, &path).unwrap();
        exclusive.acquire().await.unwrap().release().await.unwrap();
        let multi = InterProcessMultiLock::new(&holder, &paths).unwrap();
        multi.acquire().await.unwrap().release().await.unwrap();
    })
    .await;
    let kinds: Vec<_> =
        logs.lines("hold").iter().map(|line| format!("{}: {}", line.get("kind"), line.message)).collect();
    let cycles = ["read", "write", "read", "semaphore", "semaphore mutex", "multi-lock"];
    let expected: Vec<_> =
        cycles.iter().flat_map(|kind| [format!("{kind}: owned"), format!("{kind}: released")]).collect();
    assert_eq!(kinds, expected);
    let mut locks: Vec<_> = logs.lines("hold").iter().map(|line| line.get("lock").to_owned()).collect();
    // Not one below another, and not too many.
    assert_eq!(locks.pop().unwrap(), format!("{} and 2 more", paths[..4].join(", ")));
    assert!(locks[..10].iter().all(|lock| *lock == path), "{locks:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_in_a_semaphores_queue_tells_that_it_waits_for_leases() {
    let (holder, waiter, path) = (client().await, client().await, path("logs/leases"));
    let semaphore = |client| InterProcessSemaphoreV2::new(client, &path, 1).unwrap();
    let held = semaphore(&holder).acquire().await.unwrap();
    let logs = Logs::at(Level::DEBUG);
    let waiting = tokio::spawn(logs.hear({
        let semaphore = semaphore(&waiter);
        async move { semaphore.acquire().await.unwrap() }
    }));
    until(async || logs.messages("acquire") == ["asked", "first in the queue: waiting for leases"]).await;
    held.release().await.unwrap();
    soon(waiting).await.unwrap().release().await.unwrap();
}

/// It is first once more in the next session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_in_a_semaphores_queue_tells_it_again_in_the_next_session() {
    let server = TestingServer::shared().await;
    let (holder, (proxy, waiter), path) = (client().await, behind_proxy().await, path("logs/leases-again"));
    let semaphore = |client| InterProcessSemaphoreV2::new(client, &path, 1).unwrap();
    let held = semaphore(&holder).acquire().await.unwrap();
    let logs = Logs::at(Level::DEBUG);
    let waiting = tokio::spawn(logs.hear({
        let semaphore = semaphore(&waiter);
        async move { semaphore.acquire().await.unwrap() }
    }));
    let first = "first in the queue: waiting for leases";
    until(async || logs.messages("acquire") == ["asked", first]).await;
    end_session(server, &proxy).await;
    let over = "lost the place in the queue with the session";
    until(async || logs.messages("acquire") == ["asked", first, over, first]).await;
    held.release().await.unwrap();
    soon(waiting).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_has_the_owner_that_the_log_says() {
    let (holder, path, logs) = (client().await, path("logs/owners"), Logs::at(Level::DEBUG));
    let semaphore = InterProcessSemaphoreV2::new(&holder, &path, 3).unwrap();
    let (one, many) =
        logs.hear(async { (semaphore.acquire().await.unwrap(), semaphore.acquire_many(2).await.unwrap()) }).await;
    let owners: Vec<_> = [&one].into_iter().chain(&many).map(|lease| lease.owner().to_string()).collect();
    let owned = logs.lines("hold");
    assert_eq!(owned.iter().map(|line| line.get("owner")).collect::<Vec<_>>(), owners);
    let asked = logs.lines("acquire");
    assert_eq!(asked.iter().map(|line| line.get("owner")).collect::<Vec<_>>(), owners[..2]);
    assert_ne!(owners[1], owners[2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_reads_too_tells_of_its_own_guards_only() {
    let (holder, path, logs) = (client().await, path("logs/writer"), Logs::at(Level::DEBUG));
    let lock = read_write(&holder, &path);
    logs.hear(async {
        let writing = lock.write().acquire().await.unwrap();
        let reading = lock.read().acquire().await.unwrap();
        writing.release().await.unwrap();
        reading.release().await.unwrap();
    })
    .await;
    let lines = logs.lines("hold");
    let told: Vec<_> = lines.iter().map(|line| [line.get("kind"), &line.message]).collect();
    let expected = [["write", "owned"], ["read", "owned"], ["write", "released"], ["read", "released"]];
    assert_eq!(told, expected);
    assert_eq!(logs.messages("acquire"), ["asked", "asked"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_tells_that_it_waits_for_its_owners_other_future_and_how_that_ends() {
    let (holder, waiter, path) = (client().await, client().await, path("logs/gate"));
    let held = mutex(&holder, &path).acquire().await.unwrap();
    let (wanted, owner) = (mutex(&waiter, &path), OwnerId::new());
    let other = tokio::spawn({
        let (wanted, owner) = (wanted.clone(), owner.clone());
        async move { wanted.acquire_as(&owner).await.unwrap() }
    });
    queue_of(&holder, &path, 2).await;
    let waits = "another future of its owner is acquiring the lock";
    let why = |logs: &Logs| {
        assert_eq!(logs.messages("acquire"), ["asked", waits, "given up"]);
        logs.lines("acquire")[2].get("why").to_owned()
    };

    let logs = Logs::at(Level::DEBUG);
    assert!(logs.hear(wanted.try_acquire_as(&owner)).await.unwrap().is_none());
    assert_eq!(why(&logs), "others are before it");

    let logs = Logs::at(Level::DEBUG);
    let timeout = Duration::from_millis(50);
    assert!(soon(logs.hear(wanted.acquire_timeout_as(&owner, timeout))).await.unwrap().is_none());
    assert_eq!(why(&logs), "the time is up");

    let logs = Logs::at(Level::DEBUG);
    let waiting = until(async || logs.messages("acquire") == ["asked", waits]);
    let dropped = soon(polled_until(logs.hear(wanted.acquire_as(&owner)), waiting)).await;
    logs.hear_now(|| drop(dropped));
    assert_eq!(why(&logs), "its future was dropped");

    // The other one gets it, and so this one re-enters.
    let logs = Logs::at(Level::DEBUG);
    let again = tokio::spawn(logs.hear(async move { wanted.acquire_as(&owner).await.unwrap() }));
    until(async || logs.messages("acquire") == ["asked", waits]).await;
    held.release().await.unwrap();
    let guards = [soon(other).await.unwrap(), soon(again).await.unwrap()];
    assert!(guards[1].is_reentry());
    assert!(!logs.messages("acquire").contains(&"given up".to_owned()));

    // A refusal before anything is sent.
    let logs = Logs::at(Level::DEBUG);
    let lock = read_write(&holder, &path);
    let reading = lock.read().acquire().await.unwrap();
    let error = logs.hear(lock.write().acquire()).await.map(drop).unwrap_err();
    assert_eq!(logs.messages("acquire"), ["asked", "given up"]);
    assert_eq!(logs.lines("acquire")[1].get("why"), error.to_string());
    drop((guards, reading));
}

/// However often it is tried.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_whose_node_cannot_be_watched_says_so_once() {
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    let builder = builder(&proxy.connect_string(), LONG_SESSION).operation_timeout(Duration::from_millis(100));
    let (holder, path) = (builder.connect().await.unwrap(), path("logs/unwatched"));
    let logs = Logs::at(Level::DEBUG);
    let guard = logs.hear(mutex(&holder, &path).acquire()).await.unwrap();
    proxy.hold_replies(OpCode::GetData);
    let watching = tokio::spawn(logs.hear(guard.loss()));
    proxy.wait_for_request(OpCode::GetData, 4).await.unwrap();
    assert_eq!(logs.messages("hold"), ["owned", "cannot watch its own node"]);
    let line = logs.lines("hold").remove(1);
    assert_eq!(line.get("watched"), guard.node().as_str());
    check_hold(&line, "mutex", &path, &guard);
    proxy.release_held();
    logs.hear(guard.release()).await.unwrap();
    soon(watching).await.unwrap();
    assert_eq!(logs.messages("hold"), ["owned", "cannot watch its own node", "released"]);
}

/// A path and errors that are as long as may be, and a password.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_line_is_long_and_none_has_a_secret() {
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    let no_reading = [Acl::new(Permission::CREATE | Permission::DELETE, AuthId::anyone())];
    let client = builder(&proxy.connect_string(), LONG_SESSION)
        .authorization("digest", "orders:open-sesame")
        .connection_timeout(Duration::from_millis(100))
        .retry_policy(RetryNTimes::new(1, Duration::from_millis(10)).unwrap());
    let admin = client.connect().await.unwrap();
    let (dir, logs) = (path("logs/long"), Logs::at(Level::TRACE));
    let lock = mutex(&admin, &format!("{dir}/{}", "x".repeat(2000)));
    logs.hear(async {
        let guard = lock.acquire().await.unwrap();
        let again = lock.acquire().await.unwrap();
        // It may not be read from now on.
        admin.set_acl(guard.node(), no_reading, None).await.unwrap();
        assert!(guard.loss().now_or_never().is_none());
        until(async || guard.loss().now_or_never().is_some() || logs.messages("hold").len() == 3).await;
        drop(again);
        guard.release().await.unwrap();
        proxy.refuse(true).unwrap();
        proxy.cut();
        until(async || admin.try_session().is_err()).await;
        soon(lock.acquire()).await.unwrap_err();
    })
    .await;
    let expected = ["owned", "entered again", "cannot watch its own node", "left", "released", "pipeline"];
    assert_eq!(logs.messages("hold"), expected);
    assert!(logs.messages("acquire").ends_with(&["asked".to_owned(), "given up".to_owned()]));
    for line in logs.all() {
        let texts = line.values().chain([line.message.as_str()]);
        for text in texts {
            assert!(text.len() <= 320 && !text.contains("sesame"), "{line:?}");
        }
        assert!(line.span.is_some(), "{line:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelines_are_told_at_level_trace() {
    let (holder, path, logs) = (client().await, path("logs/trace"), Logs::at(Level::TRACE));
    let mutex = mutex(&holder, &path);
    mutex.acquire().await.unwrap().release().await.unwrap();
    logs.hear(async { mutex.acquire().await.unwrap().release().await.unwrap() }).await;
    let lines = logs.lines("acquire");
    assert_eq!(logs.messages("acquire"), ["asked", "pipeline"]);
    assert_eq!([lines[1].get("requests"), lines[1].get("what")], ["2", "create, list"]);
    assert_eq!(logs.messages("hold"), ["owned", "released", "pipeline"]);
    let delete = logs.lines("hold").remove(2);
    assert_eq!([delete.get("requests"), delete.get("what"), delete.get("nodes")], ["1", "delete", "1"]);
}
