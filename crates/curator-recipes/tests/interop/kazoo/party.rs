//! Kazoo's `Party` and `ShallowParty` on one path with our group.

use std::collections::BTreeSet;

use curator_recipes::GroupMember;
use curator_test::{soon, until};

use super::two_clients;
use crate::ours::client;

#[tokio::test]
async fn our_group_lists_kazoos_parties() {
    let (server, mut a, mut b) = two_clients().await;
    let client = client(&server).await;
    // `mark` is in the name of each kazoo member; `listed` is kazoo's list when our member has
    // joined.
    for (kind, mark, listed) in [
        ("party", "__party__", "ok a b"),
        ("shallow", "-", "ok a b ours"),
    ] {
        let path = format!("/{kind}");
        for agent in [&mut a, &mut b] {
            assert_eq!(agent.ask(&format!("join {kind} {path}")), "ok");
        }
        let member = GroupMember::builder(&client, &path, "ours")
            .unwrap()
            .data("x")
            .start();
        soon(member.node().created()).await.unwrap();
        let data = || -> BTreeSet<Vec<u8>> {
            let members = member.members().snapshot();
            members
                .iter()
                .filter(|member| member.path().name().contains(mark))
                .map(|member| member.data().to_vec())
                .collect()
        };
        until(async || data() == [b"a".to_vec(), b"b".to_vec()].into()).await;
        until(async || member.members().snapshot().len() == 3).await;
        a.ask_until(&format!("party {kind} {path}"), listed);
        assert_eq!(b.ask(&format!("leave {kind} {path}")), "ok");
        until(async || data() == [b"a".to_vec()].into()).await;
        soon(member.close()).await.unwrap();
        a.ask_until(&format!("party {kind} {path}"), "ok a");
    }
}
