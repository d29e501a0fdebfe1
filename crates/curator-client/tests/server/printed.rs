//! The `Debug` output of the client's values, which appears in logs: short, and without internals.

use curator_client::RecipeSupport as _;
use curator_client::{Janitor, SessionLease};

use crate::support::{direct, unique_path};

#[track_caller]
fn is_a_line(printed: &str, name: &str) {
    assert!(printed.starts_with(name) && printed.len() < 250, "{printed}");
    for inside in ["Mutex", "Arc", "Sender", "Receiver", "Atomic", "Handle", "inner"] {
        assert!(!printed.contains(inside), "{inside}: {printed}");
    }
}

#[tokio::test]
async fn public_values_are_printed_as_one_line() {
    let client = direct().await;
    let (session, path) = (client.session().await.unwrap(), unique_path("printed"));
    is_a_line(&format!("{client:?}"), "CuratorClient");
    is_a_line(&format!("{session:?}"), "Session");
    is_a_line(&format!("{:?}", session.lease() as &SessionLease), "SessionLease { session_timeout: ");
    is_a_line(&format!("{:?}", session.turn().await.unwrap()), "Turn");
    is_a_line(&format!("{:?}", session.exists(&client.resolve(&path).unwrap())), "Request");
    is_a_line(&format!("{:?}", client.janitor() as &Janitor), "Janitor { pending: 0");
    is_a_line(&format!("{:?}", client.janitor().refusals(&session)), "Refusals");
    is_a_line(&format!("{:?}", client.connection_states()), "ConnectionStates { unread: 1");
    is_a_line(&format!("{:?}", client.retrier()), "Retrier { policy: ExponentialBackoffRetry");
    is_a_line(&format!("{:?}", client.delete()), "DeleteBuilder");
    client.create().for_path(&path, "").await.unwrap();
    is_a_line(&format!("{:?}", client.watch_data(&path).await.unwrap().2), "Watch");
}

#[tokio::test]
async fn a_transaction_is_printed_without_its_data() {
    let client = direct().await;
    let transaction = client.transaction().set_data("/a", "secret", None).unwrap().delete("/b", None).unwrap();
    let printed = format!("{transaction:?}");
    assert_eq!(printed, r#"Transaction { operations: ["set data of /a", "delete /b"], .. }"#);
}
