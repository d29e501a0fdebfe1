//! A persistent node whose session resumes after the ensemble was restored from an older copy: the
//! proxy changes replies to reads into the replies of restored servers. `tests/real/restored.rs`
//! restores a server.

use curator_recipes::PersistentNodeState;
use curator_recipes::client::{CreateMode, CuratorClient, Stat};
use curator_test::{FaultProxy, OpCode};

use crate::releases::persistent_node::{configured, created, data, exists, until_state};
use crate::support::{Row, behind_proxy, client as connected, path, requests_of, soon, until};

/// Changes the next reply to a read of the node: its data, of the same length, and the zxids of its
/// creation and of its last write.
fn restore(proxy: &FaultProxy, data: &'static [u8], czxid: i64, mzxid: i64) {
    proxy.alter_next_reply(OpCode::GetData, move |reply| {
        // A header, and the length of the data.
        const DATA: usize = 16 + 4;
        let stat = DATA + data.len();
        reply[DATA..stat].copy_from_slice(data);
        reply[stat..stat + 8].copy_from_slice(&czxid.to_be_bytes());
        reply[stat + 8..stat + 16].copy_from_slice(&mzxid.to_be_bytes());
    });
}

async fn stat(client: &CuratorClient, path: &str) -> Stat {
    client.check_exists(path).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_that_the_servers_have_lost_is_written_again() {
    for mode in [
        CreateMode::Ephemeral,
        CreateMode::Persistent,
        CreateMode::EphemeralSequential,
    ] {
        let (proxy, client) = behind_proxy().await;
        let others = connected().await;
        let path = path("kept-rolled");
        let _row = Row::of(mode);
        let node = configured(&client, &path).mode(mode).data("old").start();
        let node_path = created(&node).await;
        let old = stat(&others, &node_path).await;
        soon(node.set_data("new")).await.unwrap();
        proxy.reset_counts();
        restore(&proxy, b"old", old.czxid, old.mzxid);
        proxy.cut();
        until(async || stat(&others, &node_path).await.version == 2).await;
        assert_eq!(data(&others, &node_path).await, "new");
        created(&node).await;
        assert_eq!(requests_of(&proxy, OpCode::SetData), 1);
        // A later write of another client is not undone.
        others.set_data(&node_path, "theirs", None).await.unwrap();
        proxy.cut();
        until_state(&node, |state| matches!(state, PersistentNodeState::Unknown)).await;
        created(&node).await;
        assert_eq!(
            (
                data(&others, &node_path).await.as_str(),
                requests_of(&proxy, OpCode::SetData)
            ),
            ("theirs", 1)
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_earlier_node_of_the_same_persistent_node_is_its_own() {
    for mode in [CreateMode::Ephemeral, CreateMode::Persistent] {
        let (proxy, client) = behind_proxy().await;
        let others = connected().await;
        let path = path("kept-earlier");
        let _row = Row::of(mode);
        let node = configured(&client, &path).mode(mode).start();
        created(&node).await;
        let first = stat(&others, &path).await;
        others.delete().for_path(&path).await.unwrap();
        until(async || exists(&others, &path).await).await;
        created(&node).await;
        restore(&proxy, b"ours", first.czxid, first.mzxid);
        proxy.cut();
        until_state(&node, |state| matches!(state, PersistentNodeState::Unknown)).await;
        let mut states = node.state();
        let known = |state: &PersistentNodeState| {
            matches!(
                state,
                PersistentNodeState::Present { .. } | PersistentNodeState::Foreign { .. }
            )
        };
        let state = soon(states.wait_for(known)).await.unwrap().clone();
        assert!(state.is_present(), "{state:?}");
    }
}
