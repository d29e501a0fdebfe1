//! `LockGuard::transaction`: writes that are applied only while the lock is held.
//! `contract/transactions.rs` tests what all locks have in common.

use curator_recipes::client::{CuratorClient, Error as ClientError, Outcome, ZPath};
use curator_recipes::{Error, InterProcessMultiLock, LossReason};
use curator_test::{FaultProxy, OpCode, Process};

use crate::support::{
    acquiring, adjusted_server, arc, behind_proxy, client, connect, mutex, path, polled_until,
    queue_of, read_write, simulated, soon,
};

/// Creates a node to write to.
pub(crate) async fn account(client: &CuratorClient) -> String {
    let path = path("account");
    client
        .create()
        .creating_parent_containers()
        .for_path(&path, "100")
        .await
        .unwrap();
    path
}

pub(crate) async fn data(client: &CuratorClient, path: &str) -> String {
    String::from_utf8(client.get_data(path).await.unwrap().0).unwrap()
}

pub(crate) fn assert_lost(error: &Error, node: &ZPath, reason: LossReason) {
    match error {
        Error::Lost(lost) => assert_eq!((&lost.path, lost.reason), (node, reason)),
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn further_and_downgraded_guards_of_a_lock_have_transactions() {
    let client = client().await;
    let path = path("transaction-guards");
    let account = account(&client).await;
    let lock = read_write(&client, &path);
    let writing = lock.write().acquire().await.unwrap();
    let again = lock.write().acquire().await.unwrap();
    let beside = lock.read().acquire().await.unwrap();
    for guard in [&*again, &beside] {
        guard
            .transaction()
            .set_data(&account, "90", None)
            .unwrap()
            .commit()
            .await
            .unwrap();
    }
    drop((again, beside));
    let downgraded = writing.downgrade().await.unwrap();
    downgraded
        .transaction()
        .set_data(&account, "80", None)
        .unwrap()
        .commit()
        .await
        .unwrap();
    client.delete().for_path(downgraded.node()).await.unwrap();
    let error = downgraded
        .transaction()
        .set_data(&account, "70", None)
        .unwrap()
        .commit()
        .await
        .unwrap_err();
    assert_lost(&error, downgraded.node(), LossReason::NodeDeleted);
    assert_eq!(data(&client, &account).await, "80");
}

/// Each ensemble numbers its sessions separately.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_of_two_clients_has_no_transaction_even_if_their_session_ids_are_equal() {
    let first = client().await;
    let other_server = adjusted_server().await;
    let proxy = FaultProxy::start(other_server.address()).unwrap();
    let id = first.session().await.unwrap().id();
    // The offset of the session id: after the version and the timeout.
    proxy.alter_next_reply(OpCode::CreateSession, move |reply| {
        reply[8..16].copy_from_slice(&id.to_be_bytes());
    });
    let namesake = connect(&proxy.connect_string()).await;
    assert_eq!(namesake.session().await.unwrap().id(), id);
    let account = account(&first).await;
    for second in [client().await, namesake] {
        let locks = [&first, &second].map(|client| arc(mutex(client, &path("of-two"))));
        let guard = InterProcessMultiLock::of(locks)
            .unwrap()
            .acquire()
            .await
            .unwrap();
        let theirs = guard.nodes().nth(1).unwrap().clone();
        let error = guard
            .transaction()
            .set_data(&account, "90", None)
            .unwrap()
            .commit()
            .await
            .unwrap_err();
        assert!(
            matches!(&error, Error::SeveralSessions { path } if *path == theirs),
            "{error}"
        );
        assert_eq!(data(&first, &account).await, "100");
        assert!(guard.is_valid());
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_with_a_lost_request_or_reply_is_ambiguous_and_applied_at_most_once() {
    type Lose = fn(&Process, OpCode);
    let (_simulation, process, client) = simulated(|builder| builder).await;
    let guard = mutex(&client, "/lock").acquire().await.unwrap();
    let faults: [(Lose, i32); 3] = [
        (Process::cut_before_request, 0),
        (Process::cut_before_reply, 1),
        (Process::swallow_next_reply, 1),
    ];
    for (lose, applied) in faults {
        let account = account(&client).await;
        lose(&process, OpCode::Multi);
        let error = guard
            .transaction()
            .set_data(&account, "90", None)
            .unwrap()
            .commit()
            .await
            .unwrap_err();
        assert!(
            matches!(&error, Error::Client(ClientError::Ambiguous { .. })),
            "{error}"
        );
        assert_eq!(error.outcome(), Outcome::Unknown);
        process.wait_for_faults().await.unwrap();
        // The version counts the writes.
        assert_eq!(client.get_data(&account).await.unwrap().1.version, applied);
        // The lock is still held.
        guard
            .transaction()
            .set_data(&account, "80", None)
            .unwrap()
            .commit()
            .await
            .unwrap();
        assert_eq!(data(&client, &account).await, "80");
    }
    guard.release().await.unwrap();
}

/// The lock is released while the transaction is in flight: the server applies the transaction
/// before the release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_dropped_in_flight_is_applied_before_the_next_holder_acquires() {
    let (proxy, holder) = behind_proxy().await;
    let next = client().await;
    let path = path("transaction-way");
    let account = account(&next).await;
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    let waiting = acquiring(&next, &path);
    queue_of(&next, &path, 2).await;
    proxy.hold_replies(OpCode::Multi);
    let committing = guard
        .transaction()
        .set_data(&account, "90", None)
        .unwrap()
        .commit();
    drop(polled_until(committing, proxy.wait_for_request(OpCode::Multi, 1)).await);
    drop(guard);
    let theirs = soon(waiting).await.unwrap().unwrap();
    assert_eq!(data(&next, &account).await, "90");
    proxy.release_held();
    theirs.release().await.unwrap();
}
