//! Makes the clocks of clients run slower than those of the servers.

use curator_test::{Direction, FaultProxy};

use super::network::proxies;
use super::{Strike, names};
use crate::scene::{Client, RunError, SESSION_TIMEOUT};

/// The clients' session timeout, in session timeouts of the servers.
const FACTOR: f64 = 3.0;
/// The length of the strike in session timeouts: one until the clients have new sessions, and most of one by their own
/// clocks.
pub(super) const LENGTH: f64 = 3.75;
/// How many clients stay unaffected: another client must acquire the locks that the affected ones still believe to
/// hold.
const SPARED: usize = 1;

impl Strike<'_> {
    /// Reports three times the granted session timeout to the clients (see `FaultProxy::stretch_session_timeouts`).
    /// Such a client behaves exactly like one whose clock runs at a third of the rate: it relies on its locks long
    /// after the servers have given them to others. `LD_PRELOAD` could not slow the clock of the leases, which is read
    /// through the vDSO.
    pub(super) async fn slow_clocks(&mut self) -> Result<(), RunError> {
        let scene = self.scene;
        let mut clients: Vec<&Client> = scene.ours().collect();
        self.random.shuffle(&mut clients);
        let victims = clients.get(SPARED.min(clients.len())..).unwrap_or_default();
        self.begin(&names(victims))?;
        // A client uses the timeout that it received when its session began, so all of them are restarted.
        clients.iter().try_for_each(|client| client.kill(&scene.journal))?;
        // A client with such a clock also requests three times as much. The servers grant no more than before.
        clients.iter().for_each(|client| client.ask_for(SESSION_TIMEOUT.mul_f64(FACTOR)));
        proxies(&clients).for_each(|proxy| proxy.stretch_session_timeouts(FACTOR));
        clients.iter().try_for_each(|client| client.start(&scene.journal))?;
        scene.pass(SESSION_TIMEOUT.mul_f64(1.25)).await?;
        proxies(victims).for_each(|proxy| proxy.black_hole(Direction::Both));
        scene.pass(self.length.saturating_sub(SESSION_TIMEOUT.mul_f64(1.25))).await?;
        proxies(victims).for_each(FaultProxy::heal);
        proxies(&clients).for_each(|proxy| proxy.stretch_session_timeouts(1.0));
        clients.iter().for_each(|client| client.ask_for(SESSION_TIMEOUT));
        // A client that receives a shorter timeout than before ends its session.
        proxies(&clients).for_each(FaultProxy::cut);
        Ok(())
    }
}
