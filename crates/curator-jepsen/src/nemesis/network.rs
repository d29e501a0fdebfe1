//! Injects faults into the network between clients and servers.

use curator_test::{Direction, FaultProxy, OpCode};
use tokio::time::{Instant, sleep};

use super::{Strike, names};
use crate::scene::Client;

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

impl Strike<'_> {
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

pub(super) fn proxies<'a>(clients: &[&'a Client]) -> impl Iterator<Item = &'a FaultProxy> {
    clients.iter().flat_map(|client| client.network())
}
