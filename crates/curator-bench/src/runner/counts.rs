//! Reads the counts of a proxy.

use std::collections::BTreeMap;
use std::time::Duration;

use curator_test::FaultProxy;
use tokio::time::{Instant, sleep};

use super::POLL;
use curator_results::bench::Counts;

/// The counts until now.
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
    let (mut before, mut last) = (number(), begin);
    while last.elapsed() < rest {
        sleep(POLL).await;
        let now = number();
        if now != before {
            (before, last) = (now, Instant::now());
        }
    }
    last
}

pub(super) fn without_probes(mut requests: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    requests.remove("Sync");
    requests
}

pub(super) fn by_name(proxy: &FaultProxy) -> BTreeMap<String, u64> {
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

pub(super) fn minus(
    later: &BTreeMap<String, u64>,
    earlier: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let less = |(op, count): (&String, &u64)| {
        (
            op.clone(),
            count.saturating_sub(earlier.get(op).copied().unwrap_or(0)),
        )
    };
    later
        .iter()
        .map(less)
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
