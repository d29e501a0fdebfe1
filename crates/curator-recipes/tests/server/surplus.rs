//! A contender that has two nodes in one queue.

use std::sync::Arc;
use std::time::Duration;

use curator_recipes::client::{CreateMode, NodeSpec, RetryNTimes};
use curator_test::OpCode;

use crate::support::{
    acquiring, children, connect, mutex, simulated, soon, still_waits, until_simulated,
};

/// A contender whose recovery finds two nodes continues with the first, and deletes both when the
/// acquire is dropped.
#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_while_it_has_two_nodes_leaves_neither() {
    // The recovery starts after a pause. Meanwhile, the test adds a second node.
    let policy = RetryNTimes::new(5, Duration::from_secs(6)).unwrap();
    let (simulation, process, client) = simulated(|builder| builder.retry_policy(policy)).await;
    let other = connect(&simulation.connect_string()).await;
    let path = "/surplus";
    let held = mutex(&other, path).acquire().await.unwrap();
    simulation.cut_before_reply(|request| request.op() == OpCode::Create2);
    let waiter = acquiring(&client, path);
    until_simulated(async || children(&other, path).await.len() == 2).await;
    let names = children(&other, path).await;
    let name = names
        .iter()
        .find(|name| *name != held.node().name())
        .unwrap();
    let prefix = &name[..name.len() - 10];
    let second = NodeSpec {
        path: held.node().parent().unwrap().join(prefix).unwrap(),
        data: Arc::clone(client.default_lock_data()),
        mode: CreateMode::EphemeralSequential,
        acl: Arc::clone(client.default_acl()),
    };
    // The first creates fail until the client has opened another connection.
    until_simulated(async || {
        client
            .session()
            .await
            .unwrap()
            .create(&second)
            .await
            .is_ok()
    })
    .await;
    // The recovery reads both nodes. Then the waiter watches the node ahead and the first of its
    // own nodes.
    until_simulated(async || process.requests().get(&OpCode::GetData) == Some(&4)).await;
    assert!(still_waits(&waiter, &client).await);
    waiter.abort();
    assert!(waiter.await.unwrap_err().is_cancelled());
    soon(client.janitor().idle()).await;
    assert_eq!(children(&other, path).await, [held.node().name()]);
    held.release().await.unwrap();
}
