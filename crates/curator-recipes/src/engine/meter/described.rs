//! The descriptions of the metrics, and the bounds of the histograms' buckets, for a program's
//! recorder.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// From a round trip to a session timeout and more.
const SECONDS: &[f64] = &[
    0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0,
];
const LENGTHS: &[f64] = &[0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0];

/// Each histogram, and bounds for its buckets.
///
/// Without bounds, `metrics-exporter-prometheus` exports summaries, from which neither the
/// dashboard nor `histogram_quantile` can compute. Pass them to its
/// `PrometheusBuilder::set_buckets_for_metric`: [Metrics](crate::guide::production#metrics).
pub const HISTOGRAM_BOUNDS: &[(&str, &[f64])] = &[
    ("curator_lock_wait_seconds", SECONDS),
    ("curator_lock_handover_seconds", SECONDS),
    ("curator_lock_hold_seconds", SECONDS),
    ("curator_lock_queue_length", LENGTHS),
    ("curator_cache_stale_seconds", SECONDS),
];

/// Describes all metrics to the recorder, also those of the client, for the `HELP` lines of
/// Prometheus. Call it after you have installed the recorder.
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
