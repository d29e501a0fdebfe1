//! The `Debug` output of the client's values, which appears in logs: short, and without internals.

use curator_client::{Janitor, SessionLease};

use crate::support::{direct, unique_path};

#[track_caller]
fn assert_brief(printed: &str, name: &str) {
    assert!(
        printed.starts_with(name) && printed.len() < 250,
        "{printed}"
    );
    for inside in [
        "Mutex", "Arc", "Sender", "Receiver", "Atomic", "Handle", "inner",
    ] {
        assert!(!printed.contains(inside), "{inside}: {printed}");
    }
}

#[tokio::test]
async fn public_values_are_printed_briefly_and_without_internals() {
    let client = direct().await;
    let session = client.session().await.unwrap();
    let path = unique_path("printed");
    assert_brief(&format!("{client:?}"), "CuratorClient");
    assert_brief(&format!("{session:?}"), "Session");
    assert_brief(
        &format!("{:?}", session.lease() as &SessionLease),
        "SessionLease { session_timeout: ",
    );
    assert_brief(&format!("{:?}", session.turn().await.unwrap()), "Turn");
    assert_brief(
        &format!("{:?}", session.exists(&client.resolve(&path).unwrap())),
        "Request",
    );
    assert_brief(
        &format!("{:?}", client.janitor() as &Janitor),
        "Janitor { pending: 0",
    );
    assert_brief(
        &format!("{:?}", client.janitor().refusals(&session)),
        "Refusals",
    );
    assert_brief(
        &format!("{:?}", client.connection_states()),
        "ConnectionStates { unread: 1",
    );
    assert_brief(
        &format!("{:?}", client.retrier()),
        "Retrier { policy: ExponentialBackoffRetry",
    );
    assert_brief(&format!("{:?}", client.delete()), "DeleteBuilder");
    client.create().for_path(&path, "").await.unwrap();
    assert_brief(
        &format!("{:?}", client.watch_data(&path).await.unwrap().2),
        "Watch",
    );
}
