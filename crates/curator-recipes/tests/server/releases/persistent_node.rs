//! A persistent node: its creation, data, owners, refusals and cost.

use std::sync::Arc;
use std::time::Duration;

use curator_recipes::client::{
    Acl, AuthId, CreateMode, CuratorClient, Error as ClientError, Permission, RetryOneTime,
};
use curator_recipes::{
    PersistentNode, PersistentNodeBuilder, PersistentNodeError, PersistentNodeState,
};
use curator_test::{OpCode, ServerVersion, TestingServer};
use futures_util::FutureExt as _;

use crate::releases::cost::{counted, spent, stated};
use crate::releases::leader_latch::Panics;
use crate::support::{
    LONG_SESSION, Row, adjusted_server, behind_proxy, behind_proxy_with, builder, children,
    client as connected, path, requests_of, round_trips, soon, unplug, until, until_watched,
};

pub(crate) const TTL: Duration = Duration::from_secs(1_000);

const MODES: [CreateMode; 7] = [
    CreateMode::Ephemeral,
    CreateMode::Persistent,
    CreateMode::EphemeralSequential,
    CreateMode::PersistentSequential,
    CreateMode::Container,
    CreateMode::PersistentWithTtl(TTL),
    CreateMode::PersistentSequentialWithTtl(TTL),
];

/// The modes of nodes that the server keeps: from 3.10 on, servers also remove containers that never
/// had a child, and some do so after a second.
pub(crate) async fn kept_modes() -> impl Iterator<Item = CreateMode> {
    let version = TestingServer::shared().await.version();
    let keeps_containers = version.expect("the server is running") < ServerVersion::new(3, 10, 0);
    MODES
        .into_iter()
        .filter(move |mode| keeps_containers || *mode != CreateMode::Container)
}

pub(crate) fn configured(client: &CuratorClient, path: &str) -> PersistentNodeBuilder {
    PersistentNode::builder(client, path).unwrap().data("ours")
}

pub(crate) fn started(client: &CuratorClient, path: &str) -> PersistentNode {
    configured(client, path).start()
}

/// Waits until the node is created, and returns its path.
pub(crate) async fn created(node: &PersistentNode) -> String {
    soon(node.created()).await.unwrap().to_string()
}

pub(crate) async fn until_state(
    node: &PersistentNode,
    wanted: impl FnMut(&PersistentNodeState) -> bool,
) {
    let mut states = node.state();
    if soon(states.wait_for(wanted)).await.is_err() {
        panic!("{node:?} has ended: {:?}", node.created().await);
    }
}

/// Waits until the state reports that this session owns the node; 0 is the owner of a node that is
/// not ephemeral.
pub(crate) async fn until_foreign(node: &PersistentNode, session_id: i64) {
    until_state(
        node,
        |state| matches!(state, PersistentNodeState::Foreign { owner, .. } if *owner == session_id),
    )
    .await;
}

pub(crate) async fn data(client: &CuratorClient, path: &str) -> String {
    String::from_utf8(client.get_data(path).await.unwrap().0).unwrap()
}

pub(crate) async fn exists(client: &CuratorClient, path: &str) -> bool {
    client.check_exists(path).await.unwrap().is_some()
}

pub(crate) async fn session_id(client: &CuratorClient) -> i64 {
    client.session().await.unwrap().id()
}

fn anyone(permissions: Permission) -> [Acl; 1] {
    [Acl::new(permissions, AuthId::anyone())]
}

/// Creates a node that belongs to no persistent node.
pub(crate) async fn create_node(client: &CuratorClient, path: &str, mode: CreateMode, data: &str) {
    client
        .create()
        .with_mode(mode)
        .creating_parent_containers()
        .for_path(path, data)
        .await
        .unwrap();
}

/// Replaces the node in one transaction.
pub(crate) async fn replace(client: &CuratorClient, path: &str) {
    client
        .transaction()
        .delete(path, None)
        .unwrap()
        .create(path, "theirs", CreateMode::Persistent)
        .unwrap()
        .commit()
        .await
        .unwrap();
}

/// Deletes the node, and waits until it is created again.
async fn delete_and_await_recreation(client: &CuratorClient, path: &str) {
    let before = client.check_exists(path).await.unwrap().unwrap();
    client.delete().for_path(path).await.unwrap();
    until(async || {
        client
            .check_exists(path)
            .await
            .unwrap()
            .is_some_and(|stat| stat.czxid > before.czxid)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_any_mode_is_created_recreated_and_deleted() {
    let (proxy, client) = behind_proxy().await;
    // The client sends a transaction that checks the root on each new connection. Do not count it.
    proxy.exempt_path("/");
    let others = connected().await;
    for mode in kept_modes().await {
        for is_protected in [false, true] {
            let _row = Row::of((mode, is_protected));
            let dir = path("kept");
            let builder = configured(&client, &format!("{dir}/deep/node-")).mode(mode);
            let node = if is_protected {
                builder.with_protection()
            } else {
                builder
            }
            .start();
            let node_path = created(&node).await;
            let dir = format!("{dir}/deep");
            let stat = others.check_exists(&node_path).await.unwrap().unwrap();
            assert_eq!(
                stat.ephemeral_owner == session_id(&client).await,
                mode.is_ephemeral()
            );
            assert_eq!(data(&others, &node_path).await, "ours");
            assert_eq!(node.path().to_string(), format!("{dir}/node-"));
            assert_eq!(node.actual_path().unwrap().to_string(), node_path);
            let name = node_path.strip_prefix(&format!("{dir}/")).unwrap();
            assert_eq!(name.starts_with("_c_"), is_protected, "{name}");
            assert_eq!(
                name.ends_with("-0000000000"),
                mode.is_sequential(),
                "{name}"
            );
            delete_and_await_recreation(&others, &node_path).await;
            delete_and_await_recreation(&others, &node_path).await;
            assert_eq!(created(&node).await, node_path);
            assert_eq!(data(&others, &node_path).await, "ours");
            assert_eq!(
                children(&others, &dir).await,
                [name],
                "the node was created again under the same name"
            );
            proxy.reset_counts();
            soon(node.close()).await.unwrap();
            assert!(!exists(&others, &node_path).await);
            assert_eq!(node.actual_path(), None);
            assert!(matches!(node.state().get(), PersistentNodeState::Closed));
            // The directory is a container. The server may delete it, and the client must not.
            assert_eq!(requests_of(&proxy, OpCode::Delete), 1);
            assert_eq!(requests_of(&proxy, OpCode::Multi), 0);
        }
    }
}

#[tokio::test]
async fn missing_parents_become_containers() {
    let server = adjusted_server().await;
    let top = path("kept-top");
    let client = builder(&server.connect_string(), LONG_SESSION)
        .connect()
        .await
        .unwrap();
    let path = format!("{top}/a/b/node");
    let node = started(&client, &path);
    created(&node).await;
    client
        .delete()
        .deleting_children_if_needed()
        .for_path(format!("{top}/a"))
        .await
        .unwrap();
    until(async || exists(&client, &path).await).await;
    soon(node.close()).await.unwrap();
    // The server removes containers without children.
    until(async || !exists(&client, &top).await).await;
}

#[tokio::test]
async fn data_written_by_others_stays_until_the_node_is_recreated() {
    let client = connected().await;
    let others = connected().await;
    let path = path("kept-data");
    let node = started(&client, &path);
    created(&node).await;
    others.set_data(&path, "theirs", None).await.unwrap();
    round_trips(&client).await;
    round_trips(&client).await;
    assert_eq!(data(&others, &path).await, "theirs");
    // The persistent node still watches its node after that write: CURATOR-258.
    delete_and_await_recreation(&others, &path).await;
    assert_eq!(data(&others, &path).await, "ours");
    others.set_data(&path, "theirs", None).await.unwrap();
    soon(node.set_data("new")).await.unwrap();
    assert_eq!(data(&others, &path).await, "new");
    delete_and_await_recreation(&others, &path).await;
    assert_eq!(data(&others, &path).await, "new");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn set_data_works_without_a_connection_and_when_its_future_is_dropped() {
    let (proxy, client) = behind_proxy().await;
    let others = connected().await;
    let path = path("kept-early");
    unplug(&proxy, &client).await;
    let node = started(&client, &path);
    let mut early = Box::pin(node.set_data("early"));
    assert!((&mut early).now_or_never().is_none());
    proxy.refuse(false).unwrap();
    soon(early).await.unwrap();
    assert_eq!(data(&others, &path).await, "early");
    unplug(&proxy, &client).await;
    assert!(node.set_data("dropped").now_or_never().is_none());
    proxy.refuse(false).unwrap();
    until(async || data(&others, &path).await == "dropped").await;
    // Concurrent updates are merged; each call waits until its data, or later data, is written.
    let sets = (0..20).map(|number| node.set_data(number.to_string()));
    for set in soon(futures_util::future::join_all(sets)).await {
        set.unwrap();
    }
    assert_eq!(data(&others, &path).await, "19");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_process_at_a_path_waits_until_the_first_closes_its_node() {
    let one = connected().await;
    let other = connected().await;
    let path = path("kept-twice");
    let first = started(&one, &path);
    created(&first).await;
    let second = configured(&other, &path).data("second").start();
    let owner = session_id(&one).await;
    until_foreign(&second, owner).await;
    let error = soon(second.created_timeout(Duration::ZERO))
        .await
        .unwrap_err();
    let PersistentNodeError::ForeignOwner {
        path: node,
        owner: reported,
        ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!((node.as_str(), *reported), (&*path, owner));
    assert!(
        error.to_string().contains(&format!("{owner:#x}")),
        "{error}"
    );
    assert_eq!(
        (second.actual_path(), second.last_error().is_some()),
        (None, false)
    );
    // `second` does not write its data to the node of `first`.
    assert!(second.set_data("third").now_or_never().is_none());
    one.set_data(&path, "still the first's", None)
        .await
        .unwrap();
    round_trips(&other).await;
    assert_eq!(data(&one, &path).await, "still the first's");
    soon(first.close()).await.unwrap();
    assert_eq!(created(&second).await, path);
    assert_eq!(data(&one, &path).await, "third");
    soon(first.close()).await.unwrap();
    assert!(exists(&one, &path).await);
    soon(second.close()).await.unwrap();
    assert!(!exists(&one, &path).await);
}

/// The two persistent nodes share one session, and neither mistakes the other's node for its own.
#[tokio::test]
async fn the_second_persistent_node_of_a_client_at_a_path_waits_for_the_first() {
    let client = connected().await;
    let path = path("kept-twice-here");
    let first = started(&client, &path);
    created(&first).await;
    let second = started(&client, &path);
    until_foreign(&second, session_id(&client).await).await;
    soon(second.close()).await.unwrap();
    assert!(exists(&client, &path).await);
    let third = started(&client, &path);
    until_foreign(&third, session_id(&client).await).await;
    soon(first.close()).await.unwrap();
    created(&third).await;
}

#[tokio::test]
async fn an_existing_node_is_neither_adopted_nor_deleted() {
    let client = connected().await;
    let others = connected().await;
    for mode in [CreateMode::Ephemeral, CreateMode::Persistent] {
        let _row = Row::of(mode);
        let path = path("kept-foreign");
        create_node(&others, &path, CreateMode::Persistent, "theirs").await;
        let node = configured(&client, &path).mode(mode).start();
        until_foreign(&node, 0).await;
        soon(node.close()).await.unwrap();
        assert_eq!(data(&others, &path).await, "theirs");
        let node = configured(&client, &path).mode(mode).start();
        until_foreign(&node, 0).await;
        others.delete().for_path(&path).await.unwrap();
        created(&node).await;
        assert_eq!(data(&others, &path).await, "ours");
        // Another client deletes our node, and creates a node before we do.
        replace(&others, &path).await;
        until_foreign(&node, 0).await;
        drop(node);
        round_trips(&client).await;
        assert_eq!(data(&others, &path).await, "theirs");
    }
}

#[tokio::test]
async fn adopt_existing_adopts_an_existing_node_unless_either_is_ephemeral() {
    let client = connected().await;
    let others = connected().await;
    for mode in kept_modes().await {
        if mode.is_ephemeral() || mode.is_sequential() {
            continue;
        }
        let _row = Row::of(mode);
        let path = path("kept-adopted");
        create_node(&others, &path, mode, "of the last run").await;
        let adopting = || {
            configured(&client, &path)
                .mode(mode)
                .adopt_existing()
                .start()
        };
        let node = adopting();
        created(&node).await;
        assert_eq!(data(&others, &path).await, "ours");
        // The persistent node also adopts a later node at its path.
        replace(&others, &path).await;
        until(async || data(&others, &path).await == "ours").await;
        soon(node.close()).await.unwrap();
        assert!(!exists(&others, &path).await);
        // A node that already has the data is not written.
        create_node(&others, &path, mode, "ours").await;
        let node = adopting();
        created(&node).await;
        soon(node.set_data("new")).await.unwrap();
        assert_eq!(
            others.check_exists(&path).await.unwrap().unwrap().version,
            1
        );
        soon(node.close()).await.unwrap();
        // An ephemeral node is not adopted, because it is deleted with its session.
        create_node(&others, &path, CreateMode::Ephemeral, "theirs").await;
        let node = adopting();
        until_foreign(&node, session_id(&others).await).await;
        assert_eq!(data(&others, &path).await, "theirs");
    }
    let path = path("kept-not-adopted");
    create_node(&others, &path, CreateMode::Persistent, "theirs").await;
    let node = configured(&client, &path).adopt_existing().start();
    until_foreign(&node, 0).await;
}

/// The server checks the permission to create before it looks for the node.
#[tokio::test]
async fn adopt_existing_does_not_need_the_permission_to_create() {
    let client = connected().await;
    let dir = path("kept-no-create");
    let node = format!("{dir}/node");
    create_node(&client, &node, CreateMode::Persistent, "of the last run").await;
    client
        .set_acl(
            &dir,
            anyone(Permission::READ | Permission::DELETE | Permission::ADMIN),
            None,
        )
        .await
        .unwrap();
    let adopting = configured(&client, &node)
        .mode(CreateMode::Persistent)
        .adopt_existing()
        .start();
    created(&adopting).await;
    assert_eq!(data(&client, &node).await, "ours");
    soon(adopting.close()).await.unwrap();
    assert!(!exists(&client, &node).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adoption_that_may_not_write_is_refused_until_it_is_permitted() {
    let (proxy, client) = behind_proxy().await;
    let others = connected().await;
    let path = path("kept-read-only");
    let acl = anyone(Permission::READ | Permission::DELETE | Permission::ADMIN);
    others
        .create()
        .with_acl(acl)
        .for_path(&path, "of the last run")
        .await
        .unwrap();
    let node = configured(&client, &path)
        .mode(CreateMode::Persistent)
        .adopt_existing()
        .start();
    until_state(&node, |state| {
        matches!(
            state,
            PersistentNodeState::Refused {
                error: ClientError::NoAuth { .. }
            }
        )
    })
    .await;
    // The persistent node pauses between two attempts.
    assert!((1..=10).contains(&requests_of(&proxy, OpCode::SetData)));
    assert!(node.last_error().is_some());
    others
        .set_acl(&path, anyone(Permission::ALL), None)
        .await
        .unwrap();
    created(&node).await;
    assert_eq!(data(&others, &path).await, "ours");
}

/// The persistent node never wrote its data, so the node still belongs to another client.
#[tokio::test]
async fn closing_an_adoption_that_may_not_write_leaves_the_node() {
    let client = connected().await;
    let path = path("kept-never-adopted");
    let acl = anyone(Permission::READ | Permission::DELETE);
    client
        .create()
        .with_acl(acl)
        .for_path(&path, "of the last run")
        .await
        .unwrap();
    let node = configured(&client, &path)
        .mode(CreateMode::Persistent)
        .adopt_existing()
        .start();
    until_state(&node, |state| {
        matches!(state, PersistentNodeState::Refused { .. })
    })
    .await;
    soon(node.close()).await.unwrap();
    assert_eq!(data(&client, &path).await, "of the last run");
}

/// Deletes these nodes and their directory in one transaction.
async fn delete_with_directory(client: &CuratorClient, dir: &str, nodes: &[String]) {
    nodes
        .iter()
        .fold(client.transaction(), |deletes, node| {
            deletes.delete(node, None).unwrap()
        })
        .delete(dir, None)
        .unwrap()
        .commit()
        .await
        .unwrap();
}

/// The server counts the children of a recreated directory from 0, and so gives new nodes the
/// numbers of recreated nodes. A create that fails does not increase the count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_sequential_node_is_created_in_a_directory_that_counts_again() {
    const NODES: usize = 24;
    // The maximum size of a request, and the number of transactions that skip 12 numbers. Each
    // skips twice as many as the last: 1, 2, 4 and 8 numbers, or at most 2 under the lower limit.
    for (mode, limit, transactions) in [
        (CreateMode::EphemeralSequential, 1 << 20, 4),
        (CreateMode::PersistentSequential, 1 << 20, 4),
        (CreateMode::EphemeralSequential, 1_024, 7),
    ] {
        let limited = behind_proxy_with(|builder| builder.max_request_size(limit)).await;
        let (proxy, client) = limited;
        let others = connected().await;
        let dir = path("kept-again");
        let _row = Row::of((mode, limit));
        let next = || configured(&client, &format!("{dir}/n-")).mode(mode).start();
        let mut nodes = Vec::new();
        for _ in 0..NODES {
            nodes.push(next());
            created(nodes.last().unwrap()).await;
        }
        for node in nodes.drain(..NODES / 2) {
            soon(node.close()).await.unwrap();
        }
        let mut names = Vec::new();
        for node in &nodes {
            names.push(created(node).await);
        }
        delete_with_directory(&others, &dir, &names).await;
        for name in &names {
            until(async || exists(&others, name).await).await;
        }
        // The next number is 12, and the numbers from 12 to 23 are taken.
        proxy.exempt_path("/");
        proxy.reset_counts();
        let first = next();
        names.push(created(&first).await);
        assert_eq!(
            requests_of(&proxy, OpCode::Multi),
            transactions,
            "{:?}",
            proxy.requests()
        );
        proxy.reset_counts();
        nodes.extend([first, next(), next()]);
        for node in &nodes[NODES / 2 + 1..] {
            names.push(created(node).await);
        }
        assert_eq!(
            requests_of(&proxy, OpCode::Multi),
            0,
            "the directory's count is past the taken numbers"
        );
        let mut found: Vec<_> = children(&others, &dir)
            .await
            .iter()
            .map(|name| format!("{dir}/{name}"))
            .collect();
        found.sort();
        names.sort();
        assert_eq!(found, names);
        // The recreated nodes keep their names.
        for (node, name) in nodes[..NODES / 2].iter().zip(&names) {
            assert_eq!(created(node).await, *name);
        }
    }
}

/// Like `a_new_sequential_node_is_created_in_a_directory_that_counts_again`, but the new node is
/// created before the old node is recreated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sequential_node_whose_name_is_taken_gets_another_number() {
    for (mode, adopts) in [
        (CreateMode::EphemeralSequential, false),
        (CreateMode::PersistentSequential, false),
        (CreateMode::PersistentSequential, true),
    ] {
        let client = connected().await;
        let others = connected().await;
        let dir = path("kept-taken");
        let options = configured(&client, &format!("{dir}/n-")).mode(mode);
        let _row = Row::of((mode, adopts));
        let node = if adopts {
            options.adopt_existing()
        } else {
            options
        }
        .start();
        let taken = created(&node).await;
        replace(&others, &taken).await;
        until(async || {
            node.actual_path()
                .is_some_and(|path| path.as_str() != taken)
        })
        .await;
        let now = created(&node).await;
        assert!(
            now.starts_with(&format!("{dir}/n-0")) && now != taken,
            "{now}"
        );
        assert_eq!(
            (data(&others, &now).await, data(&others, &taken).await),
            ("ours".to_owned(), "theirs".to_owned())
        );
        soon(node.close()).await.unwrap();
        assert_eq!(children(&others, &dir).await.len(), 1);
    }
}

/// `background_failures.rs` tests the refusal of the node itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_parents_may_not_be_created_is_refused_until_they_may() {
    let client = connected().await;
    let dir = path("kept-parents");
    client
        .create()
        .creating_parent_containers()
        .with_acl(anyone(Permission::READ | Permission::ADMIN))
        .for_path(&dir, "")
        .await
        .unwrap();
    let node = started(&client, &format!("{dir}/missing/parents/node"));
    until_state(&node, |state| {
        matches!(
            state,
            PersistentNodeState::Refused {
                error: ClientError::NoAuth { .. }
            }
        )
    })
    .await;
    client
        .set_acl(&dir, anyone(Permission::ALL), None)
        .await
        .unwrap();
    created(&node).await;
    assert!(node.last_error().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ephemeral_parent_and_an_unsupported_mode_are_reported_as_refused() {
    let client = connected().await;
    let dir = path("kept-no-children");
    create_node(&client, &dir, CreateMode::Ephemeral, "").await;
    let node = started(&client, &format!("{dir}/node"));
    until_state(&node, |state| {
        matches!(
            state,
            PersistentNodeState::Refused {
                error: ClientError::NoChildrenForEphemerals { .. }
            }
        )
    })
    .await;
    client.delete().for_path(&dir).await.unwrap();
    created(&node).await;
    let server = TestingServer::builder()
        .property("extendedTypesEnabled", "false")
        .start()
        .await
        .unwrap();
    let client = builder(&server.connect_string(), LONG_SESSION)
        .connect()
        .await
        .unwrap();
    let node = configured(&client, "/ttl")
        .mode(CreateMode::PersistentWithTtl(TTL))
        .start();
    until_state(&node, |state| {
        matches!(
            state,
            PersistentNodeState::Refused {
                error: ClientError::Unimplemented { .. }
            }
        )
    })
    .await;
    soon(node.close()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_foreign_node_is_waited_for_and_an_unreadable_own_node_is_recreated() {
    let client = connected().await;
    let others = connected().await;
    let path = path("kept-unreadable");
    let secret = anyone(Permission::WRITE | Permission::DELETE);
    others
        .create()
        .with_acl(secret.clone())
        .for_path(&path, "theirs")
        .await
        .unwrap();
    let is_refused = |state: &_| {
        matches!(
            state,
            PersistentNodeState::Refused {
                error: ClientError::NoAuth { .. }
            }
        )
    };
    let node = started(&client, &path);
    until_state(&node, is_refused).await;
    others.delete().for_path(&path).await.unwrap();
    created(&node).await;
    soon(node.close()).await.unwrap();
    let node = configured(&client, &path).acl(secret).start();
    let there = async || {
        matches!(
            others.check_exists(&path).await,
            Ok(Some(_)) | Err(ClientError::NoAuth { .. })
        )
    };
    for _ in 0..2 {
        until(there).await;
        others.delete().for_path(&path).await.unwrap();
    }
    until_state(&node, is_refused).await;
}

#[tokio::test]
async fn data_that_the_server_refuses_is_an_error_and_the_node_keeps_its_data() {
    let client = connected().await;
    let others = connected().await;
    let path = path("kept-refused-data");
    let node = configured(&client, &path)
        .acl(anyone(Permission::READ))
        .start();
    created(&node).await;
    let error = soon(node.set_data("new")).await.unwrap_err();
    assert!(
        matches!(
            error,
            PersistentNodeError::Client(ClientError::NoAuth { .. })
        ),
        "{error}"
    );
    assert!(node.state().get().is_present());
    delete_and_await_recreation(&others, &path).await;
    assert_eq!(data(&others, &path).await, "ours");
    let error = soon(node.set_data("newer")).await.unwrap_err();
    assert!(
        matches!(
            error,
            PersistentNodeError::Client(ClientError::NoAuth { .. })
        ),
        "{error}"
    );
    soon(node.close()).await.unwrap();

    let node = started(&client, &path);
    let error = soon(node.set_data(vec![0; 2 << 20])).await.unwrap_err();
    assert!(
        matches!(
            error,
            PersistentNodeError::Client(ClientError::RequestTooLarge { .. })
        ),
        "{error}"
    );
    created(&node).await;
    delete_and_await_recreation(&others, &path).await;
    assert_eq!(data(&others, &path).await, "ours");
    soon(node.set_data("new")).await.unwrap();
    assert_eq!(data(&others, &path).await, "new");
    soon(node.close()).await.unwrap();

    let node = configured(&client, &path).data(vec![0; 2 << 20]).start();
    until_state(&node, |state| {
        matches!(
            state,
            PersistentNodeState::Refused {
                error: ClientError::RequestTooLarge { .. }
            }
        )
    })
    .await;
    soon(node.set_data("smaller")).await.unwrap();
    assert_eq!(data(&others, &path).await, "smaller");
}

#[tokio::test]
async fn children_and_a_missing_permission_prevent_the_deletion() {
    let client = connected().await;
    let others = connected().await;
    let dir = path("kept-undeletable");
    let node = configured(&client, &dir)
        .mode(CreateMode::Persistent)
        .start();
    created(&node).await;
    create_node(&others, &format!("{dir}/child"), CreateMode::Persistent, "").await;
    let error = soon(node.close()).await.unwrap_err();
    assert!(
        matches!(
            &error,
            PersistentNodeError::DeleteRefused {
                cause: ClientError::NotEmpty { .. },
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains(&dir), "{error}");
    let create = others.create().creating_parent_containers();
    let dir = path("kept-undeletable");
    create
        .with_acl(anyone(
            Permission::READ | Permission::CREATE | Permission::ADMIN,
        ))
        .for_path(&dir, "")
        .await
        .unwrap();
    let node = started(&client, &format!("{dir}/node"));
    created(&node).await;
    let error = soon(node.close()).await.unwrap_err();
    let is_no_auth = |error: &_| {
        matches!(
            error,
            PersistentNodeError::DeleteRefused {
                cause: ClientError::NoAuth { .. },
                ..
            }
        )
    };
    assert!(is_no_auth(&error), "{error}");
    // A later call returns the same error, because the node still exists. The call does not try
    // again to delete it.
    client
        .set_acl(&dir, anyone(Permission::ALL), None)
        .await
        .unwrap();
    let again = soon(node.clone().close()).await.unwrap_err();
    assert!(is_no_auth(&again), "{again}");
    assert!(exists(&client, &format!("{dir}/node")).await);
}

#[tokio::test]
async fn created_timeout_without_a_connection_reports_not_connected() {
    let once = RetryOneTime::new(Duration::from_millis(1)).unwrap();
    let client = CuratorClient::builder("127.0.0.1:1")
        .retry_policy(once)
        .start()
        .unwrap();
    let node = started(&client, "/kept");
    let error = soon(node.created_timeout(Duration::from_millis(50)))
        .await
        .unwrap_err();
    assert!(
        matches!(
            &error,
            PersistentNodeError::NotCreated {
                cause: Some(ClientError::NotConnected { .. }),
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    assert!(matches!(node.state().get(), PersistentNodeState::Unknown));
}

#[tokio::test]
async fn the_root_and_an_invalid_path_are_refused() {
    let client = connected().await;
    for path in ["/", "//", "no-slash"] {
        assert!(
            matches!(
                PersistentNode::builder(&client, path),
                Err(PersistentNodeError::Client(_))
            ),
            "{path}"
        );
    }
}

/// The ACL provider of the user panics.
#[tokio::test]
async fn a_panic_ends_the_persistent_node_with_its_message() {
    let server = TestingServer::shared().await;
    let client = builder(&server.connect_string(), LONG_SESSION)
        .acl_provider(Panics(Arc::new(true.into())))
        .connect()
        .await
        .unwrap();
    let node = started(&client, &path("kept-panic"));
    let error = soon(node.created()).await.unwrap_err();
    assert!(
        matches!(&error, PersistentNodeError::Panicked { message, .. } if message.starts_with("no ACL")),
        "{error}"
    );
    assert!(matches!(
        soon(node.close()).await,
        Err(PersistentNodeError::Panicked { .. })
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_persistent_node_sends_the_documented_requests() {
    let (proxy, client) = counted().await;
    let others = connected().await;
    let dir = path("kept-cost");
    create_node(&others, &dir, CreateMode::Persistent, "").await;
    // Probes are not counted, because the first probe of a connection may be another kind of
    // request than later ones.
    proxy.exempt_path("/");
    let path = format!("{dir}/node");
    proxy.reset_counts();
    let node = started(&client, &path);
    created(&node).await;
    assert_eq!(
        spent(&proxy),
        stated(("persistent node", "to create the node")).await
    );
    soon(node.set_data("new")).await.unwrap();
    assert_eq!(
        spent(&proxy),
        stated(("persistent node", "`set_data`")).await
    );
    delete_and_await_recreation(&others, &path).await;
    until_watched(session_id(&client).await, &path).await;
    until_state(&node, PersistentNodeState::is_present).await;
    assert_eq!(
        spent(&proxy),
        stated(("persistent node", "when another client deletes the node")).await
    );
    proxy.cut();
    until_state(&node, |state| matches!(state, PersistentNodeState::Unknown)).await;
    created(&node).await;
    assert_eq!(
        spent(&proxy),
        stated(("persistent node", "after a reconnect")).await
    );
    soon(node.close()).await.unwrap();
    assert_eq!(spent(&proxy), stated(("persistent node", "`close`")).await);
    create_node(&others, &path, CreateMode::Persistent, "").await;
    proxy.reset_counts();
    let node = started(&client, &path);
    until_foreign(&node, 0).await;
    assert_eq!(
        spent(&proxy),
        stated(("persistent node", "to find a node of another owner")).await
    );
    let numbered = configured(&client, &path)
        .mode(CreateMode::EphemeralSequential)
        .start();
    created(&numbered).await;
    assert_eq!(
        spent(&proxy),
        stated(("persistent node", "to create a sequential node")).await
    );
}
