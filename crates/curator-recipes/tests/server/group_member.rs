//! The members of a group, and events about them.

use std::time::Duration;

use curator_recipes::client::{CreateMode, CuratorClient};
use curator_recipes::{
    CacheState, GroupEvent, GroupEvents, GroupMember, GroupMemberError, Members, PersistentNodeError,
    PersistentNodeState,
};
use futures_util::StreamExt;

use crate::persistent_node::{create_node, exists, session};
use crate::support::{behind_proxy, client as connected, nothing_left, path, round_trips, soon, unplug, until};

fn member(client: &CuratorClient, group: &str, id: &str) -> GroupMember {
    GroupMember::builder(client, group, id).unwrap().data(format!("data of {id}")).start().unwrap()
}

fn ids(members: &Members) -> Vec<String> {
    members.iter().map(|member| member.id().to_owned()).collect()
}

/// Waits until the group has these members.
#[track_caller]
fn until_members(member: &GroupMember, wanted: &[&str]) -> impl Future<Output = ()> {
    until(async move || ids(&member.members()) == wanted && member.members().state() == CacheState::Current)
}

/// The next event, in a few words.
async fn next(events: &mut GroupEvents) -> String {
    match soon(events.next()).await.unwrap() {
        GroupEvent::Joined(member) => format!("{} joined", member.id()),
        GroupEvent::Changed { old, new } => {
            format!("{}: {} to {}", new.id(), old.data().escape_ascii(), new.data().escape_ascii())
        }
        GroupEvent::Left(member) => format!("{} left", member.id()),
        GroupEvent::Ready => "ready".to_owned(),
        other => format!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_see_each_other_join_change_and_leave() {
    let (one, other, group) = (connected().await, connected().await, path("group"));
    let a = member(&one, &group, "a");
    assert_eq!((a.id(), a.group().as_str()), ("a", &*group));
    soon(a.created()).await.unwrap();
    let mut events = a.events();
    assert_eq!(ids(&soon(a.caught_up()).await.unwrap()), ["a"]);
    let b = member(&other, &group, "b");
    soon(b.created()).await.unwrap();
    until_members(&a, &["a", "b"]).await;
    let members = soon(b.ready()).await.unwrap();
    assert_eq!((members.len(), members.is_empty()), (2, false));
    let seen = members.get("a").unwrap();
    assert_eq!((seen.id(), seen.data()), ("a", &b"data of a"[..]));
    assert_eq!(seen.stat().ephemeral_owner, session(&one).await);
    assert!(members.get("c").is_none() && members.get("a/b").is_none());
    soon(b.set_data("new")).await.unwrap();
    soon(a.caught_up()).await.unwrap();
    assert_eq!(a.members().get("b").unwrap().data(), b"new");
    soon(b.close()).await.unwrap();
    until_members(&a, &["a"]).await;
    assert!(matches!(*b.state().borrow(), PersistentNodeState::Closed));
    assert_eq!(b.members().state(), CacheState::Ended);
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| last != "b left") {
        seen.push(next(&mut events).await);
    }
    seen.retain(|event| event != "ready");
    assert_eq!(seen, ["a joined", "b joined", "b: data of b to new", "b left"]);
    soon(a.close()).await.unwrap();
    while soon(StreamExt::next(&mut events)).await.is_some() {}
    nothing_left(&one, &[group]).await;
}

/// Two of Curator's members with one id would both join, and if one left, it would remove the node of both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_member_with_an_id_waits_and_reports_the_owner() {
    let (one, other, group) = (connected().await, connected().await, path("group-twice"));
    let first = member(&one, &group, "a");
    soon(first.created()).await.unwrap();
    let second = GroupMember::builder(&other, &group, "a").unwrap().data("second").start().unwrap();
    let owner_session = session(&one).await;
    let is_foreign = |state: &_| matches!(state, PersistentNodeState::Foreign { owner, .. } if *owner == owner_session);
    soon(second.state().wait_for(is_foreign)).await.unwrap();
    let error = soon(second.created_timeout(Duration::ZERO)).await.unwrap_err();
    let names_owner = |error: &_| matches!(error, GroupMemberError::Node(PersistentNodeError::ForeignOwner { owner, .. }) if *owner == owner_session);
    assert!(names_owner(&error) && error.is_retryable() && !error.is_closed(), "{error}");
    assert!(second.last_error().is_none());
    assert_eq!(soon(second.ready()).await.unwrap().get("a").unwrap().data(), b"data of a");
    soon(first.close()).await.unwrap();
    soon(second.created()).await.unwrap();
    assert_eq!(soon(second.caught_up()).await.unwrap().get("a").unwrap().data(), b"second");
}

/// Curator's list of members does not show that it is outdated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disconnected_member_is_stale_and_rejoins_after_its_session_was_lost() {
    let ((proxy, client), others, group) = (behind_proxy().await, connected().await, path("group-cut"));
    let (a, b) = (member(&client, &group, "a"), member(&others, &group, "b"));
    until_members(&a, &["a", "b"]).await;
    let mut events = b.events();
    while next(&mut events).await != "ready" {}
    unplug(&proxy, &client).await;
    soon(a.members_state().wait_for(|state| matches!(state, CacheState::Stale { .. }))).await.unwrap();
    assert!(matches!(a.members().state(), CacheState::Stale { .. }));
    assert_eq!(ids(&a.members()), ["a", "b"]);
    soon(a.state().wait_for(|state| matches!(state, PersistentNodeState::Unknown))).await.unwrap();
    soon(b.close()).await.unwrap();
    let b = member(&others, &group, "c");
    soon(b.created()).await.unwrap();
    proxy.refuse(false).unwrap();
    until_members(&a, &["a", "c"]).await;
    let before = client.session().await.unwrap();
    proxy.refuse(true).unwrap();
    // The caches use a separate session.
    let address = curator_test::TestingServer::shared().await.address();
    let sessions = proxy.sessions();
    let session = sessions.iter().find(|session| session.session_id == before.id()).unwrap();
    curator_test::close_session(address, session).await.unwrap();
    until_members(&b, &["c"]).await;
    proxy.cut();
    proxy.refuse(false).unwrap();
    until_members(&b, &["a", "c"]).await;
    assert_ne!(b.members().get("a").unwrap().stat().ephemeral_owner, before.id());
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

#[tokio::test]
async fn persistent_children_are_members_and_their_descendants_are_not() {
    let (client, group) = (connected().await, path("group-deep"));
    create_node(&client, &format!("{group}/static"), CreateMode::Persistent, "x").await;
    create_node(&client, &format!("{group}/static/below"), CreateMode::Persistent, "").await;
    let a = member(&client, &group, "a");
    until_members(&a, &["a", "static"]).await;
    let mut events = a.events();
    while next(&mut events).await != "ready" {}
    create_node(&client, &format!("{group}/static/more"), CreateMode::Persistent, "").await;
    assert_eq!(ids(&soon(a.caught_up()).await.unwrap()), ["a", "static"]);
    assert!(format!("{:?}", a.members()).contains(r#"ids: ["a", "static"]"#), "{:?}", a.members());
    let printed = format!("{a:?} {:?}", a.members().get("a").unwrap());
    assert!(printed.contains("GroupMember { group:") && printed.contains(r#"Member { id: "a", bytes: 9"#), "{printed}");
    soon(a.set_data("new")).await.unwrap();
    assert_eq!(next(&mut events).await, "a: data of a to new");
}

#[tokio::test]
async fn an_invalid_id_is_rejected_and_a_member_ends_with_its_client() {
    let (client, group) = (connected().await, path("group-invalid"));
    for id in ["", "a/b", "..", "."] {
        assert!(GroupMember::builder(&client, &group, id).is_err(), "{id}");
    }
    assert!(GroupMember::builder(&client, "no-slash", "a").is_err());
    let a = member(&client, &group, "a");
    soon(a.created()).await.unwrap();
    client.close().await.unwrap();
    let errors = [
        soon(a.created()).await.map(drop).unwrap_err(),
        soon(a.set_data("")).await.unwrap_err(),
        soon(a.caught_up()).await.map(drop).unwrap_err(),
    ];
    for error in errors {
        assert!(error.is_closed() && !error.is_retryable(), "{error}");
    }
    soon(a.close()).await.unwrap();
}
