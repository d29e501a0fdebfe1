//! Creating nodes: kinds, parents, names.

use std::time::Duration;

use curator_client::{CreateMode, Error, Outcome, ProtectionId};

use crate::support::{direct, ephemeral, unique};

#[tokio::test]
async fn every_kind_of_node_can_be_created() {
    let client = direct().await;
    let session = client.session().await.unwrap();
    let dir = client.create().for_path(unique(), "").await.unwrap();
    let ttl = Duration::from_secs(60);
    for (name, mode) in [
        ("persistent", CreateMode::Persistent),
        ("persistent-sequential-", CreateMode::PersistentSequential),
        ("ephemeral", CreateMode::Ephemeral),
        ("ephemeral-sequential-", CreateMode::EphemeralSequential),
        ("container", CreateMode::Container),
        ("ttl", CreateMode::PersistentWithTtl(ttl)),
        ("ttl-sequential-", CreateMode::PersistentSequentialWithTtl(ttl)),
    ] {
        let path = client.create().with_mode(mode).for_path(format!("{dir}/{name}"), name).await.unwrap();
        let (data, stat) = client.get_data(&path).await.unwrap();
        assert_eq!(data, name.as_bytes());
        if mode.is_sequential() {
            let number = path.name().strip_prefix(name).unwrap();
            assert!(number.len() == 10 && number.bytes().all(|digit| digit.is_ascii_digit()), "{path}");
        } else {
            assert_eq!(path.name(), name);
        }
        // ZooKeeper marks containers and nodes with a TTL in this field too.
        assert_eq!(stat.ephemeral_owner == session.id(), mode.is_ephemeral(), "{mode:?}");
        assert_eq!(stat.ephemeral_owner == 0, matches!(mode, CreateMode::Persistent | CreateMode::PersistentSequential));
    }
}

#[tokio::test]
async fn numbers_rise() {
    let client = direct().await;
    let dir = client.create().for_path(unique(), "").await.unwrap();
    let mut names = Vec::new();
    for _ in 0..3 {
        let builder = client.create().with_mode(CreateMode::EphemeralSequential);
        names.push(builder.for_path(format!("{dir}/n-"), "").await.unwrap().name().to_owned());
    }
    assert_eq!(names, ["n-0000000000", "n-0000000001", "n-0000000002"]);
}

#[tokio::test]
async fn a_sequential_node_may_be_nothing_but_its_number() {
    let client = direct().await;
    let dir = client.create().for_path(unique(), "").await.unwrap();
    let session = client.session().await.unwrap();
    // A path must not end with a slash, so the parent's path with one is not a path to give.
    let error = client.create().with_mode(CreateMode::PersistentSequential).for_path(format!("{dir}/"), "").await;
    assert!(matches!(error, Err(Error::InvalidPath(_))), "{error:?}");
    assert!(session.get_children(&dir).await.unwrap().is_empty());
}

#[tokio::test]
async fn missing_parents_become_containers() {
    let client = direct().await;
    let top = unique();
    let path = format!("{top}/a/b/c");
    client.create().creating_parent_containers().for_path(&path, "").await.unwrap();
    // The server's mark for a container: the lowest number there is, in the field of the owner.
    for parent in [top.clone(), format!("{top}/a"), format!("{top}/a/b")] {
        assert_eq!(client.check_exists(&parent).await.unwrap().unwrap().ephemeral_owner, i64::MIN, "{parent}");
    }
    // And parents that are there are left as they are.
    client.create().creating_parent_containers().for_path(format!("{top}/a/d"), "").await.unwrap();
}

#[tokio::test]
async fn without_parents_a_node_is_refused() {
    let client = direct().await;
    let error = client.create().for_path(format!("{}/child", unique()), "").await.unwrap_err();
    assert!(matches!(error, Error::NoNode { operation: "create", .. }), "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn a_node_that_exists_is_refused() {
    let client = direct().await;
    let path = client.create().for_path(unique(), "first").await.unwrap();
    let error = client.create().for_path(&path, "second").await.unwrap_err();
    assert!(matches!(&error, Error::NodeExists { path: of, .. } if *of == path), "{error}");
    assert_eq!(client.get_data(&path).await.unwrap().0, b"first");
    let root = client.create().with_protection().for_path("/", "").await.unwrap_err();
    assert!(matches!(root, Error::NodeExists { .. }), "{root}");
}

#[tokio::test]
async fn an_ephemeral_node_has_no_children() {
    let client = direct().await;
    let parent = ephemeral(&client).await;
    for create in [client.create(), client.create().creating_parent_containers(), client.create().with_protection()] {
        let error = create.for_path(format!("{parent}/child"), "").await.unwrap_err();
        assert!(matches!(error, Error::NoChildrenForEphemerals { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_protected_node_carries_a_mark() {
    let client = direct().await;
    let dir = unique();
    let create = client.create().with_protection().with_mode(CreateMode::EphemeralSequential);
    let path = create.creating_parent_containers().for_path(format!("{dir}/lock-"), "").await.unwrap();
    let (id, name) = ProtectionId::parse(path.name()).unwrap();
    assert_eq!(name, "lock-0000000000");
    assert_eq!(path.parent().unwrap().as_str(), dir);
    assert!(path.name().starts_with(&id.prefix()));
    assert_eq!(client.get_children(&dir).await.unwrap(), [path.name()]);
}

#[tokio::test]
async fn bad_paths_are_refused_before_anything_is_sent() {
    let client = direct().await;
    for path in ["", "relative", "//", "/a//b", "/a/", "/a/../b", "/\0"] {
        assert!(matches!(client.create().for_path(path, "").await, Err(Error::InvalidPath(_))), "{path:?}");
        assert!(matches!(client.get_data(path).await, Err(Error::InvalidPath(_))), "{path:?}");
        assert!(matches!(client.delete().for_path(path).await, Err(Error::InvalidPath(_))), "{path:?}");
    }
}
