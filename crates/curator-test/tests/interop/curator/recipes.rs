//! Curator's own recipes among themselves: a check of the server.

use curator_test::{unique_path, until};

use super::{
    java::java,
    stage::{ours, until_children, until_watches},
};

#[tokio::test]
async fn a_leader_latch_has_one_leader_and_its_successor() {
    let path = unique_path("latch");
    let (client, mut a, mut b, mut c) = (ours().await, java().await, java().await, java().await);
    assert_eq!(a.ask(&format!("latch {path}")).await, "ok");
    assert_eq!(a.ask("event").await, "ok leader");
    for (session, number) in [(&mut b, 2), (&mut c, 3)] {
        assert_eq!(session.ask(&format!("latch {path}")).await, "ok");
        until_children(&client, &path, number).await;
        assert_eq!(session.ask(&format!("leader {path}")).await, format!("ok {}", a.name()));
    }
    assert_eq!(a.ask(&format!("shut {path}")).await, "ok");
    assert_eq!(b.ask("event").await, "ok leader");
    assert_eq!(c.ask(&format!("leader {path}")).await, format!("ok {}", b.name()));
    // The end of its session is the end of its term.
    b.end().await;
    assert_eq!(b.ask("event").await, "ok not-leader");
    assert_eq!(c.ask("event").await, "ok leader");
    until_children(&client, &path, 2).await;
    assert_eq!(b.ask(&format!("leader {path}")).await, format!("ok {}", c.name()));
    for session in [a, b, c] {
        session.close().await;
    }
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_cache_follows_a_tree() {
    let (client, mut java, path) = (ours().await, java().await, unique_path("tree"));
    client.create().for_path(&path, "root").await.unwrap();
    assert_eq!(java.ask(&format!("cache {path}")).await, "ok");
    assert_eq!(java.ask("event").await, format!("ok NODE_CREATED {path} root"));
    let (child, grandchild) = (format!("{path}/child"), format!("{path}/child/grandchild"));
    for node in [&child, &grandchild] {
        client.create().for_path(node, "new").await.unwrap();
        assert_eq!(java.ask("event").await, format!("ok NODE_CREATED {node} new"));
    }
    for data in ["one", "two"] {
        client.set_data(&grandchild, data, None).await.unwrap();
        assert_eq!(java.ask("event").await, format!("ok NODE_CHANGED {grandchild} {data}"));
    }
    for (node, data) in [(&grandchild, "two"), (&child, "new")] {
        client.delete().for_path(node).await.unwrap();
        assert_eq!(java.ask("event").await, format!("ok NODE_DELETED {node} {data}"));
    }
    // It goes on after the end of its session.
    java.end().await;
    client.create().for_path(&child, "again").await.unwrap();
    assert_eq!(java.ask("event").await, format!("ok NODE_CREATED {child} again"));
    client.set_data(&child, "last", None).await.unwrap();
    assert_eq!(java.ask("event").await, format!("ok NODE_CHANGED {child} last"));
    java.close().await;
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_persistent_node_comes_back_when_it_is_deleted_and_when_its_session_ends() {
    let (client, mut java, path) = (ours().await, java().await, unique_path("node"));
    assert_eq!(java.ask(&format!("persistent {path} here")).await, "ok");
    let made = || async {
        let stat = client.check_exists(&path).await.unwrap();
        stat.map_or(0, |stat| stat.czxid)
    };
    for by_end in [false, true] {
        let before = made().await;
        assert_ne!(before, 0);
        if by_end {
            java.end().await;
        } else {
            client.delete().for_path(&path).await.unwrap();
        }
        until(async || made().await > before).await;
        let (data, stat) = client.get_data(&path).await.unwrap();
        assert_eq!(data, b"here");
        assert_eq!(stat.ephemeral_owner != java.id(), by_end);
    }
    assert_eq!(java.ask(&format!("shut {path}")).await, "ok");
    assert_eq!(made().await, 0);
    java.close().await;
    client.close().await.unwrap();
}

#[tokio::test]
async fn what_four_sessions_add_to_an_atomic_long_is_its_sum() {
    let path = unique_path("long");
    let mut sessions = Vec::new();
    for _ in 0..4 {
        let session = java().await;
        session.send(&format!("add {path} 10"));
        sessions.push(session);
    }
    let mut last = 0;
    for session in &mut sessions {
        let answer = session.answer().await;
        last = last.max(answer.strip_prefix("ok ").unwrap().parse::<u64>().unwrap());
    }
    assert_eq!(last, 40);
    for session in sessions {
        session.close().await;
    }
}

#[tokio::test]
async fn a_barrier_holds_back_until_it_is_removed() {
    let (client, mut a, mut b, path) = (ours().await, java().await, java().await, unique_path("barrier"));
    assert_eq!(a.ask(&format!("set-barrier {path}")).await, "ok");
    b.send(&format!("wait-on-barrier {path}"));
    until_watches(&path, b.id()).await;
    assert!(b.still_waits().await);
    assert_eq!(a.ask(&format!("remove-barrier {path}")).await, "ok");
    assert_eq!(b.answer().await, "ok");
    for session in [a, b] {
        session.close().await;
    }
    client.close().await.unwrap();
}
