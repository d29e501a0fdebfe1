//! A writer that goes on as a reader, at once or while it still writes: nobody comes between.

use std::time::Duration;

use curator_recipes::client::{Acl, AuthId, CuratorClient, Permission, RetryOneTime};
use curator_recipes::{Error, InterProcessReadWriteLock, LockGuard, LossReason, OwnerId, WriteGuard};
use curator_test::{FaultProxy, OpCode, TestingServer};
use tokio::task::JoinHandle;

use crate::support::{
    LONG_SESSION, behind_proxy, builder, children, client, end_session, path, queue_of, read_write as lock, soon,
    still_waits, until,
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

/// The writer watches the write node, or it has seen it in a list, and when it comes to watch it, it is not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_waits_and_the_readers_behind_it_are_kept_out_by_who_was_a_writer() {
    for (way, just_gone) in Way::BOTH.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        let ((proxy, writer), holder, reader) = (behind_proxy().await, client().await, client().await);
        let path = path("kept-out");
        let holding = lock(&holder, &path);
        let writing = holding.write().acquire().await.unwrap();
        let gone = writing.node().clone();
        if just_gone {
            proxy.hold_replies(OpCode::GetChildren);
        }
        let waiting_writer = spawn_write(&lock(&writer, &path));
        if just_gone {
            proxy.wait_for_reply(OpCode::GetChildren, 1).await.unwrap();
        } else {
            until_watched_by(&writer, gone.as_str()).await;
        }
        let node = last_node(&holder, &path, 2).await;
        let waiting_reader = spawn_read(&lock(&reader, &path));
        until_watched_by(&reader, &node).await;

        let reading = way.go(&holding, writing).await;
        assert!(holder.check_exists(&gone).await.unwrap().is_none());
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
    // The last guard of the write lock may be released or downgraded too.
    for is_released in [false, true] {
        let first = holding.write().acquire().await.unwrap();
        let second = holding.write().acquire().await.unwrap();
        let third = holding.write().acquire().await.unwrap();
        let mut reading = vec![first.downgrade().await.unwrap()];
        assert!(holding.read().is_owned_by_current() && holding.write().is_owned_by_current());
        assert!(wanted.read().try_acquire().await.unwrap().is_none(), "there are other guards of the write lock");
        // Another guard of the same read lock.
        reading.push(second.downgrade().await.unwrap());
        assert_eq!(reading[1].node(), reading[0].node());
        // Who tried to read has gone.
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
        wanted.read().try_acquire_as(&owner).await.unwrap().expect("a reader may come").release().await.unwrap();
        for guard in reading {
            assert!(wanted.write().try_acquire().await.unwrap().is_none());
            guard.release().await.unwrap();
        }
        wanted.write().try_acquire().await.unwrap().expect("nobody is left").release().await.unwrap();
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
        assert!(kept.as_ref().is_none_or(|kept| !kept.is_valid()), "the other guard does not know");
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
    let ((proxy, holder), other, path) = (behind_proxy().await, client().await, path("downgrade-anew"));
    let (holding, wanted) = (lock(&holder, &path), lock(&other, &path));
    let owner = OwnerId::new();
    let writing = holding.write().acquire_as(&owner).await.unwrap();
    end_session(TestingServer::shared().await, &proxy).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_that_a_read_beside_has_found_is_known_from_then_on() {
    let (holder, other, path) = (client().await, client().await, path("loss-beside"));
    let (ours, owner) = (lock(&holder, &path), OwnerId::new());
    let writing = ours.write().acquire_as(&owner).await.unwrap();
    other.delete().for_path(writing.node()).await.unwrap();
    let theirs = lock(&other, &path).write().acquire().await.unwrap();
    assert!(ours.read().try_acquire_as(&owner).await.unwrap().is_none());
    assert!(!writing.is_valid());
    assert!(ours.write().try_acquire_as(&owner).await.unwrap().is_none(), "re-entered, while another one holds");
    theirs.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_is_told_of_the_loss_while_its_owner_waits_to_read() {
    let (holder, other, path) = (client().await, client().await, path("loss-gate"));
    let (ours, owner) = (lock(&holder, &path), OwnerId::new());
    let writing = ours.write().acquire_as(&owner).await.unwrap();
    other.delete().for_path(writing.node()).await.unwrap();
    let theirs = lock(&other, &path).write().acquire().await.unwrap();
    let reading = tokio::spawn(async move { ours.read().acquire_as(&owner).await });
    queue_of(&other, &path, 2).await;
    // The other one holds for as long as this takes.
    let error = soon(writing.downgrade()).await.unwrap_err();
    assert!(matches!(error, Error::Lost(_)), "{error}");
    theirs.release().await.unwrap();
    soon(reading).await.unwrap().unwrap().release().await.unwrap();
}
