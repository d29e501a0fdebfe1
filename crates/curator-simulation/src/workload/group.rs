//! Members of a group, which join and leave.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curator_recipes::GroupMember;
use curator_test::Faults;
use tokio::time::timeout;

use super::cache::differs;
use super::{Workload, must_succeed, try_call};
use crate::life::Life;

pub(super) fn make(root: String) -> Arc<dyn Workload> {
    Arc::new(Group { root })
}

#[derive(Debug)]
struct Group {
    root: String,
}

#[async_trait]
impl Workload for Group {
    fn faults(&self) -> Faults {
        let mut faults = Faults::of_network_and_servers();
        faults.delete = 0.05;
        faults
    }

    async fn live(&self, life: &Life) {
        while life.goes_on() && life.one_in(2) {
            let Some(member) = self.join(life) else {
                return;
            };
            let _ = timeout(life.time(Duration::from_secs(8)), self.work(life, &member)).await;
            self.leave(life, member).await;
        }
        let Some(member) = self.join(life) else {
            return;
        };
        self.work(life, &member).await;
        if life.at_rest().await {
            life.eventually("list the members", || {
                let mut tree = life.world().servers().nodes_below(&self.root);
                // Removes the directory itself, so that only the members are left.
                tree.remove(&self.root);
                if !tree.contains_key(member.node().path().as_str()) {
                    return Err(format!(
                        "is not a member, but {:?}",
                        member.node().state().get()
                    ));
                }
                differs(member.members(), &tree).map_or(Ok(()), Err)
            })
            .await;
        }
        life.idle().await;
        self.leave(life, member).await;
    }
}

impl Group {
    fn join(&self, life: &Life) -> Option<GroupMember> {
        let id = life.name().replace('/', "-");
        let builder = GroupMember::builder(life.client(), self.root.as_str(), id);
        must_succeed(life, "make a member", builder).map(|builder| builder.data("first").start())
    }

    async fn work(&self, life: &Life, member: &GroupMember) {
        while life.goes_on() {
            let data = life.number().to_string();
            if life.one_in(2)
                && let Some(Err(error)) = life
                    .call(
                        "set data",
                        timeout(Duration::from_secs(4), member.node().set_data(data)),
                    )
                    .await
            {
                life.note(|| format!("set data: {error:?}"));
            }
            life.think_for(Duration::from_secs(4)).await;
        }
    }

    async fn leave(&self, life: &Life, member: GroupMember) {
        if life.one_in(3) {
            return;
        }
        try_call(life, "leave", member.close()).await;
    }
}
