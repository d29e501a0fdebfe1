//! Metrics of a client's session and its pending deletes (`metrics`). Without the feature, nothing
//! is measured.

#[cfg(feature = "metrics")]
pub use self::measured::describe_metrics;
#[cfg(feature = "metrics")]
pub(crate) use self::measured::{Begun, ClientMeter};
#[cfg(not(feature = "metrics"))]
pub(crate) use self::unmeasured::{Begun, ClientMeter};

#[cfg(feature = "metrics")]
mod measured {
    //! Measures clients. Clients with the same name, and all clients without one, share their
    //! series: a gauge is the sum of its clients.
    //!
    //! A recorder cannot remove a series, so a client that is closed leaves its series behind:
    //! `curator_client_open` then distinguishes it from a client without a connection. The gauges
    //! are set to the sums at each change and at each probe, because a program may install its
    //! recorder after it has started a client.

    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
    use std::time::Duration;

    use metrics::{
        Counter, Gauge, Key, Label, Level, Metadata, Unit, describe_counter, describe_gauge,
        with_recorder,
    };

    use crate::error::SessionEnd;
    use crate::process::Process;
    use crate::source::since_1970;

    static METADATA: Metadata<'_> =
        Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

    const LOST_REASONS: [&str; 3] = ["lease-over", "expired", "other"];

    /// Describes the metrics of clients to the recorder, for the `HELP` lines of Prometheus. Call
    /// it after you have installed the recorder; `curator_recipes::describe_metrics` includes this.
    pub fn describe_metrics() {
        describe_gauge!(
            "curator_client_open",
            Unit::Count,
            "Clients that are not closed, connected or not"
        );
        describe_gauge!(
            "curator_client_connected",
            Unit::Count,
            "Clients whose session is confirmed"
        );
        describe_gauge!(
            "curator_client_lease_until_seconds",
            Unit::Seconds,
            "End of the session lease as of the last confirmation, in seconds since 1970"
        );
        describe_gauge!(
            "curator_client_pending_deletes",
            Unit::Count,
            "Nodes that are still to be deleted"
        );
        describe_gauge!(
            "curator_client_pending_delete_since_seconds",
            Unit::Seconds,
            "Start of the oldest pending delete, in seconds since 1970; 0 without one"
        );
        describe_counter!(
            "curator_client_reconnects_total",
            Unit::Count,
            "Sessions resumed over another connection"
        );
        describe_counter!(
            "curator_client_sessions_total",
            Unit::Count,
            "Opened sessions"
        );
        describe_counter!(
            "curator_client_sessions_lost_total",
            Unit::Count,
            "Lost sessions, by reason"
        );
    }

    /// When a pending delete began, since 1970.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Begun(Duration);

    impl Begun {
        pub(crate) fn now() -> Self {
            Self(since_1970())
        }
    }

    /// Records the metrics of one client.
    #[derive(Debug)]
    pub(crate) struct ClientMeter {
        process: Process,
        id: u64,
        series: Arc<Series>,
    }

    /// The series of the clients with one name.
    #[derive(Debug)]
    struct Series {
        name: Option<Arc<str>>,
        /// Made once, because each release of a lock sets some of them twice.
        keys: Keys,
        clients: Mutex<Clients>,
    }

    /// Made with `to_retained`, so that a recorder can clone them without an allocation.
    #[derive(Debug)]
    struct Keys {
        open: Key,
        connected: Key,
        lease: Key,
        pending: Key,
        pending_since: Key,
        reconnects: Key,
        sessions: Key,
    }

    #[derive(Debug, Default)]
    struct Clients {
        next_id: u64,
        open: BTreeSet<u64>,
        connected: BTreeSet<u64>,
        /// The pending deletes of each client that has any.
        pending: BTreeMap<u64, (usize, Duration)>,
        pending_count: usize,
        /// The start of each client's oldest pending delete.
        oldest: BTreeSet<(Duration, u64)>,
    }

    /// The series that have clients.
    static SERIES: Mutex<BTreeMap<Option<Arc<str>>, Arc<Series>>> = Mutex::new(BTreeMap::new());

    impl ClientMeter {
        /// Creates the meter of a client with this name; `None` if the user gave no name.
        pub(crate) fn new(name: Option<Arc<str>>) -> Self {
            let mut all = lock(&SERIES);
            let series = Arc::clone(
                all.entry(name)
                    .or_insert_with_key(|name| Arc::new(Series::new(name.clone()))),
            );
            drop(all);
            let mut clients = lock(&series.clients);
            let id = clients.next_id;
            clients.next_id += 1;
            clients.open.insert(id);
            series.publish_state(&clients);
            series.publish_pending(&clients);
            drop(clients);
            // Counters start at 0, because Prometheus's `increase` misses the first event of a
            // counter that appears with this event.
            for counter in [&series.keys.reconnects, &series.keys.sessions] {
                registered_counter(counter).increment(0);
            }
            for reason in LOST_REASONS {
                series.lost(reason).increment(0);
            }
            Self {
                process: Process::current(),
                id,
                series,
            }
        }

        /// The session is confirmed, with this much of its lease left.
        pub(crate) fn confirmed(&self, lease: impl FnOnce() -> Duration) {
            self.change(|clients, id| _ = clients.connected.insert(id));
            registered_gauge(&self.series.keys.lease).set((since_1970() + lease()).as_secs_f64());
        }

        /// The session is in doubt, or there is none.
        pub(crate) fn doubted(&self) {
            self.change(|clients, id| _ = clients.connected.remove(&id));
        }

        /// The client was closed, or its runtime has ended.
        pub(crate) fn closed(&self) {
            self.change(|clients, id| {
                clients.connected.remove(&id);
                clients.open.remove(&id);
            });
        }

        fn change(&self, change: impl FnOnce(&mut Clients, u64)) {
            let mut clients = lock(&self.series.clients);
            change(&mut clients, self.id);
            self.series.publish_state(&clients);
        }

        /// A session was confirmed over another connection.
        pub(crate) fn resumed(&self) {
            registered_counter(&self.series.keys.reconnects).increment(1);
        }

        pub(crate) fn opened(&self) {
            registered_counter(&self.series.keys.sessions).increment(1);
        }

        pub(crate) fn lost(&self, end: SessionEnd) {
            let [lease_over, expired, other] = LOST_REASONS;
            let reason = match end {
                SessionEnd::LeaseOver => lease_over,
                SessionEnd::Expired => expired,
                _ => other,
            };
            self.series.lost(reason).increment(1);
        }

        /// `count` deletes are pending; the oldest began at `oldest`.
        pub(crate) fn pending(&self, count: usize, oldest: Option<Begun>) {
            let mut clients = lock(&self.series.clients);
            clients.set_pending(self.id, oldest.map(|Begun(oldest)| (count, oldest)));
            self.series.publish_pending(&clients);
        }
    }

    impl Drop for ClientMeter {
        fn drop(&mut self) {
            // In a forked child, another thread may have held a lock.
            if self.process.has_forked() {
                return;
            }
            self.closed();
            self.pending(0, None);
            let mut all = lock(&SERIES);
            // The last client: only `self` and `all` refer to the series. Only `new` adds clients,
            // and it needs this lock.
            if Arc::strong_count(&self.series) <= 2 {
                all.remove(&self.series.name);
            }
        }
    }

    impl Clients {
        fn set_pending(&mut self, client: u64, pending: Option<(usize, Duration)>) {
            let before = match pending {
                Some((count, oldest)) => {
                    self.pending_count += count;
                    self.oldest.insert((oldest, client));
                    self.pending.insert(client, (count, oldest))
                }
                None => self.pending.remove(&client),
            };
            if let Some((count, oldest)) = before {
                self.pending_count -= count;
                if pending.is_none_or(|(_, new_oldest)| new_oldest != oldest) {
                    self.oldest.remove(&(oldest, client));
                }
            }
        }
    }

    impl Series {
        fn new(name: Option<Arc<str>>) -> Self {
            let key = |metric| Key::from_parts(metric, labels(name.as_ref())).to_retained();
            let keys = Keys {
                open: key("curator_client_open"),
                connected: key("curator_client_connected"),
                lease: key("curator_client_lease_until_seconds"),
                pending: key("curator_client_pending_deletes"),
                pending_since: key("curator_client_pending_delete_since_seconds"),
                reconnects: key("curator_client_reconnects_total"),
                sessions: key("curator_client_sessions_total"),
            };
            Self {
                keys,
                name,
                clients: Mutex::default(),
            }
        }

        /// Call this with the lock of the clients, so that no older sum replaces a newer one.
        fn publish_state(&self, clients: &Clients) {
            registered_gauge(&self.keys.open).set(number(clients.open.len()));
            registered_gauge(&self.keys.connected).set(number(clients.connected.len()));
        }

        /// Call this with the lock of the clients.
        fn publish_pending(&self, clients: &Clients) {
            registered_gauge(&self.keys.pending).set(number(clients.pending_count));
            let oldest = clients
                .oldest
                .first()
                .map_or(0.0, |(oldest, _)| oldest.as_secs_f64());
            registered_gauge(&self.keys.pending_since).set(oldest);
        }

        fn lost(&self, reason: &'static str) -> Counter {
            let mut labels = labels(self.name.as_ref());
            labels.push(Label::from_static_parts("reason", reason));
            registered_counter(&Key::from_parts(
                "curator_client_sessions_lost_total",
                labels,
            ))
        }
    }

    /// A client without a given name has no label: a generated name depends on the order in which
    /// clients start.
    fn labels(name: Option<&Arc<str>>) -> Vec<Label> {
        name.map(|name| Label::new("client", Arc::clone(name)))
            .into_iter()
            .collect()
    }

    fn registered_gauge(key: &Key) -> Gauge {
        with_recorder(|recorder| recorder.register_gauge(key, &METADATA))
    }

    fn registered_counter(key: &Key) -> Counter {
        with_recorder(|recorder| recorder.register_counter(key, &METADATA))
    }

    fn number(count: usize) -> u32 {
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_oldest_pending_delete_of_all_clients_is_known() {
            let mut clients = Clients::default();
            let seconds = Duration::from_secs;
            let mut sums_after = |client, pending: Option<(usize, u64)>| {
                clients.set_pending(
                    client,
                    pending.map(|(count, oldest)| (count, seconds(oldest))),
                );
                (
                    clients.pending_count,
                    clients.oldest.first().map(|(oldest, _)| oldest.as_secs()),
                )
            };
            assert_eq!(sums_after(1, Some((1, 10))), (1, Some(10)));
            assert_eq!(sums_after(2, Some((2, 5))), (3, Some(5)));
            assert_eq!(sums_after(2, Some((1, 5))), (2, Some(5)));
            assert_eq!(sums_after(2, Some((1, 20))), (2, Some(10)));
            assert_eq!(sums_after(1, None), (1, Some(20)));
            assert_eq!(sums_after(1, None), (1, Some(20)));
            assert_eq!(sums_after(2, None), (0, None));
        }
    }
}

/// Empty meters, for builds without the feature `metrics`.
#[cfg(not(feature = "metrics"))]
mod unmeasured {
    use std::sync::Arc;
    use std::time::Duration;

    use crate::error::SessionEnd;

    /// Empty, so that no clock is read.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Begun;

    impl Begun {
        pub(crate) fn now() -> Self {
            Self
        }
    }

    #[derive(Debug)]
    pub(crate) struct ClientMeter;

    #[expect(clippy::unused_self, reason = "the same methods as with the feature")]
    impl ClientMeter {
        pub(crate) fn new(_label: Option<Arc<str>>) -> Self {
            Self
        }

        pub(crate) fn confirmed(&self, _lease: impl FnOnce() -> Duration) {}

        pub(crate) fn doubted(&self) {}

        pub(crate) fn resumed(&self) {}

        pub(crate) fn opened(&self) {}

        pub(crate) fn lost(&self, _end: SessionEnd) {}

        pub(crate) fn closed(&self) {}

        pub(crate) fn pending(&self, _count: usize, _oldest: Option<Begun>) {}
    }
}
