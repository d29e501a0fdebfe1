//! A persistent node that is closed, or whose client is closed, during an outage or before a reply.

use std::time::Duration;

use curator_recipes::client::{CreateMode, Outcome};
use curator_recipes::{PersistentNodeError, PersistentNodeState};
use curator_test::{Direction, OpCode};

use crate::releases::persistent_node::{configured, create_node, created, data};
use crate::support::{Row, behind_proxy, behind_proxy_with, children, client as connected, path, soon, unplug, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_calls_fail_after_a_close_whose_delete_waits_for_a_connection() {
    let (proxy, client) = behind_proxy_with(|builder| builder.close_timeout(Duration::from_millis(200))).await;
    let node = configured(&client, &path("kept-closing")).mode(CreateMode::Persistent).start();
    created(&node).await;
    proxy.black_hole(Direction::Both);
    let error = soon(node.close()).await.unwrap_err();
    assert!(matches!(error, PersistentNodeError::DeletePending { .. }), "{error}");
    assert!(matches!(node.state().get(), PersistentNodeState::Closed));
    for error in [soon(node.created()).await.unwrap_err(), soon(node.set_data("late")).await.unwrap_err()] {
        assert!(matches!(error, PersistentNodeError::Closed { .. }), "{error}");
    }
    unplug(&proxy, &client).await;
    assert!(matches!(node.state().get(), PersistentNodeState::Closed));
    proxy.heal();
    proxy.refuse(false).unwrap();
    // The next close waits only 200 ms for the delete, and a new connection may take longer.
    until(async || client.check_exists(node.path()).await.unwrap().is_none()).await;
    soon(node.close()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_after_a_lost_reply_deletes_a_protected_node_and_one_that_may_be_adopted() {
    for adopts in [false, true] {
        let ((proxy, client), others, dir) = (behind_proxy().await, connected().await, path("kept-lost-close"));
        create_node(&others, &dir, CreateMode::Persistent, "").await;
        proxy.hold_nth_reply(OpCode::Create2, 1);
        let options = configured(&client, &format!("{dir}/node")).mode(CreateMode::Persistent);
        let node = if adopts { options.adopt_existing() } else { options.with_protection() }.start();
        let (_row, closing) = (Row::of(adopts), node.clone());
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
    let ((proxy, client), others, path) = (behind_proxy().await, connected().await, path("kept-outcome"));
    let node = configured(&client, &path).mode(CreateMode::Persistent).start();
    created(&node).await;
    proxy.hold_nth_reply(OpCode::SetData, 1);
    let setting = node.set_data("new");
    soon(proxy.wait_for_reply(OpCode::SetData, 1)).await.unwrap();
    let closing = tokio::spawn(async move { client.close().await });
    let error = soon(setting).await.unwrap_err();
    assert_eq!((error.outcome(), data(&others, &path).await.as_str()), (Outcome::Unknown, "new"), "{error}");
    proxy.release_held();
    // An unconfirmed close is not tested here.
    let _ = soon(closing).await.unwrap();
}
