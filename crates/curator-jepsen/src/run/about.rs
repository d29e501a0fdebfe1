//! The facts about a run that a reader of its report needs.

use std::collections::BTreeSet;

use super::Options;
use super::versions::today;
use crate::peer::Peer;
use crate::scene::{MEMBERS, SESSION_TIMEOUT, SET, Scene, THINK};

/// The lines for the head of the report, including these versions.
pub(super) fn about(
    options: &Options,
    versions: Vec<(&str, String)>,
    scene: &Scene,
) -> Vec<(String, String)> {
    let cast = &options.cast;
    let locks: BTreeSet<_> = cast.parts.iter().map(|part| part.lock).collect();
    let variants: BTreeSet<_> = cast.parts.iter().map(|part| part.variant).collect();
    let list = |names: Vec<String>| names.join(", ");
    let version = scene
        .cluster
        .member(0)
        .version()
        .map_or("unknown".to_owned(), |version| version.to_string());
    let mut clients = vec![format!("{} of ours", cast.clients)];
    let count = |peer: &Peer| {
        scene
            .clients
            .iter()
            .filter(|client| client.peer() == Some(*peer))
            .count()
    };
    clients.extend(
        cast.peers()
            .map(|peer| format!("{} of {peer}", count(&peer))),
    );
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
