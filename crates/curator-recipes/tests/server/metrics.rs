//! The metrics, with the feature `metrics`.

use std::collections::BTreeMap;
use std::time::Duration;

use curator_recipes::client::CuratorClient;
use curator_recipes::{CuratorCache, InterProcessMutex};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::support::{
    LONG_SESSION, behind_proxy, builder, children, client as connected, create_dir_without_create, end_session, path,
    proxy, soon, until,
};

/// Runs a test on this thread and records its metrics.
fn measured(test: impl AsyncFnOnce(Measured)) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let measured = Measured { handle: recorder.handle() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(test(measured)));
}

struct Measured {
    handle: PrometheusHandle,
}

impl Measured {
    /// Each metric with its labels, and its value.
    fn all(&self) -> BTreeMap<String, f64> {
        let text = self.handle.render();
        let values = text.lines().filter_map(|line| line.rsplit_once(' ').filter(|_| !line.starts_with('#')));
        values.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
    }

    fn of(&self, name: &str) -> f64 {
        self.all().get(name).copied().unwrap_or_default()
    }

    /// The nonzero metrics of mutexes with this name; for a histogram, its count.
    fn of_locks(&self, name: &str) -> BTreeMap<String, f64> {
        let labels = format!("kind=\"mutex\",lock=\"{name}\"");
        let short = self.all().into_iter().filter_map(|(key, value)| {
            let key = key.strip_prefix("curator_lock_")?.replace(&labels, "").replace("{,", " {").replace("{}", "");
            let is_of_lock = !key.contains("quantile") && !key.ends_with("_sum");
            (is_of_lock && value != 0.0).then_some((key, value))
        });
        short.collect()
    }
}

fn expected(values: &[(&str, u32)]) -> BTreeMap<String, f64> {
    values.iter().map(|(name, value)| ((*name).to_owned(), f64::from(*value))).collect()
}

fn mutex(client: &CuratorClient, path: &str) -> InterProcessMutex {
    InterProcessMutex::new(client, path).unwrap().with_metrics_name("orders")
}

#[test]
fn each_outcome_of_an_acquire_is_counted() {
    measured(async |measured| {
        let (client, path, refused) = (connected().await, path("measured"), path("measured-refused"));
        let (first, second) = (mutex(&client, &path), mutex(&client, &path));
        let guard = first.acquire().await.unwrap();
        drop(first.acquire().await.unwrap());
        let owned = [
            ("acquires_total {outcome=\"acquired\"}", 1),
            ("wait_seconds_count", 1),
            ("held", 1),
            ("reentries_total", 1),
        ];
        assert_eq!(measured.of_locks("orders"), expected(&owned));

        assert!(second.try_acquire().await.unwrap().is_none());
        assert!(second.acquire_timeout(Duration::from_millis(20)).await.unwrap().is_none());
        tokio::select! {
            acquired = second.acquire() => panic!("{acquired:?}"),
            () = until(async || children(&client, &path).await.len() == 2) => {}
        }
        create_dir_without_create(&client, &refused).await;
        mutex(&client, &refused).acquire().await.unwrap_err();
        let closed = connected().await;
        closed.close().await.unwrap();
        mutex(&closed, &path).acquire().await.unwrap_err();
        let mut found = measured.of_locks("orders");
        for outcome in ["busy", "timed-out", "cancelled", "failed", "closed"] {
            assert_eq!(found.remove(&format!("acquires_total {{outcome=\"{outcome}\"}}")), Some(1.0), "{outcome}");
        }
        found.remove("queue_length_count");
        assert_eq!(found, expected(&owned));

        let queued = || measured.of_locks("orders").get("queue_length_count").copied().unwrap_or_default();
        let before = queued();
        let (released, acquired) = tokio::join!(
            async {
                // The node of the dropped acquire may still exist, so the number of nodes does not show that this one waits.
                until(async || queued() > before).await;
                guard.release().await
            },
            second.acquire()
        );
        released.unwrap();
        let guard = acquired.unwrap();
        let found = measured.of_locks("orders");
        for (name, value) in
            [("wait_seconds_count", 2.0), ("handover_seconds_count", 1.0), ("hold_seconds_count", 1.0), ("held", 1.0)]
        {
            assert_eq!(found[name], value, "{name}: {found:?}");
        }

        for node in children(&client, &path).await {
            client.delete().for_path(format!("{path}/{node}")).await.unwrap();
        }
        soon(guard.lost()).await;
        let found = measured.of_locks("orders");
        assert_eq!(found["lost_total {reason=\"deleted\"}"], 1.0);
        assert_eq!((found["hold_seconds_count"], found.get("held")), (2.0, None));
    });
}

#[test]
fn a_session_that_is_resumed_or_lost_is_counted() {
    measured(async |measured| {
        let proxy = proxy().await;
        let _client = builder(&proxy.connect_string(), LONG_SESSION).name("service").connect().await.unwrap();
        let of = |name: &str| measured.of(&format!("curator_client_{name}"));
        let connected = [of("connected{client=\"service\"}"), of("sessions_total{client=\"service\"}")];
        assert_eq!(connected, [1.0, 1.0]);
        let now = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
        let lease = of("lease_until_seconds{client=\"service\"}") - now;
        assert!((5.0..=30.0).contains(&lease), "{lease}");

        proxy.refuse(true).unwrap();
        proxy.cut();
        until(async || of("connected{client=\"service\"}") == 0.0).await;
        proxy.refuse(false).unwrap();
        until(async || of("reconnects_total{client=\"service\"}") == 1.0).await;
        assert_eq!(of("connected{client=\"service\"}"), 1.0);

        end_session(&proxy).await;
        until(async || of("sessions_total{client=\"service\"}") == 2.0).await;
        assert_eq!(of("sessions_lost_total{client=\"service\",reason=\"expired\"}"), 1.0);
    });
}

#[test]
fn a_cache_is_counted_while_it_is_not_current() {
    measured(async |measured| {
        let (proxy, client) = behind_proxy().await;
        let cache = CuratorCache::builder(&client, path("measured-cache")).unwrap().metrics_name("hosts");
        let stale = || measured.of("curator_cache_stale{cache=\"hosts\"}");
        let ended = || measured.of("curator_cache_stale_seconds_count{cache=\"hosts\"}");
        let cache = cache.start().unwrap();
        assert_eq!((stale(), ended()), (1.0, 0.0));
        soon(cache.ready()).await.unwrap();
        assert_eq!((stale(), ended()), (0.0, 0.0));
        proxy.refuse(true).unwrap();
        proxy.cut();
        until(async || stale() == 1.0).await;
        proxy.refuse(false).unwrap();
        until(async || stale() == 0.0).await;
        assert_eq!(ended(), 1.0);
        proxy.refuse(true).unwrap();
        proxy.cut();
        until(async || stale() == 1.0).await;
        // A closed cache does not count as stale.
        soon(cache.close()).await.unwrap();
        assert_eq!((stale(), ended()), (0.0, 1.0));
    });
}

#[test]
fn deletes_that_wait_for_a_connection_are_measured() {
    measured(async |measured| {
        let (proxy, client) = behind_proxy().await;
        let guard = mutex(&client, &path("measured-deletes")).acquire().await.unwrap();
        proxy.refuse(true).unwrap();
        proxy.cut();
        drop(guard);
        let of = |name: &str| measured.of(&format!("curator_client_{name}{{client=\"{}\"}}", client.name()));
        until(async || of("pending_deletes") == 1.0).await;
        assert!(of("pending_delete_since_seconds") > 0.0);
        proxy.refuse(false).unwrap();
        until(async || of("pending_deletes") == 0.0).await;
        assert_eq!(of("pending_delete_since_seconds"), 0.0);
    });
}
