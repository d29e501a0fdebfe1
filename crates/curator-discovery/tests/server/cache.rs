//! Tests of caches, which follow the instances of a service, and of providers, which select one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use curator_discovery::client::{Acl, AuthId, CreateMode, Error as ClientError, Permission};
use curator_discovery::{
    CacheError, CacheState, DiscoveryError, InvalidInstance, Payload, ProviderStrategy, ServiceCache, ServiceEvent,
    ServiceEvents, ServiceInstance, ServiceProvider, ServiceType, WhenStale, ZookeeperInstance,
};
use curator_test::TestingServer;
use tracing::instrument::WithSubscriber as _;
use tracing::span;

use crate::support::{
    LONG_SESSION, behind_proxy, builder, connected, discovery, id, ids, instance, listener, path, registered, soon,
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
        ServiceEvent::Changed { old, new } => format!("{}: {:?} to {:?}", new.id, old.port, new.port),
        ServiceEvent::Removed(instance) => format!("{} removed", instance.id),
        ServiceEvent::Ready => "ready".to_owned(),
        other => format!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cache_events_report_added_changed_and_removed_instances() {
    let (client, others, base) = (connected().await, connected().await, path("cache"));
    let cache = discovery(&others, &base).start_cache("orders").unwrap();
    assert_eq!((cache.name(), soon(cache.ready()).await.unwrap().len()), ("orders", 0));
    let mut events = cache.events();
    assert_eq!(next(&mut events).await, "ready");
    let a = registered(&client, &base, "a").await;
    assert_eq!(next(&mut events).await, "a inserted");
    let b = registered(&client, &base, "b").await;
    assert_eq!(next(&mut events).await, "b inserted");
    soon(a.update(instance("a").port(9090))).await.unwrap();
    assert_eq!(next(&mut events).await, "a: Some(8080) to Some(9090)");
    let instances = soon(cache.caught_up()).await.unwrap();
    assert_eq!((ids(&instances), instances.get("a").unwrap().port), (vec!["a".to_owned(), "b".to_owned()], Some(9090)));
    assert_eq!(instances.get("b").unwrap().stat.ephemeral_owner, client.session().await.unwrap().id());
    soon(a.deregister()).await.unwrap();
    assert_eq!(next(&mut events).await, "a removed");
    wait_for_instances(&cache, &["b"]).await;
    // The earlier instances are unchanged.
    assert_eq!(instances.len(), 2);
    soon(cache.close()).await.unwrap();
    assert!(soon(events.next()).await.is_none());
    assert_eq!((ids(&cache.instances()), cache.instances().state()), (vec!["b".to_owned()], CacheState::Ended));
    assert!(soon(cache.ready()).await.unwrap_err().is_closed());
    drop(b);
}

/// Curator only logs invalid JSON: CURATOR-574, CURATOR-452.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_reports_a_node_with_invalid_json_and_keeps_the_other_instances() {
    let (client, base) = (connected().await, path("cache-garbage"));
    let (_a, b) = (registered(&client, &base, "a").await, format!("{base}/orders/b"));
    let cache = discovery(&client, &base).start_cache("orders").unwrap();
    soon(cache.ready()).await.unwrap();
    let mut events = cache.events();
    assert_eq!([next(&mut events).await, next(&mut events).await], ["a inserted", "ready"]);
    client.create().for_path(&b, "{").await.unwrap();
    let instances = soon(cache.caught_up()).await.unwrap();
    assert_eq!((ids(&instances), instances.unreadable().next().unwrap().path.as_str()), (vec!["a".to_owned()], &*b));
    client.set_data(&b, instance("b").to_json().unwrap(), None).await.unwrap();
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
    let (client, others, base) = (connected().await, connected().await, path("cache-slow"));
    let services = discovery(&client, &base);
    for id in ["goes", "stays"] {
        soon(services.publish(&instance(id).service_type(ServiceType::Static))).await.unwrap();
    }
    let cache = discovery(&others, &base).start_cache("orders").unwrap();
    assert_eq!(soon(cache.caught_up()).await.unwrap().len(), 2);
    let (mut slow, mut wanted) = (cache.events(), vec!["stays".to_owned()]);
    for first in (0..MANY).step_by(100) {
        let mut create = client.transaction();
        for number in first..first + 100 {
            let (id, node) = (format!("n{number:04}"), format!("{base}/orders/n{number:04}"));
            create = create.create(&node, instance(&id).to_json().unwrap(), CreateMode::Persistent).unwrap();
            wanted.push(id);
        }
        soon(create.commit()).await.unwrap();
    }
    soon(services.remove("orders", "goes")).await.unwrap();
    wanted.sort_unstable();
    // The cache has all instances, although the slow consumer has not taken the events.
    assert_eq!(ids(&soon(cache.caught_up()).await.unwrap()), wanted);
    let resync = async {
        loop {
            if let ServiceEvent::Resync(instances) = slow.next().await.unwrap() {
                break instances;
            }
        }
    };
    assert_eq!(ids(&soon(resync).await), wanted);
    soon(services.remove("orders", "stays")).await.unwrap();
    assert_eq!([next(&mut slow).await, next(&mut slow).await], ["ready", "stays removed"]);
}

/// Curator's cache does not fill again: CURATOR-163.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_is_empty_after_its_directory_is_deleted_and_fills_again() {
    let (client, others, base) = (connected().await, connected().await, path("cache-deleted"));
    let a = registered(&client, &base, "a").await;
    let cache = discovery(&others, &base).start_cache("orders").unwrap();
    wait_for_instances(&cache, &["a"]).await;
    soon(a.deregister()).await.unwrap();
    let directory = format!("{base}/orders");
    // The directory is a container, so the server may have deleted it already.
    let _ = others.delete().for_path(&directory).await;
    assert_eq!(others.check_exists(&directory).await.unwrap(), None);
    assert!(soon(cache.caught_up()).await.unwrap().is_empty());
    wait_for_instances(&cache, &[]).await;
    let _b = registered(&client, &base, "b").await;
    wait_for_instances(&cache, &["b"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_off_cache_becomes_stale_and_keeps_or_hides_its_instances() {
    let ((proxy, client), others, base) = (behind_proxy().await, connected().await, path("cache-stale"));
    let _a = registered(&others, &base, "a").await;
    let cache = discovery(&client, &base).start_cache("orders").unwrap();
    let empty = cache.clone().when_stale(WhenStale::Empty);
    assert!(empty.instances().is_empty());
    wait_for_instances(&cache, &["a"]).await;
    wait_for_instances(&empty, &["a"]).await;
    let provider = ServiceProvider::new(&empty, ProviderStrategy::RoundRobin);
    unplug(&proxy, &client).await;
    let mut states = cache.state();
    soon(states.wait_for(|state| matches!(state, CacheState::Stale { .. }))).await.unwrap();
    let instances = cache.instances();
    assert!(ids(&instances) == ["a"] && matches!(instances.state(), CacheState::Stale { .. }), "{instances:?}");
    assert!(empty.instances().is_empty() && matches!(empty.instances().state(), CacheState::Stale { .. }));
    assert!(provider.instance().is_none());
    let _b = registered(&others, &base, "b").await;
    proxy.refuse(false).unwrap();
    wait_for_instances(&cache, &["a", "b"]).await;
    wait_for_instances(&empty, &["a", "b"]).await;
    assert!(provider.instance().is_some() && cache.last_error().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_chooses_by_its_strategy_and_offers_no_drained_instance() {
    let (client, base) = (connected().await, path("provider"));
    let a = registered(&client, &base, "a").await;
    let _b = registered(&client, &base, "b").await;
    let _c = registered(&client, &base, "c").await;
    let cache = discovery(&client, &base).start_cache("orders").unwrap();
    soon(cache.caught_up()).await.unwrap();
    let chosen = |provider: &ServiceProvider| (0..60).map(|_| id(&provider.instance().unwrap())).collect::<Vec<_>>();
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
    let (client, base) = (connected().await, path("rest"));
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
    // With a period of zero, a rest ends immediately.
    let brief = ServiceProvider::new(&cache, ProviderStrategy::Random).rest_after(1, Duration::ZERO);
    brief.note_error(&cache.instances().get("a").unwrap().clone());
    assert_eq!(brief.instances().len(), 2);
}

/// The node is replaced as after a lost session: deleted and created in one transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_does_not_vanish_while_its_node_is_replaced() {
    let (client, base) = (connected().await, path("replaced"));
    let services = discovery(&client, &base);
    soon(services.publish(&instance("a").service_type(ServiceType::Static))).await.unwrap();
    let cache = services.start_cache("orders").unwrap();
    let found = soon(cache.caught_up()).await.unwrap().get("a").unwrap().clone();
    let sticky = ServiceProvider::new(&cache, ProviderStrategy::Sticky);
    let is_over = Arc::new(AtomicBool::new(false));
    let reader = std::thread::spawn({
        let (cache, is_over) = (cache.clone(), Arc::clone(&is_over));
        move || {
            let mut vanished = 0;
            while !is_over.load(Ordering::Relaxed) {
                vanished += usize::from(cache.instances().is_empty());
            }
            vanished
        }
    });
    for _ in 0..500 {
        let replace = client.transaction().delete(&found.path, None).unwrap();
        let replace = replace.create(&found.path, found.to_json().unwrap(), CreateMode::Persistent).unwrap();
        soon(replace.commit()).await.unwrap();
    }
    soon(cache.caught_up()).await.unwrap();
    assert!(sticky.instance().is_some());
    is_over.store(true, Ordering::Relaxed);
    assert_eq!(reader.join().unwrap(), 0);
}

#[tokio::test]
async fn a_sticky_provider_keeps_an_instance_whose_node_is_replaced() {
    let (client, base) = (connected().await, path("sticky"));
    let services = discovery(&client, &base);
    for id in ["a", "b", "c", "d", "e"] {
        soon(services.publish(&instance(id).service_type(ServiceType::Static))).await.unwrap();
    }
    let cache = services.start_cache("orders").unwrap();
    soon(cache.caught_up()).await.unwrap();
    let sticky = ServiceProvider::new(&cache, ProviderStrategy::Sticky);
    for _ in 0..10 {
        let kept = sticky.instance().unwrap();
        let replace = client.transaction().delete(&kept.path, None).unwrap();
        let replace = replace.create(&kept.path, kept.to_json().unwrap(), CreateMode::Persistent).unwrap();
        soon(replace.commit()).await.unwrap();
        soon(cache.caught_up()).await.unwrap();
        assert_eq!(sticky.instance().unwrap().id, kept.id);
    }
}

#[tokio::test]
async fn a_cache_that_has_ended_keeps_or_hides_its_last_instances() {
    let (client, others, base) = (connected().await, connected().await, path("ended"));
    let _a = registered(&others, &base, "a").await;
    let services = discovery(&client, &base);
    let [closed, of_closed_client] = [(); 2].map(|()| services.start_cache("orders").unwrap());
    for cache in [&closed, &of_closed_client] {
        soon(cache.caught_up()).await.unwrap();
    }
    soon(closed.close()).await.unwrap();
    client.close().await.unwrap();
    for cache in [closed, of_closed_client] {
        let mut states = cache.state();
        soon(states.wait_for(|state| *state == CacheState::Ended)).await.unwrap();
        let (kept, hidden) = (cache.instances(), cache.clone().when_stale(WhenStale::Empty).instances());
        assert_eq!([kept.state(), hidden.state()], [CacheState::Ended; 2]);
        assert_eq!((ids(&kept), ids(&hidden)), (vec!["a".to_owned()], Vec::new()));
        let offers = |cache: ServiceCache| ServiceProvider::new(&cache, ProviderStrategy::Sticky).instance().is_some();
        assert!(offers(cache.clone()) && !offers(cache.when_stale(WhenStale::Empty)));
    }
}

#[tokio::test]
async fn a_service_that_may_not_be_read_is_reported_as_unreadable() {
    let (client, base) = (connected().await, path("cache-denied"));
    let _a = registered(&client, &base, "a").await;
    let service = format!("{base}/orders");
    let permit = async |permissions| {
        let acl = [Acl::new(permissions, AuthId::anyone())];
        client.set_acl(&service, &acl, None).await.unwrap();
    };
    permit(Permission::CREATE | Permission::DELETE | Permission::ADMIN).await;
    let cache = discovery(&client, &base).start_cache("orders").unwrap();
    let instances = soon(cache.ready()).await.unwrap();
    let unreadable: Vec<_> = instances.unreadable().map(|node| (node.path.as_str(), &node.cause)).collect();
    assert_eq!(unreadable, [(service.as_str(), &InvalidInstance::NotPermitted)]);
    assert!(instances.is_empty());
    permit(Permission::ALL).await;
    // No event reports a changed permission. The cache notices it when the next event makes it read again.
    let _b = registered(&client, &base, "b").await;
    let instances = soon(cache.caught_up()).await.unwrap();
    assert_eq!((ids(&instances), instances.unreadable().count()), (vec!["a".to_owned(), "b".to_owned()], 0));
}

/// Spring Cloud ZooKeeper takes an instance out of service by an entry in the metadata, and its clients look at it.
#[tokio::test]
async fn a_provider_offers_no_instance_that_spring_has_taken_out_of_service() {
    let (client, base) = (connected().await, path("spring"));
    let services = discovery(&client, &base);
    let publish = async |id: &str, status: &str| {
        let mut payload = ZookeeperInstance::new("app-1", "orders");
        payload.metadata.insert("instance_status".to_owned(), status.to_owned());
        let instance = ServiceInstance::with_payload("orders", payload).id(id).service_type(ServiceType::Static);
        soon(services.publish(&instance)).await.unwrap();
    };
    publish("out", "OUT_OF_SERVICE").await;
    publish("up", "UP").await;
    let (raw, typed) = (services.start_cache("orders").unwrap(), services.with_payload::<ZookeeperInstance>());
    let typed = typed.start_cache("orders").unwrap();
    assert_eq!(ids(&soon(raw.caught_up()).await.unwrap()), ["out", "up"]);
    assert_eq!(ids(&soon(typed.caught_up()).await.unwrap()), ["out", "up"]);
    let offered = ServiceProvider::new(&typed, ProviderStrategy::RoundRobin);
    let offered_raw = ServiceProvider::new(&raw, ProviderStrategy::RoundRobin);
    let both = || (offered.instances().iter().map(id).collect(), offered_raw.instances().iter().map(id).collect());
    assert_eq!(both(), (vec!["up".to_owned()], vec!["up".to_owned()]));
    assert_eq!([id(&offered.instance().unwrap()), id(&offered.instance().unwrap())], ["up"; 2]);
    publish("out", "UP").await;
    soon(raw.caught_up()).await.unwrap();
    soon(typed.caught_up()).await.unwrap();
    let all = vec!["out".to_owned(), "up".to_owned()];
    assert_eq!(both(), (all.clone(), all));
}

/// No event reports a changed permission.
#[tokio::test]
async fn a_cache_with_a_resync_interval_notices_a_changed_permission() {
    let (client, base) = (connected().await, path("cache-resync"));
    let _a = registered(&client, &base, "a").await;
    let permit = async |permissions| {
        let acl = [Acl::new(permissions, AuthId::anyone())];
        client.set_acl(&format!("{base}/orders/a"), &acl, None).await.unwrap();
    };
    permit(Permission::ADMIN | Permission::DELETE).await;
    let services = discovery(&client, &base);
    let builder = services.cache_builder("orders").unwrap();
    let cache = builder.resync_every(Duration::from_millis(50)).start().unwrap();
    assert_eq!(soon(cache.ready()).await.unwrap().unreadable().count(), 1);
    permit(Permission::ALL).await;
    wait_for_instances(&cache, &["a"]).await;
    let refused = services.cache_builder("orders").unwrap().resync_every(Duration::ZERO).start().unwrap_err();
    assert!(
        matches!(refused, DiscoveryError::Cache(CacheError::Client(ClientError::InvalidOption { .. }))),
        "{refused}"
    );
}

#[tokio::test]
async fn a_cache_that_was_too_large_hides_its_instances_with_when_stale_empty() {
    let (client, base) = (connected().await, path("cache-too-large"));
    let services = discovery(&client, &base);
    let _a = registered(&client, &base, "a").await;
    let cache = services.cache_builder("orders").unwrap().max_instances(1).start().unwrap();
    wait_for_instances(&cache, &["a"]).await;
    let _b = registered(&client, &base, "b").await;
    soon(cache.state().wait_for(|state| *state == CacheState::Ended)).await.unwrap();
    assert!(matches!(cache.last_error(), Some(CacheError::TooLarge { .. })), "{:?}", cache.last_error());
    assert!(!cache.instances().is_empty() && cache.when_stale(WhenStale::Empty).instances().is_empty());
}

/// The cache that the payload asks for its instances, once.
static ASKED: Mutex<Option<ServiceCache<Asking>>> = Mutex::new(None);

#[derive(Clone, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
struct Asking(String);

impl Payload for Asking {
    fn is_in_service(&self) -> bool {
        let asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner).take();
        asked.is_none_or(|cache| !cache.instances().is_empty())
    }
}

/// Asks the cache for its instances at each event.
struct AskingSubscriber(ServiceCache<Asking>, Arc<Mutex<Vec<Vec<String>>>>);

impl tracing::Subscriber for AskingSubscriber {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("curator_discovery")
    }

    fn event(&self, _event: &tracing::Event<'_>) {
        let ids = ids(&self.0.instances());
        self.1.lock().unwrap().push(ids);
    }

    fn new_span(&self, _span: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _span: &span::Id, _values: &span::Record<'_>) {}
    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}
    fn enter(&self, _span: &span::Id) {}
    fn exit(&self, _span: &span::Id) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_and_a_subscriber_may_ask_for_the_instances_while_a_node_is_read() {
    let (client, base) = (connected().await, path("cache-asked"));
    let typed = discovery(&client, &base).with_payload::<Asking>();
    let a = ServiceInstance::with_payload("orders", Asking("x".to_owned())).id("a").service_type(ServiceType::Static);
    soon(typed.publish(&a)).await.unwrap();
    client.create().for_path(format!("{base}/orders/b"), "{").await.unwrap();
    let cache = typed.start_cache("orders").unwrap();
    // Waits without reading the instances.
    let mut state = cache.state();
    soon(state.wait_for(|state| *state == CacheState::Current)).await.unwrap();
    let found = Arc::default();
    let subscriber = AskingSubscriber(cache.clone(), Arc::clone(&found));
    *ASKED.lock().unwrap() = Some(cache.clone());
    // A thread of its own: a call that hangs does not keep the test from ending.
    let (sender, asked) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = sender.send(tracing::subscriber::with_default(subscriber, || ids(&cache.instances())));
    });
    assert_eq!(soon(asked).await.expect("the thread panicked"), ["a"]);
    assert_eq!(*found.lock().unwrap(), [["a"]]);
    assert!(ASKED.lock().unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_cannot_be_read_is_logged_once_for_many_writes_and_its_recovery_once() {
    let (base, name) = (path("cache-unreadable"), "unreadable-often");
    let server = TestingServer::shared().await.connect_string();
    let client = builder(&server, LONG_SESSION).name(name).connect().await.unwrap();
    let cache = discovery(&client, &base).start_cache("orders").unwrap();
    let node = format!("{base}/orders/b");
    client.create().creating_parent_containers().for_path(&node, "{").await.unwrap();
    let log = listener();
    let written = async {
        for length in 1..=50 {
            client.set_data(&node, "[".repeat(length), None).await.unwrap();
            assert_eq!(soon(cache.caught_up()).await.unwrap().unreadable().count(), 1);
        }
        client.set_data(&node, instance("b").to_json().unwrap(), None).await.unwrap();
        assert_eq!(soon(cache.caught_up()).await.unwrap().len(), 1);
    };
    written.with_subscriber(log.clone()).await;
    let lines: Vec<_> = log.lines_with("client", name).iter().map(|line| line.message.clone()).collect();
    let [failed, recovered] =
        ["a node cannot be read as an instance, and is left out", "all nodes can be read as instances again"];
    assert_eq!(lines, [failed, recovered].map(|text| format!("service discovery: {text}")));
}
