//! Prepares and starts long runs: under faults, in simulated time, and the soak.

use std::path::PathBuf;

use clap::value_parser;

use crate::{
    clients::Client,
    command, plan, prepare,
    server_kind::{SERVER_VARIABLE, ServerKind},
    targets::SOAK,
};

/// Prepares ZooKeeper and the requested peers, and runs `curator-jepsen run` with these arguments.
pub(crate) fn jepsen(arguments: &[String]) -> Result<(), String> {
    let mut cargo = command::cargo();
    // Uses the profile of the tests, which optimizes the packages that the workers use.
    cargo
        .args([
            "run",
            "--quiet",
            "--profile",
            "test",
            "--package",
            "curator-jepsen",
            "--",
            "run",
        ])
        .args(arguments);
    // The help needs no preparation.
    if !arguments
        .iter()
        .any(|argument| argument == "--help" || argument == "-h")
    {
        prepare::prepare()?;
        for client in Client::ALL
            .into_iter()
            .filter(|client| names_peer(arguments, client.name()))
        {
            cargo.envs(client.prepare_and_report()?.variables);
        }
    }
    command::run(&mut cargo)
}

/// Whether `--peers` names a peer of this client. The program itself reports unknown names.
fn names_peer(arguments: &[String], client: &str) -> bool {
    let after = arguments
        .iter()
        .zip(arguments.iter().skip(1))
        .filter(|(option, _)| *option == "--peers");
    let joined = arguments
        .iter()
        .filter_map(|argument| argument.strip_prefix("--peers="));
    after
        .map(|(_, list)| list.as_str())
        .chain(joined)
        .any(|list| {
            list.split(',')
                .any(|name| name.split('-').next() == Some(client))
        })
}

/// Runs `curator-simulation` with these arguments. Needs no preparation.
pub(crate) fn simulate(arguments: &[String]) -> Result<(), String> {
    // The build is optimized, because a search of some thousand schedules takes much longer than
    // the build.
    let cargo = [
        "run",
        "--quiet",
        "--profile",
        "simulation",
        "--package",
        "curator-simulation",
        "--",
    ];
    command::run(command::cargo().args(cargo).args(arguments))
}

/// The arguments of the soak.
#[derive(Debug, clap::Args)]
pub(crate) struct Soak {
    /// The duration
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u64).range(1..=525_600))]
    minutes: u64,
    /// The seed of the faults and of the work; by default a new one in each run
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Also write the table to this file, in Markdown
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
}

/// Runs the soak, on a real server unless the environment selects a kind.
pub(crate) fn soak(arguments: Soak) -> Result<(), String> {
    let kind = plan::chosen_kind()?.unwrap_or(ServerKind::Real);
    if kind == ServerKind::Real {
        prepare::prepare()?;
    }
    let mut cargo = command::cargo();
    cargo.args([
        "test",
        "--package",
        "curator-recipes",
        "--test",
        SOAK,
        "--",
        "--nocapture",
    ]);
    cargo
        .env(SERVER_VARIABLE, kind.name())
        .env("SOAK_SECONDS", (arguments.minutes * 60).to_string());
    cargo.envs(arguments.seed.map(|seed| ("SOAK_SEED", seed.to_string())));
    // Cargo runs the tests in the directory of their package.
    let table = arguments
        .table
        .map(std::path::absolute)
        .transpose()
        .map_err(|e| format!("--table: {e}"))?;
    cargo.envs(table.map(|table| ("SOAK_TABLE", table)));
    command::run(&mut cargo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_named_in_either_spelling() {
        let names = |line: &str, client| {
            names_peer(
                &line.split(' ').map(str::to_owned).collect::<Vec<_>>(),
                client,
            )
        };
        assert!(
            names("--peers curator,kazoo --seed 1", "kazoo")
                && names("--seed 1 --peers=curator-caches", "curator")
        );
        assert!(
            !names("--peers curator", "kazoo") && !names("--directory curator --peers", "curator")
        );
    }
}
