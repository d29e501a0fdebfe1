//! Tests of single queries, and of published instances.

use std::time::Duration;

use curator_discovery::client::{Acl, AuthId, CreateMode, Outcome, Permission, RetryNTimes};
use curator_discovery::{DiscoveryError, InvalidInstance, ServiceInstance, ServiceType};

use curator_test::{FaultProxy, OpCode, TestingServer};

use crate::support::{
    LONG_SESSION, behind_proxy, behind_proxy_with, builder, connected, discovery, ids, instance,
    path, registered, soon,
};

#[tokio::test]
async fn registered_instances_are_found() {
    let client = connected().await;
    let base = path("services");
    let services = discovery(&client, &base);
    assert_eq!(soon(services.names()).await.unwrap(), [""; 0]);
    assert!(soon(services.instances("orders")).await.unwrap().is_empty());
    assert!(
        soon(services.instance("orders", "a"))
            .await
            .unwrap()
            .is_none()
    );
    let _a = registered(&client, &base, "a").await;
    let _b = registered(&client, &base, "b").await;
    assert_eq!(soon(services.names()).await.unwrap(), ["orders"]);
    let found = soon(services.instances("orders")).await.unwrap();
    assert_eq!(ids(&found), ["a", "b"]);
    let a = soon(services.instance("orders", "a"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(*a, **found.get("a").unwrap());
    assert_eq!(
        (a.address.as_deref(), a.port, a.enabled),
        (Some("10.0.0.7"), Some(8080), true)
    );
    assert_eq!(a.stat.ephemeral_owner, client.session().await.unwrap().id());
    assert_eq!(a.path.as_str(), format!("{base}/orders/a"));
    assert!(
        services.instances("a/b").await.is_err() && services.instance("orders", "").await.is_err()
    );
}

#[tokio::test]
async fn a_query_lists_once_reads_each_instance_and_omits_those_deleted_meanwhile() {
    let (proxy, client) = behind_proxy().await;
    let others = connected().await;
    let base = path("meanwhile");
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
    assert_eq!(
        requests,
        [(OpCode::GetChildren, 1), (OpCode::GetData, 2)].into()
    );
}

/// The valid instance is sequential, as Java writes it: with a sequence number after the id.
#[tokio::test]
async fn invalid_and_unreadable_nodes_hide_no_instance_of_a_query_or_a_cache() {
    let client = connected().await;
    let others = connected().await;
    let base = path("garbage");
    let services = discovery(&client, &base);
    let json = instance("a")
        .service_type(ServiceType::DynamicSequential)
        .to_json()
        .unwrap();
    client
        .create()
        .creating_parent_containers()
        .with_mode(CreateMode::EphemeralSequential)
        .for_path(format!("{base}/orders/a"), json)
        .await
        .unwrap();
    client
        .create()
        .for_path(format!("{base}/orders/b"), "no JSON")
        .await
        .unwrap();
    let acl = [Acl::new(Permission::DELETE, AuthId::anyone())];
    others
        .create()
        .with_acl(acl)
        .for_path(format!("{base}/orders/c"), "{}")
        .await
        .unwrap();
    let cache = services.start_cache("orders").unwrap();
    for found in [
        soon(services.instances("orders")).await.unwrap(),
        soon(cache.caught_up()).await.unwrap(),
    ] {
        assert_eq!(
            (ids(&found), found.get("a").unwrap().path.name()),
            (vec!["a".to_owned()], "a0000000000")
        );
        let [invalid, denied] = found.unreadable().collect::<Vec<_>>()[..] else {
            panic!("{found:?}")
        };
        assert_eq!(
            (invalid.path.name(), invalid.stat.unwrap().data_length),
            ("b", 7)
        );
        assert_eq!(
            (denied.path.name(), &denied.cause),
            ("c", &InvalidInstance::NotPermitted)
        );
    }
    let error = soon(services.instance("orders", "b")).await.unwrap_err();
    assert!(
        matches!(error, DiscoveryError::Unreadable(ref unreadable) if matches!(unreadable.cause, InvalidInstance::NotAnObject { .. })),
        "{error:?}"
    );
    assert!(!error.is_retryable() && !error.is_closed());
}

/// Curator's `ServiceDiscovery` removes permanent instances when it is closed, and recreates them
/// at a reconnect: see Curator's pull request 2.
#[tokio::test]
async fn a_permanent_instance_stays_until_it_is_removed() {
    let client = connected().await;
    let others = connected().await;
    let base = path("permanent");
    let services = discovery(&client, &base);
    // A container, which belongs to no session, is overwritten. Its child keeps the server from
    // removing it.
    let child = format!("{base}/orders/a/child");
    client
        .create()
        .creating_parent_containers()
        .for_path(&child, "")
        .await
        .unwrap();
    soon(
        services.publish(
            &instance("a")
                .service_type(ServiceType::Permanent)
                .port(9090),
        ),
    )
    .await
    .unwrap();
    soon(client.close()).await.unwrap();
    let services = discovery(&others, &base);
    let found = soon(services.instance("orders", "a"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (found.port, found.service_type, found.stat.ephemeral_owner),
        (Some(9090), ServiceType::Permanent, 0)
    );
    others.delete().for_path(&child).await.unwrap();
    soon(services.remove("orders", "a")).await.unwrap();
    soon(services.remove("orders", "a")).await.unwrap();
    assert!(soon(services.instances("orders")).await.unwrap().is_empty());
}

#[tokio::test]
async fn publish_and_remove_are_retried_after_a_lost_request_or_reply() {
    type Fault = fn(&FaultProxy, OpCode);
    let faults: [Fault; 2] = [FaultProxy::cut_before_request, FaultProxy::cut_before_reply];
    for fault in faults {
        let (proxy, client) = behind_proxy().await;
        let base = path("lost-answers");
        let services = discovery(&client, &base);
        for (port, op) in [(1, OpCode::Create2), (2, OpCode::SetData)] {
            fault(&proxy, op);
            let permanent = instance("a")
                .service_type(ServiceType::Permanent)
                .port(port);
            soon(services.publish(&permanent)).await.unwrap();
            proxy.wait_for_faults().await.unwrap();
            assert_eq!(
                soon(services.instance("orders", "a"))
                    .await
                    .unwrap()
                    .unwrap()
                    .port,
                Some(port)
            );
        }
        fault(&proxy, OpCode::Delete);
        soon(services.remove("orders", "a")).await.unwrap();
        proxy.wait_for_faults().await.unwrap();
        assert!(
            soon(services.instance("orders", "a"))
                .await
                .unwrap()
                .is_none()
        );
    }
}

// Runs in real time, with either transport: a simulation has only the native transport.
#[tokio::test]
async fn the_outcome_of_a_publish_is_unknown_if_the_connection_does_not_return_after_a_lost_reply()
{
    let others = connected().await;
    let base = path("publish-outcome");
    others
        .create()
        .creating_parent_containers()
        .for_path(format!("{base}/orders"), "")
        .await
        .unwrap();
    for (op, port) in [(OpCode::Create2, 1), (OpCode::SetData, 2)] {
        let (proxy, client) = behind_proxy_with(|client| {
            client
                .connection_timeout(Duration::from_secs(1))
                .retry_policy(RetryNTimes::new(1, Duration::from_millis(10)).unwrap())
        })
        .await;
        let services = discovery(&client, &base);
        let permanent = instance("a").service_type(ServiceType::Permanent);
        proxy.hold_nth_reply(op, 1);
        let publishing = tokio::spawn(async move { services.publish(&permanent.port(port)).await });
        soon(proxy.wait_for_reply(op, 1)).await.unwrap();
        proxy.refuse(true).unwrap();
        proxy.cut();
        let error = soon(publishing).await.unwrap().unwrap_err();
        assert_eq!(
            (error.outcome(), error.is_retryable()),
            (Outcome::Unknown, true),
            "{op:?}: {error}"
        );
        let found = soon(discovery(&others, &base).instance("orders", "a"))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(found.port, Some(port));
    }
}

#[tokio::test]
async fn the_service_type_decides_between_register_and_publish() {
    let client = connected().await;
    let base = path("types");
    let services = discovery(&client, &base);
    let is_refused = |error: DiscoveryError, wanted: &str| matches!(&error, DiscoveryError::Invalid(InvalidInstance::ServiceType { operation, .. }) if *operation == wanted);
    for service_type in [
        ServiceType::Static,
        ServiceType::Permanent,
        ServiceType::DynamicSequential,
    ] {
        let error = services
            .register(instance("a").service_type(service_type))
            .unwrap_err();
        assert!(is_refused(error, "registered"), "{service_type:?}");
    }
    for service_type in [ServiceType::Dynamic, ServiceType::DynamicSequential] {
        let error = services
            .publish(&instance("a").service_type(service_type))
            .await
            .unwrap_err();
        assert!(is_refused(error, "published"), "{service_type:?}");
    }
    assert!(
        services.register(instance("a/b")).is_err()
            && services.register(ServiceInstance::new("")).is_err()
    );
    assert_eq!(
        client
            .get_children("/")
            .await
            .unwrap()
            .iter()
            .find(|name| format!("/{name}") == base),
        None
    );
}

#[tokio::test]
async fn a_service_may_have_more_instances_than_the_client_may_have_requests_in_flight() {
    let client = connected().await;
    let base = path("few-requests");
    let services = discovery(&client, &base);
    for number in 0..100 {
        let instance = instance(&format!("i{number}")).service_type(ServiceType::Static);
        services.publish(&instance).await.unwrap();
    }
    let server = TestingServer::shared().await.connect_string();
    let few = builder(&server, LONG_SESSION)
        .max_requests_in_flight(70)
        .connect()
        .await
        .unwrap();
    assert_eq!(
        soon(discovery(&few, &base).instances("orders"))
            .await
            .unwrap()
            .len(),
        100
    );
}

#[tokio::test]
async fn publish_does_not_overwrite_an_instance_that_is_registered_meanwhile() {
    let (proxy, client) = behind_proxy().await;
    let others = connected().await;
    let base = path("publish-race");
    let permanent = instance("a").service_type(ServiceType::Permanent).port(1);
    proxy.hold_nth_reply(OpCode::Exists, 1);
    let services = discovery(&client, &base);
    let publishing = tokio::spawn(async move { services.publish(&permanent).await });
    soon(proxy.wait_for_reply(OpCode::Exists, 1)).await.unwrap();
    let registration = registered(&others, &base, "a").await;
    proxy.release_held();
    let error = soon(publishing).await.unwrap().unwrap_err();
    let session = others.session().await.unwrap().id();
    assert!(
        matches!(error, DiscoveryError::Registered { owner, .. } if owner == session),
        "{error}"
    );
    let found = soon(discovery(&others, &base).instance("orders", "a"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found.port, registration.instance().port);
}
