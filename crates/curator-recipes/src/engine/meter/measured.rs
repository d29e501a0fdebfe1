//! Measures acquires, holds and caches. Registers each metric at each use, because a program may
//! install its recorder after it has made its locks. The keys of the metrics that every acquire and
//! release records are made once for each lock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use curator_client::source;
use metrics::{
    Counter, Gauge, Histogram, Key, Label, Level, Metadata, Unit, counter, describe_counter,
    describe_gauge, describe_histogram, gauge, histogram, with_recorder,
};

use super::{HoldEnded, NotAcquired};

static METADATA: Metadata<'_> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// Records the metrics of one lock, labelled with its kind and the name that the user gave it.
#[derive(Debug, Clone)]
pub(crate) struct Meter(Arc<Metrics>);

#[derive(Debug)]
struct Metrics {
    kind: &'static str,
    name: Option<Arc<str>>,
    acquired: Key,
    wait: Key,
    held: Key,
    hold: Key,
}

impl Meter {
    pub(crate) fn new(kind: &'static str) -> Self {
        Self::with_labels(kind, None)
    }

    pub(crate) fn named(self, name: Arc<str>) -> Self {
        Self::with_labels(self.0.kind, Some(name))
    }

    fn with_labels(kind: &'static str, name: Option<Arc<str>>) -> Self {
        let labels = labels(kind, name.as_ref());
        // A recorder clones the key at each use; the clone of a retained key does not allocate.
        let key = |name| Key::from_parts(name, labels.clone()).to_retained();
        let wait = key("curator_lock_wait_seconds");
        let held = key("curator_lock_held");
        let hold = key("curator_lock_hold_seconds");
        let outcome = vec![Label::from_static_parts("outcome", "acquired")];
        let acquired = key("curator_lock_acquires_total")
            .with_extra_labels(outcome)
            .to_retained();
        Self(Arc::new(Metrics {
            kind,
            name,
            acquired,
            wait,
            held,
            hold,
        }))
    }

    pub(crate) fn now(&self) -> Option<Instant> {
        Some(source::now())
    }

    fn labels(&self) -> Vec<Label> {
        labels(self.0.kind, self.0.name.as_ref())
    }

    fn labels_with(&self, key: &'static str, value: &'static str) -> Vec<Label> {
        let mut labels = self.labels();
        labels.push(Label::from_static_parts(key, value));
        labels
    }

    /// Records an acquire that took `waited`. `handed_over` is the time since the last event that
    /// ended its wait.
    pub(crate) fn acquired(&self, waited: Option<Duration>, handed_over: Option<Duration>) {
        registered_counter(&self.0.acquired).increment(1);
        if let Some(waited) = waited {
            registered_histogram(&self.0.wait).record(waited);
        }
        if let Some(handed_over) = handed_over {
            histogram!("curator_lock_handover_seconds", self.labels()).record(handed_over);
        }
    }

    pub(crate) fn not_acquired(&self, why: NotAcquired) {
        let outcome = match why {
            NotAcquired::Busy => "busy",
            NotAcquired::TimedOut => "timed-out",
            NotAcquired::Cancelled => "cancelled",
            NotAcquired::Failed => "failed",
            NotAcquired::Closed => "closed",
        };
        counter!(
            "curator_lock_acquires_total",
            self.labels_with("outcome", outcome)
        )
        .increment(1);
    }

    /// Records the number of contenders ahead when an acquire begins to wait.
    pub(crate) fn queued(&self, before: usize) {
        // No queue is longer than `u32::MAX`.
        let before = u32::try_from(before).unwrap_or(u32::MAX);
        histogram!("curator_lock_queue_length", self.labels()).record(before);
    }

    /// Counts a participant in an election until the result is dropped. Also registers the gauge of
    /// terms, so that an election without a leader is visible.
    pub(crate) fn participates(&self) -> Participation {
        registered_gauge(&self.0.held).increment(0);
        gauge!("curator_leader_participants", self.labels()).increment(1);
        Participation(self.clone())
    }

    pub(crate) fn hold_begins(&self) {
        registered_gauge(&self.0.held).increment(1);
    }

    pub(crate) fn hold_ended(&self, how: HoldEnded, held: Option<Duration>) {
        registered_gauge(&self.0.held).decrement(1);
        if let HoldEnded::Unused = how {
            return;
        }
        if let Some(held) = held {
            registered_histogram(&self.0.hold).record(held);
        }
        let reason = match how {
            HoldEnded::Unused | HoldEnded::Released => return,
            HoldEnded::SessionLost => "session",
            HoldEnded::NodeDeleted => "deleted",
        };
        counter!(
            "curator_lock_lost_total",
            self.labels_with("reason", reason)
        )
        .increment(1);
    }

    pub(crate) fn reentered(&self) {
        counter!("curator_lock_reentries_total", self.labels()).increment(1);
    }
}

/// A participant in an election.
#[derive(Debug)]
pub(crate) struct Participation(Meter);

impl Drop for Participation {
    fn drop(&mut self) {
        gauge!("curator_leader_participants", self.0.labels()).decrement(1);
    }
}

fn labels(kind: &'static str, name: Option<&Arc<str>>) -> Vec<Label> {
    let kind = Label::from_static_parts("kind", kind);
    let name = name.map(|name| Label::new("lock", Arc::clone(name)));
    std::iter::once(kind).chain(name).collect()
}

fn registered_counter(key: &Key) -> Counter {
    with_recorder(|recorder| recorder.register_counter(key, &METADATA))
}

fn registered_gauge(key: &Key) -> Gauge {
    with_recorder(|recorder| recorder.register_gauge(key, &METADATA))
}

fn registered_histogram(key: &Key) -> Histogram {
    with_recorder(|recorder| recorder.register_histogram(key, &METADATA))
}

/// Records the metrics of one cache, labelled with the name that the user gave it.
#[derive(Debug, Clone)]
pub(crate) struct CacheMeter {
    name: Option<Arc<str>>,
}

impl CacheMeter {
    pub(crate) fn unnamed() -> Self {
        Self { name: None }
    }

    pub(crate) fn named(name: Arc<str>) -> Self {
        Self { name: Some(name) }
    }

    fn labels(&self) -> Vec<Label> {
        self.name
            .iter()
            .map(|name| Label::new("cache", Arc::clone(name)))
            .collect()
    }

    /// Records that the cache is not current: it is loading or stale, or an error has ended it.
    pub(crate) fn stale_begins(&self) {
        gauge!("curator_cache_stale", self.labels()).increment(1);
    }

    /// Records that the cache is current again after it was stale for this long; `None` if it was
    /// loading, or is no longer used.
    pub(crate) fn stale_ends(&self, after: Option<Duration>) {
        gauge!("curator_cache_stale", self.labels()).decrement(1);
        if let Some(after) = after {
            histogram!("curator_cache_stale_seconds", self.labels()).record(after);
        }
    }
}

/// Bounds from a fast round trip to well beyond a session timeout.
const SECONDS: &[f64] = &[
    0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0,
];
const LENGTHS: &[f64] = &[0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0];

/// Each histogram with bounds for its buckets.
///
/// Without bounds, `metrics-exporter-prometheus` exports summaries, which neither the dashboard nor
/// `histogram_quantile` can use. Pass the bounds to its
/// `PrometheusBuilder::set_buckets_for_metric`: [Metrics](crate::guide::production#metrics).
pub const HISTOGRAM_BOUNDS: &[(&str, &[f64])] = &[
    ("curator_lock_wait_seconds", SECONDS),
    ("curator_lock_handover_seconds", SECONDS),
    ("curator_lock_hold_seconds", SECONDS),
    ("curator_lock_queue_length", LENGTHS),
    ("curator_cache_stale_seconds", SECONDS),
];

/// Describes all metrics, including the client's, to the recorder, for the `HELP` lines of
/// Prometheus. Call this after you have installed the recorder.
pub fn describe_metrics() {
    curator_client::describe_metrics();
    describe_counter!(
        "curator_lock_acquires_total",
        Unit::Count,
        "Ended acquires, by outcome"
    );
    describe_counter!(
        "curator_lock_lost_total",
        Unit::Count,
        "Lost holds, by reason"
    );
    describe_counter!(
        "curator_lock_reentries_total",
        Unit::Count,
        "Re-entries of owners"
    );
    describe_histogram!(
        "curator_lock_wait_seconds",
        Unit::Seconds,
        "From the call until the lock is acquired"
    );
    describe_histogram!(
        "curator_lock_handover_seconds",
        Unit::Seconds,
        "From the last event that a waiter received until it has the lock"
    );
    describe_histogram!(
        "curator_lock_queue_length",
        Unit::Count,
        "Contenders before a waiter, at the start of its wait"
    );
    describe_histogram!(
        "curator_lock_hold_seconds",
        Unit::Seconds,
        "From the acquisition to the release or loss"
    );
    describe_gauge!(
        "curator_lock_held",
        Unit::Count,
        "Current holds, leases and terms of a leader"
    );
    describe_gauge!(
        "curator_leader_participants",
        Unit::Count,
        "Latches, and runs of selectors, that want to lead"
    );
    describe_gauge!(
        "curator_cache_stale",
        Unit::Count,
        "Caches that are not current: loading, stale, or failed"
    );
    describe_histogram!(
        "curator_cache_stale_seconds",
        Unit::Seconds,
        "How long a cache was stale"
    );
}
