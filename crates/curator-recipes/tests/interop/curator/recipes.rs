//! Curator's recipes without ours, as a check of the server.

use curator_test::unique_path;

use super::{
    java::java,
    stage::{ours, until_children},
};

#[tokio::test]
async fn javas_leader_latch_has_one_leader_and_then_its_successor() {
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
    // The end of the leader's session ends its term.
    b.end().await;
    assert_eq!(b.ask("event").await, "ok not-leader");
    assert_eq!(c.ask("event").await, "ok leader");
    until_children(&client, &path, 2).await;
    assert_eq!(b.ask(&format!("leader {path}")).await, format!("ok {}", c.name()));
}

#[tokio::test]
async fn javas_cache_follows_a_tree() {
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
    // The cache continues after the end of its session.
    java.end().await;
    client.create().for_path(&child, "again").await.unwrap();
    assert_eq!(java.ask("event").await, format!("ok NODE_CREATED {child} again"));
    client.set_data(&child, "last", None).await.unwrap();
    assert_eq!(java.ask("event").await, format!("ok NODE_CHANGED {child} last"));
}
