//! Stops or kills clients.

use super::{Strike, names};

impl Strike<'_> {
    pub(super) async fn pause_clients(&mut self) -> anyhow::Result<()> {
        let victims = self.victims();
        self.begin(&names(&victims))?;
        victims
            .iter()
            .try_for_each(|client| client.pause(&self.scene.journal))?;
        self.wait().await?;
        victims
            .iter()
            .try_for_each(|client| client.resume(&self.scene.journal))
    }

    pub(super) async fn kill_clients(&mut self) -> anyhow::Result<()> {
        let victims = self.victims();
        self.begin(&names(&victims))?;
        victims
            .iter()
            .try_for_each(|client| client.kill(&self.scene.journal))?;
        self.wait().await?;
        victims
            .iter()
            .try_for_each(|client| client.start(&self.scene.journal))
    }
}
