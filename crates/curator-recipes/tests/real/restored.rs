//! An ensemble that has lost its latest writes.

use std::path::Path;
use std::time::Duration;

use curator_recipes::LossReason;
use curator_recipes::client::ConnectionState;
use curator_test::TestingServer;

use crate::support::{LONG_SESSION, builder, mutex, soon};

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
