//! Creating nodes: their kinds, their parents and their names.

use std::time::Duration;

use curator_client::{CreateMode, Error, Outcome, ZPath};
use curator_test::{FaultProxy, OpCode, TestingServer};

use crate::support::{
    Recorded, behind_proxy, behind_proxy_with, builder, direct, ephemeral, soon, unique_path, until,
};

#[tokio::test]
async fn every_kind_of_node_can_be_created() {
    let client = direct().await;
    let session = client.session().await.unwrap();
    let dir = client
        .create()
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    let ttl = Duration::from_secs(60);
    for (name, mode) in [
        ("persistent", CreateMode::Persistent),
        ("persistent-sequential-", CreateMode::PersistentSequential),
        ("ephemeral", CreateMode::Ephemeral),
        ("ephemeral-sequential-", CreateMode::EphemeralSequential),
        ("container", CreateMode::Container),
        ("ttl", CreateMode::PersistentWithTtl(ttl)),
        (
            "ttl-sequential-",
            CreateMode::PersistentSequentialWithTtl(ttl),
        ),
    ] {
        let path = client
            .create()
            .with_mode(mode)
            .for_path(format!("{dir}/{name}"), name)
            .await
            .unwrap();
        let (data, stat) = client.get_data(&path).await.unwrap();
        assert_eq!(data, name.as_bytes());
        if mode.is_sequential() {
            let number = path.name().strip_prefix(name).unwrap();
            assert!(
                number.len() == 10 && number.bytes().all(|digit| digit.is_ascii_digit()),
                "{path}"
            );
        } else {
            assert_eq!(path.name(), name);
        }
        assert_eq!(
            stat.ephemeral_owner,
            if mode.is_ephemeral() { session.id() } else { 0 },
            "{mode:?}"
        );
    }
}

#[tokio::test]
async fn missing_parents_are_created_as_containers() {
    let server = TestingServer::builder()
        .container_check_interval(Duration::from_millis(100))
        .start()
        .await
        .unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = builder(proxy.connect_string()).connect().await.unwrap();
    client
        .create()
        .creating_parent_containers()
        .for_path("/top/a/b/c", "")
        .await
        .unwrap();
    // Existing parents are left unchanged.
    proxy.reset_counts();
    client
        .create()
        .creating_parent_containers()
        .for_path("/top/a/d", "")
        .await
        .unwrap();
    assert_eq!(proxy.requests().get(&OpCode::Multi), None);
    // The server removes only containers that have had children.
    client.create().for_path("/persistent", "").await.unwrap();
    for path in ["/top/a/b/c", "/top/a/d"] {
        client.delete().for_path(path).await.unwrap();
    }
    until(async || client.check_exists("/top").await.unwrap().is_none()).await;
    assert!(client.check_exists("/persistent").await.unwrap().is_some());
}

/// The server never removes an empty container that has had no child.
#[tokio::test]
async fn a_dropped_create_leaves_no_container_that_never_had_a_child() {
    for held in [OpCode::Create2, OpCode::Exists, OpCode::Multi] {
        for protected in [false, true] {
            let (proxy, client) = behind_proxy().await;
            let top = unique_path("dropped");
            proxy.hold_replies(held);
            let create = client
                .create()
                .with_mode(CreateMode::Ephemeral)
                .creating_parent_containers();
            let create = if protected {
                create.with_protection()
            } else {
                create
            };
            let creating = tokio::spawn(create.for_path(format!("{top}/a/b/node"), ""));
            soon(proxy.wait_for_reply(held, 1)).await.unwrap();
            creating.abort();
            creating.await.unwrap_err();
            proxy.release_held();
            soon(client.janitor().idle()).await;
            for dir in [top.clone(), format!("{top}/a"), format!("{top}/a/b")] {
                let stat = client.check_exists(&dir).await.unwrap();
                assert!(stat.is_none_or(|stat| stat.cversion > 0), "{dir}, {held:?}");
            }
        }
    }
}

#[tokio::test]
async fn any_number_of_missing_parents_takes_three_round_trips() {
    for below in ["node", "a/b/c/node"] {
        let (proxy, client) = behind_proxy().await;
        let top = unique_path("far");
        proxy.ignore(OpCode::Sync);
        proxy.set_delay(Duration::from_millis(50));
        proxy.reset_counts();
        client
            .create()
            .creating_parent_containers()
            .for_path(format!("{top}/{below}"), "")
            .await
            .unwrap();
        assert_eq!(proxy.round_trips(), 3, "{:?}", proxy.requests());
    }
}

/// A parent is created or deleted each time the client has looked up which parents are missing, so
/// each attempt to create them fails.
#[tokio::test]
async fn a_create_whose_parents_keep_changing_is_retried() {
    for (most, is_created) in [(20, true), (u64::MAX, false)] {
        let policy = Recorded::new(1, Duration::from_millis(1));
        let (proxy, client) = behind_proxy_with(|client| client.retry_policy(policy.clone())).await;
        let other = direct().await;
        let top = unique_path("changing");
        proxy.reset_counts();
        proxy.hold_nth_reply(OpCode::Exists, 2);
        let mut creating = tokio::spawn(
            client
                .create()
                .creating_parent_containers()
                .for_path(format!("{top}/a/node"), ""),
        );
        let mut created = None;
        for change in 1..=most {
            tokio::select! {
                looked = proxy.wait_for_reply(OpCode::Exists, 2 * change) => looked.unwrap(),
                ended = &mut creating => {
                    created = Some(ended.unwrap());
                    break;
                }
            }
            match other.check_exists(&top).await.unwrap() {
                Some(_) => other.delete().for_path(&top).await.unwrap(),
                None => drop(other.create().for_path(&top, "").await.unwrap()),
            }
            if change < most {
                proxy.hold_nth_reply(OpCode::Exists, 2);
            }
            proxy.release_held();
        }
        let created = match created {
            Some(created) => created,
            None => soon(creating).await.unwrap(),
        };
        assert_eq!(created.is_ok(), is_created, "{created:?}");
        if let Err(error) = created {
            assert!(
                matches!(&error, Error::KeepsChanging { path, .. } if path.name() == "node"),
                "{error}"
            );
            assert_eq!(
                (error.outcome(), error.is_retryable()),
                (Outcome::NotApplied, true)
            );
        }
        assert_eq!(
            policy.calls.lock().unwrap().len(),
            if is_created { 1 } else { 2 }
        );
    }
}

#[tokio::test]
async fn a_container_is_created_although_its_parent_is_deleted_meanwhile() {
    let (proxy, client) = behind_proxy().await;
    let other = direct().await;
    let top = unique_path("deleted");
    let session = client.session().await.unwrap();
    let dir = ZPath::on_server(&format!("{top}/a")).unwrap();
    // The first create fails, because the parent is missing; the second one creates the parent.
    proxy.hold_nth_reply(OpCode::CreateContainer, 2);
    let ensuring = tokio::spawn({
        let client = client.clone();
        let dir = dir.clone();
        async move { client.ensure_containers(&session, &dir).await }
    });
    soon(proxy.wait_for_reply(OpCode::CreateContainer, 2))
        .await
        .unwrap();
    other.delete().for_path(&top).await.unwrap();
    proxy.release_held();
    soon(ensuring).await.unwrap().unwrap();
    assert!(other.check_exists(dir).await.unwrap().is_some());
}

#[tokio::test]
async fn a_create_below_a_missing_parent_fails_and_does_not_create_the_namespace() {
    let server = TestingServer::shared().await.connect_string();
    let namespace = unique_path("namespace");
    let client = builder(&server)
        .namespace(namespace.trim_start_matches('/'))
        .connect()
        .await
        .unwrap();
    let error = client
        .create()
        .for_path("/parent/child", "")
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::NoNode {
                operation: "create",
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(direct().await.check_exists(&namespace).await.unwrap(), None);
    client.create().for_path("/child", "").await.unwrap();
}

#[tokio::test]
async fn a_ttl_outside_the_range_of_the_server_is_refused() {
    let client = direct().await;
    for ttl in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
        for mode in [
            CreateMode::PersistentWithTtl(ttl),
            CreateMode::PersistentSequentialWithTtl(ttl),
        ] {
            let path = unique_path("node");
            let error = client
                .create()
                .with_mode(mode)
                .for_path(&path, "")
                .await
                .unwrap_err();
            assert!(matches!(error, Error::InvalidRequest { .. }), "{error}");
            assert_eq!(
                (error.outcome(), error.is_retryable()),
                (Outcome::NotApplied, false)
            );
            assert_eq!(client.check_exists(&path).await.unwrap(), None);
        }
    }
}

#[tokio::test]
async fn the_root_can_be_neither_created_nor_deleted() {
    let client = direct().await;
    let errors = [
        client.create().for_path("/", "").await.unwrap_err(),
        client
            .create()
            .with_protection()
            .for_path("/", "")
            .await
            .unwrap_err(),
        client.delete().for_path("/").await.unwrap_err(),
        client
            .delete()
            .guaranteed()
            .for_path("/")
            .await
            .unwrap_err(),
        client
            .delete()
            .deleting_children_if_needed()
            .for_path("/")
            .await
            .unwrap_err(),
        client
            .transaction()
            .delete("/", None)
            .unwrap()
            .commit()
            .await
            .unwrap_err(),
    ];
    for error in errors {
        assert_eq!(
            (error.outcome(), error.is_retryable()),
            (Outcome::NotApplied, false),
            "{error}"
        );
    }
    assert_eq!(client.janitor().pending(), 0);
}

#[tokio::test]
async fn a_create_below_an_ephemeral_node_is_refused() {
    let client = direct().await;
    let parent = ephemeral(&client).await;
    for create in [
        client.create(),
        client.create().creating_parent_containers(),
        client.create().with_protection(),
    ] {
        let error = create
            .for_path(format!("{parent}/child"), "")
            .await
            .unwrap_err();
        assert!(
            matches!(error, Error::NoChildrenForEphemerals { .. }),
            "{error}"
        );
    }
}
