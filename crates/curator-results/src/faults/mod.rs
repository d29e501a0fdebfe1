//! The results of runs under faults. [`Summary`] contains the numbers of several runs, and builds
//! their tables.
//!
//! In JSON, some numbers are omitted if they are 0, because the oldest results do not contain them.

mod runs;
mod tables;

pub use self::runs::{Lost, Run};

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

use serde::{Deserialize, Serialize};

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
    /// The number of lock nodes with an orphaned session: from one session timeout after the
    /// nemesis, no running client has reported the session for another session timeout and a little
    /// more.
    pub nodes_left: usize,
    /// The number of watches of orphaned sessions, except watches on children; `None` if a server
    /// did not reply.
    pub watches_left: Option<usize>,
}

/// The terms of the leaders of one kind, in all variants.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// Terms that have begun.
    pub terms: u64,
    /// Terms that began while another leader certainly led.
    pub overlaps: u64,
    /// Terms that began while another leader had not yet noticed that an operator had deleted its
    /// node.
    pub without_node: u64,
    /// The longest interval without a certain leader during a strike: the median and the maximum of
    /// all strikes.
    pub leaderless: Times,
}

/// The median and the worst of several times, in seconds. `None` means never, for example that a
/// client did not recover, and is worse than any time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// The median. For an even number of times, it is the lower of the two middle values.
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
        let [overlaps, leaderless] = tables::leaders(&self.leaders);
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

/// Defines a struct whose fields are added up.
macro_rules! added_up {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

added_up! {
    /// The numbers of one part of the work.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Tally {
        /// Acquires that returned a guard, without re-entries and downgrades.
        pub acquires: u64,
        /// Re-entries.
        #[serde(skip_serializing_if = "is_zero")]
        pub reentries: u64,
        /// Acquires that returned no guard.
        #[serde(skip_serializing_if = "is_zero")]
        pub not_acquired: u64,
        /// Writes that the store acknowledged.
        pub acknowledged: u64,
        /// Acknowledged writes that are not in the final set.
        pub lost: u64,
        /// Lost writes explained by a late write of a process that the run had stopped. This field
        /// and the next two are counted for the guarded variant only.
        pub stopped: u64,
        /// Lost writes explained by a late write of a process that was not scheduled on time,
        /// although the run had not stopped it.
        pub late: u64,
        /// Lost writes explained by a write after an operator's delete of the lock's node.
        pub deleted: u64,
        /// Writes that the store or the lock's transaction refused.
        pub refused: u64,
        /// Writes that the client did not send, because it had noticed that its lock was lost.
        pub not_sent: u64,
        /// Writes without a reply.
        pub unknown: u64,
        /// Reads that were compared with an earlier read of the same set under the same hold, while
        /// the hold was certainly valid.
        #[serde(skip_serializing_if = "is_zero")]
        pub reread: u64,
        /// Rereads that differed from the earlier read.
        pub changed: u64,
        /// Holds that were found lost before their guards' `valid_until()`, although no operator
        /// had deleted their nodes.
        pub lost_early: u64,
        /// How often a hold began although other holds certainly claimed the same resource, or
        /// claimed it according to the `valid_until()` of their guards.
        pub held_twice: u64,
        /// How often a hold began while other holders had not yet noticed that an operator had
        /// deleted their nodes.
        #[serde(skip_serializing_if = "is_zero")]
        pub held_without_node: u64,
    }
}

impl Tally {
    /// The lost part of the acknowledged writes, in percent. `None` if no write was acknowledged.
    #[must_use]
    pub fn lost_percent(&self) -> Option<f64> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "there are fewer writes than 2 to the 52nd"
        )]
        (self.acknowledged > 0).then(|| self.lost as f64 * 100.0 / self.acknowledged as f64)
    }
}

// `longest` is a maximum, so `added_up!` does not fit.
impl AddAssign for ServiceTally {
    fn add_assign(&mut self, other: Self) {
        let Self {
            inserted,
            removed,
            flickers,
            looks,
            dead,
            longest,
        } = other;
        self.inserted += inserted;
        self.removed += removed;
        self.flickers += flickers;
        self.looks += looks;
        self.dead += dead;
        self.longest = self.longest.max(longest);
    }
}

/// The numbers of one service: the sums of the reports of our clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceTally {
    /// Inserted instances, counted once for each client that reported them.
    pub inserted: u64,
    /// Removed instances.
    pub removed: u64,
    /// Removed instances whose session was still alive.
    pub flickers: u64,
    /// How often the instances of a current cache were read.
    pub looks: u64,
    /// How often such a read returned an instance whose session had ended longer ago than the
    /// checker permits.
    pub dead: u64,
    /// The longest time, in nanoseconds, from the certain end of an instance's session to a read
    /// that returned the instance.
    #[serde(skip_serializing_if = "is_zero")]
    pub longest: u64,
}

added_up! {
    /// The numbers of one counter.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct CounterTally {
        /// Increments that were acknowledged.
        pub acknowledged: u64,
        /// Increments that the client reported as not applied.
        pub refused: u64,
        /// Increments whose outcome the client reported as unknown.
        pub unknown: u64,
        /// Increments without a reply, because the process was killed or had to finish.
        pub cut_off: u64,
        /// The counter's value at the end.
        pub value: i64,
        /// The number of acknowledged increments minus the value, if that is positive.
        pub lost: u64,
        /// The value minus the number of increments that can have been applied, if that is
        /// positive.
        pub twice: u64,
        /// Acknowledged increments that returned the same value as another increment.
        pub same_value: u64,
    }
}

added_up! {
    /// The numbers of the caches of one kind, or of their consumers.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct CacheTally {
        /// How often the content of a cache was compared with the servers.
        pub looks: usize,
        /// How often the content of a cache differed from the servers.
        pub differing: usize,
        /// The number of nodes that differed.
        pub nodes: usize,
        /// How often the replay of a stream differed from the content of its cache.
        pub streams: usize,
        /// How often a cache did not report its content, was not current on time, or its stream did
        /// not report that the cache was current.
        pub silent: usize,
        /// Events of the streams of the caches.
        pub events: usize,
        /// States that were older than a state reported earlier.
        pub backwards: usize,
        /// Events that were inconsistent with earlier events.
        pub misfits: usize,
        /// How often a stream has skipped events.
        pub resyncs: usize,
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
