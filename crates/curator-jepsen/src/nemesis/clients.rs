//! Stops or kills clients, slows their clocks down, or injects faults
//! into the network between clients and servers.

use curator_test::{Direction, FaultProxy, OpCode};
use tokio::time::{Instant, sleep};

use super::{Strike, names};
use crate::scene::{Client, SESSION_TIMEOUT};

/// All requests that our workers send while connected, and the handshake. `swallow-answers` picks
/// from them at random.
pub const REQUESTS: [OpCode; 11] = [
    OpCode::CreateSession,
    OpCode::Create2,
    OpCode::Delete,
    OpCode::Exists,
    OpCode::GetData,
    OpCode::GetChildren,
    OpCode::Sync,
    OpCode::Ping,
    OpCode::Multi,
    OpCode::MultiRead,
    OpCode::RemoveWatches,
];

/// The clients' session timeout, in session timeouts of the servers.
const FACTOR: f64 = 3.0;
/// The length of a strike with slow clocks, in session timeouts: 1.25 until the clients have new
/// sessions, and 2.5 more, which are 0.83 by the slow clocks.
pub(super) const SLOW_CLOCKS: f64 = 3.75;
/// The number of unaffected clients: they acquire the locks that the affected clients still
/// consider held.
const SPARED: usize = 1;

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

    pub(super) async fn black_hole(&mut self, direction: Direction) -> anyhow::Result<()> {
        let victims = self.victims();
        let from_all = self.random.bool();
        let victim_names = names(&victims);
        let how = if from_all {
            "all servers"
        } else {
            "the server that each is connected to"
        };
        self.begin(&format!("{victim_names}, and {how}"))?;
        let struck: Vec<_> = victims
            .iter()
            .flat_map(|client| struck(client.network(), from_all))
            .collect();
        struck.iter().for_each(|proxy| proxy.black_hole(direction));
        self.wait().await?;
        struck.iter().for_each(|proxy| proxy.heal());
        Ok(())
    }

    pub(super) async fn flap(&mut self) -> anyhow::Result<()> {
        self.begin("all clients")?;
        let victims: Vec<_> = self.scene.clients.iter().collect();
        let end = Instant::now() + self.length;
        while Instant::now() < end {
            proxies(&victims).for_each(FaultProxy::cut);
            sleep(self.between(200, 600)).await;
        }
        self.scene.check()
    }

    pub(super) async fn swallow_answers(&mut self) -> anyhow::Result<()> {
        let victims = self.victims();
        self.begin(&names(&victims))?;
        let end = Instant::now() + self.length;
        while Instant::now() < end {
            let request = self.random.choice(REQUESTS).unwrap_or(OpCode::Create2);
            // Each client is connected through one of its three proxies.
            proxies(&victims).for_each(|proxy| proxy.swallow_next_reply(request));
            sleep(self.between(50, 500)).await;
        }
        proxies(&victims).for_each(FaultProxy::disarm);
        // TCP never loses a single reply on an open connection. Such a loss can make
        // `zookeeper-client` lose track of a watch, which the server would keep until the
        // connection ends (docs/upstream.md).
        proxies(&victims).for_each(FaultProxy::cut);
        self.scene.check()
    }
}

/// The proxies of a client that drop the traffic: all proxies if `from_all` is set or the client is
/// disconnected, otherwise the proxies with a connection.
fn struck(network: &[FaultProxy], from_all: bool) -> Vec<&FaultProxy> {
    let connected: Vec<_> = network
        .iter()
        .filter(|proxy| proxy.connections() > 0)
        .collect();
    if from_all || connected.is_empty() {
        network.iter().collect()
    } else {
        connected
    }
}

fn proxies<'a>(clients: &[&'a Client]) -> impl Iterator<Item = &'a FaultProxy> {
    clients.iter().flat_map(|client| client.network())
}
