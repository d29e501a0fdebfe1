//! Starts a run under faults, with all that it needs.

use std::{collections::BTreeSet, ffi::OsString};

use crate::{
    command,
    curator::{self, CLASSPATH_VARIABLE},
    kazoo::{self, PYTHON_VARIABLE},
    prepare, say,
};

/// Another client of ZooKeeper that can take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Peer {
    Curator,
    Kazoo,
}

/// Prepares ZooKeeper and the peers that are asked for, and runs `curator-jepsen run` with these arguments.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let mut cargo = command::cargo();
    cargo.args(command_line(arguments));
    // To read the help, nothing has to be fetched.
    if !arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        // Nothing is installed for a name that is none.
        let peers = peers(arguments)?;
        prepare::prepare()?;
        for peer in peers {
            let (variable, value) = prepared(peer)?;
            say(&format!("{peer:?}: {}", value.to_string_lossy()));
            cargo.env(variable, value);
        }
    }
    command::run(&mut cargo)
}

/// Prepares a peer. Returns the variable that tells of it.
fn prepared(peer: Peer) -> Result<(&'static str, OsString), String> {
    Ok(match peer {
        Peer::Curator => (CLASSPATH_VARIABLE, curator::prepare()?),
        Peer::Kazoo => (PYTHON_VARIABLE, kazoo::prepare()?.into_os_string()),
    })
}

fn command_line(arguments: &[String]) -> Vec<String> {
    let cargo = ["run", "--quiet", "--package", "curator-jepsen", "--", "run"].map(str::to_owned);
    cargo.into_iter().chain(arguments.iter().cloned()).collect()
}

/// The values of `--peers`, which are separated by commas.
fn peers(arguments: &[String]) -> Result<BTreeSet<Peer>, String> {
    let mut arguments = arguments.iter().map(String::as_str);
    let mut peers = BTreeSet::new();
    while let Some(argument) = arguments.next() {
        let list = match argument.strip_prefix("--peers") {
            Some("") => arguments.next(),
            Some(rest) => rest.strip_prefix('='),
            None => None,
        };
        for name in list.unwrap_or_default().split(',').filter(|name| !name.is_empty()) {
            peers.insert(match name {
                "curator" => Peer::Curator,
                "kazoo" => Peer::Kazoo,
                _ => {
                    return Err(format!(
                        "--peers: \"{name}\" is not a peer; give `curator`, `kazoo`, or both with a comma between them"
                    ));
                }
            });
        }
    }
    Ok(peers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn arguments_are_passed_on() {
        let line = command_line(&words("--seconds 60 --nemesis all"));
        assert_eq!(line, words("run --quiet --package curator-jepsen -- run --seconds 60 --nemesis all"));
    }

    #[test]
    fn peers_are_named_in_either_spelling() {
        let peers = |line: &str| peers(&words(line)).unwrap().into_iter().collect::<Vec<_>>();
        assert_eq!(peers("--seconds 60"), []);
        assert_eq!(peers("--peers curator,kazoo --seed 1"), [Peer::Curator, Peer::Kazoo]);
        assert_eq!(peers("--seed 1 --peers=kazoo"), [Peer::Kazoo]);
        // The program itself complains of these.
        assert_eq!(peers("--peers"), []);
        assert_eq!(peers("--peersx kazoo"), []);
    }

    #[test]
    fn what_is_no_peer_is_refused_by_name() {
        assert!(peers(&words("--peers curator,etcd")).unwrap_err().contains("\"etcd\" is not a peer"));
    }
}
