//! Log lines and spans of the locks, as `docs/production.md` lists them.

use std::time::Duration;

use curator_recipes::client::{Acl, AuthId, Error as ClientError, Permission, RetryNTimes};
use curator_recipes::{Error, InterProcessMultiLock, LockGuard, LossReason, OwnerId, revoke};
use futures_util::FutureExt as _;
use tracing::Level;

use crate::support::subjects::Kind;
use crate::support::{
    LONG_SESSION, LOSSES, Line, Logs, behind_proxy, behind_proxy_with, builder, client, lose,
    mutex, path, polled_until, soon, unplug, until,
};

/// Checks that the line is about this guard and its lock.
#[track_caller]
fn check_hold(line: &Line, lock: &str, guard: &LockGuard) {
    let of_line =
        ["kind", "lock", "session", "node", "token"].map(|field| line.get(field).to_owned());
    let session = format!("{:#x}", guard.session_id());
    assert_eq!(
        of_line,
        [
            "mutex",
            lock,
            &session,
            guard.node().as_str(),
            &guard.fencing_token().to_string()
        ]
    );
    assert!(!line.get("client").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_is_logged_with_the_kind_of_its_lock() {
    let client = client().await;
    for kind in Kind::all() {
        let expected: &[&str] = match kind {
            Kind::Mutex | Kind::NonReentrantMutex => &["mutex"],
            Kind::SemaphoreMutex => &["semaphore mutex"],
            Kind::Semaphore | Kind::SharedLimit => &["semaphore"],
            Kind::Leases => &["semaphore", "semaphore"],
            Kind::Read => &["read"],
            Kind::Write => &["write"],
            Kind::Paths => &["multi-lock"],
            // The members log their holds, and the multi-lock does not.
            Kind::Locks => &["mutex", "write", "semaphore mutex"],
        };
        let logs = Logs::at(Level::DEBUG);
        let lock = kind.lock(&client, &path("logs/kinds"));
        logs.capture(async { lock.acquire().await.unwrap().release().await.unwrap() })
            .await;
        let lines = logs.lines("hold");
        let (owned, released): (Vec<_>, Vec<_>) =
            lines.iter().partition(|line| line.message == "owned");
        assert_eq!(
            owned
                .iter()
                .map(|line| line.get("kind"))
                .collect::<Vec<_>>(),
            expected,
            "{kind:?}"
        );
        assert_eq!(released.len(), expected.len(), "{kind:?}: {released:?}");
    }
    let logs = Logs::at(Level::DEBUG);
    let paths = [1, 2, 3, 4, 5, 6].map(|_| path("logs/multi"));
    let _held = logs
        .capture(
            InterProcessMultiLock::new(&client, &paths)
                .unwrap()
                .acquire(),
        )
        .await
        .unwrap();
    assert_eq!(
        logs.lines("hold")[0].get("lock"),
        format!("{} and 2 more", paths[..4].join(", "))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_life_of_a_hold_is_logged() {
    let holder = client().await;
    let other = client().await;
    let path = path("logs/hold");
    let logs = Logs::at(Level::DEBUG);
    let mutex = mutex(&holder, &path);
    let owner = OwnerId::new();
    logs.capture(async {
        let guard = mutex.acquire_as(&owner).await.unwrap();
        let acquire = logs.lines("acquire").remove(0);
        assert_eq!(
            (acquire.message.as_str(), acquire.get("wait")),
            ("acquiring", "forever")
        );
        let about = ["kind", "lock", "owner"].map(|field| acquire.get(field));
        assert_eq!(about, ["mutex", &path, &owner.to_string()]);
        let again = mutex.acquire_as(&owner).await.unwrap();
        drop(mutex.try_acquire_as(&owner).await.unwrap().unwrap());
        again.release().await.unwrap();
        check_hold(&logs.lines("hold")[0], &path, &guard);
        // The second request is not logged.
        for _ in 0..2 {
            revoke(&other, guard.node()).await.unwrap();
            soon(guard.revocation_requested()).await.unwrap();
        }
        guard.release().await.unwrap();
    })
    .await;
    let lines = logs.lines("hold");
    let expected = [
        "owned",
        "re-entered",
        "re-entered",
        "left",
        "left",
        "revocation requested",
        "released",
    ];
    assert_eq!(logs.messages("hold"), expected);
    let guards: Vec<_> = lines[1..5].iter().map(|line| line.get("guards")).collect();
    assert_eq!(guards, ["2", "3", "2", "1"]);
    lines[0].get("waited");
    lines[6].get("held");
    assert!(
        lines
            .iter()
            .all(|line| line.get("owner") == owner.to_string())
    );
    assert_eq!(logs.messages("acquire"), ["acquiring"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_that_ends_without_the_lock_logs_why() {
    let holder = client().await;
    let waiter = client().await;
    let path = path("logs/given-up");
    let held = mutex(&holder, &path).acquire().await.unwrap();
    let wanted = mutex(&waiter, &path);
    let why = |logs: &Logs| {
        let last = logs.lines("acquire").pop().unwrap();
        assert_eq!(last.message, "not acquired");
        last.get("waited");
        last.get("why").to_owned()
    };

    let logs = Logs::at(Level::DEBUG);
    assert!(logs.capture(wanted.try_acquire()).await.unwrap().is_none());
    assert_eq!(why(&logs), "other contenders are ahead");
    assert_eq!(logs.lines("acquire")[0].get("wait"), "none");

    let logs = Logs::at(Level::DEBUG);
    assert!(
        soon(logs.capture(wanted.acquire_timeout(Duration::from_millis(200))))
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(why(&logs), "timed out");

    let logs = Logs::at(Level::DEBUG);
    let queued = until(async || logs.messages("acquire") == ["acquiring", "queued"]);
    let dropped = soon(polled_until(logs.capture(wanted.acquire()), queued)).await;
    let queued = logs.lines("acquire").remove(1);
    assert_eq!(
        (queued.get("place"), queued.get("behind")),
        ("1", held.node().as_str())
    );
    logs.capture_call(|| drop(dropped));
    assert_eq!(why(&logs), "its future was dropped");

    // An acquire that the server refuses.
    let logs = Logs::at(Level::DEBUG);
    let below_an_ephemeral = mutex(&holder, held.node().as_str());
    let error = soon(logs.capture(below_an_ephemeral.acquire()))
        .await
        .unwrap_err();
    assert!(
        matches!(
            &error,
            Error::Client(ClientError::NoChildrenForEphemerals { .. })
        ),
        "{error}"
    );
    assert_eq!(why(&logs), error.to_string());
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_is_logged_once() {
    let (proxy, holder) = behind_proxy().await;
    let path = path("logs/lost");
    for reason in LOSSES {
        let logs = Logs::at(Level::DEBUG);
        logs.capture(async {
            let guard = mutex(&holder, &path).acquire().await.unwrap();
            let handle = guard.loss();
            if reason == LossReason::NodeDeleted {
                // The handle's watch has to be set before the delete.
                let watched =
                    until(async || holder.check_exists("/").await.is_ok() && guard.is_valid());
                let waiting = soon(polled_until(handle.clone(), watched)).await;
                lose(&guard, &proxy, reason).await;
                soon(waiting).await;
            } else {
                lose(&guard, &proxy, reason).await;
            }
            assert_eq!(soon(guard.lost()).await.reason, reason);
            soon(handle).await;
            check_hold(&logs.lines("hold")[1], &path, &guard);
            guard.release().await.unwrap_err();
        })
        .await;
        assert_eq!(logs.messages("hold"), ["owned", "lost"], "{reason}");
        let lost = logs.lines("hold").remove(1);
        lost.get("held");
        assert_eq!(lost.get("why"), reason.to_string());
    }
}

/// The lock has a path of the maximum length, and the client a password.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_lines_are_short_and_contain_no_secret() {
    let no_reading = [Acl::new(
        Permission::CREATE | Permission::DELETE,
        AuthId::anyone(),
    )];
    let once_more = RetryNTimes::new(1, Duration::from_millis(10)).unwrap();
    let (proxy, admin) =
        behind_proxy_with(|builder| builder.authorization("digest", "orders:open-sesame")).await;
    // Its acquires fail during an outage, each after two attempts.
    let impatient = builder(&proxy.connect_string(), LONG_SESSION)
        .authorization("digest", "orders:open-sesame")
        .retry_policy(once_more)
        .connection_timeout(Duration::from_millis(500))
        .start()
        .unwrap();
    let dir = path("logs/long");
    let logs = Logs::at(Level::TRACE);
    let lock = mutex(&admin, &format!("{dir}/{}", "x".repeat(2000)));
    logs.capture(async {
        let guard = lock.acquire().await.unwrap();
        let again = lock.acquire().await.unwrap();
        // The node is unreadable from now on, which is logged once.
        admin.set_acl(guard.node(), no_reading, None).await.unwrap();
        assert!(guard.loss().now_or_never().is_none());
        until(async || guard.loss().now_or_never().is_some() || logs.messages("hold").len() == 3)
            .await;
        drop(again);
        guard.release().await.unwrap();
        unplug(&proxy, &impatient).await;
        let lock = mutex(&impatient, &format!("{dir}/{}", "x".repeat(2000)));
        soon(lock.acquire()).await.unwrap_err();
    })
    .await;
    let expected = [
        "owned",
        "re-entered",
        "cannot watch its own node",
        "left",
        "released",
        "pipeline",
    ];
    assert_eq!(logs.messages("hold"), expected);
    let acquires = logs.messages("acquire");
    assert!(
        acquires.ends_with(&["acquiring".to_owned(), "not acquired".to_owned()]),
        "{acquires:?}"
    );
    for line in logs.all() {
        let texts = line.fields.values().chain([&line.message]);
        for text in texts {
            assert!(text.len() <= 320 && !text.contains("sesame"), "{line:?}");
        }
        line.get("span");
    }
}
