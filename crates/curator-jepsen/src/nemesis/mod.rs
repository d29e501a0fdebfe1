//! The nemeses: each injects a fault, and heals it.
//!
//! Each nemesis injects one kind of fault for one to two session timeouts, unless its description
//! states otherwise. The seed determines its actions and its victims. The word "nemesis" is
//! Jepsen's.

mod clients;
mod servers;

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use curator_test::Direction;
use fastrand::Rng;

pub use self::clients::REQUESTS;
use crate::history::{Phase, What};
use crate::scene::{Client, SESSION_TIMEOUT, Scene, now};
use crate::work::display_name;

/// The nemeses, by their names on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Nemesis {
    /// Kills a follower (SIGKILL), and starts it again.
    KillFollower,
    /// Kills the leader (SIGKILL), and starts it again.
    KillLeader,
    /// Kills all servers at once (SIGKILL), and starts them again.
    KillAll,
    /// Stops a follower (SIGSTOP).
    PauseFollower,
    /// Stops the leader (SIGSTOP).
    PauseLeader,
    /// Stops the leader (SIGSTOP) repeatedly, each time for less than the timeout of its followers,
    /// like a disk that stalls.
    DiskStall,
    /// Cuts a follower off from the other servers, but not from the clients.
    IsolateFollower,
    /// Cuts the leader off from the other servers, but not from the clients.
    IsolateLeader,
    /// Stops one or two clients (SIGSTOP) for a little more than one session timeout.
    PauseClient,
    /// Stops one or two clients (SIGSTOP) for a little more than two session timeouts.
    PauseClientLong,
    /// Kills one or two clients (SIGKILL), and starts them again, with new sessions.
    KillClient,
    /// Cuts one or two clients off in both directions, from all servers or only from the server
    /// that each is connected to, for 0.2 to 2 session timeouts.
    CutClient,
    /// Drops the data that one or two clients send to all servers, or only to the server that each
    /// is connected to, for 0.2 to 2 session timeouts.
    LoseRequests,
    /// Drops the data that one or two clients receive from all servers, or only from the server
    /// that each is connected to, for 0.2 to 2 session timeouts.
    LoseAnswers,
    /// Cuts the connections of all clients every few hundred milliseconds.
    Flapping,
    /// Drops single replies, to requests of any kind, to one or two clients. Cuts their connections
    /// only at the end.
    SwallowAnswers,
    /// Deletes nodes of holders and waiters, as an operator may.
    DeleteNodes,
    /// Lets the clocks of clients run at a third of the servers' rate, and cuts all but one client
    /// off. Not in `all`: it violates an assumption on purpose, and the checker must find the
    /// resulting violations.
    ClockRate,
}

/// What a nemesis affects. Two nemeses with a common target would undo each other's faults, so they
/// are not mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Servers,
    Clients,
    Network,
    Nodes,
}

impl Nemesis {
    /// All nemeses that a run must survive: all but [`ClockRate`](Self::ClockRate).
    pub fn all() -> impl Iterator<Item = Self> {
        Self::value_variants()
            .iter()
            .copied()
            .filter(|nemesis| *nemesis != Self::ClockRate)
    }

    /// The description of the nemesis, in one line.
    #[must_use]
    pub fn description(self) -> String {
        let value = self.to_possible_value();
        value
            .and_then(|value| value.get_help().map(ToString::to_string))
            .unwrap_or_default()
    }

    /// Whether both nemeses can be active at the same time.
    #[must_use]
    pub fn mixes_with(self, other: Self) -> bool {
        !self
            .targets()
            .iter()
            .any(|target| other.targets().contains(target))
    }

    fn targets(self) -> &'static [Target] {
        match self {
            Self::KillFollower
            | Self::KillLeader
            | Self::KillAll
            | Self::PauseFollower
            | Self::PauseLeader
            | Self::DiskStall
            | Self::IsolateFollower
            | Self::IsolateLeader => &[Target::Servers],
            Self::PauseClient | Self::PauseClientLong | Self::KillClient => &[Target::Clients],
            Self::CutClient
            | Self::LoseRequests
            | Self::LoseAnswers
            | Self::Flapping
            | Self::SwallowAnswers => &[Target::Network],
            Self::DeleteNodes => &[Target::Nodes],
            // It also restarts the clients.
            Self::ClockRate => &[Target::Clients, Target::Network],
        }
    }

    /// For how long the nemesis is active.
    fn length(self, random: &mut Rng) -> Duration {
        let factor = match self {
            Self::PauseClient => 1.0 + random.f64() / 5.0,
            Self::PauseClientLong => 2.0 + random.f64() / 5.0,
            // Some of these faults last longer than a session timeout, others do not.
            Self::CutClient | Self::LoseRequests | Self::LoseAnswers => 0.2 + 1.8 * random.f64(),
            Self::ClockRate => clients::SLOW_CLOCKS,
            _ => 1.0 + random.f64(),
        };
        SESSION_TIMEOUT.mul_f64(factor)
    }
}

display_name!(Nemesis);

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
    /// All random choices follow from the seed.
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

    /// Injects the fault and heals it. Returns the time at which it was healed, on the clock of
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
            Nemesis::ClockRate => self.slow_clocks().await?,
        }
        let healed = self.healed.unwrap_or_else(now);
        self.scene
            .journal
            .say(&format!("{} is healed", self.nemesis));
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
        scene.journal.say(&format!(
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

/// The clients' names in reports.
fn names(clients: &[&Client]) -> String {
    clients
        .iter()
        .map(|client| format!("w{}", client.number()))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::DELETE_NODES;
    use crate::scene::SET;

    #[test]
    fn the_delete_nodes_nemesis_has_the_name_that_the_checker_expects() {
        assert_eq!(Nemesis::DeleteNodes.to_string(), DELETE_NODES);
    }

    #[test]
    fn nemeses_with_a_common_target_do_not_mix() {
        use Nemesis::*;
        for nemesis in [
            PauseClient,
            PauseClientLong,
            KillClient,
            CutClient,
            Flapping,
            ClockRate,
        ] {
            assert!(
                !ClockRate.mixes_with(nemesis) && !nemesis.mixes_with(ClockRate),
                "{nemesis}"
            );
        }
        for nemesis in [KillLeader, IsolateFollower, DeleteNodes] {
            assert!(
                ClockRate.mixes_with(nemesis) && nemesis.mixes_with(ClockRate),
                "{nemesis}"
            );
        }
        assert!(KillClient.mixes_with(CutClient) && !KillClient.mixes_with(PauseClient));
    }

    /// If sets were replaced sooner, a client that was cut off would overwrite a set to which no
    /// other client has written, and no update could be lost.
    #[test]
    fn a_set_is_used_for_longer_than_a_session_and_a_strike() {
        for nemesis in Nemesis::all() {
            let mut random = Rng::with_seed(1);
            let lengths: Vec<_> = (0..200).map(|_| nemesis.length(&mut random)).collect();
            let sessions: Vec<_> = lengths
                .iter()
                .map(|length| length.div_duration_f64(SESSION_TIMEOUT))
                .collect();
            let least = match nemesis {
                Nemesis::PauseClientLong => 2.0,
                Nemesis::CutClient | Nemesis::LoseRequests | Nemesis::LoseAnswers => 0.2,
                _ => 1.0,
            };
            assert!(
                sessions.iter().all(|length| (least..=2.2).contains(length)),
                "{nemesis}: {sessions:?}"
            );
            assert!(
                lengths
                    .iter()
                    .all(|length| 2 * (*length + SESSION_TIMEOUT) < SET),
                "{nemesis}: {lengths:?}"
            );
        }
    }
}
