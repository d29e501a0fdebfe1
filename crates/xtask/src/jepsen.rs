//! Prepares and starts a run under faults.

use std::collections::BTreeSet;

use crate::{clients::Client, command, prepare};

/// The clients that can take part.
const PEERS: [Client; 2] = [Client::Curator, Client::Kazoo];

/// Prepares ZooKeeper and the requested peers, and runs `curator-jepsen run` with these arguments.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let mut cargo = command::cargo();
    cargo.args(command_line(arguments));
    // The help needs no preparation.
    if !arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        // All names are checked before anything is installed.
        let peers = peers(arguments)?;
        prepare::prepare()?;
        for peer in peers {
            cargo.envs(peer.prepare_and_report()?.variables);
        }
    }
    command::run(&mut cargo)
}

fn command_line(arguments: &[String]) -> Vec<String> {
    // With the profile of the tests, which optimizes the packages that the workers use.
    let cargo = ["run", "--quiet", "--profile", "test", "--package", "curator-jepsen", "--", "run"].map(str::to_owned);
    cargo.into_iter().chain(arguments.iter().cloned()).collect()
}

/// The values of `--peers`, which are separated by commas.
fn peers(arguments: &[String]) -> Result<BTreeSet<Client>, String> {
    let mut arguments = arguments.iter().map(String::as_str);
    let mut peers = BTreeSet::new();
    while let Some(argument) = arguments.next() {
        let list = match argument.strip_prefix("--peers") {
            Some("") => arguments.next(),
            Some(rest) => rest.strip_prefix('='),
            None => None,
        };
        for name in list.unwrap_or_default().split(',').filter(|name| !name.is_empty()) {
            let recipes = ["-caches", "-counters", "-services"];
            let client = recipes.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
            let peer = PEERS.into_iter().find(|peer| peer.name() == client).ok_or_else(|| {
                format!(
                    "--peers: \"{name}\" is not a peer; give some of `curator`, `kazoo`, `curator-caches`, `kazoo-caches`, \
                     `curator-counters`, `kazoo-counters` and `curator-services`, with commas between them"
                )
            })?;
            peers.insert(peer);
        }
    }
    Ok(peers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::words;

    #[test]
    fn arguments_are_passed_on() {
        let line = command_line(&words("--seconds 60 --nemesis all"));
        assert_eq!(
            line,
            words("run --quiet --profile test --package curator-jepsen -- run --seconds 60 --nemesis all")
        );
    }

    #[test]
    fn peers_are_named_in_either_spelling() {
        let peers = |line: &str| peers(&words(line)).unwrap().into_iter().collect::<Vec<_>>();
        assert_eq!(peers("--seconds 60"), []);
        assert_eq!(peers("--peers curator,kazoo --seed 1"), [Client::Curator, Client::Kazoo]);
        assert_eq!(peers("--seed 1 --peers=kazoo"), [Client::Kazoo]);
        assert_eq!(peers("--peers curator-caches,curator"), [Client::Curator]);
        // The program itself reports these errors.
        assert_eq!(peers("--peers"), []);
        assert_eq!(peers("--peersx kazoo"), []);
    }

    #[test]
    fn an_unknown_peer_is_refused_by_name() {
        assert!(peers(&words("--peers curator,etcd")).unwrap_err().contains("\"etcd\" is not a peer"));
    }
}
