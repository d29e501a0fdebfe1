//! Clients that are stopped or killed.

use super::Strike;
use crate::scene::{Client, RunError};

impl<'a> Strike<'a> {
    /// Begins, with one or two clients of ours, and one of each peer.
    pub(super) fn victims(&mut self) -> Result<Vec<&'a Client>, RunError> {
        let victims = self.scene.some_of_each(&mut self.random);
        let names: Vec<_> = victims.iter().map(|client| format!("w{}", client.number())).collect();
        self.begin(&names.join(", "))?;
        Ok(victims)
    }

    pub(super) async fn pause_clients(&mut self) -> Result<(), RunError> {
        let victims = self.victims()?;
        victims.iter().try_for_each(|client| client.pause(&self.scene.journal))?;
        self.pass().await?;
        victims.iter().try_for_each(|client| client.resume(&self.scene.journal))
    }

    pub(super) async fn kill_clients(&mut self) -> Result<(), RunError> {
        let victims = self.victims()?;
        victims.iter().try_for_each(|client| client.kill(&self.scene.journal))?;
        self.pass().await?;
        victims.iter().try_for_each(|client| client.start(&self.scene.journal))
    }
}
