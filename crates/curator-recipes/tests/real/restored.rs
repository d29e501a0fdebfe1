//! Tests with a server that has lost its latest writes, because its data was restored from a
//! backup.

use std::path::Path;
use std::time::Duration;

use curator_recipes::client::{ConnectionState, CreateMode, CuratorClient};
use curator_recipes::{Config, CuratorCache, LossReason, PersistentNode, SharedValue};
use curator_test::{FaultProxy, OpCode, ServerKind, TestingServer};

use crate::support::{LONG_SESSION, builder, mutex, soon, unplug, until};

/// A server whose data can be backed up and restored.
struct Restorable {
    server: TestingServer,
    directory: tempfile::TempDir,
}

impl Restorable {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let server = TestingServer::builder()
            .kind(ServerKind::Real)
            .tick_time(Duration::from_millis(500));
        Self {
            server: server.data_directory(&data).start().await.unwrap(),
            directory,
        }
    }

    async fn back_up(&self) {
        self.server.kill().unwrap();
        copy(
            &self.directory.path().join("data"),
            &self.directory.path().join("backup"),
        );
        self.server.restart().await.unwrap();
    }

    async fn restore(&self) {
        let data = self.directory.path().join("data");
        self.server.kill().unwrap();
        std::fs::remove_dir_all(&data).unwrap();
        copy(&self.directory.path().join("backup"), &data);
        self.server.restart().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_node_is_not_in_the_restored_data_is_invalid_when_its_session_resumes() {
    let restorable = Restorable::start().await;
    let server = &restorable.server;
    let connect = async || {
        builder(&server.connect_string(), LONG_SESSION)
            .connect()
            .await
            .unwrap()
    };
    let holding = connect().await;
    let other = connect().await;
    // The backup has both sessions, and one held lock.
    let kept = mutex(&holding, "/kept").acquire().await.unwrap();
    mutex(&holding, "/lost")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    restorable.back_up().await;

    let lost = soon(mutex(&holding, "/lost").acquire()).await.unwrap();
    let mut states = holding.connection_states();
    restorable.restore().await;
    assert!(soon(states.wait_for(ConnectionState::Suspended)).await);
    assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
    assert!(!lost.is_valid() && kept.is_valid());
    assert_eq!(soon(lost.lost()).await.reason, LossReason::NodeDeleted);
    assert!(
        soon(mutex(&other, "/lost").acquire())
            .await
            .unwrap()
            .is_valid()
    );
    assert!(
        mutex(&other, "/kept")
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
}

/// Checks two nodes of each mode: one whose data is changed after the backup, and one that is
/// recreated after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_persistent_node_has_its_latest_data_again_after_a_restore_with_its_session() {
    let restorable = Restorable::start().await;
    let server = &restorable.server;
    let connect = async || {
        builder(&server.connect_string(), LONG_SESSION)
            .connect()
            .await
            .unwrap()
    };
    let client = connect().await;
    let others = connect().await;
    let modes = [
        ("ephemeral", CreateMode::Ephemeral),
        ("persistent", CreateMode::Persistent),
    ];
    let mut nodes = Vec::new();
    for (name, mode) in modes {
        for kind in ["changed", "recreated"] {
            let path = format!("/{name}-{kind}");
            let node = PersistentNode::builder(&client, &path)
                .unwrap()
                .mode(mode)
                .data("old")
                .start();
            soon(node.created()).await.unwrap();
            nodes.push((path, node));
        }
    }
    restorable.back_up().await;
    for (path, node) in &nodes {
        soon(node.created()).await.unwrap();
        if path.ends_with("recreated") {
            let before = others.check_exists(path).await.unwrap().unwrap().czxid;
            others.delete().for_path(path).await.unwrap();
            until(async || {
                others
                    .check_exists(path)
                    .await
                    .unwrap()
                    .is_some_and(|stat| stat.czxid > before)
            })
            .await;
        }
        soon(node.set_data("new")).await.unwrap();
    }
    let mut states = client.connection_states();
    restorable.restore().await;
    assert!(soon(states.wait_for(ConnectionState::Suspended)).await);
    assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
    let session = client.session().await.unwrap().id();
    for (path, node) in &nodes {
        soon(node.created()).await.unwrap();
        let (data, _) = others.get_data(path).await.unwrap();
        assert_eq!(data, b"new", "{path}");
        let owner = others
            .check_exists(path)
            .await
            .unwrap()
            .unwrap()
            .ephemeral_owner;
        let expected = if path.starts_with("/ephemeral") {
            session
        } else {
            0
        };
        assert_eq!(owner, expected, "{path}");
        soon(node.close()).await.unwrap();
        assert!(others.check_exists(path).await.unwrap().is_none(), "{path}");
    }
}

/// The data that the client has read before the restore has higher transaction ids than the
/// restored data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_config_a_cache_and_a_value_adopt_the_data_of_a_restored_ensemble() {
    let restorable = Restorable::start().await;
    let server = &restorable.server;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = builder(&proxy.connect_string(), LONG_SESSION)
        .connect()
        .await
        .unwrap();
    let writer = builder(&server.connect_string(), LONG_SESSION)
        .connect()
        .await
        .unwrap();
    for path in ["/settings", "/cache/a/x", "/cache/b", "/value"] {
        writer
            .create()
            .creating_parent_containers()
            .for_path(path, "1")
            .await
            .unwrap();
    }
    let decode = |data: &[u8]| std::str::from_utf8(data).unwrap().parse::<u32>();
    let config = Config::builder(&client, "/settings", decode)
        .unwrap()
        .open()
        .await
        .unwrap();
    let cache = CuratorCache::builder(&client, "/cache")
        .unwrap()
        .start()
        .unwrap();
    let codec = (|number: &u32| number.to_string().into_bytes(), decode);
    let mut changes = SharedValue::with_codec(&client, "/value", codec, 0_u32)
        .unwrap()
        .changes();
    soon(changes.next()).await.unwrap().unwrap();
    soon(cache.ready()).await.unwrap();
    restorable.back_up().await;
    let connected = async |client: &CuratorClient| while soon(client.session()).await.is_err() {};

    for (round, nodes) in [
        ("lost", ["/cache/c", "/cache/a/y"]),
        ("restored", ["/cache/d", "/cache/a/z"]),
    ] {
        if round == "restored" {
            unplug(&proxy, &client).await;
            restorable.restore().await;
        }
        connected(&writer).await;
        for node in nodes {
            writer.create().for_path(node, "").await.unwrap();
        }
        let number = if round == "lost" { "7" } else { "8" };
        if round == "lost" {
            // So the client sees higher transaction ids than the restored ensemble reaches.
            for _ in 0..100 {
                writer.set_data("/settings", "6", None).await.unwrap();
            }
        }
        for path in ["/settings", "/cache/b", "/value"] {
            writer.set_data(path, number, None).await.unwrap();
        }
        if round == "restored" {
            proxy.refuse(false).unwrap();
        }
        connected(&client).await;
        until(async || {
            config.current().to_string() == number && config.status().get().is_current()
        })
        .await;
        while soon(changes.next())
            .await
            .unwrap()
            .unwrap()
            .value
            .to_string()
            != number
        {}
        let snapshot = soon(cache.caught_up()).await.unwrap();
        let names: Vec<_> = snapshot.iter().map(|node| node.path().as_str()).collect();
        let mut expected = vec![
            "/cache",
            "/cache/a",
            "/cache/a/x",
            "/cache/b",
            nodes[0],
            nodes[1],
        ];
        expected.sort_unstable();
        assert_eq!(names, expected, "{round}");
        let b = cache.get("/cache/b").unwrap().node().unwrap();
        assert_eq!(b.data(), number.as_bytes(), "{round}");
    }
    writer.set_data("/settings", "9", None).await.unwrap();
    until(async || *config.current() == 9).await;
}

/// Before the restore, the cache lists a node that is then lost, but does not read it. The node
/// created after the restore has the same transaction id, so that the parent's stat is the same as
/// in that list.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_finds_a_node_created_after_a_restore_in_the_place_of_a_lost_one() {
    let restorable = Restorable::start().await;
    let server = &restorable.server;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = builder(&proxy.connect_string(), LONG_SESSION)
        .connect()
        .await
        .unwrap();
    let writer = builder(&server.connect_string(), LONG_SESSION)
        .connect()
        .await
        .unwrap();
    for path in ["/cache", "/cache/a", "/counted"] {
        writer.create().for_path(path, "").await.unwrap();
    }
    restorable.back_up().await;
    let connected = async |client: &CuratorClient| while soon(client.session()).await.is_err() {};
    let next_zxid = async || writer.set_data("/counted", "", None).await.unwrap().mzxid + 1;
    let create = async |path| {
        writer.create().for_path(path, "").await.unwrap();
        writer.check_exists(path).await.unwrap().unwrap().czxid
    };

    connected(&writer).await;
    for _ in 0..100 {
        next_zxid().await;
    }
    let lost = create("/cache/a/lost").await;
    connected(&client).await;
    // The earlier replies contain both parents and their lists; this reply contains the lost node.
    proxy.hold_nth_reply(OpCode::MultiRead, 4);
    let cache = CuratorCache::builder(&client, "/cache")
        .unwrap()
        .start()
        .unwrap();
    soon(proxy.wait_for_faults()).await.unwrap();
    unplug(&proxy, &client).await;
    restorable.restore().await;

    connected(&writer).await;
    while next_zxid().await < lost {}
    assert_eq!(create("/cache/a/other").await, lost);
    proxy.refuse(false).unwrap();
    connected(&client).await;
    let snapshot = soon(cache.caught_up()).await.unwrap();
    let names: Vec<_> = snapshot.iter().map(|node| node.path().as_str()).collect();
    assert_eq!(names, ["/cache", "/cache/a", "/cache/a/other"]);
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
