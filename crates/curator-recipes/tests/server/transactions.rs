//! Writes that are done only under the lock: `LockGuard::transaction`.

use std::sync::Arc;

use curator_recipes::client::{self, CreateMode, CuratorClient, SessionEnd, TransactionResult, ZPath};
use curator_recipes::{
    Error, InterProcessLock, InterProcessMultiLock, InterProcessReadWriteLock, InterProcessSemaphoreMutex,
    InterProcessSemaphoreV2, LockGuard, LossReason, SemaphoreLease, WriteGuard,
};
use curator_test::{FaultProxy, OpCode, TestingServer};

use crate::support::{
    LONG_SESSION, builder, children, client, connect, drop_after, end_session, mutex, path, polled_until, queue_of,
    soon, until,
};

/// A guard of whichever lock.
enum Any {
    Plain(LockGuard),
    Write(WriteGuard),
    Lease(SemaphoreLease),
}

impl std::ops::Deref for Any {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        match self {
            Self::Plain(guard) => guard,
            Self::Write(guard) => guard,
            Self::Lease(lease) => lease,
        }
    }
}

const KINDS: [&str; 10] = [
    "mutex",
    "re-entered mutex",
    "read lock",
    "write lock",
    "downgraded write lock",
    "read lock beside a write lock",
    "semaphore",
    "semaphore mutex",
    "multi-lock of paths",
    "multi-lock of locks",
];

/// A guard of a lock of this kind, and what must live as long.
async fn acquire(kind: &str, client: &CuratorClient) -> (Any, Option<Any>) {
    let path = path("transaction");
    let read_write = InterProcessReadWriteLock::new(client, &path).unwrap();
    let guard = match kind {
        "mutex" => Any::Plain(mutex(client, &path).acquire().await.unwrap()),
        "re-entered mutex" => {
            let mutex = mutex(client, &path);
            let first = mutex.acquire().await.unwrap();
            return (Any::Plain(mutex.acquire().await.unwrap()), Some(Any::Plain(first)));
        }
        "read lock" => Any::Plain(read_write.read().acquire().await.unwrap()),
        "write lock" => Any::Write(read_write.write().acquire().await.unwrap()),
        "downgraded write lock" => Any::Plain(read_write.write().acquire().await.unwrap().downgrade().await.unwrap()),
        "read lock beside a write lock" => {
            let writing = read_write.write().acquire().await.unwrap();
            return (Any::Plain(read_write.read().acquire().await.unwrap()), Some(Any::Write(writing)));
        }
        "semaphore" => Any::Lease(InterProcessSemaphoreV2::new(client, &path, 2).unwrap().acquire().await.unwrap()),
        "semaphore mutex" => {
            Any::Plain(InterProcessSemaphoreMutex::new(client, &path).unwrap().acquire().await.unwrap())
        }
        "multi-lock of paths" => {
            let paths = ["a", "b", "c"].map(|name| format!("{path}/{name}"));
            Any::Plain(InterProcessMultiLock::new(client, paths).unwrap().acquire().await.unwrap())
        }
        "multi-lock of locks" => {
            let locks: [Arc<dyn InterProcessLock>; 3] = [
                Arc::new(mutex(client, &format!("{path}/a"))),
                Arc::new(InterProcessSemaphoreMutex::new(client, format!("{path}/b")).unwrap()),
                Arc::new(InterProcessReadWriteLock::new(client, format!("{path}/c")).unwrap().write().clone()),
            ];
            Any::Plain(InterProcessMultiLock::of(locks).unwrap().acquire().await.unwrap())
        }
        other => panic!("{other}"),
    };
    (guard, None)
}

/// A node to write to.
async fn account(client: &CuratorClient) -> String {
    let path = path("account");
    client.create().creating_parent_containers().for_path(&path, "100").await.unwrap();
    path
}

async fn data(client: &CuratorClient, path: &str) -> String {
    String::from_utf8(client.get_data(path).await.unwrap().0).unwrap()
}

fn assert_lost(error: &Error, node: &ZPath, reason: LossReason) {
    match error {
        Error::Lost(lost) => assert_eq!((&lost.path, lost.reason), (node, reason)),
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_under_any_lock_is_applied_and_answered_in_the_order_of_its_operations() {
    let client = client().await;
    for kind in KINDS {
        let account = account(&client).await;
        let (guard, _also) = acquire(kind, &client).await;
        let transaction = guard.transaction().check(&account, Some(0)).unwrap().set_data(&account, "90", None).unwrap();
        let transaction = transaction.create(format!("{account}/new"), "note", CreateMode::Persistent).unwrap();
        let transaction = transaction.delete(format!("{account}/new"), Some(0)).unwrap();
        let results = transaction.commit().await.unwrap();
        let [
            TransactionResult::Checked,
            TransactionResult::DataSet(stat),
            TransactionResult::Created(created),
            TransactionResult::Deleted,
        ] = &results[..]
        else {
            panic!("{kind}: {results:?}")
        };
        assert_eq!(stat.version, 1, "{kind}");
        assert_eq!(created.path.as_str(), format!("{account}/new"), "{kind}");
        assert_eq!(data(&client, &account).await, "90", "{kind}");
        assert_eq!(children(&client, &account).await, [""; 0], "{kind}");
        // The lock is as it was.
        assert!(guard.is_valid(), "{kind}");
        assert_eq!(guard.transaction().commit().await.unwrap(), [], "{kind}: nothing but the checks");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_fails_is_named_by_its_own_number_and_nothing_is_applied() {
    let client = client().await;
    for kind in KINDS {
        let account = account(&client).await;
        let (guard, _also) = acquire(kind, &client).await;
        for failing in [0, 1, 2] {
            let mut transaction = guard.transaction();
            for index in 0..3 {
                let version = (index == failing).then_some(77);
                transaction = transaction.set_data(&account, format!("{index}"), version).unwrap();
            }
            match transaction.commit().await.unwrap_err() {
                Error::Client(client::Error::TransactionFailed { index, cause }) => {
                    assert_eq!(index, failing, "{kind}");
                    assert!(matches!(*cause, client::Error::BadVersion { .. }), "{kind}: {cause}");
                }
                other => panic!("{kind}: {other}"),
            }
            assert_eq!(data(&client, &account).await, "100", "{kind}");
        }
        // A node of the user's own that is missing is no lost lock.
        let transaction = guard.transaction().set_data(&account, "90", None).unwrap();
        let error = transaction.delete(format!("{account}/no"), None).unwrap().commit().await.unwrap_err();
        match error {
            Error::Client(client::Error::TransactionFailed { index: 1, cause }) => {
                assert!(matches!(*cause, client::Error::NoNode { .. }), "{kind}: {cause}");
            }
            other => panic!("{kind}: {other}"),
        }
        assert_eq!(data(&client, &account).await, "100", "{kind}");
        assert!(guard.is_valid(), "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_a_lock_of_which_any_node_was_deleted_nothing_is_applied() {
    let (client, admin) = (client().await, client().await);
    for kind in KINDS {
        let account = account(&client).await;
        let (guard, also) = acquire(kind, &client).await;
        let nodes = guard.nodes().count();
        assert_eq!(nodes, if kind.starts_with("multi") { 3 } else { 1 }, "{kind}");
        drop((guard, also));
        for index in 0..nodes {
            let (guard, _also) = acquire(kind, &client).await;
            let node = guard.nodes().nth(index).unwrap().clone();
            admin.delete().for_path(&node).await.unwrap();
            let transaction = guard.transaction().set_data(&account, "90", None).unwrap();
            assert_lost(&transaction.commit().await.unwrap_err(), &node, LossReason::NodeDeleted);
            assert_lost(&guard.transaction().commit().await.unwrap_err(), &node, LossReason::NodeDeleted);
            assert_eq!(data(&client, &account).await, "100", "{kind}, node {index}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_session_that_is_gone_nothing_is_applied() {
    let server = TestingServer::shared().await;
    let steady = client().await;
    let account = account(&steady).await;
    for told in [true, false] {
        let proxy = FaultProxy::start(server.address()).unwrap();
        let holder = connect(&proxy.connect_string()).await;
        let guard = mutex(&holder, &path("transaction-session")).acquire().await.unwrap();
        let node = guard.node().clone();
        let transaction = guard.transaction().set_data(&account, "90", None).unwrap();
        if !told {
            // The server's word comes after the request was sent.
            proxy.black_hole(curator_test::Direction::ToClient);
        }
        end_session(server, &proxy).await;
        until(async || steady.check_exists(&node).await.unwrap().is_none()).await;
        if told {
            soon(guard.lost()).await;
            let error = soon(transaction.commit()).await.unwrap_err();
            assert_lost(&error, &node, LossReason::SessionLost(SessionEnd::Expired));
        } else {
            assert!(guard.is_valid());
            let mut committing = Box::pin(transaction.commit());
            let sent = async || proxy.requests().contains_key(&OpCode::Multi);
            tokio::select! {
                biased;
                committed = &mut committing => panic!("{committed:?}"),
                () = until(sent) => proxy.heal(),
            }
            let error = soon(committing).await.unwrap_err();
            // Who has sent it does not know.
            assert!(matches!(&error, Error::Client(client::Error::Ambiguous { .. })), "{error}");
            soon(guard.lost()).await;
        }
        assert!(!guard.is_valid());
        assert_eq!(data(&steady, &account).await, "100");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_of_two_clients_has_no_transaction() {
    let (first, second) = (client().await, client().await);
    let account = account(&first).await;
    let locks: [Arc<dyn InterProcessLock>; 2] =
        [Arc::new(mutex(&first, &path("one"))), Arc::new(mutex(&second, &path("other")))];
    let guard = InterProcessMultiLock::of(locks).unwrap().acquire().await.unwrap();
    let theirs = guard.nodes().nth(1).unwrap().clone();
    let error = guard.transaction().set_data(&account, "90", None).unwrap().commit().await.unwrap_err();
    assert!(matches!(&error, Error::SeveralSessions { path } if *path == theirs), "{error}");
    assert_eq!(data(&first, &account).await, "100");
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

/// Each ensemble numbers its sessions by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_two_ensembles_are_told_apart_even_if_their_sessions_have_one_id() {
    let (first, elsewhere) = (client().await, TestingServer::start().await.unwrap());
    let proxy = FaultProxy::start(elsewhere.address()).unwrap();
    let id = first.session().await.unwrap().id();
    // Behind the version and the timeout.
    proxy.alter_next_reply(OpCode::CreateSession, move |reply| reply[8..16].copy_from_slice(&id.to_be_bytes()));
    let second = connect(&proxy.connect_string()).await;
    assert_eq!(second.session().await.unwrap().id(), id);
    let account = account(&first).await;
    let locks: [Arc<dyn InterProcessLock>; 2] =
        [Arc::new(mutex(&first, &path("here"))), Arc::new(mutex(&second, &path("there")))];
    let guard = InterProcessMultiLock::of(locks).unwrap().acquire().await.unwrap();
    let theirs = guard.nodes().nth(1).unwrap().clone();
    let error = guard.transaction().set_data(&account, "90", None).unwrap().commit().await.unwrap_err();
    assert!(matches!(&error, Error::SeveralSessions { path } if *path == theirs), "{error}");
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_whose_answer_was_lost_is_ambiguous_and_not_tried_again() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let holder = builder(&proxy.connect_string(), LONG_SESSION)
        .operation_timeout(std::time::Duration::from_secs(1))
        .connect()
        .await
        .unwrap();
    let steady = client().await;
    let guard = mutex(&holder, &path("transaction-lost")).acquire().await.unwrap();
    for (fault, applied) in [
        (FaultProxy::cut_before_reply as fn(&FaultProxy, OpCode), ("90", 1)),
        (FaultProxy::swallow_next_reply, ("90", 1)),
        (FaultProxy::cut_before_request, ("100", 0)),
    ] {
        let account = account(&steady).await;
        fault(&proxy, OpCode::Multi);
        let committing = guard.transaction().set_data(&account, "90", None).unwrap().commit();
        let error = soon(committing).await.unwrap_err();
        assert!(matches!(&error, Error::Client(client::Error::Ambiguous { .. })), "{error}");
        assert_eq!(error.outcome(), client::Outcome::Unknown);
        // Each time that it is applied, it counts. The session that is resumed sends a transaction of its own, so those are
        // not counted.
        let (found, stat) = steady.get_data(&account).await.unwrap();
        assert_eq!((&*String::from_utf8(found).unwrap(), stat.version), applied);
        // The lock is still held, and the next transaction goes through.
        guard.transaction().set_data(&account, "80", None).unwrap().commit().await.unwrap();
        assert_eq!(data(&steady, &account).await, "80");
    }
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_namespace_a_transactions_paths_are_those_of_the_namespace() {
    let server = TestingServer::shared().await;
    let (plain, namespace) = (client().await, path("transaction-namespace"));
    let inside = builder(&server.connect_string(), LONG_SESSION)
        .namespace(namespace.trim_start_matches('/'))
        .connect()
        .await
        .unwrap();
    let paths = ["/locks/a", "/locks/b"];
    let guards = [
        mutex(&inside, "/locks/mutex").acquire().await.unwrap(),
        InterProcessMultiLock::new(&inside, paths).unwrap().acquire().await.unwrap(),
    ];
    for (number, guard) in guards.into_iter().enumerate() {
        assert!(guard.nodes().all(|node| node.as_str().starts_with(&namespace)));
        let account = format!("/account-{number}");
        let transaction = guard.transaction().create(&account, "100", CreateMode::Persistent).unwrap();
        let transaction = transaction.set_data(&account, "90", Some(0)).unwrap();
        let results = transaction.commit().await.unwrap();
        let [TransactionResult::Created(created), TransactionResult::DataSet(_)] = &results[..] else {
            panic!("{results:?}")
        };
        assert_eq!(inside.unresolve(&created.path).unwrap(), account);
        assert_eq!(data(&plain, &format!("{namespace}{account}")).await, "90");
        // The lock's own node is named as the server calls it.
        let node = guard.nodes().last().unwrap().clone();
        plain.delete().for_path(&node).await.unwrap();
        let error = guard.transaction().set_data(&account, "80", None).unwrap().commit().await.unwrap_err();
        assert_lost(&error, &node, LossReason::NodeDeleted);
        assert_eq!(data(&inside, &account).await, "90");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_dropped_at_every_await_is_applied_as_a_whole_or_not_at_all_and_the_lock_stays() {
    let (client, path) = (client().await, path("transaction-dropped"));
    let guard = mutex(&client, &path).acquire().await.unwrap();
    let mut completed = false;
    for polls in 0..8 {
        let account = account(&client).await;
        let transaction = guard.transaction().set_data(&account, "90", None).unwrap();
        let transaction = transaction.create(format!("{account}/note"), "", CreateMode::Persistent).unwrap();
        let committed = drop_after(transaction.commit(), polls).await;
        completed |= matches!(committed, Some(Ok(_)));
        assert!(committed.as_ref().is_none_or(Result::is_ok), "{committed:?}");
        // Behind it, if it was sent.
        let (now, notes) = (data(&client, &account).await, children(&client, &account).await.len());
        match &*now {
            "90" => assert_eq!(notes, 1),
            _ => assert!(notes == 0 && committed.is_none() && now == "100", "{now:?}, {notes}"),
        }
        guard.transaction().commit().await.unwrap();
    }
    assert!(completed);
    assert_eq!(children(&client, &path).await, [guard.node().name()]);
    guard.release().await.unwrap();
}

/// The lock is given up with the transaction on its way: the server has its order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_dropped_on_its_way_was_applied_before_the_next_holder_came() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (holder, next, path) = (connect(&proxy.connect_string()).await, client().await, path("transaction-way"));
    let account = account(&next).await;
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    let waiting = tokio::spawn({
        let mutex = mutex(&next, &path);
        async move { mutex.acquire().await.unwrap() }
    });
    queue_of(&next, &path, 2).await;
    proxy.hold_replies(OpCode::Multi);
    let committing = guard.transaction().set_data(&account, "90", None).unwrap().commit();
    drop(polled_until(committing, proxy.wait_for_request(OpCode::Multi, 1)).await);
    drop(guard);
    let theirs = soon(waiting).await.unwrap();
    assert_eq!(data(&next, &account).await, "90");
    proxy.release_held();
    theirs.release().await.unwrap();
}
