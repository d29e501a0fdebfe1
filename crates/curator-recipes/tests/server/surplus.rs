//! A contender that has two nodes in one queue.

use std::sync::Arc;
use std::time::Duration;

use curator_recipes::client::{CreateMode, NodeSpec, RetryNTimes};
use curator_test::OpCode;

use crate::support::{acquiring, behind_proxy_with, children, client, mutex, path, queue_of, soon, still_waits, until};

/// A contender whose recovery finds two nodes continues with the first, and deletes both when the acquire is dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_dropped_while_it_has_two_nodes_leaves_neither() {
    let (other, path) = (client().await, path("surplus"));
    let held = mutex(&other, &path).acquire().await.unwrap();
    // The recovery follows after a pause in which the test adds a second node.
    let policy = RetryNTimes::new(5, Duration::from_secs(6)).unwrap();
    let (proxy, client) = behind_proxy_with(|builder| builder.retry_policy(policy)).await;
    proxy.cut_before_reply(OpCode::Create2);
    let waiter = acquiring(&client, &path);
    queue_of(&other, &path, 2).await;
    let names = children(&other, &path).await;
    let own = names.iter().find(|name| *name != held.node().name()).unwrap();
    let prefix = &own[..own.len() - 10];
    let second = NodeSpec {
        path: held.node().parent().unwrap().join(prefix).unwrap(),
        data: Arc::clone(client.default_lock_data()),
        mode: CreateMode::EphemeralSequential,
        acl: Arc::clone(client.default_acl()),
    };
    // The client has opened another connection.
    until(async || proxy.handshakes() >= 2).await;
    client.session().await.unwrap().create(&second).await.unwrap();
    // The recovery reads both nodes. Then the waiter watches the node ahead and the first of its own nodes.
    proxy.wait_for_reply(OpCode::GetData, 4).await.unwrap();
    assert!(still_waits(&waiter, &client).await);
    waiter.abort();
    assert!(waiter.await.unwrap_err().is_cancelled());
    soon(client.janitor().idle()).await;
    assert_eq!(children(&other, &path).await, [held.node().name()]);
    held.release().await.unwrap();
}
