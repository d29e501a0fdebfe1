//! Metrics of a client's session and its pending deletes (`metrics`). Without the feature, nothing is measured.

use std::time::Duration;

use crate::error::SessionEnd;

/// The session is confirmed, with this much of its lease left.
pub(crate) fn confirmed(client: &str, lease: impl FnOnce() -> Duration) {
    #[cfg(feature = "metrics")]
    {
        gauge(client, "curator_client_connected").set(1);
        gauge(client, "curator_client_lease_until_seconds").set(unix_seconds() + lease().as_secs_f64());
    }
    #[cfg(not(feature = "metrics"))]
    let _ = (client, lease);
}

/// The session is in doubt, or there is none.
pub(crate) fn doubted(client: &str) {
    #[cfg(feature = "metrics")]
    gauge(client, "curator_client_connected").set(0);
    #[cfg(not(feature = "metrics"))]
    let _ = client;
}

/// A session was confirmed over another connection.
pub(crate) fn resumed(client: &str) {
    #[cfg(feature = "metrics")]
    counter(client, "curator_client_reconnects_total").increment(1);
    #[cfg(not(feature = "metrics"))]
    let _ = client;
}

pub(crate) fn opened(client: &str) {
    #[cfg(feature = "metrics")]
    counter(client, "curator_client_sessions_total").increment(1);
    #[cfg(not(feature = "metrics"))]
    let _ = client;
}

pub(crate) fn lost(client: &str, end: SessionEnd) {
    #[cfg(feature = "metrics")]
    {
        let reason = match end {
            SessionEnd::LeaseOver => "lease-over",
            SessionEnd::Expired => "expired",
            _ => "other",
        };
        metrics::counter!("curator_client_sessions_lost_total", "client" => client.to_owned(), "reason" => reason)
            .increment(1);
    }
    #[cfg(not(feature = "metrics"))]
    let _ = (client, end);
}

/// When a pending delete began. Empty without the feature, so that no clock is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    #[cfg(feature = "metrics")]
    at: f64,
}

impl Begun {
    pub(crate) fn now() -> Self {
        Self {
            #[cfg(feature = "metrics")]
            at: unix_seconds(),
        }
    }
}

/// Records the pending deletes of one client.
#[derive(Debug)]
pub(crate) struct DeletesMeter {
    /// Made once, because each release of a lock sets both gauges twice; retained, so that a recorder's clone does not
    /// allocate.
    #[cfg(feature = "metrics")]
    keys: [metrics::Key; 2],
}

impl DeletesMeter {
    #[cfg_attr(not(feature = "metrics"), expect(unused_variables, reason = "the label of the metrics"))]
    pub(crate) fn new(client: &str) -> Self {
        Self {
            #[cfg(feature = "metrics")]
            keys: ["curator_client_pending_deletes", "curator_client_pending_delete_since_seconds"]
                .map(|name| metrics::Key::from_parts(name, &[("client", client.to_owned())]).to_retained()),
        }
    }

    /// `count` deletes are pending; the oldest began at `oldest`.
    pub(crate) fn pending(&self, count: usize, oldest: Option<Begun>) {
        #[cfg(feature = "metrics")]
        {
            static METADATA: metrics::Metadata<'_> =
                metrics::Metadata::new(module_path!(), metrics::Level::INFO, Some(module_path!()));
            let [deletes, since] = &self.keys;
            metrics::with_recorder(|recorder| {
                recorder.register_gauge(deletes, &METADATA).set(u32::try_from(count).unwrap_or(u32::MAX));
                recorder.register_gauge(since, &METADATA).set(oldest.map_or(0.0, |oldest| oldest.at));
            });
        }
        #[cfg(not(feature = "metrics"))]
        let _ = (self, count, oldest);
    }
}

#[cfg(feature = "metrics")]
fn gauge(client: &str, name: &'static str) -> metrics::Gauge {
    metrics::gauge!(name, "client" => client.to_owned())
}

#[cfg(feature = "metrics")]
fn counter(client: &str, name: &'static str) -> metrics::Counter {
    metrics::counter!(name, "client" => client.to_owned())
}

#[cfg(feature = "metrics")]
fn unix_seconds() -> f64 {
    let now = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64()
}
