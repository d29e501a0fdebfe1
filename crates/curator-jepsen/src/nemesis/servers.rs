//! Kills, stops or isolates servers, or deletes nodes of locks on them.

use std::collections::BTreeMap;

use curator_test::TestingServer;
use tokio::time::{Instant, sleep, timeout_at};

use super::{Nemesis, Strike};
use crate::scene::{MEMBERS, now};

impl Strike<'_> {
    /// Announces the member that the nemesis strikes: the leader, or a random follower.
    async fn begin_with_server(&mut self) -> anyhow::Result<usize> {
        let leader = self.scene.cluster.leader().await?;
        let member = match self.nemesis {
            Nemesis::KillFollower | Nemesis::PauseFollower | Nemesis::IsolateFollower => {
                (leader + self.random.usize(1..MEMBERS)) % MEMBERS
            }
            _ => leader,
        };
        self.begin(&format!("server {member}"))?;
        Ok(member)
    }

    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        let member = self.begin_with_server().await?;
        let member = self.scene.cluster.member(member);
        member.kill()?;
        self.wait().await?;
        // The start of the server is part of the recovery time.
        self.healed = Some(now());
        Ok(member.restart().await?)
    }

    pub(super) async fn kill_all(&mut self) -> anyhow::Result<()> {
        self.begin("all servers")?;
        self.scene
            .cluster
            .members()
            .iter()
            .try_for_each(TestingServer::kill)?;
        self.wait().await?;
        self.healed = Some(now());
        // The members are started concurrently, as none is ready without a quorum.
        let [first, second, third] =
            [0, 1, 2].map(|member| self.scene.cluster.member(member).restart());
        let (first, second, third) = tokio::join!(first, second, third);
        Ok(first.and(second).and(third)?)
    }

    pub(super) async fn pause(&mut self) -> anyhow::Result<()> {
        let member = self.begin_with_server().await?;
        let member = self.scene.cluster.member(member);
        member.pause()?;
        self.wait().await?;
        Ok(member.resume()?)
    }

    /// Cuts the server off from the others, while clients can still reach all of them.
    pub(super) async fn isolate(&mut self) -> anyhow::Result<()> {
        let member = self.begin_with_server().await?;
        self.scene.cluster.isolate(member)?;
        self.wait().await?;
        Ok(self.scene.cluster.heal()?)
    }

    pub(super) async fn stall_disk(&mut self) -> anyhow::Result<()> {
        let member = self.begin_with_server().await?;
        let member = self.scene.cluster.member(member);
        let end = Instant::now() + self.length;
        while Instant::now() < end {
            member.pause()?;
            sleep(self.between(100, 800)).await;
            member.resume()?;
            sleep(self.between(50, 300)).await;
        }
        self.scene.check()
    }

    /// Deletes nodes of locks, as an operator may.
    pub(super) async fn delete_nodes(&mut self) -> anyhow::Result<()> {
        self.begin("nodes of all locks")?;
        let end = Instant::now() + self.length;
        let mut deleted = BTreeMap::<String, u32>::new();
        while Instant::now() < end {
            // The ensemble may not reply while other nemeses are active.
            let nodes = self.scene.nodes_of_one(&mut self.random);
            let Ok(Ok(nodes)) = timeout_at(end, nodes).await else {
                continue;
            };
            let Some(node) = self.random.choice(&nodes) else {
                continue;
            };
            // One or two nodes of the same queue: the worst case is a delete of the nodes of a
            // holder and of a waiter together.
            let directory = |path: &str| {
                path.rsplit_once('/')
                    .map(|(directory, _)| directory.to_owned())
            };
            let count = self.random.usize(1..=2);
            let mut victims: Vec<_> = nodes
                .iter()
                .filter(|other| directory(&other.path) == directory(&node.path))
                .collect();
            self.random.shuffle(&mut victims);
            for node in victims.into_iter().take(count) {
                if self
                    .scene
                    .delete(node, end.saturating_duration_since(Instant::now()))
                    .await
                {
                    *deleted
                        .entry(directory(&node.path).unwrap_or_default())
                        .or_default() += 1;
                }
            }
            sleep(self.between(50, 300)).await;
        }
        let deleted: Vec<_> = deleted
            .iter()
            .map(|(directory, count)| format!("{count} of {directory}"))
            .collect();
        self.scene
            .journal
            .say(&format!("deleted {}", deleted.join(", ")));
        self.scene.check()
    }
}
