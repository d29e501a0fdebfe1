//! Partitions the servers, while clients can still reach all of them.

use super::{Strike, servers::server};
use crate::scene::RunError;

impl Strike<'_> {
    pub(super) async fn isolate_follower(&mut self) -> Result<(), RunError> {
        let member = self.follower().await?;
        self.isolate(member).await
    }

    pub(super) async fn isolate_leader(&mut self) -> Result<(), RunError> {
        let member = self.scene.cluster.leader().await?;
        self.isolate(member).await
    }

    async fn isolate(&mut self, member: usize) -> Result<(), RunError> {
        self.begin(&server(member))?;
        self.scene.cluster.isolate(member)?;
        self.wait().await?;
        Ok(self.scene.cluster.heal()?)
    }
}
