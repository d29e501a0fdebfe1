//! Makes the clocks of clients run slower than those of the servers.

use curator_test::{Direction, FaultProxy};

use super::network::proxies;
use super::{Strike, names};
use crate::scene::{Client, SESSION_TIMEOUT};

/// The clients' session timeout, in session timeouts of the servers.
const FACTOR: f64 = 3.0;
/// The length of the strike in session timeouts: 1.25 until the clients have new sessions, and 2.5
/// more, which are 0.83 by the slow clocks.
pub(super) const LENGTH: f64 = 3.75;
/// The number of unaffected clients: they acquire the locks that the affected clients still
/// consider held.
const SPARED: usize = 1;

impl Strike<'_> {
    /// Reports three times the granted session timeout to the clients (see
    /// `FaultProxy::stretch_session_timeouts`). Such a client behaves exactly like one whose clock
    /// runs at a third of the rate: it relies on its locks long after the servers have let other
    /// clients acquire them. `LD_PRELOAD` could not slow the clock of the leases, which is read
    /// through the vDSO.
    pub(super) async fn slow_clocks(&mut self) -> anyhow::Result<()> {
        let scene = self.scene;
        let mut clients: Vec<&Client> = scene.ours().collect();
        self.random.shuffle(&mut clients);
        let victims = clients.get(SPARED.min(clients.len())..).unwrap_or_default();
        self.begin(&names(victims))?;
        // A client uses the timeout that it received at the start of its session, so all clients
        // are restarted.
        clients
            .iter()
            .try_for_each(|client| client.kill(&scene.journal))?;
        // A client with a slow clock also requests a timeout that is three times as long. The
        // servers grant the same timeout as before.
        clients
            .iter()
            .for_each(|client| client.set_session_timeout(SESSION_TIMEOUT.mul_f64(FACTOR)));
        proxies(&clients).for_each(|proxy| proxy.stretch_session_timeouts(FACTOR));
        clients
            .iter()
            .try_for_each(|client| client.start(&scene.journal))?;
        scene.wait_and_check(SESSION_TIMEOUT.mul_f64(1.25)).await?;
        proxies(victims).for_each(|proxy| proxy.black_hole(Direction::Both));
        scene
            .wait_and_check(self.length.saturating_sub(SESSION_TIMEOUT.mul_f64(1.25)))
            .await?;
        proxies(victims).for_each(FaultProxy::heal);
        proxies(&clients).for_each(|proxy| proxy.stretch_session_timeouts(1.0));
        clients
            .iter()
            .for_each(|client| client.set_session_timeout(SESSION_TIMEOUT));
        // A client that receives a shorter timeout than before ends its session.
        proxies(&clients).for_each(FaultProxy::cut);
        Ok(())
    }
}
