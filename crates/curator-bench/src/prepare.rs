//! Makes sure that the peers and the servers are there.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use curator_test::{Distribution, ServerKind};

use crate::error::BenchError;
use crate::peer::{Peer, Prepared};

/// The workspace that this program was built in.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// What the environment names, and else what `cargo xtask` finds or fetches. A peer that cannot be had is told of by the
/// error that follows from that; it does not keep the others from being measured.
pub(crate) fn prepare(peers: &[Peer], kind: ServerKind) -> Result<Prepared, BenchError> {
    let mut prepared = Prepared::default();
    let mut missing = Vec::new();
    for peer in peers {
        let Some(variable) = peer.variable() else { continue };
        match env::var_os(variable) {
            Some(value) => prepared.set(variable, value),
            None => missing.push(*peer),
        }
    }
    if kind == ServerKind::Real && Distribution::find().is_err() {
        ask(&[], &mut prepared)?;
    }
    for peer in missing {
        if let Err(error) = ask(&[peer], &mut prepared) {
            eprintln!("curator-bench: {peer} is not measured: {error}");
        }
    }
    Ok(prepared)
}

/// Quick if everything has been prepared before.
fn ask(peers: &[Peer], prepared: &mut Prepared) -> Result<(), BenchError> {
    let names = peers.iter().map(ToString::to_string);
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--package", "xtask", "--", "environment"]).args(names);
    command.current_dir(Path::new(WORKSPACE)).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().map_err(BenchError::io("run `cargo xtask environment`"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    for (variable, value) in variables(&text) {
        prepared.set(variable, value);
    }
    if output.status.success() {
        return Ok(());
    }
    Err(BenchError::NotPrepared(format!("`cargo xtask environment` has ended with {}", output.status)))
}

/// The variables among the lines that say what is being done.
fn variables(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().filter_map(|line| line.split_once('='));
    lines.filter(|(name, _)| name.starts_with("CURATOR_TEST_") && !name.contains(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_between_other_lines() {
        let text = "xtask: fetching a=b\nPATH=/bin\nCURATOR_TEST_GO_BENCH=/target/go/bench\nCURATOR_TEST_X=a=b\nCURATOR_TEST_ y=1\n";
        let found: Vec<_> = variables(text).collect();
        assert_eq!(found, [("CURATOR_TEST_GO_BENCH", "/target/go/bench"), ("CURATOR_TEST_X", "a=b")]);
    }
}
