//! Java's service discovery and ours, on one path.

use std::collections::BTreeMap;

use curator_discovery::{Payload, RawJson, ServiceDiscovery, ServiceInstance, ServiceType};
use curator_test::{soon, unique_path, until};
use serde::{Deserialize, Serialize};

use super::{java::java, stage::ours};

/// The payload that the Java agent has a class for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Details {
    zone: String,
    weight: i32,
}

impl Payload for Details {
    const JAVA_CLASS: Option<&'static str> = Some("CuratorAgentDiscovery$Details");
}

fn instance<P>(id: &str, instance: ServiceInstance<P>) -> ServiceInstance<P> {
    instance
        .id(id)
        .address("10.0.0.2")
        .port(9090)
        .uri_spec("{scheme}://{address}:{port}")
}

#[tokio::test]
async fn an_instance_that_java_registers_is_found_with_the_same_bytes() {
    let client = ours().await;
    let mut java = java().await;
    let base = unique_path("services");
    let services = ServiceDiscovery::new(&client, &base).unwrap();
    assert_eq!(
        java.ask(&format!("service-register {base} text orders a zone-a"))
            .await,
        "ok"
    );
    assert_eq!(
        java.ask(&format!("service-register {base} details orders b zone-b"))
            .await,
        "ok"
    );
    let text = soon(services.with_payload::<String>().instance("orders", "a"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (text.payload.as_deref(), text.port, text.enabled),
        (Some("zone-a"), Some(8080), true)
    );
    assert_eq!(text.uri().unwrap().as_deref(), Some("http://10.0.0.1:8080"));
    let details = soon(services.with_payload::<Details>().instance("orders", "b"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        details.payload,
        Some(Details {
            zone: "zone-b".to_owned(),
            weight: 7
        })
    );
    // Our data equals Java's.
    let (text_json, _) = client.get_data(&text.path).await.unwrap();
    assert_eq!(
        String::from_utf8(text.to_json().unwrap()).unwrap(),
        String::from_utf8(text_json).unwrap()
    );
    let (details_json, _) = client.get_data(&details.path).await.unwrap();
    assert_eq!(
        String::from_utf8(details.to_json().unwrap()).unwrap(),
        String::from_utf8(details_json).unwrap()
    );
    let cache = services.start_cache("orders").unwrap();
    assert_eq!(soon(cache.caught_up()).await.unwrap().len(), 2);
    assert_eq!(java.ask(&format!("service-close {base} text")).await, "ok");
    until(async || cache.instances().len() == 1).await;
}

#[tokio::test]
async fn java_finds_the_instances_that_we_register() {
    let client = ours().await;
    let mut java = java().await;
    let base = unique_path("services");
    let services = ServiceDiscovery::new(&client, &base).unwrap();
    let text = services
        .register(instance(
            "a",
            ServiceInstance::with_payload("orders", "zone-a".to_owned()),
        ))
        .unwrap();
    soon(text.registered()).await.unwrap();
    let find = |kind: &str| format!("service-find {base} {kind} orders");
    let found = |id: &str, enabled: bool, payload: &str| {
        format!("{id},10.0.0.2,9090,DYNAMIC,{enabled},http://10.0.0.2:9090,{payload}")
    };
    assert_eq!(
        java.ask(&find("text")).await,
        format!("ok {}", found("a", true, "zone-a"))
    );
    // Java ignores unknown fields.
    let mut extended = text.instance();
    extended.other = BTreeMap::from([("more".to_owned(), RawJson::new(&[1]).unwrap())]);
    soon(text.update(extended)).await.unwrap();
    soon(text.drain()).await.unwrap();
    assert_eq!(
        java.ask(&find("text")).await,
        format!("ok {}", found("a", false, "zone-a"))
    );
    soon(text.deregister()).await.unwrap();
    let details = Details {
        zone: "zone-b".to_owned(),
        weight: 3,
    };
    let details = services
        .register(instance(
            "b",
            ServiceInstance::with_payload("orders", details),
        ))
        .unwrap();
    soon(details.registered()).await.unwrap();
    let none = services
        .register(instance("c", ServiceInstance::new("orders")))
        .unwrap();
    soon(none.registered()).await.unwrap();
    let both = format!(
        "ok {} {}",
        found("b", true, "zone-b/3"),
        found("c", true, "null")
    );
    assert_eq!(java.ask(&find("details")).await, both);
}

/// Curator adds another node for a sequential instance at each reconnect, and its
/// `unregisterService` deletes none. So this library finds such instances, but does not register
/// them.
#[tokio::test]
async fn the_sequential_instances_of_java_are_found() {
    let client = ours().await;
    let mut java = java().await;
    let base = unique_path("services");
    let services = ServiceDiscovery::new(&client, &base).unwrap();
    assert_eq!(
        java.ask(&format!(
            "service-register {base} text orders a zone-a DYNAMIC_SEQUENTIAL"
        ))
        .await,
        "ok"
    );
    let found = soon(services.with_payload::<String>().instances("orders"))
        .await
        .unwrap();
    let a = found.get("a").unwrap();
    assert_eq!(
        (a.service_type, a.path.name()),
        (ServiceType::DynamicSequential, "a0000000000")
    );
    assert_eq!(
        (a.payload.as_deref(), a.stat.ephemeral_owner),
        (Some("zone-a"), java.id())
    );
}

/// JSON that other programs may have written: Java and we must read the same instance.
#[tokio::test]
async fn java_and_we_read_unusual_json_in_the_same_way() {
    let client = ours().await;
    let mut java = java().await;
    let base = unique_path("services");
    let services = ServiceDiscovery::new(&client, &base)
        .unwrap()
        .with_payload::<String>();
    for json in [
        r#"{"name":"orders","id":"a","address":"h","port":"8080"}"#,
        r#"{"name":"orders","id":"a","address":"h","port":" +80 ","enabled":"FALSE"}"#,
        r#"{"name":"orders","id":"a","address":"h","port":8080.9,"serviceType":1}"#,
        r#"{"name":"orders","id":5.50,"address":7,"port":"","enabled":null,"serviceType":" 2 "}"#,
        r#"{"name":"orders","id":true,"address":"h","port":1e3,"enabled":2,"payload":null}"#,
        r#"{"name":"orders","id":"a","address":"h","port":1,"uriSpec":{"parts":[{"value":"x"},{"value":"port","variable":1}]}}"#,
        r#"{"name":"orders","id":"a","address":"h","port":1,"uriSpec":"y{address}","enabled":"","payload":"text"} more"#,
    ] {
        let node = format!("{base}/orders/n");
        client
            .create()
            .creating_parent_containers()
            .or_set_data()
            .for_path(&node, json)
            .await
            .unwrap();
        let found = soon(services.instance("orders", "n"))
            .await
            .unwrap()
            .unwrap();
        let service_type = format!("{:?}", found.service_type).to_uppercase();
        let or_null = |text: Option<String>| text.unwrap_or_else(|| "null".to_owned());
        let our_fields = [
            found.id.clone(),
            or_null(found.address.clone()),
            or_null(found.port.map(|port| port.to_string())),
            service_type,
            found.enabled.to_string(),
            or_null(found.uri().unwrap()),
            or_null(found.payload.clone()),
        ];
        assert_eq!(
            java.ask(&format!("service-find {base} text orders")).await,
            format!("ok {}", our_fields.join(",")),
            "{json}"
        );
    }
}

#[tokio::test]
async fn a_drained_instance_is_not_offered_by_java() {
    let client = ours().await;
    let mut java = java().await;
    let base = unique_path("services");
    let services = ServiceDiscovery::new(&client, &base).unwrap();
    let [a, b] = ["a", "b"].map(|id| {
        services
            .register(instance(
                id,
                ServiceInstance::with_payload("orders", "zone".to_owned()),
            ))
            .unwrap()
    });
    soon(a.registered()).await.unwrap();
    soon(b.registered()).await.unwrap();
    let offered = format!("service-offered {base} text orders");
    assert_eq!(java.ask(&offered).await, "ok a b");
    soon(a.drain()).await.unwrap();
    java.ask_until(&offered, "ok b").await;
}
