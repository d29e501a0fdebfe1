//! Each request succeeds, or names what the server lacks.

use std::time::Duration;

use curator_client::{
    CreateMode, CuratorClient, Error, Outcome, ReadOperation, ReadResult, ServerOperation, Session,
    TransactionOperation, TransactionResult,
};
use curator_test::{Dialect, EmbeddedServer, OpCode};

use super::{OPERATIONS, OTHERS, close, connect, is_usable, missing, node, path, server};
use crate::support::{builder, refusal, soon, until};

/// Checks an error about an operation that the server lacks.
#[track_caller]
fn assert_names(error: &Error, operation: ServerOperation, server: &EmbeddedServer) {
    let Error::Unimplemented {
        missing,
        server: named,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(*missing, Some(operation));
    assert_eq!(named.as_ref().unwrap().to_string(), server.connect_string());
    let text = error.to_string();
    assert!(text.contains(&operation.to_string()), "{text}");
    assert!(!error.is_retryable());
    assert_eq!(error.outcome(), Outcome::NotApplied);
}

/// Creates nodes of a kind that the server may lack, alone and in a transaction.
async fn create_special(
    client: &CuratorClient,
    session: &Session,
    server: &EmbeddedServer,
    mode: CreateMode,
    operation: ServerOperation,
) {
    let alone = session.create(&node(client, "/special", mode)).await;
    let together = session
        .transact(vec![
            TransactionOperation::Create(node(client, "/plain", CreateMode::Persistent)),
            TransactionOperation::Create(node(client, "/special-too", mode)),
        ])
        .await;
    if session.lacks(operation) {
        assert_names(&alone.unwrap_err(), operation, server);
        let Error::TransactionFailed { index: 1, cause } = together.unwrap_err() else {
            panic!("{operation}")
        };
        assert_names(&cause, operation, server);
        assert_eq!(session.exists(&path("/plain")).await.unwrap(), None);
    } else {
        alone.unwrap();
        together.unwrap();
        for created in ["/special", "/special-too", "/plain"] {
            session.delete(&path(created), None).await.unwrap();
        }
    }
}

// Runs in real time, like the tests below: each transport has its own way to send these requests.
#[tokio::test]
async fn on_each_dialect_every_request_succeeds_or_names_what_the_server_lacks() {
    for dialect in Dialect::ALL
        .into_iter()
        .filter(|dialect| is_usable(*dialect))
    {
        let server = server(dialect);
        let client = connect(&server.connect_string()).await;
        let session = client.session().await.unwrap();
        for operation in OPERATIONS {
            assert_eq!(
                session.lacks(operation),
                missing(dialect).contains(&operation),
                "{dialect}, {operation}"
            );
        }
        let kept = session
            .create(&node(&client, "/kept", CreateMode::Persistent))
            .await
            .unwrap();
        let numbered = node(&client, "/kept/n-", CreateMode::EphemeralSequential);
        let first = session.create(&numbered).await.unwrap();
        let second = session
            .transact(vec![TransactionOperation::Create(numbered)])
            .await
            .unwrap();
        let [TransactionResult::Created(second)] = &*second else {
            panic!("{dialect}: {second:?}")
        };
        assert_eq!(
            (first.path.as_str(), second.path.as_str()),
            ("/kept/n-0000000000", "/kept/n-0000000001"),
            "{dialect}"
        );
        for created in [&kept, &first, second] {
            let found = session.exists(&created.path).await.unwrap().unwrap();
            assert_eq!(
                (created.stat.czxid, created.stat.ephemeral_owner),
                (found.czxid, found.ephemeral_owner),
                "{dialect}"
            );
        }
        assert_eq!(first.stat.ephemeral_owner, session.id(), "{dialect}");
        create_special(
            &client,
            &session,
            &server,
            CreateMode::Container,
            ServerOperation::CreateContainer,
        )
        .await;
        let ttl = CreateMode::PersistentWithTtl(Duration::from_secs(1_000));
        create_special(&client, &session, &server, ttl, ServerOperation::CreateTtl).await;
        // ZooKeeper 3.5 closes the connection once, and the session continues.
        until(async || {
            let reads = ["/kept", "/absent"].map(|name| ReadOperation::Data(path(name)));
            match client.session().await.unwrap().read_all(reads.into()).await {
                Ok(results) => {
                    assert!(
                        matches!(
                            &*results,
                            [Ok(ReadResult::Data { data, .. }), Err(Error::NoNode { .. })]
                                if data == b"data"
                        ),
                        "{dialect}: {results:?}"
                    );
                    true
                }
                Err(error) => {
                    assert_eq!(dialect, Dialect::ZooKeeper3_5, "{error}");
                    assert!(error.is_retryable(), "{error}");
                    false
                }
            }
        })
        .await;
        assert!(session.is_valid(), "{dialect}");
        assert_eq!(
            client.session().await.unwrap().id(),
            session.id(),
            "{dialect}"
        );
        close(&client, dialect).await;
    }
}

#[tokio::test]
async fn a_recursive_watch_is_set_or_the_error_names_the_server_and_add_watch() {
    for dialect in Dialect::ALL
        .into_iter()
        .filter(|dialect| is_usable(*dialect))
    {
        let server = server(dialect);
        let client = connect(&server.connect_string()).await;
        let watching = soon(client.watching_client().unwrap().session())
            .await
            .unwrap();
        let watch = watching.watch_recursive(&path("/watched")).await;
        let is_missing = missing(dialect).contains(&ServerOperation::AddWatch);
        if is_missing || dialect == Dialect::ZooKeeper3_5 {
            let error = watch.map(drop).unwrap_err();
            assert_names(&error, ServerOperation::AddWatch, &server);
        } else {
            assert!(
                watch
                    .unwrap_or_else(|error| panic!("{dialect}: {error}"))
                    .is_alive()
            );
        }
        close(&client, dialect).await;
    }
}

#[tokio::test]
async fn without_create2_zookeeper_client_is_refused_and_the_error_names_the_other_transport() {
    for dialect in OTHERS.into_iter().filter(|dialect| !is_usable(*dialect)) {
        let server = server(dialect);
        let error = refusal(builder(server.connect_string())).await;
        assert!(matches!(error, Error::ConnectRefused { .. }), "{error}");
        let text = error.to_string();
        for part in [&*server.connect_string(), "create2", "Transport::Native"] {
            assert!(text.contains(part), "{text}");
        }
    }
}

#[tokio::test]
async fn a_watch_that_is_dropped_does_not_end_the_session() {
    for dialect in OTHERS.into_iter().filter(|dialect| is_usable(*dialect)) {
        let server = server(dialect);
        let client = connect(&server.connect_string()).await;
        let session = client.session().await.unwrap();
        server.reset_counts();
        let a = path("/a");
        session
            .create(&node(&client, "/a", CreateMode::Persistent))
            .await
            .unwrap();
        let dropped = session.watch_data(&a).await.unwrap().2;
        drop(dropped);
        drop(session.watch_children(&a));
        // The watch on the same node fires, although another one was dropped before.
        let mut kept = session.watch_data(&a).await.unwrap().2;
        session.set_data(&a, b"changed", None).await.unwrap();
        assert_eq!(
            soon(kept.fired()).await,
            curator_client::WatchEvent::DataChanged,
            "{dialect}"
        );
        assert!(session.is_valid(), "{dialect}");
        assert_eq!(client.session().await.unwrap().id(), session.id());
        let removes = server.requests().contains_key(&OpCode::RemoveWatches);
        assert!(
            !(removes && session.lacks(ServerOperation::RemoveWatches)),
            "{dialect}"
        );
    }
}
