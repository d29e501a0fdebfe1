//! An ensemble that has lost its latest writes.

use std::path::Path;
use std::time::Duration;

use curator_recipes::client::{ConnectionState, CreateMode, CuratorClient};
use curator_recipes::{LossReason, PersistentNode};
use curator_test::TestingServer;

use crate::support::{LONG_SESSION, builder, mutex, soon, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_node_is_not_in_the_restored_data_is_invalid_when_its_session_resumes() {
    let directory = tempfile::tempdir().unwrap();
    let (data, backup) = (directory.path().join("data"), directory.path().join("backup"));
    std::fs::create_dir(&data).unwrap();
    let server = TestingServer::builder().kind(curator_test::ServerKind::Real).tick_time(Duration::from_millis(500));
    let server = server.data_directory(&data).start().await.unwrap();
    let connect = async || builder(&server.connect_string(), LONG_SESSION).connect().await.unwrap();
    let (holding, other) = (connect().await, connect().await);
    // The backup has both sessions, and one held lock.
    let kept = mutex(&holding, "/kept").acquire().await.unwrap();
    mutex(&holding, "/lost").acquire().await.unwrap().release().await.unwrap();
    server.kill().unwrap();
    copy(&data, &backup);
    server.restart().await.unwrap();

    let lost = soon(mutex(&holding, "/lost").acquire()).await.unwrap();
    let mut states = holding.connection_states();
    server.kill().unwrap();
    std::fs::remove_dir_all(&data).unwrap();
    copy(&backup, &data);
    server.restart().await.unwrap();
    assert!(soon(states.wait_for(ConnectionState::Suspended)).await);
    assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
    assert!(!lost.is_valid() && kept.is_valid());
    assert_eq!(soon(lost.lost()).await.reason, LossReason::NodeDeleted);
    assert!(soon(mutex(&other, "/lost").acquire()).await.unwrap().is_valid());
    assert!(mutex(&other, "/kept").try_acquire().await.unwrap().is_none());
}

/// The nodes of both modes: one whose data is changed after the copy, and one that is recreated after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_persistent_node_has_its_latest_data_again_after_a_restore_with_its_session() {
    let directory = tempfile::tempdir().unwrap();
    let (data, backup) = (directory.path().join("data"), directory.path().join("backup"));
    std::fs::create_dir(&data).unwrap();
    let server = TestingServer::builder().kind(curator_test::ServerKind::Real).tick_time(Duration::from_millis(500));
    let server = server.data_directory(&data).start().await.unwrap();
    let connect = async || builder(&server.connect_string(), LONG_SESSION).connect().await.unwrap();
    let (client, others) = (connect().await, connect().await);
    let started = |path: &str, mode| PersistentNode::builder(&client, path).unwrap().mode(mode).data("old").start();
    let modes = [("ephemeral", CreateMode::Ephemeral), ("persistent", CreateMode::Persistent)];
    let mut nodes = Vec::new();
    for (name, mode) in modes {
        for kind in ["changed", "recreated"] {
            let path = format!("/{name}-{kind}");
            let node = started(&path, mode);
            soon(node.created()).await.unwrap();
            nodes.push((path, node));
        }
    }
    server.kill().unwrap();
    copy(&data, &backup);
    server.restart().await.unwrap();
    for (path, node) in &nodes {
        soon(node.created()).await.unwrap();
        if path.ends_with("recreated") {
            let before = others.check_exists(path).await.unwrap().unwrap().czxid;
            others.delete().for_path(path).await.unwrap();
            let is_new = async || others.check_exists(path).await.unwrap().is_some_and(|stat| stat.czxid > before);
            until(is_new).await;
        }
        soon(node.set_data("new")).await.unwrap();
    }
    let mut states = client.connection_states();
    server.kill().unwrap();
    std::fs::remove_dir_all(&data).unwrap();
    copy(&backup, &data);
    server.restart().await.unwrap();
    assert!(soon(states.wait_for(ConnectionState::Suspended)).await);
    assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
    let session = client.session().await.unwrap().id();
    for (path, node) in &nodes {
        soon(node.created()).await.unwrap();
        let has_new = async |others: &CuratorClient| others.get_data(path).await.unwrap().0 == b"new";
        assert!(has_new(&others).await, "{path}");
        let owner = others.check_exists(path).await.unwrap().unwrap().ephemeral_owner;
        assert_eq!(owner, if path.starts_with("/ephemeral") { session } else { 0 }, "{path}");
        soon(node.close()).await.unwrap();
        assert!(others.check_exists(path).await.unwrap().is_none(), "{path}");
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}
