//! A writer becomes a reader, by a downgrade or by a read lock beside its write lock: no other
//! contender holds the lock meanwhile.

use curator_recipes::client::{Acl, AuthId, Permission};
use curator_recipes::{
    Error, InterProcessReadWriteLock, LockGuard, LossReason, OwnerId, WriteGuard,
};
use curator_test::OpCode;

use crate::support::{
    LOSSES, Row, arc, behind_proxy, children, client, connect, gives_up, id_and_number, lose,
    owner, path, polled_until, queue_of, read_write as lock, soon, spawn_acquire, still_waits,
    until_simulated,
};
use crate::transactions::assert_lost;

/// How a writer becomes a reader.
#[derive(Clone, Copy, Debug)]
enum Way {
    Downgrade,
    /// Acquires the read lock too, and then releases the write lock.
    ReadBeside,
}

impl Way {
    const BOTH: [Self; 2] = [Self::Downgrade, Self::ReadBeside];

    async fn become_reader(
        self,
        lock: &InterProcessReadWriteLock,
        writing: WriteGuard,
    ) -> LockGuard {
        match self {
            Self::Downgrade => writing.downgrade().await.unwrap(),
            Self::ReadBeside => {
                let reading = lock.read().acquire().await.unwrap();
                writing.release().await.unwrap();
                reading
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_became_a_reader_keeps_its_sequence_number_session_and_token() {
    for way in Way::BOTH {
        let holder = client().await;
        let path = path("reader-node");
        let holding = lock(&holder, &path).with_lock_data(*b"the data");
        let writing = holding.write().acquire().await.unwrap();
        let token = writing.fencing_token();
        let (_, number) = id_and_number(writing.node().name(), "-__WRIT__");
        let reading = way.become_reader(&holding, writing).await;
        assert_eq!(children(&holder, &path).await, [reading.node().name()]);
        assert_eq!(id_and_number(reading.node().name(), "-__READ__").1, number);
        let (data, stat) = holder.get_data(reading.node()).await.unwrap();
        assert_eq!(data, b"the data");
        assert_eq!(stat.ephemeral_owner, reading.session_id());
        // The node is new, but the token is still the write lock's.
        assert!(stat.czxid > token.as_i64());
        assert_eq!(reading.fencing_token(), token);
        assert!(
            holding.read().is_owned_by_current() && !holding.write().is_acquired_in_this_process()
        );
        reading.release().await.unwrap();
        queue_of(&holder, &path, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_beside_other_guards_leaves_the_write_lock_to_them() {
    let holder = client().await;
    let other = client().await;
    let path = path("downgrade-one");
    let holding = lock(&holder, &path);
    let wanted = lock(&other, &path);
    // The last guard of the write lock may be released or downgraded.
    for is_released in [false, true] {
        let first = holding.write().acquire().await.unwrap();
        let second = holding.write().acquire().await.unwrap();
        let third = holding.write().acquire().await.unwrap();
        let mut reading = vec![first.downgrade().await.unwrap()];
        assert!(holding.read().is_owned_by_current() && holding.write().is_owned_by_current());
        assert!(
            wanted.read().try_acquire().await.unwrap().is_none(),
            "there are other guards of the write lock"
        );
        // Another guard of the same read lock.
        reading.push(second.downgrade().await.unwrap());
        assert_eq!(reading[1].node(), reading[0].node());
        // The `try_acquire` of the reader has removed its node.
        queue_of(&holder, &path, 2).await;
        assert!(wanted.read().try_acquire().await.unwrap().is_none());
        if is_released {
            third.release().await.unwrap();
        } else {
            reading.push(third.downgrade().await.unwrap());
        }
        soon(other.janitor().idle()).await;
        assert_eq!(children(&holder, &path).await, [reading[0].node().name()]);
        let owner = OwnerId::new();
        wanted
            .read()
            .try_acquire_as(&owner)
            .await
            .unwrap()
            .expect("readers share the lock")
            .release()
            .await
            .unwrap();
        for guard in reading {
            assert!(wanted.write().try_acquire().await.unwrap().is_none());
            guard.release().await.unwrap();
        }
        wanted
            .write()
            .try_acquire()
            .await
            .unwrap()
            .expect("the lock is free")
            .release()
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_of_a_lock_whose_node_was_deleted_fails_with_lost() {
    let holder = client().await;
    let other = client().await;
    let path = path("downgrade-deleted");
    let holding = lock(&holder, &path);
    let wanted = lock(&other, &path);
    for guards in [1, 2] {
        let writing = holding.write().acquire().await.unwrap();
        let kept = if guards == 2 {
            Some(holding.write().acquire().await.unwrap())
        } else {
            None
        };
        let node = writing.node().clone();
        other.delete().for_path(&node).await.unwrap();
        let theirs = wanted.write().acquire().await.unwrap();
        assert_lost(
            &writing.downgrade().await.unwrap_err(),
            &node,
            LossReason::NodeDeleted,
        );
        assert!(
            kept.as_ref().is_none_or(|kept| !kept.is_valid()),
            "the other guard is still valid"
        );
        // A new read lock now queues like any other contender.
        assert!(holding.read().try_acquire().await.unwrap().is_none());
        drop(kept);
        soon(holder.janitor().idle()).await;
        assert_eq!(children(&other, &path).await, [theirs.node().name()]);
        theirs.release().await.unwrap();
    }
    queue_of(&other, &path, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_whose_retries_are_exhausted_releases_the_lock() {
    let (simulation, _process, holder) = gives_up().await;
    let other = connect(&simulation.connect_string()).await;
    let path = "/downgrade-given-up";
    let holding = lock(&holder, path);
    let wanted = lock(&other, path);
    for is_applied in [true, false] {
        let writing = holding.write().acquire().await.unwrap();
        let waiting = spawn_acquire(arc(wanted.write().clone()));
        until_simulated(async || children(&other, path).await.len() == 2).await;
        // The first fault affects the request of the downgrade; the second, the check whether it
        // was applied.
        if is_applied {
            simulation.silence(|request| request.op() == OpCode::Multi);
        } else {
            simulation.cut_before_request(|request| request.op() == OpCode::Multi);
        }
        simulation.silence(|request| request.op() == OpCode::Exists);
        let error = soon(writing.downgrade()).await.unwrap_err();
        assert!(matches!(&error, Error::AcquireFailed { .. }), "{error}");
        soon(waiting)
            .await
            .unwrap()
            .unwrap()
            .release()
            .await
            .unwrap();
        soon(holder.janitor().idle()).await;
        queue_of(&other, path, 0).await;
        assert!(
            !holding.read().is_acquired_in_this_process()
                && !holding.write().is_acquired_in_this_process()
        );
    }
}

/// The read lock exists already, so the downgrade only has to release the write lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_of_a_lost_lock_keeps_an_existing_read_lock() {
    let holder = client().await;
    let other = client().await;
    let path = path("downgrade-beside-deleted");
    let holding = lock(&holder, &path);
    let wanted = lock(&other, &path);
    let writing = holding.write().acquire().await.unwrap();
    let reading = holding.read().acquire().await.unwrap();
    let node = writing.node().clone();
    other.delete().for_path(&node).await.unwrap();
    assert_lost(
        &writing.downgrade().await.unwrap_err(),
        &node,
        LossReason::NodeDeleted,
    );
    assert!(reading.is_valid() && holding.read().is_owned_by_current());
    assert_eq!(children(&holder, &path).await, [reading.node().name()]);
    assert!(wanted.write().try_acquire().await.unwrap().is_none());
    reading.release().await.unwrap();
    wanted
        .write()
        .try_acquire()
        .await
        .unwrap()
        .expect("the lock is free")
        .release()
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_of_a_lost_lock_does_not_wait_for_the_next_acquire_of_its_owner() {
    for (reads, reason) in [true, false]
        .into_iter()
        .flat_map(|reads| LOSSES.map(|reason| (reads, reason)))
    {
        let _row = Row::of((if reads { "reads" } else { "writes" }, reason));
        let (proxy, holder) = behind_proxy().await;
        let other = client().await;
        let path = path("downgrade-anew");
        let ours = lock(&holder, &path);
        let owner = OwnerId::new();
        let writing = ours.write().acquire_as(&owner).await.unwrap();
        lose(&writing, &proxy, reason).await;
        // A read acquire detects the deletion by itself.
        if !reads || reason != LossReason::NodeDeleted {
            soon(writing.lost()).await;
        }
        let theirs = soon(lock(&other, &path).write().acquire()).await.unwrap();
        let again = tokio::spawn(async move {
            if reads {
                ours.read().acquire_as(&owner).await.unwrap()
            } else {
                ours.write().acquire_as(&owner).await.unwrap().into()
            }
        });
        queue_of(&other, &path, 2).await;
        // The other contender holds the lock meanwhile.
        let error = soon(writing.downgrade()).await.unwrap_err();
        assert!(
            matches!(&error, Error::Lost(lost) if lost.path.as_str().starts_with(&path)),
            "{error}"
        );
        assert!(still_waits(&again, &holder).await);
        theirs.release().await.unwrap();
        soon(again).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_that_is_not_permitted_leaves_only_the_write_node_to_delete() {
    let owner = owner().await;
    let client = client().await;
    let path = path("denied");
    owner.create().for_path(&path, "").await.unwrap();
    let writing = lock(&client, &path).write().acquire().await.unwrap();
    let node = writing.node().clone();
    // Not even the search for a read node is permitted.
    owner
        .set_acl(&path, [Acl::new(Permission::ALL, AuthId::authed())], None)
        .await
        .unwrap();
    let error = soon(writing.downgrade()).await.unwrap_err();
    assert!(matches!(&error, Error::Client(_)), "{error}");
    soon(client.janitor().idle()).await;
    let left: Vec<_> = client
        .janitor()
        .pending_deletes()
        .into_iter()
        .map(|delete| delete.path)
        .collect();
    assert_eq!(left, [node]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_found_by_a_read_acquire_invalidates_the_guard_of_the_write_lock() {
    let holder = client().await;
    let other = client().await;
    let path = path("loss-beside");
    let ours = lock(&holder, &path);
    let owner = OwnerId::new();
    let writing = ours.write().acquire_as(&owner).await.unwrap();
    other.delete().for_path(writing.node()).await.unwrap();
    let theirs = lock(&other, &path).write().acquire().await.unwrap();
    assert!(ours.read().try_acquire_as(&owner).await.unwrap().is_none());
    assert!(!writing.is_valid());
    assert!(
        ours.write().try_acquire_as(&owner).await.unwrap().is_none(),
        "the owner re-entered a lock that another client holds"
    );
    theirs.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_downgrade_leaves_the_write_lock_to_another_guard() {
    let (proxy, holder) = behind_proxy().await;
    let other = client().await;
    let path = path("downgrade-dropped");
    let holding = lock(&holder, &path);
    for is_sent in [false, true] {
        let first = holding.write().acquire().await.unwrap();
        let second = holding.write().acquire().await.unwrap();
        proxy.hold_replies(OpCode::Multi);
        let downgrade = first.downgrade();
        if is_sent {
            // The downgrade is dropped when its read node exists.
            drop(polled_until(downgrade, queue_of(&other, &path, 2)).await);
        } else {
            drop(downgrade);
        }
        proxy.release_held();
        soon(holder.janitor().idle()).await;
        queue_of(&other, &path, 1).await;
        assert_eq!(children(&other, &path).await, [second.node().name()]);
        assert!(
            second.is_valid()
                && holding.write().is_owned_by_current()
                && !holding.read().is_owned_by_current()
        );
        second.release().await.unwrap();
        queue_of(&other, &path, 0).await;
    }
}
