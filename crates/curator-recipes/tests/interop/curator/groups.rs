//! Java's `GroupMember` and ours in one group.

use std::collections::BTreeMap;

use curator_recipes::{GroupMember, client::CuratorClient};
use curator_test::{soon, unique_path, until};

use super::{
    java::{JavaSession, java},
    stage::ours,
};

/// The members that our side reports: id and data.
fn members(member: &GroupMember) -> BTreeMap<String, String> {
    member
        .members()
        .snapshot()
        .iter()
        .map(|member| {
            let data = String::from_utf8(member.data().to_vec()).unwrap();
            (member.path().name().to_owned(), data)
        })
        .collect()
}

async fn join(client: &CuratorClient, path: &str, id: &str, data: &str) -> GroupMember {
    let member = GroupMember::builder(client, path, id)
        .unwrap()
        .data(data)
        .start();
    soon(member.node().created()).await.unwrap();
    member
}

/// Waits until both languages report these members.
async fn agree(
    ours: &[&GroupMember],
    java: &mut [&mut JavaSession],
    path: &str,
    expected: &[(&str, &str)],
) {
    let expected: BTreeMap<_, _> = expected
        .iter()
        .map(|(id, data)| ((*id).to_owned(), (*data).to_owned()))
        .collect();
    for member in ours {
        until(async || members(member) == expected).await;
    }
    let words: String = expected
        .iter()
        .map(|(id, data)| format!(" {id}={data}"))
        .collect();
    for session in java {
        session
            .ask_until(&format!("members {path}"), &format!("ok{words}"))
            .await;
    }
}

#[tokio::test]
async fn both_languages_see_the_same_members_of_a_group() {
    let client = ours().await;
    let path = unique_path("group");
    let mut first = java().await;
    let mut second = java().await;
    let first_id = first.name().to_owned();
    let second_id = second.name().to_owned();
    let [first_id, second_id] = [&*first_id, &*second_id];
    let a = join(&client, &path, "a", "1").await;
    assert_eq!(first.ask(&format!("member {path} 2")).await, "ok");
    agree(
        &[&a],
        &mut [&mut first],
        &path,
        &[("a", "1"), (first_id, "2")],
    )
    .await;
    let second_client = ours().await;
    let b = join(&second_client, &path, "b", "3").await;
    assert_eq!(second.ask(&format!("member {path} 4")).await, "ok");
    let all = [("a", "1"), (first_id, "2"), ("b", "3"), (second_id, "4")];
    agree(&[&a, &b], &mut [&mut first, &mut second], &path, &all).await;

    // One member of each language sets new data.
    soon(a.node().set_data("5")).await.unwrap();
    assert_eq!(first.ask(&format!("member-data {path} 6")).await, "ok");
    let all = [("a", "5"), (first_id, "6"), ("b", "3"), (second_id, "4")];
    agree(&[&a, &b], &mut [&mut first, &mut second], &path, &all).await;

    // One member of each language leaves. Java's other member loses its session, and rejoins.
    soon(b.close()).await.unwrap();
    assert_eq!(second.ask(&format!("shut {path}")).await, "ok");
    agree(
        &[&a],
        &mut [&mut first],
        &path,
        &[("a", "5"), (first_id, "6")],
    )
    .await;
    first.end().await;
    agree(
        &[&a],
        &mut [&mut first],
        &path,
        &[("a", "5"), (first_id, "6")],
    )
    .await;
    soon(a.close()).await.unwrap();
    first
        .ask_until(&format!("members {path}"), &format!("ok {first_id}=6"))
        .await;
}
