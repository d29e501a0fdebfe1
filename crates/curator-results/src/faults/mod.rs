//! The results of runs under faults. [`Summary`] contains the numbers of several runs, and makes
//! the tables.

mod leaders;
mod runs;
mod tables;
mod tally;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::leaders::Terms;
pub use self::runs::{Lost, Run};
pub use self::tally::{CacheTally, CounterTally, ServiceTally, Tally};
use crate::Table;

/// The file `docs/faults/results.json`: the published runs, by section of the page.
pub type Results = BTreeMap<String, Summary>;

/// Numbers by nemesis, and then by kind of participant.
pub type ByNemesis<T> = BTreeMap<String, BTreeMap<String, T>>;

/// The numbers of several runs, added up except in `runs`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// The facts and the outcome of each run.
    pub runs: Vec<Run>,
    /// The acquires and writes of each part.
    pub parts: BTreeMap<String, Tally>,
    /// The recovery after each nemesis.
    pub recovery: BTreeMap<String, Recoveries>,
    /// The effect of each nemesis on the leaders.
    pub leaders: ByNemesis<Terms>,
    /// The effect of each nemesis on the caches.
    pub caches: ByNemesis<CacheTally>,
    /// The numbers of each counter.
    pub counters: BTreeMap<String, CounterTally>,
    /// The numbers of each service.
    pub services: BTreeMap<String, ServiceTally>,
}

/// The recovery after all strikes of one nemesis.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Recoveries {
    /// The number of strikes.
    pub times: usize,
    /// The time until the first acquire of any of our clients.
    pub first_acquire: Times,
    /// The time until every part of each of our clients had acquired its lock.
    pub all_clients: Times,
    /// The number of our clients with a part that did not acquire its lock within a minute.
    #[serde(rename = "never")]
    pub not_recovered: usize,
    /// The number of lock nodes, one session timeout later, whose session does not belong to a
    /// running client.
    pub nodes_left: usize,
    /// The number of watches of such sessions; `None` if a server did not reply.
    pub watches_left: Option<usize>,
}

/// The median and the worst of several times, in seconds. `None` means never, for example that a
/// client did not recover, and is worse than any time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// The median. For an even number of times, it is the lower of the two in the middle.
    pub median: Option<f64>,
    /// The worst.
    pub worst: Option<f64>,
}

impl Times {
    /// The median and the worst of these times; both are `None` if there are no times.
    pub fn of(times: impl IntoIterator<Item = Option<Duration>>) -> Self {
        let mut times: Vec<_> = times.into_iter().collect();
        times.sort_by_key(|time| (time.is_none(), *time));
        let seconds = |time: Option<&Option<Duration>>| {
            time.copied().flatten().map(|time| time.as_secs_f64())
        };
        Self {
            median: seconds(times.get((times.len().max(1) - 1) / 2)),
            worst: seconds(times.last()),
        }
    }
}

impl Summary {
    /// All tables that have rows, each with its name on the pages.
    #[must_use]
    pub fn tables(&self) -> Vec<(&'static str, Table)> {
        let [overlaps, leaderless] = leaders::tables(&self.leaders);
        let parts = tables::parts(&self.parts).without("held without its node", "0");
        let services = tables::services(&self.services)
            .without("longest after the end of its session", "0.000000 s");
        let mut tables = vec![
            ("about", runs::about(&self.runs)),
            ("runs", runs::table(&self.runs)),
            ("parts", parts),
            ("recovery", tables::recovery(&self.recovery)),
            ("overlaps", overlaps),
            ("leaderless", leaderless),
            ("caches", tables::caches(&self.caches)),
            ("counters", tables::counters(&self.counters)),
            ("services", services),
        ];
        tables.retain(|(_, table)| !table.is_empty());
        tables
    }

    /// All tables, in Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        self.tables()
            .iter()
            .map(|(_, table)| table.markdown())
            .collect::<Vec<_>>()
            .join("\n")
    }
}

fn seconds(time: Option<f64>) -> String {
    time.map_or("never".to_owned(), |time| format!("{time:.2} s"))
}

/// The count, or `?` if it is unknown.
fn optional_count(number: Option<usize>) -> String {
    number.map_or("?".to_owned(), |number| number.to_string())
}
