//! Counts the requests of a case at a proxy.

use std::collections::BTreeMap;
use std::time::Duration;

use curator_results::bench::{Counts, Reconnect, Round};
use curator_test::FaultProxy;
use tokio::time::{Instant, sleep};

use super::{POLL, Runner};
use crate::case::{Case, Kind, warm_up};
use crate::protocol::{Workload, nanoseconds};

/// A reconnect is complete when the client has sent no request for this long. With the retry policy
/// of Curator's examples, Curator's clients pause for up to three seconds before the second
/// attempt.
const QUIET: Duration = Duration::from_secs(4);
/// For this long, the client must have sent no request before the connection is cut: only requests
/// in flight matter then.
const REST: Duration = Duration::from_secs(1);
/// The duration of a run that completes about one operation.
const ONE_OPERATION: Duration = Duration::from_millis(1);

impl Runner {
    /// Counts the requests of an operation at the proxy. A timed case runs twice, the second time
    /// for longer, and the counts of the first run are subtracted. Both runs send the same
    /// preparatory requests, because the bench's servers keep empty directories.
    pub(crate) async fn count(
        &mut self,
        workload: &Workload,
        case: &Case,
    ) -> anyhow::Result<Counts> {
        if case.kind() == Kind::Cache {
            self.run(&warm_up(workload)).await?;
            return Ok(self
                .run(workload)
                .await?
                .cache
                .and_then(|cache| cache.counts)
                .unwrap_or_default());
        }
        if case.kind() == Kind::Crowd {
            self.run(&warm_up(workload)).await?;
            let before = counts_of(self.proxy.as_ref(), 0);
            let Round { operations, .. } = self.run(workload).await?;
            let counts = difference(&counts_of(self.proxy.as_ref(), operations), &before);
            return Ok(Counts {
                round_trips: None,
                ..counts
            });
        }
        self.run(&Workload {
            time: workload.time.min(ONE_OPERATION),
            rounds: workload.rounds.min(1),
            ..workload.clone()
        })
        .await?;
        let zero = counts_of(self.proxy.as_ref(), 0);
        let mut operations = 0;
        let mut counted = Vec::new();
        for workload in lengths(workload) {
            let before = counts_of(self.proxy.as_ref(), operations);
            operations += self.run(&workload).await?.operations;
            counted.push(difference(
                &counts_of(self.proxy.as_ref(), operations),
                &before,
            ));
        }
        let counts = match &counted[..] {
            [short, long] if long.operations > short.operations => difference(long, short),
            // If the longer run completed no more operations than the shorter one, both runs are
            // counted, with their preparation.
            _ => difference(&counts_of(self.proxy.as_ref(), operations), &zero),
        };
        Ok(Counts {
            round_trips: counts.round_trips.filter(|_| case.processes == 1),
            ..counts
        })
    }
}

/// The workload in two lengths: with two durations, or two numbers of rounds.
fn lengths(workload: &Workload) -> [Workload; 2] {
    let long = Workload {
        time: workload.time * 3,
        rounds: workload.rounds * 3,
        ..workload.clone()
    };
    [workload.clone(), long]
}

/// Cuts the connection while no request is in flight, and waits until the client sends nothing
/// more.
pub(super) async fn reconnect(proxy: &FaultProxy) -> Reconnect {
    // All tasks have their nodes, but the last task may still be reading the queue: a lost reply
    // would be a different case.
    last_change(|| sent(proxy), Instant::now(), REST).await;
    let before = by_name(proxy);
    let handshakes = proxy.handshakes();
    let cut = Instant::now();
    proxy.cut();
    // If the client does not reconnect, the time limit of the case ends the wait.
    while proxy.handshakes() == handshakes {
        sleep(POLL).await;
    }
    let last = last_change(|| sent(proxy), Instant::now(), QUIET).await;
    let mut requests = minus(&without_probes(by_name(proxy)), &before);
    requests.insert("CreateSession".to_owned(), proxy.handshakes() - handshakes);
    Reconnect {
        nanoseconds: nanoseconds(last - cut),
        requests,
    }
}

/// The proxy's counts so far.
pub(super) fn counts_of(proxy: Option<&FaultProxy>, operations: u64) -> Counts {
    let Some(proxy) = proxy else {
        return Counts::default();
    };
    Counts {
        operations,
        requests: by_name(proxy),
        round_trips: Some(proxy.round_trips()),
        notifications: proxy.notifications(),
        bytes_sent: proxy.bytes_sent(),
        bytes_received: proxy.bytes_received(),
    }
}

/// The number of requests and handshakes that the client has sent, without the probes of the
/// session lease.
pub(super) fn sent(proxy: &FaultProxy) -> u64 {
    without_probes(by_name(proxy)).values().sum::<u64>() + proxy.handshakes()
}

/// Waits until `number` has not changed for `rest`. Returns when it last changed, or `begin` if it
/// has not.
pub(super) async fn last_change(
    number: impl Fn() -> u64,
    begin: Instant,
    rest: Duration,
) -> Instant {
    let mut before = number();
    let mut last = begin;
    while last.elapsed() < rest {
        sleep(POLL).await;
        let now = number();
        if now != before {
            before = now;
            last = Instant::now();
        }
    }
    last
}

fn without_probes(mut requests: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    requests.remove("Sync");
    requests
}

fn by_name(proxy: &FaultProxy) -> BTreeMap<String, u64> {
    proxy
        .requests()
        .into_iter()
        .map(|(op, count)| (format!("{op:?}"), count))
        .collect()
}

pub(super) fn difference(later: &Counts, earlier: &Counts) -> Counts {
    let round_trips = later
        .round_trips
        .zip(earlier.round_trips)
        .map(|(later, earlier)| later.saturating_sub(earlier));
    Counts {
        operations: later.operations.saturating_sub(earlier.operations),
        requests: minus(&later.requests, &earlier.requests),
        round_trips,
        notifications: later.notifications.saturating_sub(earlier.notifications),
        bytes_sent: later.bytes_sent.saturating_sub(earlier.bytes_sent),
        bytes_received: later.bytes_received.saturating_sub(earlier.bytes_received),
    }
}

fn minus(later: &BTreeMap<String, u64>, earlier: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    later
        .iter()
        .map(|(op, count)| {
            let before = earlier.get(op).copied().unwrap_or(0);
            (op.clone(), count.saturating_sub(before))
        })
        .filter(|(_, count)| *count > 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(operations: u64, creates: u64, round_trips: u64) -> Counts {
        let requests = [("Create2".to_owned(), creates), ("Auth".to_owned(), 1)].into();
        Counts {
            operations,
            requests,
            round_trips: Some(round_trips),
            ..Counts::default()
        }
    }

    #[test]
    fn requests_sent_once_do_not_count_towards_an_operation() {
        let cost = difference(&counts(110, 112, 222), &counts(10, 12, 22));
        assert_eq!(
            (cost.operations, cost.requests, cost.round_trips),
            (100, [("Create2".to_owned(), 100)].into(), Some(200))
        );
    }

    #[test]
    fn probes_do_not_count_as_requests_of_a_reconnect() {
        let requests = [("Sync".to_owned(), 2), ("SetWatches".to_owned(), 1)].into();
        assert_eq!(
            without_probes(requests),
            [("SetWatches".to_owned(), 1)].into()
        );
    }
}
