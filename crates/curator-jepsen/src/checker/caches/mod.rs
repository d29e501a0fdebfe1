//! Compares what caches have reported with the clients' writes and with the nodes on the servers.
//!
//! | [`Kind`] | What is found |
//! |---|---|
//! | `Replay` | an event of a stream that is inconsistent with the events before it: `stream.rs` |
//! | `Backwards` | a state that is older than one reported before: `stream.rs` |
//! | `Differs` | while all clients pause their writes, the content of a cache differs from the nodes of the servers: `content.rs` |
//! | `StreamDiffers` | while all clients pause their writes, the replay of a stream differs from the content of its cache: `stream.rs` |
//! | `Stale` | a cache is not current long after an outage, or its stream has not reported that it is: `stream.rs` |
//! | `NotCaughtUp` | the snapshot of `caught_up` lacks an earlier write: `content.rs` |
//!
//! After each strike, once all clients are connected again, the conductor makes them pause their
//! writes, and requests the content of their caches; then it reads the nodes from the servers. A
//! stream belongs to one *life* of a process: each restart after a kill begins a new life.

mod content;
mod stream;

use std::collections::{BTreeMap, BTreeSet};

use self::content::{Snapshot, Tree, Writes, by_path, missing_writes};
use self::stream::{STALE, Stream};
use super::findings::{CacheAftermath, CacheTally, Kind, Violation, is_ours};
use super::strikes::Strike;
use crate::history::CacheSeen;

/// The number of a process, its life, and the cache or the consumer in the process.
type StreamKey = (u32, u32, String);

/// The events of all caches.
#[derive(Debug, Default)]
pub(super) struct Caches {
    streams: BTreeMap<StreamKey, Stream>,
    writes: Writes,
    trees: BTreeMap<u32, Tree>,
    found: Vec<Found>,
}

/// A violation by our cache, or by a peer's.
#[derive(Debug)]
struct Found {
    kind: Kind,
    at: u64,
    key: StreamKey,
    /// The number of affected nodes.
    nodes: usize,
    detail: String,
}

impl Caches {
    /// Records an event. Events of one process arrive in their order.
    pub(super) fn see(
        &mut self,
        at: u64,
        (worker, life): (u32, u32),
        part: &str,
        seen: &CacheSeen,
    ) {
        let key = (worker, life, part.to_owned());
        match seen {
            CacheSeen::Writing { .. } | CacheSeen::Wrote { .. } => {
                self.writes.see(at, (worker, life), seen);
            }
            CacheSeen::Quiet { .. } | CacheSeen::NotCaughtUp { .. } => {}
            CacheSeen::Tree { look, asked, nodes } => {
                self.trees.entry(*look).or_default().read =
                    Some((at, asked.clone(), by_path(nodes)));
            }
            CacheSeen::Snapshot {
                asked,
                look,
                is_current,
                nodes,
            } => {
                let snapshot = Snapshot {
                    asked: *asked,
                    at,
                    is_current: *is_current,
                    nodes: by_path(nodes),
                };
                let stream = self.streams.entry(key.clone()).or_default();
                if let Some(look) = look {
                    self.found.extend(stream.check_snapshot(&snapshot, &key));
                    self.trees
                        .entry(*look)
                        .or_default()
                        .snapshots
                        .insert(key, snapshot.nodes.clone());
                }
                stream.snapshots.push(snapshot);
            }
            _ => {
                let stream = self.streams.entry(key.clone()).or_default();
                self.found.extend(stream.see(at, &key, seen));
            }
        }
    }

    /// Appends violations to `found`, and returns the numbers of each strike, and of the time
    /// before the first strike.
    pub(super) fn finish(
        mut self,
        strikes: &[Strike],
        found: &mut Vec<Violation>,
    ) -> Vec<CacheAftermath> {
        self.writes.sort();
        // Only for our caches, as peers have no `caught_up`.
        for (key, stream) in self
            .streams
            .iter()
            .filter(|((_, _, part), _)| is_ours(part))
        {
            for (at, detail) in missing_writes(&stream.snapshots, &self.writes) {
                self.found.push(Found {
                    kind: Kind::NotCaughtUp,
                    at,
                    key: key.clone(),
                    nodes: 1,
                    detail,
                });
            }
        }
        for (key, stream) in &self.streams {
            self.found.extend(stream.currency.stale().map(|at| Found {
                kind: Kind::Stale,
                at,
                key: key.clone(),
                nodes: 1,
                detail: STALE.to_owned(),
            }));
        }
        let keys: BTreeSet<&StreamKey> = self.streams.keys().collect();
        let looks: Vec<_> = self
            .trees
            .values()
            .flat_map(|tree| tree.compare(&keys))
            .collect();
        let answered: Vec<_> = looks
            .iter()
            .filter(|(_, _, found)| {
                found
                    .as_ref()
                    .is_none_or(|found| found.kind == Kind::Differs)
            })
            .map(|(at, part, _)| (*at, part.clone()))
            .collect();
        self.found
            .extend(looks.into_iter().filter_map(|(_, _, found)| found));
        found.extend(self.found.iter().map(Found::violation));
        let parts: BTreeSet<&str> = self
            .streams
            .keys()
            .map(|(_, _, part)| part.as_str())
            .collect();
        let before = Strike {
            nemesis: "none".to_owned(),
            from: 0,
            to: strikes.first().map_or(u64::MAX, |strike| strike.from),
        };
        [&before]
            .into_iter()
            .chain(strikes)
            .flat_map(|strike| parts.iter().map(move |part| (strike, *part)))
            .map(|(strike, part)| self.aftermath(strike, part, &answered))
            .collect()
    }

    fn aftermath(&self, strike: &Strike, part: &str, answered: &[(u64, String)]) -> CacheAftermath {
        let of_part = || {
            self.streams
                .iter()
                .filter(|((_, _, of), _)| of == part)
                .map(|(_, stream)| stream)
        };
        let within = |times: &[u64]| times.iter().filter(|at| strike.lasts_at(**at)).count();
        let found = |kind: Kind| {
            self.found
                .iter()
                .filter(move |it| it.kind == kind && it.key.2 == part && strike.lasts_at(it.at))
        };
        let tally = CacheTally {
            events: of_part().map(|stream| within(&stream.events)).sum(),
            resyncs: of_part().map(|stream| within(&stream.resyncs)).sum(),
            looks: answered
                .iter()
                .filter(|(at, of)| of == part && strike.lasts_at(*at))
                .count(),
            differing: found(Kind::Differs).count(),
            nodes: found(Kind::Differs).map(|it| it.nodes).sum(),
            streams: found(Kind::StreamDiffers).count(),
            silent: found(Kind::Stale).count(),
            backwards: found(Kind::Backwards).count(),
            misfits: found(Kind::Replay).count(),
        };
        CacheAftermath {
            nemesis: strike.nemesis.clone(),
            part: part.to_owned(),
            tally,
        }
    }
}

impl Found {
    fn violation(&self) -> Violation {
        let (worker, life, part) = &self.key;
        Violation {
            kind: self.kind,
            part: part.clone(),
            at: self.at,
            holds: Vec::new(),
            detail: format!("{part} of w{worker}.{life}: {}", self.detail),
        }
    }
}
