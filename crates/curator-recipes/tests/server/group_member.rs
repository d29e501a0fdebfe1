//! The members of a group, and the events of their cache.

use std::time::Duration;

use curator_recipes::client::{CreateMode, CuratorClient};
use curator_recipes::{CacheState, CuratorCache, GroupMember, PersistentNodeError, PersistentNodeState, Snapshot};
use futures_util::FutureExt as _;

use crate::releases::cache::next;
use crate::releases::persistent_node::{create_node, exists, session_id};
use crate::support::{behind_proxy, client as connected, nothing_left, path, round_trips, soon, unplug, until};

fn member(client: &CuratorClient, group: &str, id: &str) -> GroupMember {
    GroupMember::builder(client, group, id).unwrap().data(format!("data of {id}")).start()
}

fn ids(members: &Snapshot) -> Vec<&str> {
    members.iter().map(|member| member.path().name()).collect()
}

fn data_of(members: &CuratorCache, id: &str) -> Option<String> {
    let node = members.get(members.path().child(id).unwrap()).unwrap().node()?;
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
    let (one, other, group) = (connected().await, connected().await, path("group"));
    let a = member(&one, &group, "a");
    assert_eq!((a.id(), a.group().as_str()), ("a", &*group));
    soon(a.node().created()).await.unwrap();
    let mut events = a.members().events();
    assert_eq!(ids(&soon(a.members().caught_up()).await.unwrap()), ["a"]);
    let b = member(&other, &group, "b");
    soon(b.node().created()).await.unwrap();
    until_members(&a, &["a", "b"]).await;
    let members = soon(b.members().ready()).await.unwrap();
    assert_eq!(ids(&members), ["a", "b"]);
    assert_eq!(members.iter().next().unwrap().stat().ephemeral_owner, session_id(&one).await);
    assert_eq!(["a", "c"].map(|id| data_of(b.members(), id)), [Some("data of a".to_owned()), None]);
    soon(b.node().set_data("new")).await.unwrap();
    soon(a.members().caught_up()).await.unwrap();
    assert_eq!(data_of(a.members(), "b").as_deref(), Some("new"));
    soon(b.close()).await.unwrap();
    until_members(&a, &["a"]).await;
    assert!(matches!(b.node().state().get(), PersistentNodeState::Closed));
    assert_eq!(b.members().state().get(), CacheState::Ended);
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| last != "-/b") {
        seen.push(next(&mut events, &group).await);
    }
    seen.retain(|event| event != "ready");
    assert_eq!(seen, ["+/a", "+/b", "/b data of b>new", "-/b"]);
    soon(a.close()).await.unwrap();
    while soon(events.next()).await.is_some() {}
    nothing_left(&one, &[group]).await;
}

/// Two of Curator's members with one id would both join, and if one left, it would remove the node of both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_member_with_an_id_waits_and_reports_the_owner() {
    let (one, other, group) = (connected().await, connected().await, path("group-twice"));
    let first = member(&one, &group, "a");
    soon(first.node().created()).await.unwrap();
    let second = GroupMember::builder(&other, &group, "a").unwrap().data("second").start();
    let owner_session = session_id(&one).await;
    let is_foreign = |state: &_| matches!(state, PersistentNodeState::Foreign { owner, .. } if *owner == owner_session);
    soon(second.node().state().wait_for(is_foreign)).await.unwrap();
    let error = soon(second.node().created_timeout(Duration::ZERO)).await.unwrap_err();
    let names_owner =
        |error: &_| matches!(error, PersistentNodeError::ForeignOwner { owner, .. } if *owner == owner_session);
    assert!(names_owner(&error) && error.is_retryable() && !error.is_closed(), "{error}");
    assert!(second.node().last_error().is_none());
    soon(second.members().ready()).await.unwrap();
    assert_eq!(data_of(second.members(), "a").as_deref(), Some("data of a"));
    soon(first.close()).await.unwrap();
    soon(second.node().created()).await.unwrap();
    soon(second.members().caught_up()).await.unwrap();
    assert_eq!(data_of(second.members(), "a").as_deref(), Some("second"));
}

/// Curator's list of members does not show that it is outdated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disconnected_member_has_a_stale_list_and_rejoins_after_its_session_was_lost() {
    let ((proxy, client), others, group) = (behind_proxy().await, connected().await, path("group-cut"));
    let (a, b) = (member(&client, &group, "a"), member(&others, &group, "b"));
    until_members(&a, &["a", "b"]).await;
    unplug(&proxy, &client).await;
    soon(a.members().state().wait_for(|state| matches!(state, CacheState::Stale { .. }))).await.unwrap();
    let stale = a.members().snapshot();
    assert!(matches!(stale.state(), CacheState::Stale { .. }));
    assert_eq!(ids(&stale), ["a", "b"]);
    soon(a.node().state().wait_for(|state| matches!(state, PersistentNodeState::Unknown))).await.unwrap();
    soon(b.close()).await.unwrap();
    let c = member(&others, &group, "c");
    soon(c.node().created()).await.unwrap();
    proxy.refuse(false).unwrap();
    until_members(&a, &["a", "c"]).await;
    let before = client.session().await.unwrap();
    proxy.refuse(true).unwrap();
    // The list of the members uses a separate session, which does not end.
    let address = curator_test::TestingServer::shared().await.address();
    let sessions = proxy.sessions();
    let session = sessions.iter().find(|session| session.session_id == before.id()).unwrap();
    curator_test::close_session(address, session).await.unwrap();
    until_members(&c, &["c"]).await;
    proxy.cut();
    proxy.refuse(false).unwrap();
    until_members(&c, &["a", "c"]).await;
    let rejoined = c.members().children(&group).unwrap();
    assert_ne!(rejoined[0].stat().ephemeral_owner, before.id());
    until_members(&a, &["a", "c"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_member_leaves_no_node_and_others_stay() {
    let (client, others, group) = (connected().await, connected().await, path("group-dropped"));
    let (a, b) = (member(&client, &group, "a"), member(&others, &group, "b"));
    until_members(&b, &["a", "b"]).await;
    let clone = a.clone();
    drop(a);
    round_trips(&client).await;
    assert!(exists(&others, &format!("{group}/a")).await);
    drop(clone);
    until_members(&b, &["b"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_close_closes_both_the_node_and_the_cache() {
    let (client, others, group) = (connected().await, connected().await, path("group-dropped-close"));
    let (a, b) = (member(&client, &group, "a"), member(&others, &group, "b"));
    until_members(&a, &["a", "b"]).await;
    assert!(a.close().now_or_never().is_none());
    soon(a.members().state().wait_for(|state| *state == CacheState::Ended)).await.unwrap();
    until_members(&b, &["b"]).await;
}

#[tokio::test]
async fn persistent_children_are_members_and_their_descendants_are_not() {
    let (client, group) = (connected().await, path("group-deep"));
    create_node(&client, &format!("{group}/static"), CreateMode::Persistent, "x").await;
    create_node(&client, &format!("{group}/static/below"), CreateMode::Persistent, "").await;
    let a = member(&client, &group, "a");
    until_members(&a, &["a", "static"]).await;
    let mut events = a.members().events();
    while next(&mut events, &group).await != "ready" {}
    create_node(&client, &format!("{group}/static/more"), CreateMode::Persistent, "").await;
    assert_eq!(ids(&soon(a.members().caught_up()).await.unwrap()), ["a", "static"]);
    let printed = format!("{a:?}");
    assert!(printed.contains("GroupMember { group:") && printed.contains(r#"id: "a", state: Present"#), "{printed}");
    soon(a.node().set_data("new")).await.unwrap();
    assert_eq!(next(&mut events, &group).await, "/a data of a>new");
}

#[tokio::test]
async fn an_invalid_id_is_rejected_and_a_member_ends_with_its_client() {
    let (client, group) = (connected().await, path("group-invalid"));
    for id in ["", "a/b", "..", "."] {
        assert!(GroupMember::builder(&client, &group, id).is_err(), "{id}");
    }
    assert!(GroupMember::builder(&client, "no-slash", "a").is_err());
    let a = member(&client, &group, "a");
    soon(a.node().created()).await.unwrap();
    client.close().await.unwrap();
    assert!(soon(a.node().created()).await.unwrap_err().is_closed());
    assert!(soon(a.node().set_data("")).await.unwrap_err().is_closed());
    assert!(soon(a.members().caught_up()).await.unwrap_err().is_closed());
    soon(a.close()).await.unwrap();
}
