//! The facts about a run that a reader of its report needs.

use std::time::SystemTime;

use super::Options;
use crate::peer::Peer;
use crate::scene::{MEMBERS, SESSION_TIMEOUT, SET, Scene, THINK};

/// The lines for the head of the report, including these versions.
pub(super) fn about(options: &Options, versions: Vec<(&str, String)>, scene: &Scene) -> Vec<(String, String)> {
    let list = |names: Vec<String>| names.join(", ");
    let version = scene.cluster.member(0).version().map_or("unknown".to_owned(), |version| version.to_string());
    let mut clients = vec![format!("{} of ours", options.clients)];
    let count = |peer: &Peer| scene.clients.iter().filter(|client| client.peer() == Some(*peer)).count();
    let peers = options.peers.iter().flat_map(|peer| peer.beside(&options.locks));
    clients.extend(peers.map(|peer| format!("{} of {peer}", count(&peer))));
    let mut lines = vec![
        ("date", today()),
        ("seed", options.seed.to_string()),
        ("seconds", options.duration.as_secs().to_string()),
        ("nemeses", list(options.nemeses.iter().map(ToString::to_string).collect())),
        ("clients", list(clients)),
        ("transport", options.transport.to_string()),
        ("caches", if options.caches { "one in each client" } else { "none" }.to_owned()),
        ("counters", if options.counters { "of each kind, in each client" } else { "none" }.to_owned()),
        ("services", if options.services { "an instance of each client" } else { "none" }.to_owned()),
        ("locks", list(options.locks.iter().map(ToString::to_string).collect())),
        ("variants", list(options.variants.iter().map(ToString::to_string).collect())),
        ("session timeout", format!("{SESSION_TIMEOUT:?}")),
        ("a set is used for", format!("{SET:?}")),
        ("between read and write", format!("up to {THINK:?}")),
        ("ZooKeeper", format!("{version}, {MEMBERS} servers")),
    ];
    lines.extend(versions);
    lines.into_iter().map(|(what, value)| (what.to_owned(), value)).collect()
}

/// The date in UTC, as in `2026-11-22`.
#[must_use]
pub fn today() -> String {
    let days = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs() / 86_400);
    let (year, month, day) = date(days);
    format!("{year}-{month:02}-{day:02}")
}

/// The date `days` days after 1970-01-01: year, month and day.
fn date(mut days: u64) -> (u64, usize, u64) {
    let is_leap = |year: u64| (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut lengths =
        [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31].into_iter().enumerate();
    // `days` is less than the length of the year, so a month is found.
    let month = lengths.find(|(_, length)| {
        let is_later = days >= *length;
        days -= if is_later { *length } else { 0 };
        !is_later
    });
    (year, month.map_or(12, |(month, _)| month + 1), days + 1)
}
