//! Tests of single queries, and of published instances.

use std::time::Duration;

use curator_discovery::client::{Acl, AuthId, CreateMode, CuratorClientBuilder, Outcome, Permission, RetryNTimes};
use curator_discovery::{DiscoveryError, InvalidInstance, ServiceInstance, ServiceType, ZookeeperInstance};

use curator_test::{FaultProxy, OpCode, TestingServer};

use crate::support::{
    LONG_SESSION, behind_proxy, behind_proxy_with, builder, connected, discovery, ids, instance, path, registered,
    soon, unplug, until,
};

#[tokio::test]
async fn registered_instances_are_found() {
    let (client, base) = (connected().await, path("services"));
    let services = discovery(&client, &base);
    assert_eq!(soon(services.names()).await.unwrap(), [""; 0]);
    assert!(soon(services.instances("orders")).await.unwrap().is_empty());
    assert!(soon(services.instance("orders", "a")).await.unwrap().is_none());
    let _a = registered(&client, &base, "a").await;
    let _b = registered(&client, &base, "b").await;
    assert_eq!(soon(services.names()).await.unwrap(), ["orders"]);
    let found = soon(services.instances("orders")).await.unwrap();
    assert_eq!(ids(&found), ["a", "b"]);
    let a = soon(services.instance("orders", "a")).await.unwrap().unwrap();
    assert_eq!(*a, **found.get("a").unwrap());
    assert_eq!((a.address.as_deref(), a.port, a.enabled), (Some("10.0.0.7"), Some(8080), true));
    assert_eq!(a.stat.ephemeral_owner, client.session().await.unwrap().id());
    assert_eq!(a.path.as_str(), format!("{base}/orders/a"));
    assert!(services.instances("a/b").await.is_err() && services.instance("orders", "").await.is_err());
}

#[tokio::test]
async fn a_query_lists_once_reads_each_instance_and_omits_those_deleted_meanwhile() {
    let ((proxy, client), others, base) = (behind_proxy().await, connected().await, path("meanwhile"));
    let a = registered(&others, &base, "a").await;
    let _b = registered(&others, &base, "b").await;
    proxy.reset_counts();
    proxy.hold_replies(OpCode::GetChildren);
    let services = discovery(&client, &base);
    let query = tokio::spawn(async move { services.instances("orders").await });
    proxy.wait_for_reply(OpCode::GetChildren, 1).await.unwrap();
    soon(a.deregister()).await.unwrap();
    proxy.release_held();
    assert_eq!(ids(&soon(query).await.unwrap().unwrap()), ["b"]);
    let mut requests = proxy.requests();
    requests.remove(&OpCode::Sync);
    assert_eq!(requests, [(OpCode::GetChildren, 1), (OpCode::GetData, 2)].into());
}

#[tokio::test]
async fn missing_parents_become_containers_without_data() {
    let server = TestingServer::builder().container_check_interval(Duration::from_millis(100)).start().await.unwrap();
    let client = builder(&server.connect_string(), LONG_SESSION).connect().await.unwrap();
    let a = registered(&client, "/top", "a").await;
    let bill = ServiceInstance::new("bills").id("b").service_type(ServiceType::Static);
    soon(discovery(&client, "/top").publish(&bill)).await.unwrap();
    for dir in ["/top", "/top/orders", "/top/bills"] {
        assert_eq!(client.get_data(dir).await.unwrap().0, b"", "{dir}");
    }
    soon(discovery(&client, "/top").remove("bills", "b")).await.unwrap();
    soon(a.deregister()).await.unwrap();
    // The server removes containers that have had children, and no others.
    until(async || client.check_exists("/top").await.unwrap().is_none()).await;
}

#[tokio::test]
async fn a_query_finds_all_instances_beside_a_node_with_invalid_json() {
    let (client, base) = (connected().await, path("garbage"));
    let services = discovery(&client, &base);
    let _a = registered(&client, &base, "a").await;
    client.create().for_path(format!("{base}/orders/b"), "no JSON").await.unwrap();
    let found = soon(services.instances("orders")).await.unwrap();
    assert_eq!(ids(&found), ["a"]);
    let unreadable = found.unreadable().next().unwrap();
    assert_eq!((unreadable.path.name(), unreadable.stat.unwrap().data_length), ("b", 7));
    let error = soon(services.instance("orders", "b")).await.unwrap_err();
    assert!(
        matches!(error, DiscoveryError::Unreadable(ref unreadable) if matches!(unreadable.cause, InvalidInstance::NotAnObject { .. })),
        "{error:?}"
    );
    assert!(!error.is_retryable() && !error.is_closed());
}

#[tokio::test]
async fn an_instance_is_found_with_the_requested_payload_type() {
    let (client, base) = (connected().await, path("payload"));
    let services = discovery(&client, &base);
    let spring = ZookeeperInstance::new("orders-1", "orders");
    let registration = services.register(ServiceInstance::with_payload("orders", spring.clone()).id("a")).unwrap();
    soon(registration.registered()).await.unwrap();
    let found = soon(services.with_payload::<ZookeeperInstance>().instances("orders")).await.unwrap();
    assert_eq!(found.get("a").unwrap().payload.as_ref(), Some(&spring));
    let raw = soon(services.instance("orders", "a")).await.unwrap().unwrap();
    let class = "org.springframework.cloud.zookeeper.discovery.ZookeeperInstance";
    let json = format!(r#"{{"@class":"{class}","id":"orders-1","name":"orders","metadata":{{}}}}"#);
    assert_eq!(raw.payload.as_ref().unwrap().as_str(), json);
    assert_eq!(raw.payload.as_ref().unwrap().parse::<ZookeeperInstance>().unwrap(), spring);
    let texts = soon(services.with_payload::<String>().instances("orders")).await.unwrap();
    assert_eq!((texts.len(), texts.unreadable().count()), (0, 1));
}

/// Curator's `ServiceDiscovery` removes permanent instances when it is closed, and recreates them at a reconnect:
/// CURATOR PR 2.
#[tokio::test]
async fn a_permanent_instance_stays_until_it_is_removed() {
    let (client, others, base) = (connected().await, connected().await, path("permanent"));
    let services = discovery(&client, &base);
    let permanent = instance("a").service_type(ServiceType::Permanent);
    soon(services.publish(&permanent)).await.unwrap();
    soon(services.publish(&permanent.clone().port(9090))).await.unwrap();
    soon(client.close()).await.unwrap();
    let services = discovery(&others, &base);
    let found = soon(services.instance("orders", "a")).await.unwrap().unwrap();
    assert_eq!((found.port, found.service_type, found.stat.ephemeral_owner), (Some(9090), ServiceType::Permanent, 0));
    soon(services.remove("orders", "a")).await.unwrap();
    soon(services.remove("orders", "a")).await.unwrap();
    assert!(soon(services.instances("orders")).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_permanent_instance_that_was_removed_does_not_come_back_at_a_reconnect() {
    let ((proxy, client), others, base) = (behind_proxy().await, connected().await, path("removed"));
    let services = discovery(&client, &base);
    soon(services.publish(&instance("a").service_type(ServiceType::Permanent))).await.unwrap();
    let _b = registered(&client, &base, "b").await;
    soon(discovery(&others, &base).remove("orders", "a")).await.unwrap();
    unplug(&proxy, &client).await;
    proxy.refuse(false).unwrap();
    until(async || client.try_session().is_ok()).await;
    for _ in 0..20 {
        assert_eq!(ids(&soon(services.instances("orders")).await.unwrap()), ["b"]);
    }
}

#[tokio::test]
async fn publish_and_remove_are_retried_after_a_lost_request_or_reply() {
    type Fault = fn(&FaultProxy, OpCode);
    let faults: [Fault; 2] = [FaultProxy::cut_before_request, FaultProxy::cut_before_reply];
    for fault in faults {
        let ((proxy, client), base) = (behind_proxy().await, path("lost-answers"));
        let services = discovery(&client, &base);
        let permanent = |port| instance("a").service_type(ServiceType::Permanent).port(port);
        for (port, op) in [(1, OpCode::Create2), (2, OpCode::SetData)] {
            fault(&proxy, op);
            soon(services.publish(&permanent(port))).await.unwrap();
            proxy.wait_for_faults().await.unwrap();
            assert_eq!(soon(services.instance("orders", "a")).await.unwrap().unwrap().port, Some(port));
        }
        fault(&proxy, OpCode::Delete);
        soon(services.remove("orders", "a")).await.unwrap();
        proxy.wait_for_faults().await.unwrap();
        assert!(soon(services.instance("orders", "a")).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn publish_fails_when_the_retry_policy_gives_up_after_lost_requests() {
    let policy = RetryNTimes::new(2, Duration::from_millis(10)).unwrap();
    let (proxy, client) = behind_proxy_with(|client| client.retry_policy(policy)).await;
    let (base, permanent) = (path("lost-requests"), instance("a").service_type(ServiceType::Permanent));
    client.create().creating_parent_containers().for_path(format!("{base}/orders"), "").await.unwrap();
    for op in [OpCode::Create2, OpCode::SetData] {
        proxy.reset_counts();
        (1..=10).for_each(|nth| proxy.cut_before_nth_request(op, nth));
        let error = soon(discovery(&client, &base).publish(&permanent)).await.unwrap_err();
        assert_eq!((error.outcome(), error.is_retryable()), (Outcome::Unknown, true), "{error}");
        assert_eq!(proxy.requests()[&op], 3);
        // The next round writes an existing instance.
        soon(discovery(&connected().await, &base).publish(&permanent)).await.unwrap();
    }
}

#[tokio::test]
async fn the_outcome_of_a_publish_is_unknown_if_the_connection_does_not_return_after_a_lost_reply() {
    let options = |client: CuratorClientBuilder| {
        let policy = RetryNTimes::new(1, Duration::from_millis(10)).unwrap();
        client.connection_timeout(Duration::from_secs(4)).retry_policy(policy)
    };
    let (others, base) = (connected().await, path("publish-outcome"));
    others.create().creating_parent_containers().for_path(format!("{base}/orders"), "").await.unwrap();
    for (op, port) in [(OpCode::Create2, 1), (OpCode::SetData, 2)] {
        let (proxy, client) = behind_proxy_with(options).await;
        let (services, permanent) = (discovery(&client, &base), instance("a").service_type(ServiceType::Permanent));
        proxy.hold_nth_reply(op, 1);
        let publishing = tokio::spawn(async move { services.publish(&permanent.port(port)).await });
        soon(proxy.wait_for_reply(op, 1)).await.unwrap();
        proxy.refuse(true).unwrap();
        proxy.cut();
        let error = soon(publishing).await.unwrap().unwrap_err();
        assert_eq!((error.outcome(), error.is_retryable()), (Outcome::Unknown, true), "{op:?}: {error}");
        let found = soon(discovery(&others, &base).instance("orders", "a")).await.unwrap().unwrap();
        assert_eq!(found.port, Some(port));
    }
}

#[tokio::test]
async fn the_service_type_decides_between_register_and_publish() {
    let (client, base) = (connected().await, path("types"));
    let services = discovery(&client, &base);
    let is_refused = |error: DiscoveryError, wanted: &str| matches!(&error, DiscoveryError::Invalid(InvalidInstance::ServiceType { operation, .. }) if *operation == wanted);
    for service_type in [ServiceType::Static, ServiceType::Permanent, ServiceType::DynamicSequential] {
        let error = services.register(instance("a").service_type(service_type)).unwrap_err();
        assert!(is_refused(error, "registered"), "{service_type:?}");
    }
    for service_type in [ServiceType::Dynamic, ServiceType::DynamicSequential] {
        let error = services.publish(&instance("a").service_type(service_type)).await.unwrap_err();
        assert!(is_refused(error, "published"), "{service_type:?}");
    }
    assert!(services.register(instance("a/b")).is_err() && services.register(ServiceInstance::new("")).is_err());
    assert_eq!(client.get_children("/").await.unwrap().iter().find(|name| format!("/{name}") == base), None);
}

/// Java writes such nodes, with a sequence number after the id.
#[tokio::test]
async fn a_sequential_instance_of_java_is_found() {
    let (client, base) = (connected().await, path("sequential"));
    let json = instance("a").service_type(ServiceType::DynamicSequential).to_json().unwrap();
    let create = client.create().creating_parent_containers().with_mode(CreateMode::EphemeralSequential);
    create.for_path(format!("{base}/orders/a"), json).await.unwrap();
    let found = soon(discovery(&client, &base).instances("orders")).await.unwrap();
    assert_eq!(found.get("a").unwrap().path.name(), "a0000000000");
}

#[tokio::test]
async fn an_instance_without_read_permission_hides_no_other() {
    let (client, others, base) = (connected().await, connected().await, path("no-auth"));
    let _a = registered(&client, &base, "a").await;
    let acl = [Acl::new(Permission::DELETE, AuthId::anyone())];
    others.create().with_acl(acl).for_path(format!("{base}/orders/b"), "{}").await.unwrap();
    let services = discovery(&client, &base);
    let cache = services.start_cache("orders").unwrap();
    for found in [soon(services.instances("orders")).await.unwrap(), soon(cache.caught_up()).await.unwrap()] {
        assert_eq!(ids(&found), ["a"]);
        let [unreadable] = found.unreadable().collect::<Vec<_>>()[..] else { panic!("{found:?}") };
        assert_eq!((unreadable.path.name(), &unreadable.cause), ("b", &InvalidInstance::NotPermitted));
    }
}

#[tokio::test]
async fn a_service_may_have_more_instances_than_the_client_may_have_requests_in_flight() {
    let (client, base) = (connected().await, path("few-requests"));
    let services = discovery(&client, &base);
    let static_instance = |number: usize| instance(&format!("i{number}")).service_type(ServiceType::Static);
    for number in 0..100 {
        services.publish(&static_instance(number)).await.unwrap();
    }
    let server = TestingServer::shared().await.connect_string();
    let few = builder(&server, LONG_SESSION).max_requests_in_flight(70).connect().await.unwrap();
    assert_eq!(soon(discovery(&few, &base).instances("orders")).await.unwrap().len(), 100);
}

#[tokio::test]
async fn publish_does_not_overwrite_a_registered_instance() {
    let (client, others, base) = (connected().await, connected().await, path("publish-over"));
    let _a = registered(&client, &base, "a").await;
    let permanent = instance("a").service_type(ServiceType::Permanent);
    let error = soon(discovery(&others, &base).publish(&permanent)).await.unwrap_err();
    let session = client.session().await.unwrap().id();
    assert!(matches!(error, DiscoveryError::Registered { owner, .. } if owner == session), "{error}");
    soon(client.close()).await.unwrap();
    soon(discovery(&others, &base).publish(&permanent)).await.unwrap();
}

#[tokio::test]
async fn publish_overwrites_a_container_which_belongs_to_no_session() {
    let (client, base) = (connected().await, path("publish-container"));
    let create = client.create().creating_parent_containers().with_mode(CreateMode::Container);
    create.for_path(format!("{base}/orders/a"), "").await.unwrap();
    let services = discovery(&client, &base);
    soon(services.publish(&instance("a").service_type(ServiceType::Permanent).port(1))).await.unwrap();
    assert_eq!(soon(services.instance("orders", "a")).await.unwrap().unwrap().port, Some(1));
}

#[tokio::test]
async fn publish_does_not_overwrite_an_instance_that_is_registered_meanwhile() {
    let ((proxy, client), others, base) = (behind_proxy().await, connected().await, path("publish-race"));
    let permanent = instance("a").service_type(ServiceType::Permanent).port(1);
    proxy.hold_nth_reply(OpCode::Exists, 1);
    let services = discovery(&client, &base);
    let publishing = tokio::spawn(async move { services.publish(&permanent).await });
    soon(proxy.wait_for_reply(OpCode::Exists, 1)).await.unwrap();
    let registration = registered(&others, &base, "a").await;
    proxy.release_held();
    let error = soon(publishing).await.unwrap().unwrap_err();
    assert!(matches!(error, DiscoveryError::Registered { .. }), "{error}");
    let found = soon(discovery(&others, &base).instance("orders", "a")).await.unwrap().unwrap();
    assert_eq!(found.port, registration.instance().port);
}
