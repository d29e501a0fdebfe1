//! Queues near the end of their counters.

use curator_recipes::client::CreateMode;
use curator_recipes::{
    ContenderIdentity, InterProcessMultiLock, LockInternalsDriver, ParticipantKind, Queue, Uuid, Verdict,
    sequence_after,
};

use super::overflow;
use crate::support::{children, client, connect, mutex, path, queue_of, read_write as lock, server_at, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_came_before_the_end_can_read_too_and_go_over_to_reading() {
    let (server, client) = server_at(i32::MAX - 1, &["/rw"]).await;
    let other = connect(&server.connect_string()).await;
    let (lock, others) = (lock(&client, "/rw"), lock(&other, "/rw"));
    let writing = soon(lock.write().acquire()).await.unwrap();
    assert!(writing.node().name().ends_with("2147483646"), "{writing:?}");
    for _ in 0..2 {
        let reading = soon(lock.read().acquire()).await.unwrap();
        let participants = lock.participants().await.unwrap();
        assert!(participants.len() == 2 && participants.iter().all(|one| one.owns), "{participants:?}");
        overflow(soon(others.read().acquire()).await.unwrap_err());
        overflow(soon(others.write().try_acquire()).await.unwrap_err());
        soon(other.janitor().idle()).await;
        reading.release().await.unwrap();
    }
    let reading = soon(writing.downgrade()).await.unwrap();
    let participants = lock.participants().await.unwrap();
    assert_eq!(
        participants.iter().map(|one| (one.kind, one.sequence)).collect::<Vec<_>>(),
        [(ParticipantKind::Read, i32::MAX - 1)]
    );
    overflow(soon(others.read().acquire()).await.unwrap_err());
    overflow(soon(others.write().acquire()).await.unwrap_err());
    assert!(reading.is_valid());
    reading.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_looks_again_and_sees_the_end_does_not_own() {
    let (server, client) = server_at(i32::MAX - 2, &["/rw"]).await;
    let (holding, waiting) = (lock(&client, "/rw"), lock(&connect(&server.connect_string()).await, "/rw"));
    let guard = soon(holding.write().acquire()).await.unwrap();
    let waiter = tokio::spawn(async move { soon(waiting.write().acquire()).await });
    queue_of(&client, "/rw", 2).await;
    // One who does not go away, as another program's might not.
    let created = client.create().with_mode(CreateMode::PersistentSequential).for_path("/rw/_c_x-__WRIT__", "").await;
    assert_eq!(created.unwrap().name(), "_c_x-__WRIT__2147483647");
    guard.release().await.unwrap();
    let (_, node) = overflow(waiter.await.unwrap().unwrap_err());
    assert_eq!(node, "_c_x-__WRIT__2147483647");
    queue_of(&client, "/rw", 1).await;
    // Nor can anybody say who owns.
    let (_, node) = overflow(holding.participants().await.unwrap_err());
    assert_eq!(node, "_c_x-__WRIT__2147483647");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_multi_lock_says_which_of_its_paths_is_at_its_end() {
    let (_server, client) = server_at(i32::MAX, &["/b"]).await;
    let multi = InterProcessMultiLock::new(&client, ["/a", "/b", "/c"]).unwrap();
    assert_eq!(overflow(soon(multi.acquire()).await.unwrap_err()).0, "/b");
    assert_eq!(overflow(soon(multi.try_acquire()).await.unwrap_err()).0, "/b");
    soon(client.janitor().idle()).await;
    for path in ["/a", "/c"] {
        mutex(&client, path).try_acquire().await.unwrap().expect("something was left").release().await.unwrap();
    }
    assert!(children(&client, "/b").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_contenders_with_one_number_stop_the_lock() {
    let (client, path) = (client().await, path("same-number"));
    for id in ["a", "b"] {
        let node = format!("{path}/_c_{id}-lock-0000000007");
        client.create().creating_parent_containers().for_path(&node, "").await.unwrap();
    }
    assert_eq!(overflow(soon(mutex(&client, &path).acquire()).await.unwrap_err()).1, "_c_b-lock-0000000007");
    soon(client.janitor().idle()).await;
    assert_eq!(children(&client, &path).await.len(), 2);
}

/// Nothing in its names but the number.
#[derive(Debug)]
struct Bare;

impl LockInternalsDriver for Bare {
    fn node_prefix(&self, _id: &Uuid) -> String {
        "W-".to_owned()
    }
    fn identity(&self) -> ContenderIdentity {
        ContenderIdentity::Data
    }
    fn sequence(&self, child: &str) -> Option<i32> {
        sequence_after(child, "W-")
    }
    fn verdict(&self, _queue: &Queue, own: usize) -> Verdict {
        own.checked_sub(1).map_or(Verdict::Owns, Verdict::WaitsFor)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_differ_by_their_number_only_are_refused_at_its_end_too() {
    let (_server, client) = server_at(i32::MAX, &["/bare"]).await;
    let bare = mutex(&client, "/bare").with_driver(Bare).unwrap();
    assert_eq!(overflow(soon(bare.acquire()).await.unwrap_err()).1, "W-2147483647");
    soon(client.janitor().idle()).await;
    assert!(children(&client, "/bare").await.is_empty());
    // The second cannot even create its node.
    client.create().for_path("/bare/W-2147483647", "").await.unwrap();
    assert_eq!(overflow(soon(bare.acquire()).await.unwrap_err()).1, "W-2147483647");
    assert_eq!(overflow(soon(bare.try_acquire()).await.unwrap_err()).1, "W-2147483647");
    soon(client.janitor().idle()).await;
    assert_eq!(children(&client, "/bare").await, ["W-2147483647"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_that_somebody_has_taken_by_hand_is_refused_with_the_same_advice() {
    let (client, path) = (client().await, path("taken-number"));
    client.create().creating_parent_containers().for_path(&format!("{path}/W-0000000001"), "").await.unwrap();
    let bare = mutex(&client, &path).with_driver(Bare).unwrap();
    let error = soon(bare.acquire()).await.unwrap_err();
    assert!(error.to_string().contains("delete the directory when nobody"), "{error}");
    assert_eq!(overflow(error), (path, "W-".to_owned()));
}
