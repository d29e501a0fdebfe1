//! The metrics, with the feature `metrics`. Clients with the same name share their series in the
//! whole process, so each test names its clients differently.

use std::collections::BTreeMap;
use std::time::Duration;

use curator_recipes::client::CuratorClient;
use curator_recipes::{
    CuratorCache, HISTOGRAM_BOUNDS, InterProcessMutex, LeaderLatch, LeaderSelector,
    describe_metrics,
};
use futures_util::FutureExt as _;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::support::{
    LONG_SESSION, behind_proxy, behind_proxy_with, builder, children, client as connected,
    create_dir_without_create, end_session, path, proxy, soon, until,
};

/// Runs a test on this thread and records its metrics.
fn measured(test: impl AsyncFnOnce(Measured)) {
    measured_by(PrometheusBuilder::new(), test);
}

fn measured_by(builder: PrometheusBuilder, test: impl AsyncFnOnce(Measured)) {
    let recorder = builder.build_recorder();
    let measured = Measured {
        handle: recorder.handle(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(test(measured)));
}

struct Measured {
    handle: PrometheusHandle,
}

impl Measured {
    /// Each metric with its labels, and its value.
    fn all(&self) -> BTreeMap<String, f64> {
        let text = self.handle.render();
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.rsplit_once(' '))
            .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
            .collect()
    }

    /// The value of a metric, or 0 if it is not exported.
    fn value(&self, name: &str) -> f64 {
        self.all().get(name).copied().unwrap_or_default()
    }

    /// The nonzero metrics of mutexes with this name; for a histogram, its count.
    fn of_locks(&self, name: &str) -> BTreeMap<String, f64> {
        let labels = format!("kind=\"mutex\",lock=\"{name}\"");
        self.all()
            .into_iter()
            .filter_map(|(key, value)| {
                let key = key
                    .strip_prefix("curator_lock_")?
                    .replace(&labels, "")
                    .replace("{,", " {")
                    .replace("{}", "");
                let is_of_lock = !key.contains("quantile") && !key.ends_with("_sum");
                (is_of_lock && value != 0.0).then_some((key, value))
            })
            .collect()
    }
}

fn expected(values: &[(&str, u32)]) -> BTreeMap<String, f64> {
    values
        .iter()
        .map(|(name, value)| ((*name).to_owned(), f64::from(*value)))
        .collect()
}

fn mutex(client: &CuratorClient, path: &str) -> InterProcessMutex {
    InterProcessMutex::new(client, path)
        .unwrap()
        .with_metrics_name("orders")
}

#[test]
fn each_outcome_of_an_acquire_is_counted() {
    measured(async |measured| {
        let client = connected().await;
        let refused = path("measured-refused");
        let path = path("measured");
        let first = mutex(&client, &path);
        let second = mutex(&client, &path);
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
        assert!(
            second
                .acquire_timeout(Duration::from_millis(20))
                .await
                .unwrap()
                .is_none()
        );
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
            assert_eq!(
                found.remove(&format!("acquires_total {{outcome=\"{outcome}\"}}")),
                Some(1.0),
                "{outcome}"
            );
        }
        found.remove("queue_length_count");
        assert_eq!(found, expected(&owned));

        let queued = || {
            measured
                .of_locks("orders")
                .get("queue_length_count")
                .copied()
                .unwrap_or_default()
        };
        let before = queued();
        let (released, acquired) = tokio::join!(
            async {
                // The node of the dropped acquire may still exist, so the number of nodes does not
                // show that this acquire waits.
                until(async || queued() > before).await;
                guard.release().await
            },
            second.acquire()
        );
        released.unwrap();
        let guard = acquired.unwrap();
        let found = measured.of_locks("orders");
        for (name, value) in [
            ("wait_seconds_count", 2.0),
            ("handover_seconds_count", 1.0),
            ("hold_seconds_count", 1.0),
            ("held", 1.0),
        ] {
            assert_eq!(found[name], value, "{name}: {found:?}");
        }

        for node in children(&client, &path).await {
            client
                .delete()
                .for_path(format!("{path}/{node}"))
                .await
                .unwrap();
        }
        soon(guard.lost()).await;
        let found = measured.of_locks("orders");
        assert_eq!(found["lost_total {reason=\"deleted\"}"], 1.0);
        assert_eq!(
            (found["hold_seconds_count"], found.get("held")),
            (2.0, None)
        );
    });
}

#[test]
fn a_session_that_is_resumed_or_lost_is_counted() {
    measured(async |measured| {
        let proxy = proxy().await;
        let _client = builder(&proxy.connect_string(), LONG_SESSION)
            .name("service")
            .connect()
            .await
            .unwrap();
        let metric = |name: &str| measured.value(&format!("curator_client_{name}"));
        let connected = [
            metric("connected{client=\"service\"}"),
            metric("sessions_total{client=\"service\"}"),
        ];
        assert_eq!(connected, [1.0, 1.0]);
        let now = std::time::SystemTime::now()
            .duration_since(std::time::SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_secs_f64();
        let lease = metric("lease_until_seconds{client=\"service\"}") - now;
        assert!((5.0..=30.0).contains(&lease), "{lease}");

        proxy.refuse(true).unwrap();
        proxy.cut();
        until(async || metric("connected{client=\"service\"}") == 0.0).await;
        proxy.refuse(false).unwrap();
        until(async || metric("reconnects_total{client=\"service\"}") == 1.0).await;
        assert_eq!(metric("connected{client=\"service\"}"), 1.0);

        end_session(&proxy).await;
        until(async || metric("sessions_total{client=\"service\"}") == 2.0).await;
        assert_eq!(
            metric("sessions_lost_total{client=\"service\",reason=\"expired\"}"),
            1.0
        );
    });
}

#[test]
fn a_cache_is_counted_while_it_is_not_current() {
    measured(async |measured| {
        let (proxy, client) = behind_proxy().await;
        let cache = CuratorCache::builder(&client, path("measured-cache"))
            .unwrap()
            .metrics_name("hosts");
        let stale = || measured.value("curator_cache_stale{cache=\"hosts\"}");
        let ended = || measured.value("curator_cache_stale_seconds_count{cache=\"hosts\"}");
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
        let (proxy, client) = behind_proxy_with(|builder| builder.name("deletes")).await;
        let guard = mutex(&client, &path("measured-deletes"))
            .acquire()
            .await
            .unwrap();
        proxy.refuse(true).unwrap();
        proxy.cut();
        drop(guard);
        let metric =
            |name: &str| measured.value(&format!("curator_client_{name}{{client=\"deletes\"}}"));
        until(async || metric("pending_deletes") == 1.0).await;
        assert!(metric("pending_delete_since_seconds") > 0.0);
        proxy.refuse(false).unwrap();
        until(async || metric("pending_deletes") == 0.0).await;
        assert_eq!(metric("pending_delete_since_seconds"), 0.0);
    });
}

impl Measured {
    /// The value of a metric that must be exported.
    fn exported(&self, name: &str) -> f64 {
        let all = self.all();
        *all.get(name)
            .unwrap_or_else(|| panic!("{name} is not in {all:#?}"))
    }

    /// The numbers of open and of connected clients with this name.
    fn clients(&self, name: &str) -> (f64, f64) {
        let value =
            |metric| self.exported(&format!("curator_client_{metric}{{client=\"{name}\"}}"));
        (value("open"), value("connected"))
    }
}

/// The metrics that an alert compares with 0 exist before the first success, and distinguish a
/// closed client from a failing one.
#[test]
fn a_client_that_never_connects_and_a_closed_client_have_different_metrics() {
    measured(async |measured| {
        let never = CuratorClient::builder("127.0.0.1:1")
            .name("never")
            .start()
            .unwrap();
        assert_eq!(measured.clients("never"), (1.0, 0.0));
        for name in [
            "reconnects_total",
            "sessions_total",
            "pending_deletes",
            "pending_delete_since_seconds",
        ] {
            assert_eq!(
                measured.exported(&format!("curator_client_{name}{{client=\"never\"}}")),
                0.0,
                "{name}"
            );
        }
        for reason in ["lease-over", "expired", "other"] {
            let lost = format!(
                "curator_client_sessions_lost_total{{client=\"never\",reason=\"{reason}\"}}"
            );
            assert_eq!(measured.exported(&lost), 0.0, "{reason}");
        }
        never.close().await.unwrap();
        assert_eq!(measured.clients("never"), (0.0, 0.0));
    });
}

/// When a password is changed, for example, the new client connects before the old one is closed.
#[test]
fn clients_of_one_name_are_counted_together() {
    measured(async |measured| {
        let proxy = proxy().await;
        let connect = async || {
            builder(&proxy.connect_string(), LONG_SESSION)
                .name("orders")
                .connect()
                .await
                .unwrap()
        };
        let old = connect().await;
        let new = connect().await;
        assert_eq!(measured.clients("orders"), (2.0, 2.0));
        old.close().await.unwrap();
        // The count changes at once, without a probe of the new client.
        assert_eq!(measured.clients("orders"), (1.0, 1.0));
        drop(new);
        until(async || measured.clients("orders") == (0.0, 0.0)).await;
    });
}

#[test]
fn clients_without_a_name_share_their_series() {
    measured(async |measured| {
        let mut series = Vec::new();
        for _ in 0..3 {
            let client = connected().await;
            let cache = CuratorCache::builder(&client, path("measured-unnamed"))
                .unwrap()
                .start()
                .unwrap();
            soon(cache.ready()).await.unwrap();
            // Counts the client and the session of its cache, and unnamed clients of other tests.
            assert!(measured.exported("curator_client_open") >= 2.0);
            client.close().await.unwrap();
            series.push(
                measured
                    .all()
                    .into_keys()
                    .filter(|name| name.starts_with("curator_client"))
                    .collect::<Vec<_>>(),
            );
        }
        assert!(
            series.iter().all(|names| *names == series[0]),
            "{series:#?}"
        );
        assert!(
            !series[0].iter().any(|name| name.contains("client=")),
            "{series:#?}"
        );
    });
}

#[test]
fn an_election_without_a_leader_is_measured_while_it_has_participants() {
    measured(async |measured| {
        let client = CuratorClient::builder("127.0.0.1:1").start().unwrap();
        let latch = LeaderLatch::builder(&client, "/measured")
            .unwrap()
            .metrics_name("job")
            .start();
        let selector = LeaderSelector::builder(&client, "/measured")
            .unwrap()
            .metrics_name("job")
            .build();
        let job = |_| std::future::pending::<Result<(), std::io::Error>>();
        let mut run = Box::pin(selector.run(job, std::future::pending::<()>()));
        assert!((&mut run).now_or_never().is_none());
        let held_and_participants = |kind: &str| {
            let value = |name| {
                measured.exported(&format!("curator_{name}{{kind=\"{kind}\",lock=\"job\"}}"))
            };
            (value("lock_held"), value("leader_participants"))
        };
        assert_eq!(
            (
                held_and_participants("leader latch"),
                held_and_participants("leader selector")
            ),
            ((0.0, 1.0), (0.0, 1.0))
        );
        drop(run);
        // Without a connection, the call cannot confirm that the node is gone.
        assert!(latch.stand_aside().now_or_never().is_none());
        until(async || held_and_participants("leader latch") == (0.0, 0.0)).await;
        latch.stand_by();
        until(async || held_and_participants("leader latch") == (0.0, 1.0)).await;
        latch.close().await.unwrap();
        until(async || {
            (
                held_and_participants("leader latch"),
                held_and_participants("leader selector"),
            ) == ((0.0, 0.0), (0.0, 0.0))
        })
        .await;
    });
}

#[test]
fn a_cache_that_an_error_has_ended_counts_as_stale_until_it_is_closed_or_dropped() {
    measured(async |measured| {
        let client = connected().await;
        let root = path("measured-too-large");
        for node in ["a", "b"] {
            client
                .create()
                .creating_parent_containers()
                .for_path(format!("{root}/{node}"), "")
                .await
                .unwrap();
        }
        let stale = || measured.exported("curator_cache_stale{cache=\"hosts\"}");
        let too_large = async || {
            let cache = CuratorCache::builder(&client, &root)
                .unwrap()
                .metrics_name("hosts")
                .max_nodes(1)
                .start()
                .unwrap();
            soon(cache.ready()).await.unwrap_err();
            cache
        };
        let cache = too_large().await;
        assert_eq!(stale(), 1.0);
        cache.close().await.unwrap_err();
        assert_eq!(stale(), 0.0);
        let cache = too_large().await;
        assert_eq!(stale(), 1.0);
        drop((cache.clone(), cache));
        until(async || stale() == 0.0).await;
    });
}

#[test]
fn each_histogram_has_buckets_and_each_metric_a_description() {
    let mut builder = PrometheusBuilder::new();
    for (name, bounds) in HISTOGRAM_BOUNDS {
        builder = builder
            .set_buckets_for_metric(Matcher::Full((*name).to_owned()), bounds)
            .unwrap();
    }
    measured_by(builder, async |measured| {
        describe_metrics();
        let (proxy, client) = behind_proxy().await;
        let path = path("measured-buckets");
        let first = mutex(&client, &path);
        let second = mutex(&client, &path);
        let guard = first.acquire().await.unwrap();
        drop(first.acquire().await.unwrap());
        let (released, acquired) = tokio::join!(
            async {
                until(async || {
                    measured
                        .handle
                        .render()
                        .contains("curator_lock_queue_length_bucket")
                })
                .await;
                guard.release().await
            },
            second.acquire()
        );
        released.unwrap();
        acquired.unwrap().release().await.unwrap();
        let latch = LeaderLatch::builder(&client, format!("{path}-latch"))
            .unwrap()
            .start();
        soon(latch.leadership()).await.unwrap();
        let cache = CuratorCache::builder(&client, &path)
            .unwrap()
            .start()
            .unwrap();
        soon(cache.ready()).await.unwrap();
        proxy.cut();
        until(async || {
            measured
                .handle
                .render()
                .contains("curator_cache_stale_seconds_bucket")
        })
        .await;
        let text = measured.handle.render();
        for (name, _) in HISTOGRAM_BOUNDS {
            assert!(
                text.contains(&format!("# TYPE {name} histogram\n")),
                "{name} is not in\n{text}"
            );
        }
        assert!(!text.contains(" summary\n"), "{text}");
        let names = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        for name in names {
            assert!(
                text.contains(&format!("# HELP {name} ")),
                "{name} has no description in\n{text}"
            );
        }
    });
}
