//! The nemeses, by their names: each injects a fault, and heals it.
//!
//! Each nemesis injects one kind of fault for one to two session timeouts, unless its description
//! states otherwise. The seed determines its actions and its victims. A *strike* is one activation
//! of a nemesis, or of two nemeses at once. The word "nemesis" is Jepsen's.

mod strike;

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use fastrand::Rng;

pub use self::strike::REQUESTS;
pub(crate) use self::strike::Strike;
use crate::scene::SESSION_TIMEOUT;
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
    /// Replaces a server: adds a new one to the ensemble, and removes another one, which is stopped
    /// later. Clients follow the ensemble past their proxies, where faults of the network do not
    /// strike them. Not in `all`: in such an ensemble, servers cannot be cut off from each other.
    Reconfig,
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
    /// All nemeses that a run must survive, and that strike the same ensemble: all but
    /// [`ClockRate`](Self::ClockRate) and [`Reconfig`](Self::Reconfig).
    pub fn all() -> impl Iterator<Item = Self> {
        Self::value_variants()
            .iter()
            .copied()
            .filter(|nemesis| !matches!(nemesis, Self::ClockRate | Self::Reconfig))
    }

    /// Whether the nemesis cuts servers off from each other.
    pub(crate) fn isolates_servers(self) -> bool {
        matches!(self, Self::IsolateFollower | Self::IsolateLeader)
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
            | Self::IsolateLeader
            | Self::Reconfig => &[Target::Servers],
            Self::PauseClient | Self::PauseClientLong | Self::KillClient => &[Target::Clients],
            Self::CutClient
            | Self::LoseRequests
            | Self::LoseAnswers
            | Self::Flapping
            | Self::SwallowAnswers => &[Target::Network],
            Self::DeleteNodes => &[Target::Nodes],
            // `ClockRate` also restarts the clients.
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
            Self::ClockRate => strike::SLOW_CLOCKS,
            _ => 1.0 + random.f64(),
        };
        SESSION_TIMEOUT.mul_f64(factor)
    }
}

display_name!(Nemesis);

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

    /// If sets were replaced sooner, a client that was cut off would overwrite a set that no
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
