//! The measured clients, and how their workers are started.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

use anyhow::anyhow;
use curator_jepsen::peer::{CURATOR_CLASSPATH, KAZOO_PYTHON, java};
pub(crate) use curator_results::bench::Peer;

/// The environment variable with the path of the worker for go-zookeeper.
pub(crate) const GO_BENCH: &str = "CURATOR_TEST_GO_BENCH";

/// The largest reply that Curator's client accepts. The names of 100,000 nodes exceed the default, a megabyte.
const LARGE_REPLIES: &str = "-Djute.maxbuffer=16777216";

/// The worker for kazoo.
const KAZOO_WORKER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/kazoo_bench.py");

/// The locations of the workers, by the names of their environment variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Prepared(BTreeMap<String, OsString>);

/// How the worker of a peer is prepared and started.
pub(crate) trait Worker {
    /// The environment variable with the location of the peer's worker; `None` if this program is the worker.
    fn variable(self) -> Option<&'static str>;

    /// The argument of `cargo xtask environment` that prepares the peer's worker.
    fn prepared_as(self) -> String;

    /// Whether its worker can run the baseline, [`Lock::Floor`](crate::protocol::Lock::Floor).
    fn has_floor(self) -> bool;

    /// Whether the peer has a just-in-time compiler, which needs a warm-up.
    fn compiles(self) -> bool;

    /// The command that starts its worker, without the connect string and the session timeout. `program` is this program.
    fn command(self, program: &Path, prepared: &Prepared) -> anyhow::Result<Command>;
}

impl Worker for Peer {
    fn variable(self) -> Option<&'static str> {
        match self {
            Self::Curator | Self::CuratorShared => Some(CURATOR_CLASSPATH),
            Self::Kazoo => Some(KAZOO_PYTHON),
            Self::Go => Some(GO_BENCH),
            Self::Ours | Self::Native | Self::ZookeeperClient => None,
        }
    }

    fn prepared_as(self) -> String {
        if self == Self::CuratorShared { Self::Curator } else { self }.to_string()
    }

    fn has_floor(self) -> bool {
        matches!(self, Self::Ours | Self::Native | Self::ZookeeperClient)
    }

    fn compiles(self) -> bool {
        matches!(self, Self::Curator | Self::CuratorShared)
    }

    fn command(self, program: &Path, prepared: &Prepared) -> anyhow::Result<Command> {
        let found = |variable| {
            let missing = || anyhow!("not prepared: {variable} is not set");
            prepared.0.get(variable).ok_or_else(missing)
        };
        let with = |program: &OsStr, arguments: &[&OsStr]| {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        };
        Ok(match self {
            Self::Ours | Self::Native | Self::ZookeeperClient => {
                with(program.as_os_str(), &["worker".as_ref(), self.to_string().as_ref()])
            }
            Self::Curator => {
                let mut command = with(&java(), &["-cp".as_ref(), found(CURATOR_CLASSPATH)?]);
                command.args([LARGE_REPLIES, "CuratorBench"]);
                command
            }
            Self::CuratorShared => {
                let mut command = with(&java(), &["-cp".as_ref(), found(CURATOR_CLASSPATH)?]);
                command.args(["-Dcurator-bench.shared=true", "CuratorBench"]);
                command
            }
            Self::Kazoo => with(found(KAZOO_PYTHON)?, &[KAZOO_WORKER.as_ref()]),
            Self::Go => with(found(GO_BENCH)?, &[]),
        })
    }
}

impl Prepared {
    pub(crate) fn get(&self, variable: &str) -> Option<&OsStr> {
        self.0.get(variable).map(OsString::as_os_str)
    }

    pub(crate) fn set(&mut self, variable: impl Into<String>, value: impl Into<OsString>) {
        self.0.insert(variable.into(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn peer_names_are_the_same_on_the_command_line_and_in_files() {
        for peer in Peer::ALL {
            assert_eq!(serde_json::to_string(&peer).unwrap(), format!("\"{peer}\""));
            let named = Peer::from_str(&peer.to_string(), false).ok();
            assert_eq!(named, Some(peer).filter(|peer| *peer != Peer::Ours));
        }
    }

    #[test]
    fn the_command_of_a_worker_uses_the_prepared_programs() {
        let mut prepared = Prepared::default();
        let line = |peer: Peer, prepared: &Prepared| {
            let command = peer.command(Path::new("/bench"), prepared)?;
            let words = [command.get_program()].into_iter().chain(command.get_args());
            anyhow::Ok(words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>())
        };
        assert_eq!(line(Peer::Ours, &prepared).unwrap(), ["/bench", "worker", "ours"]);
        let missing = line(Peer::Go, &prepared).unwrap_err().to_string();
        assert!(missing.contains("CURATOR_TEST_GO_BENCH is not set"), "{missing}");
        assert_eq!(Peer::Go.variable(), Some(GO_BENCH));
        prepared.set(GO_BENCH, "/go/bench");
        prepared.set(CURATOR_CLASSPATH, "/classes:/jars/*");
        assert_eq!(line(Peer::Go, &prepared).unwrap(), ["/go/bench"]);
        assert!(line(Peer::CuratorShared, &prepared).unwrap().contains(&"-Dcurator-bench.shared=true".to_owned()));
        assert_eq!(
            line(Peer::Curator, &prepared).unwrap()[1..],
            ["-cp", "/classes:/jars/*", LARGE_REPLIES, "CuratorBench"]
        );
    }
}
