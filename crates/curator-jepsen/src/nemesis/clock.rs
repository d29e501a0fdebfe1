//! Clocks that run at different rates.

use curator_test::{Direction, FaultProxy};

use super::network::proxies;
use super::{Strike, names};
use crate::scene::{Client, RunError, SESSION_TIMEOUT};

/// How many of the servers' session timeouts make one of the clients'.
const FACTOR: f64 = 3.0;
/// In session timeouts: one for the clients to begin anew, and most of one by their own clocks.
pub(super) const LENGTH: f64 = 3.75;
/// How many clients go on: it takes somebody to get what others still think they hold.
const SPARED: usize = 1;

impl Strike<'_> {
    /// A client that is told three times the session timeout does in all respects what a client does whose clock runs at a
    /// third of the rate (see `FaultProxy::stretch_session_timeouts`): it believes in its locks for long after the servers have
    /// given them to others. `LD_PRELOAD` could not slow the clock of the leases, which is read through the vDSO.
    pub(super) async fn slow_clocks(&mut self) -> Result<(), RunError> {
        let scene = self.scene;
        let mut clients: Vec<&Client> = scene.ours().collect();
        self.random.shuffle(&mut clients);
        let victims = clients.get(SPARED.min(clients.len())..).unwrap_or_default();
        self.begin(&names(victims))?;
        // A client counts with what it was told when its session began. So all begin anew.
        clients.iter().try_for_each(|client| client.kill(&scene.journal))?;
        // By such a clock it asks for three times as much, too. The servers grant no more than before.
        clients.iter().for_each(|client| client.ask_for(SESSION_TIMEOUT.mul_f64(FACTOR)));
        proxies(&clients).for_each(|proxy| proxy.stretch_session_timeouts(FACTOR));
        clients.iter().try_for_each(|client| client.start(&scene.journal))?;
        scene.pass(SESSION_TIMEOUT.mul_f64(1.25)).await?;
        proxies(victims).for_each(|proxy| proxy.black_hole(Direction::Both));
        scene.pass(self.length.saturating_sub(SESSION_TIMEOUT.mul_f64(1.25))).await?;
        proxies(victims).for_each(FaultProxy::heal);
        proxies(&clients).for_each(|proxy| proxy.stretch_session_timeouts(1.0));
        clients.iter().for_each(|client| client.ask_for(SESSION_TIMEOUT));
        // Whoever is told less than before ends its session.
        proxies(&clients).for_each(FaultProxy::cut);
        Ok(())
    }
}
