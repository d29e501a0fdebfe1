//! Tests of caches, which follow the instances of a service, and of providers, which select one of
//! them. Also checks that neither the log nor errors contain data of nodes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use curator_discovery::client::{Acl, AuthId, CreateMode, Permission};
use curator_discovery::{
    CacheError, CacheState, InvalidInstance, ProviderStrategy, ServiceCache, ServiceEvent,
    ServiceEvents, ServiceProvider, ServiceType, WhenStale, ZookeeperInstance,
};
use tracing::instrument::WithSubscriber as _;
use tracing::span;

use crate::support::{
    behind_proxy, connected, discovery, id, ids, instance, listener, path, registered, soon,
    unplug, until,
};

/// Waits until the cache is current and contains exactly these instances.
#[track_caller]
fn wait_for_instances(cache: &ServiceCache, wanted: &[&str]) -> impl Future<Output = ()> {
    until(async move || {
        let instances = cache.instances();
        ids(&instances) == wanted && instances.state() == CacheState::Current
    })
}

/// The next event, as text.
async fn next(events: &mut ServiceEvents) -> String {
    match soon(events.next()).await.unwrap() {
        ServiceEvent::Inserted(instance) => format!("{} inserted", instance.id),
        ServiceEvent::Changed { old, new } => {
            format!("{}: {:?} to {:?}", new.id, old.port, new.port)
        }
        ServiceEvent::Removed(instance) => format!("{} removed", instance.id),
        ServiceEvent::Ready => "ready".to_owned(),
        other => format!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cache_events_report_added_changed_and_removed_instances() {
    let client = connected().await;
    let others = connected().await;
    let base = path("cache");
    let cache = discovery(&others, &base).start_cache("orders").unwrap();
    assert_eq!(
        (cache.name(), soon(cache.ready()).await.unwrap().len()),
        ("orders", 0)
    );
    let mut events = cache.events();
    assert_eq!(next(&mut events).await, "ready");
    let a = registered(&client, &base, "a").await;
    assert_eq!(next(&mut events).await, "a inserted");
    let b = registered(&client, &base, "b").await;
    assert_eq!(next(&mut events).await, "b inserted");
    soon(a.update(instance("a").port(9090))).await.unwrap();
    assert_eq!(next(&mut events).await, "a: Some(8080) to Some(9090)");
    let instances = soon(cache.caught_up()).await.unwrap();
    assert_eq!(
        (ids(&instances), instances.get("a").unwrap().port),
        (vec!["a".to_owned(), "b".to_owned()], Some(9090))
    );
    assert_eq!(
        instances.get("b").unwrap().stat.ephemeral_owner,
        client.session().await.unwrap().id()
    );
    soon(a.deregister()).await.unwrap();
    assert_eq!(next(&mut events).await, "a removed");
    wait_for_instances(&cache, &["b"]).await;
    // The earlier instances are unchanged.
    assert_eq!(instances.len(), 2);
    soon(cache.close()).await.unwrap();
    assert!(soon(events.next()).await.is_none());
    assert_eq!(
        (ids(&cache.instances()), cache.instances().state()),
        (vec!["b".to_owned()], CacheState::Ended)
    );
    assert!(soon(cache.ready()).await.unwrap_err().is_closed());
    drop(b);
}

/// Curator only logs invalid JSON: CURATOR-574, CURATOR-452.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_reports_a_node_with_invalid_json_and_keeps_the_other_instances() {
    let client = connected().await;
    let base = path("cache-garbage");
    let _a = registered(&client, &base, "a").await;
    let b = format!("{base}/orders/b");
    let cache = discovery(&client, &base).start_cache("orders").unwrap();
    soon(cache.ready()).await.unwrap();
    let mut events = cache.events();
    assert_eq!(
        [next(&mut events).await, next(&mut events).await],
        ["a inserted", "ready"]
    );
    client.create().for_path(&b, "{").await.unwrap();
    let instances = soon(cache.caught_up()).await.unwrap();
    assert_eq!(
        (
            ids(&instances),
            instances.unreadable().next().unwrap().path.as_str()
        ),
        (vec!["a".to_owned()], &*b)
    );
    client
        .set_data(&b, instance("b").to_json().unwrap(), None)
        .await
        .unwrap();
    assert_eq!(next(&mut events).await, "b inserted");
    let instances = soon(cache.caught_up()).await.unwrap();
    assert_eq!((instances.len(), instances.unreadable().count()), (2, 0));
    client.set_data(&b, "[]", None).await.unwrap();
    assert_eq!(next(&mut events).await, "b removed");
    client.delete().for_path(&b).await.unwrap();
    let instances = soon(cache.caught_up()).await.unwrap();
    assert_eq!((instances.len(), instances.unreadable().count()), (1, 0));
}

/// Curator's event queue drops the oldest events without reporting it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_consumer_gets_a_resync_with_all_instances() {
    /// More events than the cache keeps for a consumer.
    const MANY: usize = 1_100;
    let client = connected().await;
    let base = path("cache-slow");
    let _a = registered(&client, &base, "a").await;
    let cache = discovery(&client, &base).start_cache("orders").unwrap();
    assert_eq!(soon(cache.caught_up()).await.unwrap().len(), 1);
    let mut slow = cache.events();
    for first in (0..MANY).step_by(100) {
        let mut create = client.transaction();
        for number in first..first + 100 {
            let id = format!("n{number}");
            let node = format!("{base}/orders/n{number}");
            create = create
                .create(
                    &node,
                    instance(&id).to_json().unwrap(),
                    CreateMode::Persistent,
                )
                .unwrap();
        }
        soon(create.commit()).await.unwrap();
    }
    // The cache has all instances, although the slow consumer has not taken the events.
    let all = ids(&soon(cache.caught_up()).await.unwrap());
    assert_eq!(all.len(), MANY + 1);
    let resynced = soon(async {
        loop {
            if let ServiceEvent::Resync(instances) = slow.next().await.unwrap() {
                break instances;
            }
        }
    })
    .await;
    assert_eq!(ids(&resynced), all);
    soon(discovery(&client, &base).remove("orders", "n7"))
        .await
        .unwrap();
    assert_eq!(
        [next(&mut slow).await, next(&mut slow).await],
        ["ready", "n7 removed"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_off_cache_becomes_stale_and_keeps_or_hides_its_instances() {
    let (proxy, client) = behind_proxy().await;
    let others = connected().await;
    let base = path("cache-stale");
    let _a = registered(&others, &base, "a").await;
    let cache = discovery(&client, &base).start_cache("orders").unwrap();
    let empty = cache.clone().when_stale(WhenStale::Empty);
    assert!(empty.instances().is_empty());
    wait_for_instances(&cache, &["a"]).await;
    wait_for_instances(&empty, &["a"]).await;
    let provider = ServiceProvider::new(&empty, ProviderStrategy::RoundRobin);
    unplug(&proxy, &client).await;
    let mut states = cache.state();
    soon(states.wait_for(|state| matches!(state, CacheState::Stale { .. })))
        .await
        .unwrap();
    let instances = cache.instances();
    assert!(
        ids(&instances) == ["a"] && matches!(instances.state(), CacheState::Stale { .. }),
        "{instances:?}"
    );
    assert!(
        empty.instances().is_empty()
            && matches!(empty.instances().state(), CacheState::Stale { .. })
    );
    assert!(provider.instance().is_none());
    let _b = registered(&others, &base, "b").await;
    proxy.refuse(false).unwrap();
    wait_for_instances(&cache, &["a", "b"]).await;
    wait_for_instances(&empty, &["a", "b"]).await;
    assert!(provider.instance().is_some() && cache.last_error().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_chooses_by_its_strategy_and_offers_no_drained_instance() {
    let client = connected().await;
    let base = path("provider");
    let a = registered(&client, &base, "a").await;
    let _b = registered(&client, &base, "b").await;
    let _c = registered(&client, &base, "c").await;
    let cache = discovery(&client, &base).start_cache("orders").unwrap();
    soon(cache.caught_up()).await.unwrap();
    let chosen = |provider: &ServiceProvider| {
        (0..60)
            .map(|_| id(&provider.instance().unwrap()))
            .collect::<Vec<_>>()
    };
    let round_robin = ServiceProvider::new(&cache, ProviderStrategy::RoundRobin);
    assert_eq!(chosen(&round_robin)[..4], ["a", "b", "c", "a"]);
    let random = ServiceProvider::new(&cache, ProviderStrategy::Random);
    let mut all = chosen(&random);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all, ["a", "b", "c"]);
    let sticky = ServiceProvider::new(&cache, ProviderStrategy::Sticky);
    let kept = sticky.instance().unwrap();
    assert_eq!(chosen(&sticky), vec![id(&kept); 60]);
    soon(a.drain()).await.unwrap();
    assert_eq!(soon(cache.caught_up()).await.unwrap().len(), 3);
    for provider in [&round_robin, &random, &sticky] {
        assert!(!chosen(provider).contains(&"a".to_owned()));
    }
    assert_eq!(chosen(&sticky), vec![id(&sticky.instance().unwrap()); 60]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_fails_is_skipped_and_one_that_is_registered_again_is_not() {
    let client = connected().await;
    let base = path("rest");
    let a = registered(&client, &base, "a").await;
    let _b = registered(&client, &base, "b").await;
    let cache = discovery(&client, &base).start_cache("orders").unwrap();
    soon(cache.caught_up()).await.unwrap();
    let sticky = ServiceProvider::new(&cache, ProviderStrategy::Sticky);
    let offered = || sticky.instances().iter().map(id).collect::<Vec<_>>();
    let failing = cache.instances().get("a").unwrap().clone();
    sticky.note_error(&failing);
    assert_eq!(offered(), ["a", "b"]);
    sticky.note_error(&failing);
    assert_eq!(offered(), ["b"]);
    assert_eq!(id(&sticky.instance().unwrap()), "b");
    soon(a.deregister()).await.unwrap();
    let _a = registered(&client, &base, "a").await;
    soon(cache.caught_up()).await.unwrap();
    assert_eq!(offered(), ["a", "b"]);
    // A rest of zero length ends immediately.
    let brief =
        ServiceProvider::new(&cache, ProviderStrategy::Random).rest_after(1, Duration::ZERO);
    brief.note_error(&cache.instances().get("a").unwrap().clone());
    assert_eq!(brief.instances().len(), 2);
}

/// The node is replaced as after a lost session: deleted and created in one transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_whose_node_is_replaced_does_not_vanish_and_a_sticky_provider_keeps_it() {
    let client = connected().await;
    let base = path("replaced");
    let services = discovery(&client, &base);
    for id in ["a", "b", "c", "d", "e"] {
        soon(services.publish(&instance(id).service_type(ServiceType::Static)))
            .await
            .unwrap();
    }
    let cache = services.start_cache("orders").unwrap();
    soon(cache.caught_up()).await.unwrap();
    let sticky = ServiceProvider::new(&cache, ProviderStrategy::Sticky);
    let found = sticky.instance().unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let reader = std::thread::spawn({
        let cache = cache.clone();
        let done = Arc::clone(&done);
        move || {
            let mut vanished = 0;
            while !done.load(Ordering::Relaxed) {
                vanished += usize::from(cache.instances().len() < 5);
            }
            vanished
        }
    });
    for round in 0..500 {
        let replace = client
            .transaction()
            .delete(&found.path, None)
            .unwrap()
            .create(
                &found.path,
                found.to_json().unwrap(),
                CreateMode::Persistent,
            )
            .unwrap();
        soon(replace.commit()).await.unwrap();
        if round % 50 == 0 {
            soon(cache.caught_up()).await.unwrap();
            assert_eq!(sticky.instance().unwrap().id, found.id);
        }
    }
    done.store(true, Ordering::Relaxed);
    assert_eq!(reader.join().unwrap(), 0);
}

#[tokio::test]
async fn a_cache_that_has_ended_keeps_or_hides_its_last_instances() {
    let client = connected().await;
    let others = connected().await;
    let base = path("ended");
    let _a = registered(&others, &base, "a").await;
    let services = discovery(&client, &base);
    let too_large = services
        .cache_builder("orders")
        .unwrap()
        .max_instances(1)
        .start()
        .unwrap();
    let [closed, with_closed_client] = [(); 2].map(|()| services.start_cache("orders").unwrap());
    for cache in [&too_large, &closed, &with_closed_client] {
        wait_for_instances(cache, &["a"]).await;
    }
    soon(closed.close()).await.unwrap();
    let _b = registered(&others, &base, "b").await;
    soon(
        too_large
            .state()
            .wait_for(|state| *state == CacheState::Ended),
    )
    .await
    .unwrap();
    assert!(
        matches!(too_large.last_error(), Some(CacheError::TooLarge { .. })),
        "{:?}",
        too_large.last_error()
    );
    wait_for_instances(&with_closed_client, &["a", "b"]).await;
    client.close().await.unwrap();
    for cache in [closed, too_large, with_closed_client] {
        soon(cache.state().wait_for(|state| *state == CacheState::Ended))
            .await
            .unwrap();
        let kept = cache.instances();
        let hidden = cache.clone().when_stale(WhenStale::Empty).instances();
        assert_eq!([kept.state(), hidden.state()], [CacheState::Ended; 2]);
        assert!(
            kept.get("a").is_some() && hidden.is_empty(),
            "{kept:?} {hidden:?}"
        );
        let offers = |cache: ServiceCache| {
            ServiceProvider::new(&cache, ProviderStrategy::Sticky)
                .instance()
                .is_some()
        };
        assert!(offers(cache.clone()) && !offers(cache.when_stale(WhenStale::Empty)));
    }
}

/// No event reports a changed permission. The cache notices it when it reads everything again.
#[tokio::test]
async fn a_service_without_read_permission_is_unreadable_until_a_resync_finds_the_permission() {
    let client = connected().await;
    let base = path("cache-denied");
    let _a = registered(&client, &base, "a").await;
    let service = format!("{base}/orders");
    let permit = async |permissions| {
        let acl = [Acl::new(permissions, AuthId::anyone())];
        client.set_acl(&service, &acl, None).await.unwrap();
    };
    permit(Permission::CREATE | Permission::DELETE | Permission::ADMIN).await;
    let builder = discovery(&client, &base).cache_builder("orders").unwrap();
    let cache = builder
        .resync_every(Duration::from_millis(50))
        .start()
        .unwrap();
    let instances = soon(cache.ready()).await.unwrap();
    let unreadable: Vec<_> = instances
        .unreadable()
        .map(|node| (node.path.as_str(), &node.cause))
        .collect();
    assert_eq!(
        unreadable,
        [(service.as_str(), &InvalidInstance::NotPermitted)]
    );
    assert!(instances.is_empty());
    permit(Permission::ALL).await;
    wait_for_instances(&cache, &["a"]).await;
    assert_eq!(cache.instances().unreadable().count(), 0);
}

/// Gets the instances of the cache at each event of the log, and stores their ids in `found`.
struct AskingSubscriber {
    cache: ServiceCache,
    found: Arc<Mutex<Vec<Vec<String>>>>,
}

impl tracing::Subscriber for AskingSubscriber {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("curator_discovery")
    }

    fn event(&self, _event: &tracing::Event<'_>) {
        let ids = ids(&self.cache.instances());
        self.found.lock().unwrap().push(ids);
    }

    fn new_span(&self, _span: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _span: &span::Id, _values: &span::Record<'_>) {}
    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}
    fn enter(&self, _span: &span::Id) {}
    fn exit(&self, _span: &span::Id) {}
}

/// The cache must not hold a lock while it logs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_may_ask_for_the_instances_while_a_node_is_read() {
    let client = connected().await;
    let base = path("cache-asked");
    let _a = registered(&client, &base, "a").await;
    client
        .create()
        .for_path(format!("{base}/orders/b"), "{")
        .await
        .unwrap();
    let cache = discovery(&client, &base).start_cache("orders").unwrap();
    // Waits without reading the instances.
    soon(
        cache
            .state()
            .wait_for(|state| *state == CacheState::Current),
    )
    .await
    .unwrap();
    let found = Arc::default();
    let subscriber = AskingSubscriber {
        cache: cache.clone(),
        found: Arc::clone(&found),
    };
    // A separate thread, so that the test ends even if the call hangs.
    let (ids_tx, ids_rx) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = ids_tx.send(tracing::subscriber::with_default(subscriber, || {
            ids(&cache.instances())
        }));
    });
    assert_eq!(soon(ids_rx).await.expect("the thread panicked"), ["a"]);
    assert_eq!(*found.lock().unwrap(), [["a"]]);
}

/// Checks invalid instances with a secret, with a forged log line, and with a long value. The tests
/// of instances check more of them.
#[tokio::test]
async fn the_log_and_errors_contain_no_value_of_an_invalid_node() {
    const MARKER: &str = "sw0rdfish";
    let client = connected().await;
    let base = path("foreign-data");
    let _a = registered(&client, &base, "a").await;
    let services = discovery(&client, &base);
    let typed = services.with_payload::<ZookeeperInstance>();
    let node = format!("{base}/orders/b");
    client.create().for_path(&node, "").await.unwrap();
    for value in [
        MARKER,
        "sw0rdfish\\n2026-01-01 WARN forged \\u001b[2J",
        &MARKER.repeat(50_000),
    ] {
        let json = format!(r#"{{"name":"orders","id":"b","serviceType":"{value}"}}"#);
        client.set_data(&node, &json, None).await.unwrap();
        // New caches, because a cache does not log similar failures again.
        let raw_cache = services.start_cache("orders").unwrap();
        let cache = typed.start_cache("orders").unwrap();
        let log = listener();
        let (raw, found) = async {
            (
                soon(raw_cache.caught_up()).await.unwrap(),
                soon(cache.caught_up()).await.unwrap(),
            )
        }
        .with_subscriber(log.clone())
        .await;
        assert_eq!(
            [raw.unreadable().count(), found.unreadable().count()],
            [1, 1]
        );
        let lines = log.lines();
        assert_eq!(lines.len(), 2, "{lines:?}");
        for line in &lines {
            assert_eq!(line.get("path"), node);
        }
        let error = soon(typed.instance("orders", "b")).await.unwrap_err();
        for text in [
            format!("{lines:?}"),
            format!("{error}"),
            format!("{error:?} {error:#?}"),
            format!("{raw:?}"),
        ] {
            assert!(
                !text.contains(MARKER) && !text.contains("forged") && text.len() < 3_000,
                "{text:.1000}"
            );
        }
    }
}
