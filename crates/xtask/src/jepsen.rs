//! Starts a run under faults, with all that it needs.

use std::ffi::OsString;

use crate::{
    command,
    curator::{self, CLASSPATH_VARIABLE},
    kazoo::{self, PYTHON_VARIABLE},
    prepare, say,
};

/// Prepares ZooKeeper and the peers that are asked for, and runs `curator-jepsen run` with these arguments.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let mut cargo = command::cargo();
    cargo.args(command_line(arguments));
    // To read the help, nothing has to be fetched.
    if !arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        prepare::prepare()?;
        for peer in peers(arguments) {
            let (variable, value) = prepared(peer)?;
            cargo.env(variable, value);
        }
    }
    command::run(&mut cargo)
}

/// Prepares a peer. Returns the variable that tells of it.
fn prepared(peer: &str) -> Result<(&'static str, OsString), String> {
    let (variable, value) = match peer {
        "kazoo" => (PYTHON_VARIABLE, kazoo::prepare()?.into_os_string()),
        "curator" => (CLASSPATH_VARIABLE, curator::prepare()?),
        _ => {
            return Err(format!(
                "--peers: \"{peer}\" is not a peer; give `curator`, `kazoo`, or both with a comma between them"
            ));
        }
    };
    say(&format!("{peer}: {}", value.to_string_lossy()));
    Ok((variable, value))
}

fn command_line(arguments: &[String]) -> Vec<String> {
    let cargo = ["run", "--quiet", "--package", "curator-jepsen", "--", "run"].map(str::to_owned);
    cargo.into_iter().chain(arguments.iter().cloned()).collect()
}

/// The values of `--peers`, which are separated by commas.
fn peers(arguments: &[String]) -> Vec<&str> {
    let mut arguments = arguments.iter().map(String::as_str);
    let mut peers = Vec::new();
    while let Some(argument) = arguments.next() {
        let list = match argument.strip_prefix("--peers") {
            Some("") => arguments.next(),
            Some(rest) => rest.strip_prefix('='),
            None => None,
        };
        peers.extend(list.unwrap_or_default().split(',').filter(|peer| !peer.is_empty()));
    }
    peers
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
        assert_eq!(peers(&words("--seconds 60")), [""; 0]);
        assert_eq!(peers(&words("--peers curator,kazoo --seed 1")), ["curator", "kazoo"]);
        assert_eq!(peers(&words("--seed 1 --peers=kazoo")), ["kazoo"]);
        // The program itself complains of these.
        assert_eq!(peers(&words("--peers")), [""; 0]);
        assert_eq!(peers(&words("--peersx kazoo")), [""; 0]);
    }

    #[test]
    fn what_is_no_peer_is_refused_by_name() {
        assert!(prepared("etcd").unwrap_err().contains("\"etcd\" is not a peer"));
    }
}
