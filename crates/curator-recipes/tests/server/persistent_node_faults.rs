//! A persistent node under faults, mainly faults that broke Curator's `PersistentNode`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use curator_recipes::client::{
    Acl, AuthId, ConnectionState, CreateMode, CuratorClient, Error as ClientError, Outcome,
    Permission, SessionEnd,
};
use curator_recipes::{PersistentNode, PersistentNodeError, PersistentNodeState};
use curator_test::{Direction, FaultProxy, OpCode};
use futures_util::FutureExt as _;
use tokio::task::JoinHandle;
use tracing::Level;

use crate::releases::persistent_node::{
    configured, create_node, created, data, exists, kept_modes, replace, session_id, started,
    until_foreign, until_state,
};
use crate::support::{
    FAULTS, Logs, Row, adjusted_server, behind_proxy, behind_proxy_with, builder, children,
    client as connected, connect, end_session, keep_empty, owner, path, proxy, requests_of,
    round_trips, soon, unplug, until,
};

/// The timeout of sessions that a client loses in a test.
const SESSION: Duration = Duration::from_secs(20);
/// The timeout of requests whose replies are lost.
const OPERATION: Duration = Duration::from_millis(500);

async fn impatient() -> (FaultProxy, CuratorClient) {
    behind_proxy_with(|builder| builder.operation_timeout(OPERATION)).await
}

/// A client that treats its session as lost long before the servers expire it.
async fn fast_clock() -> (FaultProxy, CuratorClient) {
    let proxy = proxy().await;
    proxy.stretch_session_timeouts(0.1);
    let client = builder(&proxy.connect_string(), SESSION)
        .connect()
        .await
        .unwrap();
    (proxy, client)
}

/// Makes the client lose its session in an outage. The client cannot close the session on the
/// server until the next [`FaultProxy::disarm`].
async fn lose_session_but_not_its_node(proxy: &FaultProxy, client: &CuratorClient) {
    let session = client.session().await.unwrap();
    proxy.black_hole(Direction::Both);
    assert_eq!(soon(session.ended()).await, SessionEnd::LeaseOver);
    proxy.stretch_session_timeouts(1.0);
    (1..=1_000).for_each(|nth| proxy.cut_before_nth_request(OpCode::CloseSession, nth));
}

/// Reads a node again and again in a task, and panics if it does not exist.
struct GapReader {
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl GapReader {
    fn start(client: &CuratorClient, path: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let client = client.clone();
        let path = path.to_owned();
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            while !stopped.load(Ordering::SeqCst) {
                assert!(exists(&client, &path).await, "a gap at {path}");
            }
        });
        Self { stop, task }
    }

    async fn assert_no_gap(self) {
        self.stop.store(true, Ordering::SeqCst);
        soon(self.task).await.unwrap();
    }
}

/// The request that creates a node of this mode.
fn create_of(mode: CreateMode) -> OpCode {
    match mode {
        CreateMode::Container => OpCode::CreateContainer,
        CreateMode::PersistentWithTtl(_) | CreateMode::PersistentSequentialWithTtl(_) => {
            OpCode::CreateTtl
        }
        _ => OpCode::Create2,
    }
}

fn is_unknown(state: &PersistentNodeState) -> bool {
    matches!(state, PersistentNodeState::Unknown)
}

/// In Curator, the node was missing after an outage: CURATOR-97.
// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_recreated_in_a_new_session_and_after_a_delete_during_an_outage() {
    let (proxy, client) = behind_proxy().await;
    let others = connected().await;
    for mode in kept_modes().await {
        let _row = Row::of(mode);
        let path = path("kept-outage");
        let node = configured(&client, &path).mode(mode).start();
        let node_path = created(&node).await;
        let before = client.session().await.unwrap();
        end_session(&proxy).await;
        soon(before.ended()).await;
        until(async || {
            let stat = others.check_exists(&node_path).await.unwrap();
            stat.is_some_and(|stat| !mode.is_ephemeral() || stat.ephemeral_owner != before.id())
        })
        .await;
        assert_eq!(created(&node).await, node_path);
        unplug(&proxy, &client).await;
        others.delete().for_path(&node_path).await.unwrap();
        proxy.refuse(false).unwrap();
        until(async || exists(&others, &node_path).await).await;
        soon(node.close()).await.unwrap();
        assert!(!exists(&others, &node_path).await);
    }
}

/// If the old session's node were deleted first, other clients would see a gap before the new node.
// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_of_a_session_that_has_ended_is_replaced_without_a_gap() {
    for lost in [None, Some(OpCode::Multi)] {
        let (proxy, client) = fast_clock().await;
        let others = connected().await;
        let path = path("kept-gap");
        let _row = Row::of(lost);
        let node = started(&client, &path);
        created(&node).await;
        let old = session_id(&client).await;
        lose_session_but_not_its_node(&proxy, &client).await;
        assert!(node.set_data("late").now_or_never().is_none());
        let reader = GapReader::start(&others, &path);
        if let Some(lost) = lost {
            proxy.exempt_path("/");
            proxy.cut_before_reply(lost);
        }
        proxy.heal();
        let owner = async || {
            others
                .check_exists(&path)
                .await
                .unwrap()
                .unwrap()
                .ephemeral_owner
        };
        until(async || owner().await != old).await;
        created(&node).await;
        assert_eq!(owner().await, session_id(&client).await);
        assert_eq!(data(&others, &path).await, "late");
        reader.assert_no_gap().await;
        proxy.disarm();
        soon(node.close()).await.unwrap();
        assert!(!exists(&others, &path).await);
    }
}

/// The client closes a lost session as soon as it can, which deletes the session's nodes.
// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_session_is_closed_after_its_node_was_replaced() {
    // For how long there is no connection after the loss; `None` if the session is lost without an
    // outage.
    for outage in [
        Some(Duration::ZERO),
        Some(Duration::from_millis(2_200)),
        None,
    ] {
        let _row = Row::of(outage);
        let proxy = proxy().await;
        let others = connected().await;
        let path = path("kept-close");
        proxy.stretch_session_timeouts(0.15);
        let client = builder(&proxy.connect_string(), SESSION)
            .connect()
            .await
            .unwrap();
        let node = started(&client, &path);
        created(&node).await;
        let lost = client.session().await.unwrap();
        let reader;
        if let Some(outage) = outage {
            proxy.black_hole(Direction::Both);
            assert_eq!(soon(lost.ended()).await, SessionEnd::LeaseOver);
            proxy.stretch_session_timeouts(1.0);
            // The client delays the close after it has opened a new session, by less than 2.2 s.
            tokio::time::sleep(outage).await;
            reader = GapReader::start(&others, &path);
            proxy.heal();
        } else {
            reader = GapReader::start(&others, &path);
            proxy.stretch_session_timeouts(0.14);
            proxy.cut();
            assert!(matches!(
                soon(lost.ended()).await,
                SessionEnd::TimeoutLowered { .. }
            ));
        }
        soon(proxy.wait_for_request(OpCode::CloseSession, 1))
            .await
            .unwrap();
        created(&node).await;
        let present = others.check_exists(&path).await.unwrap().unwrap();
        assert_eq!(present.ephemeral_owner, session_id(&client).await);
        reader.assert_no_gap().await;
    }
}

// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replacement_that_the_server_refuses_delays_the_close_of_a_lost_session_only_for_a_while()
{
    let proxy = proxy().await;
    let others = connected().await;
    let dir = path("kept-close-late");
    // Otherwise the server may remove the directory, and its ACL with it.
    keep_empty(&others, &[&dir]).await;
    proxy.stretch_session_timeouts(0.5);
    let client = builder(&proxy.connect_string(), SESSION)
        .connect()
        .await
        .unwrap();
    let path = format!("{dir}/node");
    let node = started(&client, &path);
    created(&node).await;
    let lost = client.session().await.unwrap();
    // Permits neither to create nor to delete children.
    let acl = vec![Acl::new(
        Permission::READ | Permission::ADMIN,
        AuthId::anyone(),
    )];
    others.set_acl(&dir, acl, None).await.unwrap();
    proxy.stretch_session_timeouts(0.49);
    proxy.cut();
    assert!(matches!(
        soon(lost.ended()).await,
        SessionEnd::TimeoutLowered { .. }
    ));
    until_state(&node, |state| {
        matches!(state, PersistentNodeState::Refused { .. })
    })
    .await;
    assert_eq!(requests_of(&proxy, OpCode::CloseSession), 0);
    soon(proxy.wait_for_request(OpCode::CloseSession, 1))
        .await
        .unwrap();
    until(async || !exists(&others, &path).await).await;
}

/// A create is larger than the write of the same data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_that_is_too_large_for_the_next_create_is_refused() {
    const LIMIT: usize = 1_024;
    let (_proxy, client) = behind_proxy_with(|builder| builder.max_request_size(LIMIT)).await;
    let others = connected().await;
    let path = path("kept-near-limit");
    let node = started(&client, &path);
    created(&node).await;
    // The size of a write includes 64 bytes and the path.
    let mut accepted = 0;
    for spare in (0..300).rev().step_by(10) {
        match soon(node.set_data(vec![b'x'; LIMIT - 64 - path.len() - spare])).await {
            Ok(()) => accepted += 1,
            Err(error) => {
                assert!(
                    matches!(
                        error,
                        PersistentNodeError::Client(ClientError::RequestTooLarge { .. })
                    ),
                    "{error}"
                );
            }
        }
        others.delete().for_path(&path).await.unwrap();
        until(async || exists(&others, &path).await).await;
        created(&node).await;
    }
    assert!((1..29).contains(&accepted), "{accepted}");
}

// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_with_a_lost_reply_leaves_one_node_that_is_recognized_as_own() {
    for (name, fault) in FAULTS {
        for mode in kept_modes().await {
            for is_protected in [false, true] {
                if !is_protected && !mode.is_ephemeral() {
                    continue;
                }
                let (proxy, client) = impatient().await;
                let others = connected().await;
                let dir = path("kept-lost");
                let _row = Row::of((name, mode, is_protected));
                create_node(&others, &dir, CreateMode::Persistent, "").await;
                fault(&proxy, create_of(mode));
                let builder = configured(&client, &format!("{dir}/node-")).mode(mode);
                let node = if is_protected {
                    builder.with_protection()
                } else {
                    builder
                }
                .start();
                let node_path = created(&node).await;
                soon(proxy.wait_for_faults()).await.unwrap();
                assert_eq!(
                    children(&others, &dir).await,
                    [node_path.strip_prefix(&format!("{dir}/")).unwrap()]
                );
                assert_eq!(
                    others
                        .check_exists(&node_path)
                        .await
                        .unwrap()
                        .unwrap()
                        .version,
                    0
                );
                soon(node.set_data("new")).await.unwrap();
                soon(node.close()).await.unwrap();
                assert_eq!(children(&others, &dir).await, [""; 0]);
            }
        }
    }
}

/// The adopted node may have our data already, so it is deleted like a node whose create is in
/// flight.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_during_an_adoption_deletes_the_node() {
    for is_lost in [false, true] {
        let (proxy, client) = behind_proxy().await;
        let others = connected().await;
        let path = path("kept-adopting");
        let _row = Row::of(is_lost);
        create_node(&others, &path, CreateMode::Persistent, "of the last run").await;
        proxy.hold_nth_reply(OpCode::SetData, 1);
        let node = configured(&client, &path)
            .mode(CreateMode::Persistent)
            .adopt_existing()
            .start();
        soon(proxy.wait_for_reply(OpCode::SetData, 1))
            .await
            .unwrap();
        assert_eq!(data(&others, &path).await, "ours");
        let mut closing = Box::pin(node.close());
        assert!((&mut closing).now_or_never().is_none());
        if is_lost {
            proxy.cut();
        } else {
            proxy.release_held();
        }
        soon(closing).await.unwrap();
        assert!(!exists(&others, &path).await);
    }
}

/// Both persistent nodes read the node, and send their writes before the reply to the first write
/// arrives: after that reply, the second persistent node would know that the node is taken, and
/// would not write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_concurrent_adoptions_the_second_does_not_delete_the_node() {
    let (proxy, client) = behind_proxy().await;
    let others = connected().await;
    let path = path("kept-adopted-twice");
    create_node(&others, &path, CreateMode::Persistent, "of the last run").await;
    proxy.hold_nth_reply(OpCode::GetData, 1);
    proxy.hold_nth_reply(OpCode::SetData, 1);
    let adopting = || {
        configured(&client, &path)
            .mode(CreateMode::Persistent)
            .adopt_existing()
            .start()
    };
    let one = adopting();
    let other = adopting();
    soon(proxy.wait_for_reply(OpCode::GetData, 2))
        .await
        .unwrap();
    proxy.release_held();
    soon(proxy.wait_for_reply(OpCode::SetData, 2))
        .await
        .unwrap();
    proxy.release_held();
    let second = tokio::select! {
        () = until_foreign(&one, 0) => one,
        () = until_foreign(&other, 0) => other,
    };
    assert_eq!(requests_of(&proxy, OpCode::SetData), 2);
    soon(second.close()).await.unwrap();
    assert_eq!(data(&others, &path).await, "ours");
}

/// Each write of the adoption finds a changed version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_others_change_too_often_to_adopt_is_reported_as_foreign() {
    let (proxy, client) = behind_proxy().await;
    let others = connected().await;
    let path = path("kept-contended");
    create_node(&others, &path, CreateMode::Persistent, "theirs").await;
    proxy.reset_counts();
    let hold_next = || proxy.hold_nth_reply(OpCode::GetData, 1);
    hold_next();
    let node = configured(&client, &path)
        .mode(CreateMode::Persistent)
        .adopt_existing()
        .start();
    // Changes the node after each read, before the reply to the read arrives.
    let theirs = async {
        for read in 1.. {
            soon(proxy.wait_for_reply(OpCode::GetData, read))
                .await
                .unwrap();
            others.set_data(&path, "theirs", None).await.unwrap();
            hold_next();
            proxy.release_held();
        }
    };
    tokio::select! {
        () = theirs => {}
        () = until_foreign(&node, 0) => {}
    }
    proxy.disarm();
    proxy.release_held();
    // The node is adopted later.
    created(&node).await;
    assert_eq!(data(&others, &path).await, "ours");
}

// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn set_data_with_a_lost_reply_is_applied_once() {
    for (name, fault) in FAULTS {
        for mode in [CreateMode::Ephemeral, CreateMode::Persistent] {
            let (proxy, client) = impatient().await;
            let others = connected().await;
            let path = path("kept-lost-data");
            let _row = Row::of((name, mode));
            let node = configured(&client, &path).mode(mode).start();
            created(&node).await;
            fault(&proxy, OpCode::SetData);
            soon(node.set_data("new")).await.unwrap();
            soon(proxy.wait_for_faults()).await.unwrap();
            assert_eq!(data(&others, &path).await, "new");
            assert_eq!(
                others.check_exists(&path).await.unwrap().unwrap().version,
                1
            );
            soon(node.close()).await.unwrap();
            assert!(!exists(&others, &path).await);
        }
    }
}

/// In Curator, an immediate close leaked the node: CURATOR-297.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_or_drop_during_the_create_leaves_no_node() {
    for mode in kept_modes().await {
        for is_dropped in [false, true] {
            for is_lost in [false, true] {
                let (proxy, client) = behind_proxy().await;
                let others = connected().await;
                let dir = path("kept-under-way");
                let _row = Row::of((mode, is_dropped, is_lost));
                if is_lost && !mode.is_ephemeral() {
                    continue;
                }
                create_node(&others, &dir, CreateMode::Persistent, "").await;
                proxy.hold_nth_reply(create_of(mode), 1);
                let node = configured(&client, &format!("{dir}/node-"))
                    .mode(mode)
                    .start();
                soon(proxy.wait_for_reply(create_of(mode), 1))
                    .await
                    .unwrap();
                assert_eq!(children(&others, &dir).await.len(), 1);
                let closing = if is_dropped {
                    drop(node);
                    None
                } else {
                    let closing = tokio::spawn(async move { node.close().await });
                    tokio::task::yield_now().await;
                    Some(closing)
                };
                if is_lost {
                    proxy.cut();
                } else {
                    proxy.release_held();
                }
                if let Some(closing) = closing {
                    soon(closing).await.unwrap().unwrap();
                }
                until(async || children(&others, &dir).await.is_empty()).await;
            }
        }
    }
}

// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_without_a_connection_ends_on_time_and_the_node_is_deleted_after_the_outage() {
    for mode in [
        CreateMode::Ephemeral,
        CreateMode::Persistent,
        CreateMode::PersistentSequential,
    ] {
        let (proxy, client) =
            behind_proxy_with(|builder| builder.close_timeout(Duration::from_millis(200))).await;
        let others = connected().await;
        let path = path("kept-close-outage");
        let _row = Row::of(mode);
        let node = configured(&client, &path).mode(mode).start();
        let node_path = created(&node).await;
        unplug(&proxy, &client).await;
        let error = soon(node.close()).await.unwrap_err();
        assert!(
            matches!(&error, PersistentNodeError::DeletePending { path, .. } if path.as_str() == node_path),
            "{error}"
        );
        assert_eq!(client.janitor().pending(), 1);
        for error in [
            soon(node.created()).await.unwrap_err(),
            soon(node.set_data("late")).await.unwrap_err(),
        ] {
            assert!(
                matches!(&error, PersistentNodeError::Closed { path } if path == node.path()),
                "{error}"
            );
            assert!(error.is_closed() && !error.is_retryable());
        }
        assert!(matches!(node.state().get(), PersistentNodeState::Closed));
        proxy.refuse(false).unwrap();
        until(async || !exists(&others, &node_path).await).await;
        soon(client.janitor().idle()).await;
        soon(node.close()).await.unwrap();
    }
}

/// Curator's TTL node stayed forever after the end of its process, if the node had never been
/// touched (CURATOR-545).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ttl_node_is_recreated_while_its_process_is_connected_and_expires_afterwards() {
    let server = adjusted_server().await;
    let path = path("kept-ttl");
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = connect(&proxy.connect_string()).await;
    let others = connect(&server.connect_string()).await;
    let ttl = CreateMode::PersistentWithTtl(Duration::from_millis(300));
    let node = configured(&client, &path).mode(ttl).start();
    created(&node).await;
    let czxid = async || {
        others
            .check_exists(&path)
            .await
            .unwrap()
            .map(|stat| stat.czxid)
    };
    let first = czxid().await;
    until(async || {
        czxid()
            .await
            .is_some_and(|now| first.is_none_or(|first| now > first))
    })
    .await;
    // From now on, the process is cut off, as if it had died.
    proxy.refuse(true).unwrap();
    proxy.black_hole(Direction::Both);
    until(async || czxid().await.is_none()).await;
}

/// Curator's persistent node deletes any node at its path.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_replacement_created_during_an_outage_is_not_deleted() {
    for mode in [CreateMode::Ephemeral, CreateMode::Persistent] {
        for is_dropped in [false, true] {
            let (proxy, client) = behind_proxy().await;
            let others = connected().await;
            let path = path("kept-replaced");
            let _row = Row::of((mode, is_dropped));
            let node = configured(&client, &path).mode(mode).start();
            created(&node).await;
            unplug(&proxy, &client).await;
            replace(&others, &path).await;
            let closing = if is_dropped {
                drop(node);
                None
            } else {
                Some(tokio::spawn(async move { node.close().await }))
            };
            until(async || client.janitor().pending() == 1).await;
            proxy.refuse(false).unwrap();
            soon(client.janitor().idle()).await;
            if let Some(closing) = closing {
                soon(closing).await.unwrap().unwrap();
            }
            round_trips(&client).await;
            assert_eq!(data(&others, &path).await, "theirs");
        }
    }
    let (proxy, client) = behind_proxy().await;
    let others = connected().await;
    let path = path("kept-replaced");
    let node = started(&client, &path);
    created(&node).await;
    unplug(&proxy, &client).await;
    replace(&others, &path).await;
    proxy.refuse(false).unwrap();
    until_foreign(&node, 0).await;
}

/// Each of our writes finds a changed version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_stays_present_while_another_client_changes_it_continuously() {
    let (proxy, client) = behind_proxy().await;
    let others = connected().await;
    let path = path("kept-changed");
    let node = started(&client, &path);
    created(&node).await;
    let mut states = node.state();
    states.mark_unchanged();
    proxy.set_delay(Duration::from_millis(5));
    proxy.reset_counts();
    let theirs = async {
        loop {
            others.set_data(&path, "theirs", None).await.unwrap();
        }
    };
    let ours = async {
        loop {
            node.set_data("ours").await.unwrap();
        }
    };
    tokio::select! {
        () = theirs => {}
        () = ours => {}
        () = until(async || requests_of(&proxy, OpCode::SetData) > 40) => {}
        _ = states.changed() => panic!("{:?}", node.state().get()),
    }
    soon(node.set_data("ours")).await.unwrap();
    assert_eq!(data(&others, &path).await, "ours");
}

/// The event of our node's deletion has arrived, but the persistent node has not processed it.
#[tokio::test]
async fn a_close_does_not_delete_a_foreign_replacement() {
    let client = connected().await;
    let node = started(&client, &path("persistent-replaced"));
    let node_path = created(&node).await;
    let there = node_path.clone();
    // Until the node is replaced, `join` blocks the runtime of the persistent node.
    let replaced = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async move {
            let other = connected().await;
            other.delete().for_path(&there).await.unwrap();
            other
                .create()
                .with_mode(CreateMode::Persistent)
                .for_path(&there, "theirs")
                .await
                .unwrap();
        });
    });
    replaced.join().unwrap();
    soon(node.close()).await.unwrap();
    assert!(exists(&client, &node_path).await);
}

/// A protected sequential node is found in a list of the children, by the id in its name.
#[tokio::test]
async fn a_node_is_refused_until_the_list_that_finds_it_is_permitted() {
    let (proxy, client) =
        behind_proxy_with(|builder| builder.operation_timeout(Duration::from_millis(300))).await;
    let owner = owner().await;
    let dir = path("persistent-unlisted");
    let acl = |anyone| {
        [
            Acl::new(Permission::ALL, AuthId::authed()),
            Acl::new(anyone, AuthId::anyone()),
        ]
    };
    owner
        .create()
        .with_acl(acl(Permission::CREATE))
        .for_path(&dir, "")
        .await
        .unwrap();
    proxy.swallow_next_reply(OpCode::Create2);
    let node = PersistentNode::builder(&client, format!("{dir}/n-"))
        .unwrap()
        .mode(CreateMode::EphemeralSequential)
        .with_protection()
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
    owner
        .set_acl(&dir, &acl(Permission::ALL), None)
        .await
        .unwrap();
    created(&node).await;
    assert_eq!(
        client.get_children(&dir).await.unwrap().len(),
        1,
        "the first node was found"
    );
}

/// The node may be deleted while its last request is in flight.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_interrupted_request_the_node_is_present_only_once_it_was_read() {
    let (proxy, client) = behind_proxy().await;
    let others = connected().await;
    let path = path("kept-unread");
    let node = started(&client, &path);
    created(&node).await;
    proxy.hold_nth_reply(OpCode::SetData, 1);
    assert!(node.set_data("new").now_or_never().is_none());
    soon(proxy.wait_for_reply(OpCode::SetData, 1))
        .await
        .unwrap();
    unplug(&proxy, &client).await;
    until_state(&node, is_unknown).await;
    others.delete().for_path(&path).await.unwrap();
    proxy.release_held();
    proxy.reset_counts();
    proxy.hold_replies(OpCode::GetData);
    let mut connection = client.connection_states();
    proxy.refuse(false).unwrap();
    assert!(soon(connection.wait_for(ConnectionState::Reconnected)).await);
    soon(proxy.wait_for_request(OpCode::GetData, 1))
        .await
        .unwrap();
    assert!(is_unknown(&node.state().get()), "{:?}", node.state());
    proxy.release_held();
    created(&node).await;
    assert_eq!(data(&others, &path).await, "new");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_after_a_lost_reply_deletes_a_protected_node_and_one_that_may_be_adopted() {
    for adopts in [false, true] {
        let (proxy, client) = behind_proxy().await;
        let others = connected().await;
        let dir = path("kept-lost-close");
        create_node(&others, &dir, CreateMode::Persistent, "").await;
        proxy.hold_nth_reply(OpCode::Create2, 1);
        let options = configured(&client, &format!("{dir}/node")).mode(CreateMode::Persistent);
        let node = if adopts {
            options.adopt_existing()
        } else {
            options.with_protection()
        }
        .start();
        let _row = Row::of(adopts);
        let closing = node.clone();
        until(async || !children(&others, &dir).await.is_empty()).await;
        let closing = tokio::spawn(async move { closing.close().await });
        until(async || matches!(node.state().get(), PersistentNodeState::Closed)).await;
        proxy.cut();
        soon(closing).await.unwrap().unwrap();
        assert!(children(&others, &dir).await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_in_flight_when_the_client_closes_has_an_unknown_outcome() {
    let (proxy, client) = behind_proxy().await;
    let others = connected().await;
    let path = path("kept-outcome");
    let node = configured(&client, &path)
        .mode(CreateMode::Persistent)
        .start();
    created(&node).await;
    proxy.hold_nth_reply(OpCode::SetData, 1);
    let setting = node.set_data("new");
    soon(proxy.wait_for_reply(OpCode::SetData, 1))
        .await
        .unwrap();
    let closing = tokio::spawn(async move { client.close().await });
    let error = soon(setting).await.unwrap_err();
    assert_eq!(
        (error.outcome(), data(&others, &path).await.as_str()),
        (Outcome::Unknown, "new"),
        "{error}"
    );
    proxy.release_held();
    // An unconfirmed close is not tested here.
    let _ = soon(closing).await.unwrap();
}

#[test]
fn repeated_losses_of_a_persistent_node_are_logged_three_times_a_minute() {
    let deleted = "another client has deleted the node";
    let taken = "another owner has the name; taking another number";
    for (mode, each) in [
        (CreateMode::Persistent, &[deleted, "created"][..]),
        (
            CreateMode::PersistentSequential,
            &[deleted, taken, "created"],
        ),
    ] {
        let expected = [&["created"], each, each, each].concat();
        let _row = Row::of(mode);
        let logs = Logs::at(Level::INFO);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let start = std::time::Instant::now();
        let work = async {
            let client = connected().await;
            let others = connected().await;
            let dir = path("kept-quiet");
            let node = configured(&client, &format!("{dir}/n")).mode(mode).start();
            for _ in 0..10 {
                let path = created(&node).await;
                let czxid = others.check_exists(&path).await.unwrap().unwrap().czxid;
                let transaction = others.transaction().delete(&path, None).unwrap();
                if mode.is_sequential() {
                    transaction
                        .create(&path, "theirs", CreateMode::Persistent)
                        .unwrap()
                        .commit()
                        .await
                        .unwrap();
                    until(async || node.actual_path().is_some_and(|now| now.as_str() != path))
                        .await;
                } else {
                    transaction.commit().await.unwrap();
                    until(async || {
                        others
                            .check_exists(&path)
                            .await
                            .unwrap()
                            .is_some_and(|now| now.czxid != czxid)
                    })
                    .await;
                }
            }
            soon(node.close()).await.unwrap();
        };
        logs.capture_call(|| runtime.block_on(work));
        let messages: Vec<_> = logs
            .all()
            .iter()
            .filter_map(|line| line.message.strip_prefix("persistent node: "))
            .map(str::to_owned)
            .collect();
        // The limit applies to each minute.
        let minutes = usize::try_from(start.elapsed().as_secs() / 60).unwrap();
        assert_eq!(messages[..expected.len()], expected, "{messages:?}");
        assert!(
            messages.len() <= expected.len() * (1 + minutes),
            "{messages:?}"
        );
    }
}
