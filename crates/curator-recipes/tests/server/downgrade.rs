//! A writer that goes on as a reader, at once or while it still writes: nobody comes between.

use std::time::Duration;

use curator_recipes::client::{Acl, AuthId, CuratorClient, Permission, RetryOneTime, SessionEnd};
use curator_recipes::{Error, InterProcessReadWriteLock, LockGuard, LossReason, OwnerId, WriteGuard};
use curator_test::{FaultProxy, OpCode, TestingServer};
use tokio::task::JoinHandle;

use crate::support::{
    FAULTS, LONG_SESSION, builder, children, client, connect, drop_after, end_session, path, polled_until, queue_of,
    read_write as lock, soon, still_waits, until,
};

/// How a writer becomes a reader.
#[derive(Clone, Copy, Debug)]
enum Way {
    Downgrade,
    /// Takes the read lock too, and then releases the write lock.
    ReadBeside,
}

impl Way {
    const BOTH: [Self; 2] = [Self::Downgrade, Self::ReadBeside];

    async fn go(self, lock: &InterProcessReadWriteLock, writing: WriteGuard) -> LockGuard {
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

fn spawn_write(lock: &InterProcessReadWriteLock) -> JoinHandle<WriteGuard> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.write().acquire().await.unwrap() })
}

fn spawn_read(lock: &InterProcessReadWriteLock) -> JoinHandle<LockGuard> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.read().acquire().await.unwrap() })
}

/// Waits until the session of `client` watches the node.
async fn until_watched_by(client: &CuratorClient, node: &str) {
    let (server, session) = (TestingServer::shared().await, client.session().await.unwrap().id());
    let watched = async || server.watches_by_path().await.unwrap().remove(node).unwrap_or_default().contains(&session);
    until(watched).await;
}

/// The last node in the queue, when the queue is so long.
async fn last_node(client: &CuratorClient, path: &str, length: usize) -> String {
    queue_of(client, path, length).await;
    let mut names = children(client, path).await;
    names.sort_by_key(|name| name.rsplit_once("__").unwrap().1.to_owned());
    format!("{path}/{}", names.pop().unwrap())
}

/// A reader that was a writer, another writer behind it, and a reader behind that. All three release in turn.
async fn in_turn(
    reading: LockGuard,
    writer: (&CuratorClient, JoinHandle<WriteGuard>),
    reader: (&CuratorClient, JoinHandle<LockGuard>),
    path: &str,
) {
    let ((writer, writing), (reader, waiting)) = (writer, reader);
    // It has looked, and found that it is not its turn.
    until_watched_by(writer, reading.node().as_str()).await;
    let other = client().await;
    // One who comes later does not pass the writer that waits.
    assert!(lock(&other, path).read().try_acquire().await.unwrap().is_none());
    assert!(still_waits(&writing, writer).await && still_waits(&waiting, reader).await);
    assert!(reading.is_valid());
    let token = reading.fencing_token();
    reading.release().await.unwrap();
    let writing = soon(writing).await.unwrap();
    assert!(writing.fencing_token() > token);
    assert!(lock(&other, path).read().try_acquire().await.unwrap().is_none());
    assert!(still_waits(&waiting, reader).await, "a reader beside a writer");
    writing.release().await.unwrap();
    soon(waiting).await.unwrap().release().await.unwrap();
    queue_of(&other, path, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_waits_and_the_readers_behind_it_are_kept_out_by_who_was_a_writer() {
    for way in Way::BOTH {
        let (holder, writer, reader, path) = (client().await, client().await, client().await, path("kept-out"));
        let holding = lock(&holder, &path);
        let writing = holding.write().acquire().await.unwrap();
        let waiting_writer = spawn_write(&lock(&writer, &path));
        let node = last_node(&holder, &path, 2).await;
        until_watched_by(&writer, writing.node().as_str()).await;
        let waiting_reader = spawn_read(&lock(&reader, &path));
        until_watched_by(&reader, &node).await;

        let reading = way.go(&holding, writing).await;
        in_turn(reading, (&writer, waiting_writer), (&reader, waiting_reader), &path).await;
    }
}

/// It has seen the write node in a list, and when it comes to watch it, it is not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_whose_predecessor_has_just_gone_finds_the_reader_that_stands_in_its_place() {
    let server = TestingServer::shared().await;
    for way in Way::BOTH {
        let proxy = FaultProxy::start(server.address()).unwrap();
        let (holder, writer, reader) = (client().await, connect(&proxy.connect_string()).await, client().await);
        let path = path("just-gone");
        let holding = lock(&holder, &path);
        let writing = holding.write().acquire().await.unwrap();
        proxy.hold_replies(OpCode::GetChildren);
        let waiting_writer = spawn_write(&lock(&writer, &path));
        proxy.wait_for_reply(OpCode::GetChildren, 1).await.unwrap();
        let node = last_node(&holder, &path, 2).await;
        let waiting_reader = spawn_read(&lock(&reader, &path));
        until_watched_by(&reader, &node).await;

        let gone = writing.node().name().to_owned();
        let reading = way.go(&holding, writing).await;
        assert!(!children(&holder, &path).await.contains(&gone));
        proxy.release_held();
        in_turn(reading, (&writer, waiting_writer), (&reader, waiting_reader), &path).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reader_has_the_writers_number_session_and_token() {
    for way in Way::BOTH {
        let (holder, path) = (client().await, path("reader-node"));
        let holding = lock(&holder, &path).with_lock_data(*b"the data");
        let writing = holding.write().acquire().await.unwrap();
        let (token, written) = (writing.fencing_token(), writing.node().name().to_owned());
        let number = written.strip_prefix("_c_").unwrap().split_once("-__WRIT__").unwrap().1.to_owned();
        let reading = way.go(&holding, writing).await;
        assert_eq!(children(&holder, &path).await, [reading.node().name()]);
        let name = reading.node().name();
        let (id, read_number) = name.strip_prefix("_c_").unwrap().split_once("-__READ__").unwrap();
        assert_eq!(read_number, number);
        assert_eq!(curator_recipes::Uuid::parse_str(id).unwrap().hyphenated().to_string(), id);
        let (data, stat) = holder.get_data(reading.node()).await.unwrap();
        assert_eq!(data, b"the data");
        assert_eq!(stat.ephemeral_owner, reading.session_id());
        // The node is a new one; the token is still that of the write lock.
        assert!(stat.czxid > token.as_i64());
        assert_eq!(reading.fencing_token(), token);
        assert!(holding.read().is_owned_by_current() && !holding.write().is_acquired_in_this_process());
        reading.release().await.unwrap();
        queue_of(&holder, &path, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_beside_other_guards_leaves_the_write_lock_to_them() {
    let (holder, other, path) = (client().await, client().await, path("downgrade-one"));
    let (holding, wanted) = (lock(&holder, &path), lock(&other, &path));
    let first = holding.write().acquire().await.unwrap();
    let second = holding.write().acquire().await.unwrap();
    let third = holding.write().acquire().await.unwrap();
    let reading = first.downgrade().await.unwrap();
    assert_eq!(children(&holder, &path).await.len(), 2);
    assert!(holding.read().is_owned_by_current() && holding.write().is_owned_by_current());
    assert!(wanted.read().try_acquire().await.unwrap().is_none(), "there are other guards of the write lock");
    // Another guard of the same read lock.
    let again = second.downgrade().await.unwrap();
    assert_eq!(again.node(), reading.node());
    // Who tried to read has gone.
    queue_of(&holder, &path, 2).await;
    assert!(wanted.read().try_acquire().await.unwrap().is_none());
    // The last one: the write node goes.
    let last = third.downgrade().await.unwrap();
    soon(other.janitor().idle()).await;
    assert_eq!(children(&holder, &path).await, [reading.node().name()]);
    let owner = OwnerId::new();
    wanted.read().try_acquire_as(&owner).await.unwrap().expect("a reader may come").release().await.unwrap();
    for guard in [again, reading, last] {
        assert!(wanted.write().try_acquire().await.unwrap().is_none());
        guard.release().await.unwrap();
    }
    wanted.write().try_acquire().await.unwrap().expect("nobody is left").release().await.unwrap();
}

/// One of two guards is downgraded, and a task has the other: each has what it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_guard_that_is_released_after_another_was_downgraded_lets_readers_in() {
    let (holder, other, path) = (client().await, client().await, path("downgrade-then-release"));
    let (holding, wanted) = (lock(&holder, &path), lock(&other, &path));
    let first = holding.write().acquire().await.unwrap();
    let second = holding.write().acquire().await.unwrap();
    let reading = first.downgrade().await.unwrap();
    let waiting = spawn_read(&wanted);
    until_watched_by(&other, second.node().as_str()).await;
    assert!(still_waits(&waiting, &other).await);
    second.release().await.unwrap();
    soon(waiting).await.unwrap().release().await.unwrap();
    assert!(wanted.write().try_acquire().await.unwrap().is_none());
    reading.release().await.unwrap();
    queue_of(&holder, &path, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_dropped_at_every_await_leaves_nothing_and_lets_others_go_on() {
    let (holder, other, path) = (client().await, client().await, path("downgrade-dropped"));
    let (holding, wanted) = (lock(&holder, &path), lock(&other, &path));
    let (mut completed, mut dropped) = (0, 0);
    for polls in 0..8 {
        for others in [0, 1] {
            let writing = holding.write().acquire().await.unwrap();
            let kept = if others == 1 { Some(holding.write().acquire().await.unwrap()) } else { None };
            let waiting = spawn_write(&wanted);
            queue_of(&other, &path, 2).await;
            match drop_after(writing.downgrade(), polls).await {
                Some(reading) => {
                    completed += 1;
                    drop(reading.unwrap());
                }
                None => dropped += 1,
            }
            soon(holder.janitor().idle()).await;
            if let Some(kept) = kept {
                // What the other guard stands for is untouched.
                queue_of(&other, &path, 2).await;
                assert!(children(&other, &path).await.iter().any(|name| name == kept.node().name()));
                assert!(still_waits(&waiting, &other).await);
                assert!(holding.write().is_owned_by_current() && !holding.read().is_acquired_in_this_process());
                kept.release().await.unwrap();
            }
            soon(waiting).await.unwrap().release().await.unwrap();
            queue_of(&other, &path, 0).await;
        }
    }
    assert!(completed > 0 && dropped > 2, "{completed} completed, {dropped} dropped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_lock_beside_a_write_lock_dropped_at_every_await_leaves_the_write_lock() {
    let (holder, path) = (client().await, path("beside-dropped"));
    let holding = lock(&holder, &path);
    let writing = holding.write().acquire().await.unwrap();
    let mut completed = false;
    for polls in 0..8 {
        let reading = drop_after(holding.read().acquire(), polls).await;
        completed |= reading.is_some();
        drop(reading);
        soon(holder.janitor().idle()).await;
        assert_eq!(children(&holder, &path).await, [writing.node().name()]);
        assert!(holding.write().is_owned_by_current() && !holding.read().is_acquired_in_this_process());
    }
    assert!(completed);
    writing.release().await.unwrap();
}

/// It is applied, and the future is dropped before anybody can know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_dropped_before_its_answer_leaves_nothing() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (holder, other, path) = (connect(&proxy.connect_string()).await, client().await, path("downgrade-unanswered"));
    let (holding, wanted) = (lock(&holder, &path), lock(&other, &path));
    let writing = holding.write().acquire().await.unwrap();
    let written = writing.node().name().to_owned();
    let waiting = spawn_write(&wanted);
    queue_of(&other, &path, 2).await;
    proxy.reset_counts();
    proxy.hold_replies(OpCode::Multi);
    let downgrading = polled_until(writing.downgrade(), proxy.wait_for_reply(OpCode::Multi, 1)).await;
    let before = children(&other, &path).await;
    assert!(before.len() == 2 && !before.contains(&written), "it was not applied: {before:?}");
    assert!(still_waits(&waiting, &other).await);
    drop(downgrading);
    proxy.release_held();
    soon(waiting).await.unwrap().release().await.unwrap();
    soon(holder.janitor().idle()).await;
    queue_of(&other, &path, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_whose_answer_was_lost_has_exactly_one_node() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let holder = builder(&proxy.connect_string(), LONG_SESSION)
        .operation_timeout(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    let (other, path) = (client().await, path("downgrade-lost"));
    let (holding, wanted) = (lock(&holder, &path), lock(&other, &path));
    for (_, fault) in FAULTS {
        for way in Way::BOTH {
            let writing = holding.write().acquire().await.unwrap();
            let waiting = spawn_write(&wanted);
            queue_of(&other, &path, 2).await;
            let token = writing.fencing_token();
            fault(&proxy, OpCode::Multi);
            let reading = soon(way.go(&holding, writing)).await;
            assert_eq!(reading.fencing_token(), token);
            until_watched_by(&other, reading.node().as_str()).await;
            let left = children(&other, &path).await;
            let readers: Vec<_> = left.iter().filter(|name| name.contains("-__READ__")).collect();
            assert_eq!((left.len(), readers), (2, vec![&reading.node().name().to_owned()]), "{way:?}");
            assert!(still_waits(&waiting, &other).await);
            assert!(reading.is_valid());
            reading.release().await.unwrap();
            soon(waiting).await.unwrap().release().await.unwrap();
            soon(holder.janitor().idle()).await;
            queue_of(&other, &path, 0).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_of_a_lock_whose_node_was_deleted_says_that_it_was_lost() {
    let (holder, other, path) = (client().await, client().await, path("downgrade-deleted"));
    let (holding, wanted) = (lock(&holder, &path), lock(&other, &path));
    for guards in [1, 2] {
        let writing = holding.write().acquire().await.unwrap();
        let kept = if guards == 2 { Some(holding.write().acquire().await.unwrap()) } else { None };
        let node = writing.node().clone();
        other.delete().for_path(&node).await.unwrap();
        let theirs = wanted.write().acquire().await.unwrap();
        match writing.downgrade().await.unwrap_err() {
            Error::Lost(lost) => assert_eq!((lost.path, lost.reason), (node.clone(), LossReason::NodeDeleted)),
            other => panic!("{other}"),
        }
        // Who asks for the read lock now asks like everybody else.
        assert!(holding.read().try_acquire().await.unwrap().is_none());
        drop(kept);
        soon(holder.janitor().idle()).await;
        assert_eq!(children(&other, &path).await, [theirs.node().name()]);
        theirs.release().await.unwrap();
    }
    queue_of(&other, &path, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_after_the_session_is_lost_says_so() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (holder, path) = (connect(&proxy.connect_string()).await, path("downgrade-session"));
    let holding = lock(&holder, &path);
    let writing = holding.write().acquire().await.unwrap();
    end_session(server, &proxy).await;
    soon(writing.lost()).await;
    let error = soon(writing.downgrade()).await.unwrap_err();
    assert!(
        matches!(&error, Error::Lost(lost) if lost.reason == LossReason::SessionLost(SessionEnd::Expired)),
        "{error}"
    );
    assert!(!holding.read().is_acquired_in_this_process() && !holding.write().is_acquired_in_this_process());
    // And nothing of it is in the way of the next session.
    soon(holding.write().acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_that_is_given_up_releases_the_lock() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let holder = builder(&proxy.connect_string(), LONG_SESSION)
        .operation_timeout(Duration::from_millis(300))
        .retry_policy(RetryOneTime::new(Duration::from_millis(10)).unwrap())
        .connect()
        .await
        .unwrap();
    let (other, path) = (client().await, path("downgrade-given-up"));
    let (holding, wanted) = (lock(&holder, &path), lock(&other, &path));
    for fault in [FaultProxy::swallow_next_reply, FaultProxy::cut_before_request] {
        let writing = holding.write().acquire().await.unwrap();
        let waiting = spawn_write(&wanted);
        queue_of(&other, &path, 2).await;
        // The request, and the question what became of it.
        fault(&proxy, OpCode::Multi);
        proxy.swallow_next_reply(OpCode::Exists);
        let error = soon(writing.downgrade()).await.unwrap_err();
        assert!(matches!(&error, Error::AcquireFailed { .. }), "{error}");
        soon(waiting).await.unwrap().release().await.unwrap();
        soon(holder.janitor().idle()).await;
        queue_of(&other, &path, 0).await;
        assert!(!holding.read().is_acquired_in_this_process() && !holding.write().is_acquired_in_this_process());
    }
}

/// The read lock is there already, so all that is left to do is the release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_of_a_lost_lock_leaves_the_read_lock_that_was_there_before() {
    let (holder, other, path) = (client().await, client().await, path("downgrade-beside-deleted"));
    let (holding, wanted) = (lock(&holder, &path), lock(&other, &path));
    let writing = holding.write().acquire().await.unwrap();
    let reading = holding.read().acquire().await.unwrap();
    other.delete().for_path(writing.node()).await.unwrap();
    let error = writing.downgrade().await.unwrap_err();
    assert!(matches!(&error, Error::Lost(lost) if lost.reason == LossReason::NodeDeleted), "{error}");
    assert!(reading.is_valid() && holding.read().is_owned_by_current());
    assert_eq!(children(&holder, &path).await, [reading.node().name()]);
    assert!(wanted.write().try_acquire().await.unwrap().is_none());
    reading.release().await.unwrap();
    wanted.write().try_acquire().await.unwrap().expect("nobody is left").release().await.unwrap();
}

/// The same owner has asked for the lock again, and waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_of_a_lost_lock_does_not_wait_for_the_next_acquire_of_its_owner() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (holder, other, path) = (connect(&proxy.connect_string()).await, client().await, path("downgrade-anew"));
    let (holding, wanted) = (lock(&holder, &path), lock(&other, &path));
    let owner = OwnerId::new();
    let writing = holding.write().acquire_as(&owner).await.unwrap();
    end_session(server, &proxy).await;
    soon(writing.lost()).await;
    let theirs = soon(wanted.write().acquire()).await.unwrap();
    let again = tokio::spawn({
        let (lock, owner) = (holding.clone(), owner.clone());
        async move { lock.write().acquire_as(&owner).await.unwrap() }
    });
    queue_of(&other, &path, 2).await;
    let error = soon(writing.downgrade()).await.unwrap_err();
    assert!(matches!(&error, Error::Lost(lost) if lost.path.as_str().starts_with(&path)), "{error}");
    assert!(still_waits(&again, &holder).await);
    theirs.release().await.unwrap();
    soon(again).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_that_is_not_permitted_leaves_the_write_node_and_nothing_else_to_delete() {
    let server = TestingServer::shared().await;
    let owner = builder(&server.connect_string(), LONG_SESSION).authorization("digest", "owner:secret");
    let (owner, client, path) = (owner.connect().await.unwrap(), client().await, path("denied"));
    owner.create().for_path(&path, "").await.unwrap();
    let writing = lock(&client, &path).write().acquire().await.unwrap();
    let node = writing.node().clone();
    // Not even the search for a read node.
    owner.set_acl(&path, [Acl::new(Permission::ALL, AuthId::authed())], None).await.unwrap();
    let error = soon(writing.downgrade()).await.unwrap_err();
    assert!(matches!(&error, Error::Client(_)), "{error}");
    soon(client.janitor().idle()).await;
    let left: Vec<_> = client.janitor().pending_deletes().into_iter().map(|delete| delete.path).collect();
    assert_eq!(left, [node.to_string()]);
}
