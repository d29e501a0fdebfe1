//! The measured clients: how their workers are found or fetched, and how they are started.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, anyhow, bail};
use curator_jepsen::peer::{CURATOR_CLASSPATH, KAZOO_PYTHON, java};
pub(crate) use curator_results::bench::Peer;
use curator_test::Distribution;

/// The environment variable with the path of the worker for go-zookeeper.
pub(crate) const GO_BENCH: &str = "CURATOR_TEST_GO_BENCH";

/// The largest reply that Curator's client accepts. The names of 100,000 nodes exceed the default,
/// a megabyte.
const LARGE_REPLIES: &str = "-Djute.maxbuffer=16777216";

/// The worker for kazoo.
const KAZOO_WORKER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/kazoo_bench.py");

/// The locations of the workers, by the names of their environment variables.
pub(crate) type Prepared = BTreeMap<String, OsString>;

/// The environment variable with the location of the peer's worker; `None` if this program is the
/// worker.
pub(crate) fn variable(peer: Peer) -> Option<&'static str> {
    match peer {
        Peer::Curator | Peer::CuratorShared => Some(CURATOR_CLASSPATH),
        Peer::Kazoo => Some(KAZOO_PYTHON),
        Peer::Go => Some(GO_BENCH),
        Peer::Ours | Peer::Native | Peer::ZookeeperClient => None,
    }
}

/// The argument of `cargo xtask environment` that prepares the peer's worker.
fn prepared_as(peer: Peer) -> String {
    if peer == Peer::CuratorShared {
        Peer::Curator
    } else {
        peer
    }
    .to_string()
}

/// Whether the peer's worker can run the baseline, [`Lock::Floor`](crate::protocol::Lock::Floor).
pub(crate) fn has_floor(peer: Peer) -> bool {
    variable(peer).is_none()
}

/// Whether the peer has a just-in-time compiler, which needs a warm-up.
pub(crate) fn compiles(peer: Peer) -> bool {
    variable(peer) == Some(CURATOR_CLASSPATH)
}

/// The command that starts the peer's worker, without the connect string and the session timeout.
/// `program` is the path of the bench's executable, which also contains the workers of the Rust
/// clients.
pub(crate) fn command(peer: Peer, program: &Path, prepared: &Prepared) -> anyhow::Result<Command> {
    let Some(variable) = variable(peer) else {
        let mut command = Command::new(program);
        command.args(["worker", &peer.to_string()]);
        return Ok(command);
    };
    let location = prepared
        .get(variable)
        .ok_or_else(|| anyhow!("not prepared: {variable} is not set"))?;
    let mut command = Command::new(if compiles(peer) {
        java()
    } else {
        location.clone()
    });
    match peer {
        Peer::Curator => command
            .arg("-cp")
            .arg(location)
            .args([LARGE_REPLIES, "CuratorBench"]),
        Peer::CuratorShared => command
            .arg("-cp")
            .arg(location)
            .args(["-Dcurator-bench.shared=true", "CuratorBench"]),
        Peer::Kazoo => command.arg(KAZOO_WORKER),
        Peer::Go | Peer::Ours | Peer::Native | Peer::ZookeeperClient => &mut command,
    };
    Ok(command)
}

/// The workspace this program was built in.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Reads the locations from the environment; for missing locations, runs `cargo xtask`, which finds
/// or fetches the peer. If that fails, the error is printed, and the other peers are measured
/// nevertheless. If `needs_servers` is set, also finds or fetches a ZooKeeper distribution.
///
/// # Errors
///
/// If no ZooKeeper distribution is found, and `cargo xtask` fails to fetch one.
pub(crate) fn prepare(peers: &[Peer], needs_servers: bool) -> anyhow::Result<Prepared> {
    let mut prepared = Prepared::default();
    // Several peers may be prepared under the same name.
    let mut missing = BTreeMap::new();
    for peer in peers {
        let Some(variable) = variable(*peer) else {
            continue;
        };
        match env::var_os(variable).filter(|value| !value.is_empty()) {
            Some(value) => drop(prepared.insert(variable.to_owned(), value)),
            None => drop(missing.insert(prepared_as(*peer), *peer)),
        }
    }
    if needs_servers && Distribution::find().is_err() {
        run_xtask(None, &mut prepared)?;
    }
    for peer in missing.into_values() {
        if let Err(error) = run_xtask(Some(peer), &mut prepared) {
            eprintln!("curator-bench: {peer} is not measured: {error:#}");
        }
    }
    Ok(prepared)
}

const FAILED: &str = "cannot run `cargo xtask environment`";

/// Runs `cargo xtask environment`, which is quick if everything is prepared.
fn run_xtask(peer: Option<Peer>, prepared: &mut Prepared) -> anyhow::Result<()> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["run", "--quiet", "--package", "xtask", "--", "environment"])
        .args(peer.map(prepared_as))
        .current_dir(Path::new(WORKSPACE))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let mut child = command.spawn().context(FAILED)?;
    let read = child.stdout.take().map_or(Ok(()), |output| {
        read_variables(BufReader::new(output), prepared)
    });
    let status = child.wait().context(FAILED)?;
    read.context(FAILED)?;
    if status.success() {
        return Ok(());
    }
    bail!("`cargo xtask environment` has ended with {status}")
}

/// Stores the variables, and prints the progress messages, as the preparation may take minutes.
fn read_variables(output: impl BufRead, prepared: &mut Prepared) -> io::Result<()> {
    for line in output.lines() {
        let line = line?;
        match assignment(&line) {
            Some((name, value)) => drop(prepared.insert(name.to_owned(), value.into())),
            None => eprintln!("{line}"),
        }
    }
    Ok(())
}

fn assignment(line: &str) -> Option<(&str, &str)> {
    line.split_once('=')
        .filter(|(name, _)| name.starts_with("CURATOR_TEST_") && !name.contains(' '))
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
            let command = command(peer, Path::new("/bench"), prepared)?;
            let words: Vec<_> = [command.get_program()]
                .into_iter()
                .chain(command.get_args())
                .map(|word| word.to_string_lossy().into_owned())
                .collect();
            anyhow::Ok(words)
        };
        assert_eq!(
            line(Peer::Ours, &prepared).unwrap(),
            ["/bench", "worker", "ours"]
        );
        let missing = line(Peer::Go, &prepared).unwrap_err().to_string();
        assert!(
            missing.contains("CURATOR_TEST_GO_BENCH is not set"),
            "{missing}"
        );
        assert_eq!(variable(Peer::Go), Some(GO_BENCH));
        prepared.insert(GO_BENCH.to_owned(), "/go/bench".into());
        prepared.insert(CURATOR_CLASSPATH.to_owned(), "/classes:/jars/*".into());
        assert_eq!(line(Peer::Go, &prepared).unwrap(), ["/go/bench"]);
        assert!(
            line(Peer::CuratorShared, &prepared)
                .unwrap()
                .contains(&"-Dcurator-bench.shared=true".to_owned())
        );
        assert_eq!(
            line(Peer::Curator, &prepared).unwrap()[1..],
            ["-cp", "/classes:/jars/*", LARGE_REPLIES, "CuratorBench"]
        );
    }
}
