//! The facts about a run that a reader of its report needs, with the versions of everything that
//! takes part.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

use super::Options;
use crate::peer::{self, Peer};
use crate::scene::{MEMBERS, SESSION_TIMEOUT, SET, Scene, THINK};

/// The lines for the header of the report, including these versions.
pub(super) async fn about(
    options: &Options,
    versions: Vec<(&str, String)>,
    scene: &Scene,
) -> Vec<(String, String)> {
    let cast = &options.cast;
    let locks: BTreeSet<_> = cast.parts.iter().map(|part| part.lock).collect();
    let variants: BTreeSet<_> = cast.parts.iter().map(|part| part.variant).collect();
    let list = |names: Vec<String>| names.join(", ");
    let cluster = scene.cluster.read().await;
    let version = cluster
        .member(0)
        .version()
        .map_or("unknown".to_owned(), |version| version.to_string());
    let mut clients = vec![format!("{} of ours", cast.clients)];
    clients.extend(cast.peers().map(|peer| {
        let of_peer = scene
            .clients
            .iter()
            .filter(|client| client.peer() == Some(peer));
        format!("{} of {peer}", of_peer.count())
    }));
    let mut lines = vec![
        ("date", today()),
        ("seed", cast.seed.to_string()),
        ("seconds", options.duration.as_secs().to_string()),
        (
            "nemeses",
            list(options.nemeses.iter().map(ToString::to_string).collect()),
        ),
        ("clients", list(clients)),
        ("transport", cast.transport.to_string()),
        (
            "caches",
            if cast.caches {
                "one in each client"
            } else {
                "none"
            }
            .to_owned(),
        ),
        (
            "counters",
            if cast.counters {
                "of each kind, in each client"
            } else {
                "none"
            }
            .to_owned(),
        ),
        (
            "services",
            if cast.services {
                "an instance of each client"
            } else {
                "none"
            }
            .to_owned(),
        ),
        (
            "shards",
            if cast.shards {
                "a part in each client"
            } else {
                "none"
            }
            .to_owned(),
        ),
        (
            "locks",
            list(locks.iter().map(ToString::to_string).collect()),
        ),
        (
            "variants",
            list(variants.iter().map(ToString::to_string).collect()),
        ),
        ("session timeout", format!("{SESSION_TIMEOUT:?}")),
        ("a set is used for", format!("{SET:?}")),
        ("between read and write", format!("up to {THINK:?}")),
        ("ZooKeeper", format!("{version}, {MEMBERS} servers")),
    ];
    lines.extend(versions);
    lines
        .into_iter()
        .map(|(what, value)| (what.to_owned(), value))
        .collect()
}

/// The text for a version that cannot be determined.
const UNKNOWN: &str = "unknown";

/// The workspace this program was built in. It may no longer exist.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Determines the versions, and returns them with their names. Must be called before a run, because
/// the workspace may change during the run. Blocks for a few tenths of a second, because it runs
/// other programs.
#[must_use]
pub fn versions(peers: &[Peer]) -> Vec<(&'static str, String)> {
    let mut versions = vec![("commit", commit(Path::new(WORKSPACE)))];
    versions
        .extend(["curator-recipes", "zookeeper-client"].map(|name| (name, locked_version(name))));
    versions.push((
        "Java",
        version_line(Command::new(peer::java()).arg("-version"))
            .unwrap_or_else(|| UNKNOWN.to_owned()),
    ));
    for peer in peers {
        let (name, version) = match peer {
            Peer::Curator
            | Peer::CuratorLeaders
            | Peer::CuratorCaches
            | Peer::CuratorCounters
            | Peer::CuratorServices => (
                "Curator",
                env::var_os(peer::CURATOR_CLASSPATH)
                    .and_then(|classpath| curator_version(&classpath)),
            ),
            Peer::Kazoo | Peer::KazooCaches | Peer::KazooCounters => (
                "kazoo",
                env::var_os(peer::KAZOO_PYTHON).and_then(|python| kazoo_version(&python)),
            ),
        };
        versions.push((name, version.unwrap_or_else(|| UNKNOWN.to_owned())));
    }
    versions
}

/// The date in UTC, as in `2026-11-22`.
#[must_use]
pub fn today() -> String {
    output(Command::new("date").args(["-u", "+%F"])).unwrap_or_else(|| UNKNOWN.to_owned())
}

/// The version of a crate in this workspace's lock file.
#[must_use]
pub fn locked_version(name: &str) -> String {
    let lock_file = fs::read_to_string(Path::new(WORKSPACE).join("Cargo.lock")).unwrap_or_default();
    locked(&lock_file, name).unwrap_or(UNKNOWN).to_owned()
}

/// The commit of a work tree, with `+` if there are uncommitted changes.
fn commit(tree: &Path) -> String {
    // In a git hook, `GIT_DIR` would point to another repository.
    let git = |arguments: &[&str]| {
        output(
            Command::new("git")
                .env_remove("GIT_DIR")
                .arg("-C")
                .arg(tree)
                .args(arguments),
        )
    };
    match (
        git(&["rev-parse", "--short", "HEAD"]),
        git(&["status", "--porcelain"]),
    ) {
        (Some(commit), Some(changes)) if !commit.is_empty() && changes.is_empty() => commit,
        (Some(commit), _) if !commit.is_empty() => commit + "+",
        _ => UNKNOWN.to_owned(),
    }
}

/// The version of a crate in a cargo lock file. If the file has several versions, the first one.
fn locked<'a>(lock_file: &'a str, name: &str) -> Option<&'a str> {
    let name = format!("name = \"{name}\"");
    lock_file
        .lines()
        .skip_while(|line| *line != name)
        .nth(1)?
        .strip_prefix("version = \"")?
        .strip_suffix('"')
}

/// The version of Curator in a class path, from the names of the jars.
#[must_use]
pub fn curator_version(classpath: &OsStr) -> Option<String> {
    env::split_paths(classpath)
        .flat_map(|entry| match entry.file_name() {
            // The entry stands for all jars of its directory.
            Some(name) if name == "*" => entry
                .parent()
                .and_then(|directory| directory.read_dir().ok())
                .into_iter()
                .flatten()
                .flatten()
                .map(|file| file.path())
                .collect(),
            _ => vec![entry],
        })
        .find_map(|jar| {
            let version = jar
                .file_name()?
                .to_string_lossy()
                .strip_prefix("curator-recipes-")?
                .strip_suffix(".jar")?
                .to_owned();
            Some(version)
        })
}

/// The versions of kazoo and of Python. Runs this Python.
#[must_use]
pub fn kazoo_version(python: &OsStr) -> Option<String> {
    let script = "import platform, kazoo.version as k; print(k.__version__ + ', Python ' + platform.python_version())";
    output(Command::new(python).args(["-c", script]))
}

/// The first line with `version` that a program prints to standard output or standard error, if it
/// succeeds. Java prints more than one line.
fn version_line(program: &mut Command) -> Option<String> {
    let output = program
        .stdin(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat())
        .lines()
        .find(|line| line.contains("version"))
        .map(str::to_owned)
}

/// The standard output of a program, if it succeeds.
fn output(program: &mut Command) -> Option<String> {
    let output = program
        .stdin(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
