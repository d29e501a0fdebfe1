//! Kills or stops servers.

use curator_test::TestingServer;
use tokio::time::{Instant, sleep};

use super::Strike;
use crate::scene::{MEMBERS, RunError, now};

impl Strike<'_> {
    /// A random member that is not the leader.
    pub(super) async fn follower(&mut self) -> Result<usize, RunError> {
        let leader = self.scene.cluster.leader().await?;
        Ok((leader + self.random.usize(1..MEMBERS)) % MEMBERS)
    }

    pub(super) async fn kill_follower(&mut self) -> Result<(), RunError> {
        let member = self.follower().await?;
        self.kill(member).await
    }

    pub(super) async fn kill_leader(&mut self) -> Result<(), RunError> {
        let member = self.scene.cluster.leader().await?;
        self.kill(member).await
    }

    async fn kill(&mut self, member: usize) -> Result<(), RunError> {
        self.begin(&server(member))?;
        let member = self.scene.cluster.member(member);
        member.kill()?;
        self.wait().await?;
        // The start of the server is part of the recovery time.
        self.healed = Some(now());
        Ok(member.restart().await?)
    }

    pub(super) async fn kill_all(&mut self) -> Result<(), RunError> {
        self.begin("all servers")?;
        let members = self.scene.cluster.members();
        members.iter().try_for_each(TestingServer::kill)?;
        self.wait().await?;
        self.healed = Some(now());
        // The members are started concurrently, as none is ready without a quorum.
        let [first, second, third] = [0, 1, 2].map(|member| self.scene.cluster.member(member).restart());
        let (first, second, third) = tokio::join!(first, second, third);
        Ok(first.and(second).and(third)?)
    }

    pub(super) async fn pause_follower(&mut self) -> Result<(), RunError> {
        let member = self.follower().await?;
        self.pause(member).await
    }

    pub(super) async fn pause_leader(&mut self) -> Result<(), RunError> {
        let member = self.scene.cluster.leader().await?;
        self.pause(member).await
    }

    async fn pause(&mut self, member: usize) -> Result<(), RunError> {
        self.begin(&server(member))?;
        let member = self.scene.cluster.member(member);
        member.pause()?;
        self.wait().await?;
        Ok(member.resume()?)
    }

    pub(super) async fn stall_disk(&mut self) -> Result<(), RunError> {
        let member = self.scene.cluster.leader().await?;
        self.begin(&server(member))?;
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
}

pub(super) fn server(member: usize) -> String {
    format!("server {member}")
}
