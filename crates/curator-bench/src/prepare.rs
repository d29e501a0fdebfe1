//! Finds the peers and the server distribution, or has `cargo xtask` fetch them.

use std::collections::BTreeMap;
use std::env;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use curator_test::Distribution;

use crate::peer::{Peer, Prepared, prepared_as, variable};

/// The workspace in which this program was built.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Reads the locations from the environment; for missing ones, runs `cargo xtask`, which finds or
/// fetches the peer. If that fails, the error is printed, and the other peers are measured
/// nevertheless.
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
        .args(peer.map(prepared_as));
    command
        .current_dir(Path::new(WORKSPACE))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let mut child = command.stdout(Stdio::piped()).spawn().context(FAILED)?;
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
