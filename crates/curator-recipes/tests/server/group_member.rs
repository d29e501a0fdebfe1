//! The members of a group, and the events of their cache.

use curator_recipes::client::{CreateMode, CuratorClient};
use curator_recipes::{CacheState, CuratorCache, GroupMember, PersistentNodeState, Snapshot};
use futures_util::FutureExt as _;

use crate::releases::persistent_node::{create_node, exists, session_id};
use crate::support::{client as connected, nothing_left, path, round_trips, soon, until};

fn member(client: &CuratorClient, group: &str, id: &str) -> GroupMember {
    GroupMember::builder(client, group, id)
        .unwrap()
        .data(format!("data of {id}"))
        .start()
}

fn ids(members: &Snapshot) -> Vec<&str> {
    members.iter().map(|member| member.path().name()).collect()
}

fn data_of(members: &CuratorCache, id: &str) -> Option<String> {
    let node = members
        .get(members.path().child(id).unwrap())
        .unwrap()
        .node()?;
    Some(String::from_utf8(node.data().to_vec()).unwrap())
}

/// Waits until the group has these members.
#[track_caller]
fn until_members(member: &GroupMember, wanted: &[&str]) -> impl Future<Output = ()> {
    until(async move || {
        let members = member.members().snapshot();
        ids(&members) == wanted && members.state() == CacheState::Current
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_see_each_other_join_change_and_leave() {
    let one = connected().await;
    let other = connected().await;
    let group = path("group");
    let a = member(&one, &group, "a");
    assert_eq!((a.id(), a.group().as_str()), ("a", &*group));
    soon(a.node().created()).await.unwrap();
    assert_eq!(ids(&soon(a.members().caught_up()).await.unwrap()), ["a"]);
    let b = member(&other, &group, "b");
    soon(b.node().created()).await.unwrap();
    until_members(&a, &["a", "b"]).await;
    let members = soon(b.members().ready()).await.unwrap();
    assert_eq!(ids(&members), ["a", "b"]);
    assert_eq!(
        members.iter().next().unwrap().stat().ephemeral_owner,
        session_id(&one).await
    );
    assert_eq!(
        ["a", "c"].map(|id| data_of(b.members(), id)),
        [Some("data of a".to_owned()), None]
    );
    soon(b.node().set_data("new")).await.unwrap();
    soon(a.members().caught_up()).await.unwrap();
    assert_eq!(data_of(a.members(), "b").as_deref(), Some("new"));
    soon(b.close()).await.unwrap();
    until_members(&a, &["a"]).await;
    assert!(matches!(
        b.node().state().get(),
        PersistentNodeState::Closed
    ));
    assert_eq!(b.members().state().get(), CacheState::Ended);
    soon(a.close()).await.unwrap();
    nothing_left(&one, &[group]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_member_or_close_leaves_no_node_and_others_stay() {
    let client = connected().await;
    let others = connected().await;
    let group = path("group-dropped");
    let a = member(&client, &group, "a");
    let b = member(&others, &group, "b");
    let c = member(&client, &group, "c");
    until_members(&b, &["a", "b", "c"]).await;
    let clone = a.clone();
    drop(a);
    round_trips(&client).await;
    assert!(exists(&others, &format!("{group}/a")).await);
    drop(clone);
    until_members(&b, &["b", "c"]).await;
    // A close that is dropped closes both the node and the cache.
    assert!(c.close().now_or_never().is_none());
    soon(
        c.members()
            .state()
            .wait_for(|state| *state == CacheState::Ended),
    )
    .await
    .unwrap();
    until_members(&b, &["b"]).await;
}

#[tokio::test]
async fn persistent_children_are_members_and_their_descendants_are_not() {
    let client = connected().await;
    let group = path("group-deep");
    create_node(
        &client,
        &format!("{group}/static"),
        CreateMode::Persistent,
        "x",
    )
    .await;
    create_node(
        &client,
        &format!("{group}/static/below"),
        CreateMode::Persistent,
        "",
    )
    .await;
    let a = member(&client, &group, "a");
    until_members(&a, &["a", "static"]).await;
    create_node(
        &client,
        &format!("{group}/static/more"),
        CreateMode::Persistent,
        "",
    )
    .await;
    assert_eq!(
        ids(&soon(a.members().caught_up()).await.unwrap()),
        ["a", "static"]
    );
}

#[tokio::test]
async fn an_invalid_id_is_rejected() {
    let client = connected().await;
    let group = path("group-invalid");
    for id in ["", "a/b", "..", "."] {
        assert!(GroupMember::builder(&client, &group, id).is_err(), "{id}");
    }
    assert!(GroupMember::builder(&client, "no-slash", "a").is_err());
}
