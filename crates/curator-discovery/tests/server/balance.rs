//! Tests of the stream of instances for a load balancer.

use std::convert::Infallible;

use curator_discovery::client::CreateMode;
use curator_discovery::{
    ServiceDiscover, ServiceInstance, ServiceType, WhenStale, ZookeeperInstance,
};
use curator_test::OpCode;
use tower::discover::{Change, Discover};

use crate::support::{
    behind_proxy, connected, discovery, instance, path, registered, soon, unplug, until,
};

/// The next change, as text.
async fn next(changes: &mut ServiceDiscover<String>) -> String {
    match soon(changes.next()).await.unwrap().unwrap() {
        Change::Insert(key, service) => format!("{key} at {service}"),
        Change::Remove(key) => format!("{key} removed"),
    }
}

fn assert_discover(_: &impl Discover<Key = String, Service = String, Error = Infallible>) {}

fn services(cache: &curator_discovery::ServiceCache) -> ServiceDiscover<String> {
    let changes = cache
        .discover(|instance| Some(format!("{}:{}", instance.address.as_ref()?, instance.port?)));
    assert_discover(&changes);
    changes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_deregistered_or_unusable_instance_is_removed_from_the_balancer() {
    let client = connected().await;
    let base = path("balance");
    let a = registered(&client, &base, "a").await;
    let cache = discovery(&client, &base).start_cache("orders").unwrap();
    let mut changes = services(&cache);
    assert_eq!(next(&mut changes).await, "a at 10.0.0.7:8080");
    let b = registered(&client, &base, "b").await;
    assert_eq!(next(&mut changes).await, "b at 10.0.0.7:8080");
    soon(a.update(instance("a").port(1))).await.unwrap();
    assert_eq!(next(&mut changes).await, "a at 10.0.0.7:1");
    soon(a.drain()).await.unwrap();
    assert_eq!(next(&mut changes).await, "a removed");
    soon(a.deregister()).await.unwrap();
    // Without an address, a client cannot connect.
    soon(b.update(ServiceInstance::new("orders").id("b")))
        .await
        .unwrap();
    assert_eq!(next(&mut changes).await, "b removed");
    soon(b.update(instance("b"))).await.unwrap();
    assert_eq!(next(&mut changes).await, "b at 10.0.0.7:8080");
    client.set_data(b.path(), "garbage", None).await.unwrap();
    assert_eq!(next(&mut changes).await, "b removed");
    let c = registered(&client, &base, "c").await;
    assert_eq!(next(&mut changes).await, "c at 10.0.0.7:8080");
    soon(c.deregister()).await.unwrap();
    assert_eq!(next(&mut changes).await, "c removed");
    soon(cache.close()).await.unwrap();
    assert!(soon(changes.next()).await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_whose_node_is_replaced_by_one_with_the_same_contents_keeps_its_connection() {
    let client = connected().await;
    let base = path("balance-same");
    let discovery = discovery(&client, &base);
    soon(discovery.publish(&instance("a").service_type(ServiceType::Static)))
        .await
        .unwrap();
    let cache = discovery.start_cache("orders").unwrap();
    let found = soon(cache.caught_up())
        .await
        .unwrap()
        .get("a")
        .unwrap()
        .clone();
    let mut changes = services(&cache);
    assert_eq!(next(&mut changes).await, "a at 10.0.0.7:8080");
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
    assert_ne!(
        soon(cache.caught_up())
            .await
            .unwrap()
            .get("a")
            .unwrap()
            .stat
            .czxid,
        found.stat.czxid
    );
    soon(discovery.publish(&ServiceInstance::clone(&found).port(1)))
        .await
        .unwrap();
    // No change was reported before this change.
    assert_eq!(next(&mut changes).await, "a at 10.0.0.7:1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_or_ended_cache_removes_all_services_only_with_when_stale_empty() {
    let (proxy, client) = behind_proxy().await;
    let others = connected().await;
    let base = path("balance-stale");
    let _a = registered(&others, &base, "a").await;
    let [cache, other] = [(); 2].map(|()| discovery(&client, &base).start_cache("orders").unwrap());
    let mut kept = services(&cache);
    let mut emptied = services(&cache.clone().when_stale(WhenStale::Empty));
    let mut emptied_before_the_end = services(&other.clone().when_stale(WhenStale::Empty));
    for changes in [&mut kept, &mut emptied, &mut emptied_before_the_end] {
        assert_eq!(next(changes).await, "a at 10.0.0.7:8080");
    }
    unplug(&proxy, &client).await;
    assert_eq!(
        [
            next(&mut emptied).await,
            next(&mut emptied_before_the_end).await
        ],
        ["a removed"; 2]
    );
    soon(other.close()).await.unwrap();
    assert!(soon(emptied_before_the_end.next()).await.is_none());
    proxy.refuse(false).unwrap();
    assert_eq!(next(&mut emptied).await, "a at 10.0.0.7:8080");
    soon(cache.close()).await.unwrap();
    assert_eq!(next(&mut emptied).await, "a removed");
    assert!(soon(kept.next()).await.is_none() && soon(emptied.next()).await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_spring_takes_out_of_service_is_removed_from_the_balancer() {
    let client = connected().await;
    let base = path("balance-spring");
    let spring_instance = |status: &str| {
        let mut payload = ZookeeperInstance::new("app-1", "orders");
        payload
            .metadata
            .insert("instance_status".to_owned(), status.to_owned());
        ServiceInstance::with_payload("orders", payload)
            .id("a")
            .address("10.0.0.7")
            .port(8080)
    };
    let a = discovery(&client, &base)
        .register(spring_instance("UP"))
        .unwrap();
    soon(a.registered()).await.unwrap();
    let mut changes = services(&discovery(&client, &base).start_cache("orders").unwrap());
    assert_eq!(next(&mut changes).await, "a at 10.0.0.7:8080");
    soon(a.update(spring_instance("OUT_OF_SERVICE")))
        .await
        .unwrap();
    assert_eq!(next(&mut changes).await, "a removed");
    soon(a.update(spring_instance("UP"))).await.unwrap();
    assert_eq!(next(&mut changes).await, "a at 10.0.0.7:8080");
}

/// If the connection breaks while a cache loads, the cache stays in this state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_that_is_loading_can_hide_the_instances_that_it_has_read() {
    /// More instances than a cache reads in its first request for instances.
    const INSTANCES: usize = 20;
    let (proxy, client) = behind_proxy().await;
    let others = connected().await;
    let base = path("balance-loading");
    let mut registrations = Vec::new();
    for number in 0..INSTANCES {
        registrations.push(registered(&others, &base, &format!("i{number}")).await);
    }
    // The first reply has the names of the instances; the second has some of the instances.
    proxy.hold_nth_reply(OpCode::MultiRead, 3);
    let cache = discovery(&client, &base).start_cache("orders").unwrap();
    let hiding = cache.clone().when_stale(WhenStale::Empty);
    until(async || cache.instances().iter().count() > 0).await;
    assert_eq!(hiding.instances().iter().count(), 0);
    proxy.release_held();
    soon(cache.ready()).await.unwrap();
    assert_eq!(
        [&cache, &hiding].map(|cache| cache.instances().iter().count()),
        [INSTANCES; 2]
    );
}
