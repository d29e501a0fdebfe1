//! Compares the increments that clients have reported with the counters at the end.
//!
//! | [`Kind`] | What is found |
//! |---|---|
//! | `CountLost` | a counter, or the receipt of a client, is less than the number of acknowledged increments |
//! | `CountedTwice` | a counter, or the receipt of a client, is greater than the number of acknowledged increments plus increments with an unknown outcome; or the counter is not the sum of the receipts |
//! | `SameValue` | two acknowledged increments returned the same value |
//!
//! The outcome is unknown if the client reports so, or if its process was killed or had to finish
//! before the reply.

use std::collections::{BTreeMap, HashMap};

use super::findings::{CounterTally, Kind, Violation};
use crate::history::{CounterSeen, Outcome, Receipts};

/// The events of all counters.
#[derive(Debug, Default)]
pub(super) struct Counters(BTreeMap<String, Counter>);

#[derive(Debug, Default)]
struct Counter {
    tally: CounterTally,
    /// Increments without a reply: at most one in each life of a process.
    begun: HashMap<(u32, u32), u64>,
    /// For each client, the numbers of acknowledged increments, and of increments with an unknown
    /// outcome.
    by_client: BTreeMap<u32, (u64, u64)>,
    /// How often each value was reported.
    values: HashMap<i64, u64>,
    /// When the counter was read after the run, its value, and the receipts.
    at_end: Option<(u64, i64, Option<Receipts>)>,
}

impl Counters {
    /// Records an event. Events of one process arrive in their order.
    pub(super) fn see(&mut self, at: u64, process: (u32, u32), part: &str, seen: &CounterSeen) {
        let counter = self.0.entry(part.to_owned()).or_default();
        match seen {
            CounterSeen::Counting { number } => {
                // The future of the earlier increment was dropped, so it has no reply.
                if counter.begun.insert(process, *number).is_some() {
                    counter.cut_off(process.0);
                }
            }
            CounterSeen::Counted { value, outcome, .. } => {
                counter.begun.remove(&process);
                let (acknowledged, in_doubt) = counter.by_client.entry(process.0).or_default();
                match outcome {
                    Outcome::Acknowledged => {
                        counter.tally.acknowledged += 1;
                        *acknowledged += 1;
                    }
                    Outcome::Unknown => {
                        counter.tally.unknown += 1;
                        *in_doubt += 1;
                    }
                    Outcome::Refused | Outcome::NotSent => counter.tally.refused += 1,
                }
                if let Some(value) = value {
                    *counter.values.entry(*value).or_default() += 1;
                }
            }
            CounterSeen::AtEnd { value, receipts } => {
                counter.at_end = Some((at, *value, receipts.clone()));
            }
        }
    }

    /// Appends violations to `found`, and returns the numbers of each counter.
    pub(super) fn finish(self, found: &mut Vec<Violation>) -> BTreeMap<String, CounterTally> {
        self.0
            .into_iter()
            .map(|(part, counter)| {
                let tally = counter.finish(&part, found);
                (part, tally)
            })
            .collect()
    }
}

impl Counter {
    /// Counts an increment of this client without a reply.
    fn cut_off(&mut self, client: u32) {
        self.tally.cut_off += 1;
        self.by_client.entry(client).or_default().1 += 1;
    }

    fn finish(mut self, part: &str, found: &mut Vec<Violation>) -> CounterTally {
        for (client, _) in std::mem::take(&mut self.begun).into_keys() {
            self.cut_off(client);
        }
        let tally = &mut self.tally;
        tally.same_value = self.values.values().map(|count| count - 1).sum();
        // `None` if the run was aborted before the counters were read.
        let Some((at, value, receipts)) = self.at_end else {
            return self.tally;
        };
        tally.value = value;
        let least = i64::try_from(tally.acknowledged).unwrap_or(i64::MAX);
        let most = least.saturating_add_unsigned(tally.unknown + tally.cut_off);
        tally.lost = least.saturating_sub(value).max(0).unsigned_abs();
        tally.twice = value.saturating_sub(most).max(0).unsigned_abs();
        let mut find = |kind, detail| {
            found.push(Violation {
                kind,
                part: part.to_owned(),
                at,
                holds: Vec::new(),
                detail,
            });
        };
        if tally.lost > 0 {
            find(
                Kind::CountLost,
                format!("{part} is {value} after {least} acknowledged increments"),
            );
        }
        if tally.twice > 0 {
            find(
                Kind::CountedTwice,
                format!("{part} is {value}, and at most {most} increments can have been applied"),
            );
        }
        if let Some(receipts) = receipts {
            let sum: u64 = receipts.values().sum();
            if i64::try_from(sum) != Ok(value) {
                find(
                    Kind::CountedTwice,
                    format!("{part} is {value}, and the sum of its receipts is {sum}"),
                );
            }
            for (client, (acknowledged, in_doubt)) in self.by_client {
                let number = receipts
                    .get(&format!("w{client}"))
                    .copied()
                    .unwrap_or_default();
                let kind = match number {
                    _ if number < acknowledged => Kind::CountLost,
                    _ if number > acknowledged + in_doubt => Kind::CountedTwice,
                    _ => continue,
                };
                let known = format!("{acknowledged} acknowledged and {in_doubt} unknown");
                find(
                    kind,
                    format!(
                        "{part}: the receipt of w{client} is {number}, after {known} increments"
                    ),
                );
            }
        }
        if tally.same_value > 0 {
            find(
                Kind::SameValue,
                format!(
                    "{} increments of {part} have the value of another one",
                    tally.same_value
                ),
            );
        }
        self.tally
    }
}
