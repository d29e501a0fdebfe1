//! Creates and other writes whose request or reply was lost.

use std::time::Duration;

use curator_client::CreateMode::EphemeralSequential;
use curator_client::{
    Acl, AuthId, ConnectionState, CreateMode, CuratorClient, Error, Outcome, Permission,
    RetryForever, RetryNTimes, ZPath,
};
use curator_test::{FaultProxy, OpCode};

use crate::support::{
    behind_proxy, behind_proxy_with, direct, end_session, once, simulated, soon, unique_path,
};

const PAUSE: Duration = Duration::from_millis(20);

async fn directory(client: &CuratorClient) -> ZPath {
    client
        .create()
        .for_path(unique_path("node"), "")
        .await
        .unwrap()
}

/// Starts a protected create under `dir`.
fn protected(
    client: &CuratorClient,
    dir: &ZPath,
    mode: CreateMode,
) -> impl Future<Output = curator_client::Result<ZPath>> + Send + 'static {
    client
        .create()
        .with_protection()
        .with_mode(mode)
        .for_path(format!("{dir}/lock-"), "data")
}

/// Checks that the created node is the only one, and belongs to the client's session if it is
/// ephemeral.
async fn assert_only_node(client: &CuratorClient, dir: &ZPath, path: &ZPath, mode: CreateMode) {
    assert_eq!(
        client.get_children(dir).await.unwrap(),
        [path.name()],
        "{mode:?}"
    );
    let (data, stat) = client.get_data(path).await.unwrap();
    assert_eq!(data, b"data");
    let owner = if mode.is_ephemeral() {
        client.session().await.unwrap().id()
    } else {
        0
    };
    assert_eq!(stat.ephemeral_owner, owner, "{mode:?}");
}

// Runs in real time: each transport loses requests and replies in its own way.
#[tokio::test]
async fn a_protected_node_is_created_once_if_its_request_or_reply_is_lost() {
    type Fault = fn(&FaultProxy, OpCode);
    let faults: [(Fault, u64); 3] = [
        (FaultProxy::cut_before_reply, 1),
        (FaultProxy::swallow_next_reply, 1),
        (FaultProxy::cut_before_request, 2),
    ];
    for (fault, requests) in faults {
        let (proxy, client) =
            behind_proxy_with(|client| client.operation_timeout(Duration::from_secs(1))).await;
        let admin = direct().await;
        for mode in [
            EphemeralSequential,
            CreateMode::PersistentSequential,
            CreateMode::Persistent,
        ] {
            let dir = directory(&admin).await;
            proxy.reset_counts();
            fault(&proxy, OpCode::Create2);
            let path = soon(protected(&client, &dir, mode)).await.unwrap();
            assert_only_node(&client, &dir, &path, mode).await;
            assert_eq!(proxy.requests()[&OpCode::Create2], requests, "{mode:?}");
            assert!(
                path.name().ends_with(if mode.is_sequential() {
                    "lock-0000000000"
                } else {
                    "lock-"
                }),
                "{path}"
            );
            assert_eq!(client.janitor().pending(), 0);
        }
    }
}

#[tokio::test]
async fn a_protected_create_with_missing_parents_recovers_from_a_lost_reply() {
    let (proxy, client) = behind_proxy().await;
    let dir = format!("{}/a/b", unique_path("node"));
    // The first create finds no parent. The reply to the second, which creates the parents too, is
    // lost.
    proxy.cut_before_reply(OpCode::Multi);
    let create = client
        .create()
        .with_protection()
        .creating_parent_containers()
        .with_mode(CreateMode::Ephemeral);
    let path = soon(create.for_path(format!("{dir}/node"), "data"))
        .await
        .unwrap();
    assert_only_node(
        &client,
        &client.resolve(&dir).unwrap(),
        &path,
        CreateMode::Ephemeral,
    )
    .await;
    proxy.wait_for_faults().await.unwrap();
}

/// The client loses the session while the server still keeps it, with its node (Curator issue
/// 1121).
#[tokio::test(start_paused = true)]
async fn the_node_of_a_dying_session_is_not_adopted() {
    let policy = RetryForever::new(PAUSE).unwrap();
    let (simulation, client) = simulated(|client| client.retry_policy(policy)).await;
    let dir = directory(&client).await;
    let process = simulation.main();
    let old = client.session().await.unwrap();
    process.swallow_next_reply(OpCode::Create2);
    process.hold_replies(OpCode::Sync);
    for _ in 0..100 {
        process.cut_before_request(OpCode::CloseSession);
    }
    let create = tokio::spawn(protected(&client, &dir, EphemeralSequential));
    old.ended().await;
    process.release_held();
    let path = create.await.unwrap().unwrap();
    let session = client.session().await.unwrap();
    assert!(session.epoch() > old.epoch());
    assert_eq!(
        client
            .check_exists(&path)
            .await
            .unwrap()
            .unwrap()
            .ephemeral_owner,
        session.id()
    );
    assert!(
        simulation.session_ids().contains(&old.id()),
        "the old session has ended too early for this test"
    );
    tokio::time::timeout(10 * old.timeout(), async {
        while client.get_children(&dir).await.unwrap() != [path.name()] {
            tokio::time::sleep(PAUSE).await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn an_unprotected_create_with_an_unknown_outcome_is_not_retried() {
    let (proxy, client) = behind_proxy().await;
    let dir = directory(&client).await;
    for (mode, op) in [
        (EphemeralSequential, OpCode::Create2),
        (CreateMode::Persistent, OpCode::Create2),
        (CreateMode::Container, OpCode::CreateContainer),
    ] {
        let mut states = client.connection_states();
        proxy.reset_counts();
        proxy.cut_before_reply(op);
        let create = client
            .create()
            .with_mode(mode)
            .for_path(format!("{dir}/{mode:?}"), "");
        let error = soon(create).await.unwrap_err();
        let Error::Ambiguous { cause, .. } = &error else {
            panic!("{error}")
        };
        assert!(matches!(**cause, Error::ConnectionLost { .. }), "{cause}");
        assert_eq!(
            (error.outcome(), error.is_retryable()),
            (Outcome::Unknown, false)
        );
        assert_eq!(proxy.requests()[&op], 1);
        // The create may fail before the state is published, and the previous round's state is the
        // same as the expected one.
        assert!(soon(states.wait_for(ConnectionState::Suspended)).await);
        assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
    }
    assert_eq!(client.get_children(&dir).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_dropped_protected_create_leaves_no_node() {
    let (proxy, client) = behind_proxy().await;
    let dir = directory(&client).await;
    proxy.reset_counts();
    proxy.hold_replies(OpCode::Create2);
    let create = tokio::spawn(protected(&client, &dir, EphemeralSequential));
    soon(proxy.wait_for_reply(OpCode::Create2, 1))
        .await
        .unwrap();
    let observer = direct().await;
    assert_eq!(observer.get_children(&dir).await.unwrap().len(), 1);
    create.abort();
    assert!(create.await.unwrap_err().is_cancelled());
    assert_eq!(client.janitor().pending(), 1);
    proxy.release_held();
    soon(client.janitor().idle()).await;
    assert!(observer.get_children(&dir).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_failed_protected_create_leaves_no_node() {
    let (proxy, client) = behind_proxy_with(|client| client.retry_policy(once())).await;
    let dir = directory(&client).await;
    proxy.cut_before_reply(OpCode::Create2);
    let error = soon(protected(&client, &dir, EphemeralSequential))
        .await
        .unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    soon(client.janitor().idle()).await;
    assert!(client.get_children(&dir).await.unwrap().is_empty());
}

/// Makes a call that sends this request, and that the client retries after an unknown outcome.
/// `node` exists, and `missing` does not.
async fn write(
    client: &CuratorClient,
    op: OpCode,
    node: &ZPath,
    missing: &ZPath,
) -> curator_client::Result<()> {
    let open = [Acl::new(Permission::ALL, AuthId::anyone())];
    match op {
        OpCode::SetData => client.set_data(node, "new", None).await.map(drop),
        OpCode::SetAcl => client.set_acl(node, &open, None).await.map(drop),
        OpCode::Delete => client.delete().for_path(node).await,
        OpCode::Create2 => client
            .create()
            .with_protection()
            .for_path(missing, "")
            .await
            .map(drop),
        _ => client
            .create()
            .or_set_data()
            .with_mode(CreateMode::Container)
            .for_path(missing, "")
            .await
            .map(drop),
    }
}

const WRITES: [OpCode; 5] = [
    OpCode::SetData,
    OpCode::SetAcl,
    OpCode::Delete,
    OpCode::Create2,
    OpCode::CreateContainer,
];

#[tokio::test(start_paused = true)]
async fn the_outcome_stays_unknown_if_the_connection_does_not_return_after_a_lost_reply() {
    for op in WRITES {
        let (simulation, client) =
            simulated(|client| client.retry_policy(RetryNTimes::new(1, PAUSE).unwrap())).await;
        let dir = directory(&client).await;
        let node = directory(&client).await;
        let process = simulation.main();
        process.reset_counts();
        process.hold_nth_reply(op, 1);
        let writing = tokio::spawn({
            let client = client.clone();
            let missing = dir.child("node").unwrap();
            async move { write(&client, op, &node, &missing).await }
        });
        process.wait_for_reply(op, 1).await.unwrap();
        process.refuse(true);
        process.cut();
        let error = writing.await.unwrap().unwrap_err();
        assert_eq!(
            (error.outcome(), error.is_retryable()),
            (Outcome::Unknown, true),
            "{op:?}: {error}"
        );
        let Error::RetryFailed { in_doubt, cause } = &error else {
            panic!("{op:?}: {error}")
        };
        assert!(
            matches!(**in_doubt, Error::ConnectionLost { .. }),
            "{op:?}: {in_doubt}"
        );
        assert!(
            matches!(**cause, Error::NotConnected { .. }),
            "{op:?}: {cause}"
        );
    }
}

#[tokio::test]
async fn the_outcome_stays_unknown_if_the_server_refuses_the_retry_after_a_lost_reply() {
    let (proxy, client) = behind_proxy().await;
    let path = directory(&client).await;
    // The first attempt removes the permission that the second one needs.
    let read_only = [Acl::new(Permission::READ, AuthId::anyone())];
    proxy.cut_before_reply(OpCode::SetAcl);
    let error = soon(client.set_acl(&path, &read_only, None))
        .await
        .unwrap_err();
    assert_eq!(
        (error.outcome(), error.is_retryable()),
        (Outcome::Unknown, false),
        "{error}"
    );
    assert!(
        matches!(&error, Error::RetryFailed { cause, .. } if matches!(**cause, Error::NoAuth { .. })),
        "{error}"
    );
    assert_eq!(client.get_acl(&path).await.unwrap().0, read_only);
}

#[tokio::test]
async fn a_write_with_a_lost_reply_is_retried_only_without_a_version() {
    let (proxy, client) = behind_proxy().await;
    let path = directory(&client).await;
    proxy.cut_before_reply(OpCode::SetData);
    assert_eq!(
        soon(client.set_data(&path, "1", None))
            .await
            .unwrap()
            .version,
        2
    );
    proxy.cut_before_reply(OpCode::SetData);
    let error = soon(client.set_data(&path, "2", Some(2)))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Ambiguous { .. }), "{error}");
    assert_eq!(client.get_data(&path).await.unwrap().0, b"2");
    let open = [Acl::new(Permission::ALL, AuthId::anyone())];
    proxy.cut_before_reply(OpCode::SetAcl);
    assert_eq!(
        soon(client.set_acl(&path, &open, None))
            .await
            .unwrap()
            .aversion,
        2
    );
    proxy.cut_before_reply(OpCode::SetAcl);
    let error = soon(client.set_acl(&path, &open, Some(2)))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Ambiguous { .. }), "{error}");
    assert_eq!(client.get_acl(&path).await.unwrap().1.aversion, 3);
}

#[tokio::test]
async fn a_protected_create_uses_a_new_id_after_a_lost_session() {
    let policy = RetryForever::new(PAUSE).unwrap();
    let (proxy, client) = behind_proxy_with(|client| client.retry_policy(policy)).await;
    let dir = directory(&client).await;
    let observer = direct().await;
    let old = client.session().await.unwrap();
    // The node is created, the reply never arrives, and the session ends.
    proxy.swallow_next_reply(OpCode::Create2);
    proxy.reset_counts();
    let create = tokio::spawn(protected(&client, &dir, EphemeralSequential));
    soon(proxy.wait_for_reply(OpCode::Create2, 1))
        .await
        .unwrap();
    let [first] = &*observer.get_children(&dir).await.unwrap() else {
        panic!("there is no node")
    };
    let first_id = first[..39].to_owned();
    end_session(&proxy).await;
    let path = soon(create).await.unwrap().unwrap();
    assert_eq!(client.session().await.unwrap().epoch(), old.epoch() + 1);
    assert!(
        !path.name().starts_with(&first_id),
        "{path} has the id of the node of a dead session"
    );
    assert_only_node(&client, &dir, &path, EphemeralSequential).await;
}
