//! The machine, versions and arguments of a run.

use std::env;
use std::fs;
use std::process::{Command, Stdio};

use curator_jepsen::run::{curator_version, kazoo_version, locked_version, today, versions};

use crate::peer::{Peer, Prepared, variable};

const UNKNOWN: &str = "unknown";
/// The Go module whose version is reported.
const GO_MODULE: &str = "github.com/go-zookeeper/zk";

/// The facts about a run that a reader of its results needs. Takes a few tenths of a second,
/// because the function runs other programs.
pub(crate) fn about(peers: &[Peer], prepared: &Prepared) -> Vec<(String, String)> {
    let mut lines = vec![("date", today())];
    // The commit, and the versions of this project, `zookeeper-client` and Java.
    lines.extend(versions(&[]));
    lines.extend(["tokio", "async-io"].map(|name| (name, locked_version(name))));
    for peer in peers {
        match peer {
            Peer::CuratorShared if peers.contains(&Peer::Curator) => {}
            Peer::Curator | Peer::CuratorShared => {
                lines.push(("Curator", version_of(*peer, prepared, curator_version)));
            }
            Peer::Kazoo => lines.push(("kazoo", version_of(*peer, prepared, kazoo_version))),
            Peer::Go => {
                lines.push((
                    "go-zookeeper",
                    version_of(*peer, prepared, |program| {
                        go_version(&program.to_string_lossy())
                    }),
                ));
            }
            Peer::Ours | Peer::Native | Peer::ZookeeperClient => {}
        }
    }
    let cores =
        std::thread::available_parallelism().map_or(UNKNOWN.to_owned(), |cores| cores.to_string());
    lines.push(("kernel", first_line("/proc/sys/kernel/osrelease")));
    lines.push(("processor", value_of(&read("/proc/cpuinfo"), "model name")));
    lines.push(("cores", cores));
    lines.push(("memory", value_of(&read("/proc/meminfo"), "MemTotal")));
    lines.push(("load before", first_line("/proc/loadavg")));
    let profile = if cfg!(debug_assertions) {
        "dev: do not compare these results with others"
    } else {
        "release"
    };
    lines.push(("profile", profile.to_owned()));
    lines.push((
        "arguments",
        env::args().skip(1).collect::<Vec<_>>().join(" "),
    ));
    lines
        .into_iter()
        .map(|(what, value)| (what.to_owned(), value))
        .collect()
}

fn version_of(
    peer: Peer,
    prepared: &Prepared,
    version: impl Fn(&std::ffi::OsStr) -> Option<String>,
) -> String {
    variable(peer)
        .and_then(|variable| prepared.get(variable))
        .and_then(|value| version(value))
        .unwrap_or_else(|| UNKNOWN.to_owned())
}

fn go_version(program: &str) -> Option<String> {
    let output = Command::new("go")
        .args(["version", "-m", program])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    go_module(&String::from_utf8_lossy(&output.stdout))
}

/// The versions of the module and of Go, from the output of `go version -m`.
fn go_module(text: &str) -> Option<String> {
    let go = text.lines().next()?.rsplit(' ').next()?;
    let version = text
        .lines()
        .find(|line| line.split_whitespace().nth(1) == Some(GO_MODULE))?
        .split_whitespace()
        .nth(2)?;
    Some(format!("{version}, {go}"))
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn first_line(path: &str) -> String {
    read(path).lines().next().unwrap_or(UNKNOWN).to_owned()
}

/// The value of the first line with this name, as in `model name : a processor`.
fn value_of(text: &str, name: &str) -> String {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map_or(UNKNOWN, |(_, value)| value.trim())
        .to_owned()
}
