//! Carries out a nemesis: injects the fault into servers, clients or the network between them, and
//! heals it.

use std::collections::BTreeMap;
use std::time::Duration;

use curator_test::{Direction, FaultProxy, OpCode, TestingServer};
use fastrand::Rng;
use tokio::time::{Instant, sleep, timeout_at};

use super::Nemesis;
use crate::history::{Phase, What};
use crate::scene::{Client, MEMBERS, SESSION_TIMEOUT, Scene, now};

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

/// The session timeout that clients with slow clocks assume, in session timeouts of the servers.
const FACTOR: f64 = 3.0;
/// The length of a strike with slow clocks, in session timeouts: 1.25 until the clients have new
/// sessions, and 2.5 more, which are 0.83 by the slow clocks.
pub(super) const SLOW_CLOCKS: f64 = 3.75;
/// The number of unaffected clients: they acquire the locks that the affected clients still
/// consider held.
const SPARED: usize = 1;

/// An active nemesis.
#[derive(Debug)]
pub(crate) struct Strike<'a> {
    scene: &'a Scene,
    nemesis: Nemesis,
    length: Duration,
    random: Rng,
    /// When the fault was healed, if it was healed before the strike ended.
    healed: Option<u64>,
}

impl<'a> Strike<'a> {
    /// Prepares a strike. All its random choices follow from the seed.
    pub(crate) fn new(scene: &'a Scene, nemesis: Nemesis, seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        Self {
            scene,
            nemesis,
            length: nemesis.length(&mut random),
            random,
            healed: None,
        }
    }

    /// Injects the fault and heals it. Returns when the fault was healed, on the clock of
    /// histories. Killed servers count as healed when they are started, not when they are ready.
    ///
    /// # Errors
    ///
    /// When the fault cannot be injected or healed. Then the run must end.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves the fault in place. Then the run must end.
    pub(crate) async fn run(mut self) -> anyhow::Result<u64> {
        match self.nemesis {
            Nemesis::KillFollower | Nemesis::KillLeader => self.kill().await?,
            Nemesis::KillAll => self.kill_all().await?,
            Nemesis::PauseFollower | Nemesis::PauseLeader => self.pause().await?,
            Nemesis::DiskStall => self.stall_disk().await?,
            Nemesis::IsolateFollower | Nemesis::IsolateLeader => self.isolate().await?,
            Nemesis::PauseClient | Nemesis::PauseClientLong => self.pause_clients().await?,
            Nemesis::KillClient => self.kill_clients().await?,
            Nemesis::CutClient => self.black_hole(Direction::Both).await?,
            Nemesis::LoseRequests => self.black_hole(Direction::ToServer).await?,
            Nemesis::LoseAnswers => self.black_hole(Direction::ToClient).await?,
            Nemesis::Flapping => self.flap().await?,
            Nemesis::SwallowAnswers => self.swallow_answers().await?,
            Nemesis::DeleteNodes => self.delete_nodes().await?,
            Nemesis::Reconfig => self.replace_server().await?,
            Nemesis::ClockRate => self.slow_clocks().await?,
        }
        let healed = self.healed.unwrap_or_else(now);
        self.scene
            .journal
            .print(&format!("{} is healed", self.nemesis));
        self.record_phase(Phase::End, String::new())?;
        Ok(healed)
    }

    /// One or two of our clients, and one of each peer.
    fn victims(&mut self) -> Vec<&'a Client> {
        self.scene.some_of_each(&mut self.random)
    }

    /// Records the start of the strike. Must be called once, before the fault is injected.
    fn begin(&self, victim_names: &str) -> anyhow::Result<()> {
        let Self {
            scene,
            nemesis,
            length,
            ..
        } = self;
        scene.journal.print(&format!(
            "{nemesis} begins, for {:.1} s: {victim_names}",
            length.as_secs_f64()
        ));
        self.record_phase(Phase::Begin, victim_names.to_owned())
    }

    fn record_phase(&self, phase: Phase, detail: String) -> anyhow::Result<()> {
        self.scene.journal.write(What::Nemesis {
            name: self.nemesis.to_string(),
            phase,
            detail,
        })
    }

    /// Waits while the fault is active.
    async fn wait(&self) -> anyhow::Result<()> {
        self.scene.wait_and_check(self.length).await
    }

    /// A random duration in this range, in milliseconds.
    fn between(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.random.u64(least..=most))
    }
}

impl Strike<'_> {
    /// Chooses the member that the nemesis affects (the leader, or a random follower), and records
    /// the start of the strike.
    async fn begin_with_server(&mut self) -> anyhow::Result<usize> {
        let leader = self.scene.cluster.read().await.leader().await?;
        let member = match self.nemesis {
            Nemesis::KillFollower | Nemesis::PauseFollower | Nemesis::IsolateFollower => {
                (leader + self.random.usize(1..MEMBERS)) % MEMBERS
            }
            _ => leader,
        };
        self.begin(&format!("server {member}"))?;
        Ok(member)
    }

    async fn kill(&mut self) -> anyhow::Result<()> {
        let member = self.begin_with_server().await?;
        let cluster = self.scene.cluster.read().await;
        let member = cluster.member(member);
        member.kill()?;
        self.wait().await?;
        // The start of the server is part of the recovery time.
        self.healed = Some(now());
        Ok(member.restart().await?)
    }

    async fn kill_all(&mut self) -> anyhow::Result<()> {
        self.begin("all servers")?;
        let cluster = self.scene.cluster.read().await;
        cluster.members().iter().try_for_each(TestingServer::kill)?;
        self.wait().await?;
        self.healed = Some(now());
        // The members are started concurrently, because none is ready without a quorum.
        let [first, second, third] = [0, 1, 2].map(|member| cluster.member(member).restart());
        let (first, second, third) = tokio::join!(first, second, third);
        Ok(first.and(second).and(third)?)
    }

    async fn pause(&mut self) -> anyhow::Result<()> {
        let member = self.begin_with_server().await?;
        let cluster = self.scene.cluster.read().await;
        let member = cluster.member(member);
        member.pause()?;
        self.wait().await?;
        Ok(member.resume()?)
    }

    /// Cuts a server off from the other servers. Clients can still reach all servers.
    async fn isolate(&mut self) -> anyhow::Result<()> {
        let member = self.begin_with_server().await?;
        let cluster = self.scene.cluster.read().await;
        cluster.isolate(member)?;
        self.wait().await?;
        Ok(cluster.heal()?)
    }

    /// Replaces a random server, which may be the leader.
    async fn replace_server(&mut self) -> anyhow::Result<()> {
        let member = self.random.usize(..MEMBERS);
        self.begin(&format!("server {member} is replaced"))?;
        let mut cluster = self.scene.cluster.write().await;
        cluster.add_member().await?;
        let removed = cluster.remove_member(member).await?;
        drop(cluster);
        // Its clients stay connected to it for a while.
        self.wait().await?;
        Ok(removed.kill()?)
    }

    async fn stall_disk(&mut self) -> anyhow::Result<()> {
        let member = self.begin_with_server().await?;
        let cluster = self.scene.cluster.read().await;
        let member = cluster.member(member);
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
    async fn delete_nodes(&mut self) -> anyhow::Result<()> {
        self.begin("nodes of all locks")?;
        let end = Instant::now() + self.length;
        let mut deleted = BTreeMap::<String, u32>::new();
        while Instant::now() < end {
            // The ensemble might not reply while other nemeses are active.
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
            .print(&format!("deleted {}", deleted.join(", ")));
        self.scene.check()
    }
}

impl Strike<'_> {
    async fn pause_clients(&mut self) -> anyhow::Result<()> {
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

    async fn kill_clients(&mut self) -> anyhow::Result<()> {
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
    async fn slow_clocks(&mut self) -> anyhow::Result<()> {
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

    async fn black_hole(&mut self, direction: Direction) -> anyhow::Result<()> {
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

    async fn flap(&mut self) -> anyhow::Result<()> {
        self.begin("all clients")?;
        let victims: Vec<_> = self.scene.clients.iter().collect();
        let end = Instant::now() + self.length;
        while Instant::now() < end {
            proxies(&victims).for_each(FaultProxy::cut);
            sleep(self.between(200, 600)).await;
        }
        self.scene.check()
    }

    async fn swallow_answers(&mut self) -> anyhow::Result<()> {
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
        // The connections are cut, because TCP never loses a single reply on an open connection:
        // such a loss can make `zookeeper-client` lose track of a watch, which the server would
        // keep until the connection ends (docs/upstream.md).
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

/// The clients' names in reports.
fn names(clients: &[&Client]) -> String {
    clients
        .iter()
        .map(|client| format!("w{}", client.number()))
        .collect::<Vec<_>>()
        .join(", ")
}
