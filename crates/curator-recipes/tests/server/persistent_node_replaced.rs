//! A persistent node whose node another client replaces while a write is in flight or before
//! `close` deletes it.

use curator_recipes::PersistentNodeState;
use curator_recipes::client::{Acl, AuthId, CreateMode, CuratorClient, Permission, Result};
use curator_test::{FaultProxy, OpCode};
use futures_util::FutureExt as _;
use tokio::task::JoinHandle;

use crate::releases::persistent_node::{
    configured, create_node, created, data, replace, started, until_foreign, until_state,
};
use crate::support::{Row, behind_proxy, client as connected, connect, path, soon, until};

/// Holds everything that the servers send to this client, until `release_held`. Returns a call that
/// waits for a reply.
async fn hold_all(proxy: &FaultProxy, client: &CuratorClient) -> JoinHandle<Result<()>> {
    proxy.reset_counts();
    // The proxy also holds everything behind this reply.
    proxy.hold_nth_reply(OpCode::Sync, 1);
    let client = client.clone();
    let held = tokio::spawn(async move { client.sync("/").await });
    soon(proxy.wait_for_reply(OpCode::Sync, 1)).await.unwrap();
    held
}

/// The write is sent before the events of the deletion arrive, and applied to a foreign node of the
/// same version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_written_to_a_foreign_replacement_does_not_make_it_the_persistent_nodes_own() {
    for mode in [CreateMode::Ephemeral, CreateMode::Persistent] {
        let (proxy, client) = behind_proxy().await;
        let others = connected().await;
        let path = path("kept-written");
        let _row = Row::of(mode);
        let node = configured(&client, &path).mode(mode).start();
        created(&node).await;
        let held = hold_all(&proxy, &client).await;
        others.delete().for_path(&path).await.unwrap();
        create_node(&others, &path, mode, "theirs").await;
        let replacement = others.check_exists(&path).await.unwrap().unwrap();
        let mut setting = Box::pin(node.set_data("new"));
        assert!((&mut setting).now_or_never().is_none());
        soon(proxy.wait_for_request(OpCode::SetData, 1))
            .await
            .unwrap();
        until(async || data(&others, &path).await == "new").await;
        proxy.release_held();
        soon(held).await.unwrap().unwrap();
        until_foreign(&node, replacement.ephemeral_owner).await;
        assert!(
            (&mut setting).now_or_never().is_none(),
            "the persistent node does not have the data yet"
        );
        soon(node.close()).await.unwrap();
        let present = others.check_exists(&path).await.unwrap();
        assert_eq!(present.map(|stat| stat.czxid), Some(replacement.czxid));
    }
}

/// A server checks the permission to write before the version. The read after the refused write
/// shows which session owns the replacement only if it is readable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_refused_for_a_foreign_replacement_is_written_to_the_next_own_node() {
    for readable in [Permission::READ, Permission::NONE] {
        let (proxy, client) = behind_proxy().await;
        let others = connected().await;
        let path = path("kept-refused");
        let _row = Row::of(readable);
        let node = started(&client, &path);
        created(&node).await;
        let held = hold_all(&proxy, &client).await;
        others.delete().for_path(&path).await.unwrap();
        let acl = [Acl::new(readable | Permission::DELETE, AuthId::anyone())];
        others
            .create()
            .with_acl(acl)
            .for_path(&path, "theirs")
            .await
            .unwrap();
        let mut setting = Box::pin(node.set_data("new"));
        assert!((&mut setting).now_or_never().is_none());
        soon(proxy.wait_for_reply(OpCode::SetData, 1))
            .await
            .unwrap();
        proxy.release_held();
        soon(held).await.unwrap().unwrap();
        if readable == Permission::READ {
            until_foreign(&node, 0).await;
        } else {
            until_state(&node, |state| {
                matches!(state, PersistentNodeState::Refused { .. })
            })
            .await;
        }
        others.delete().for_path(&path).await.unwrap();
        soon(setting).await.unwrap();
        assert_eq!(data(&others, &path).await, "new");
    }
}

/// The event of our node's deletion has arrived behind a long reply, and the persistent node has
/// processed neither.
#[tokio::test]
async fn a_close_behind_a_long_reply_does_not_delete_a_foreign_replacement() {
    let (proxy, client) = behind_proxy().await;
    let long = path("long");
    let path = path("kept-behind");
    let node = configured(&client, &path).start();
    created(&node).await;
    // The data is longer than one read of the client, and fits into the buffers of the system.
    client
        .create()
        .for_path(&long, vec![7; 40_000])
        .await
        .unwrap();
    proxy.reset_counts();
    let mut reading = Box::pin(client.get_data(&long));
    // Sends the request.
    drop((&mut reading).now_or_never());
    let replaced = path.clone();
    let replacing = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            proxy.wait_for_reply(OpCode::GetData, 1).await.unwrap();
            let others = connect(&proxy.connect_string()).await;
            replace(&others, &replaced).await;
            until(async || proxy.notifications() == 1).await;
            // The proxy serves its connections one after another, so the event is sent before the
            // reply to this request.
            others.sync("/").await.unwrap();
        });
        proxy
    });
    // Blocks the runtime of the persistent node until its node is replaced.
    let _proxy = replacing.join().unwrap();
    soon(node.close()).await.unwrap();
    assert_eq!(data(&client, &path).await, "theirs");
}
