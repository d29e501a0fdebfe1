//! Tests that the data of nodes do not reach the log, errors and `Debug` output.

use curator_discovery::{RawJson, ServiceProvider, ZookeeperInstance};
use tracing::instrument::WithSubscriber as _;

use crate::support::{connected, discovery, listener, path, registered, soon};

const MARKER: &str = "sw0rdfish";

/// Invalid instances, with a secret, with a forged line, and long ones.
fn invalid() -> Vec<String> {
    let long = MARKER.repeat(50_000);
    let values = [MARKER, "sw0rdfish\\n2026-01-01 WARN forged \\u001b[2J", &long];
    let of = |value: &&str| {
        [
            format!("\"{value}\""),
            format!(r#"{{"name":"orders","id":"b","port":"{value}"}}"#),
            format!(r#"{{"name":"orders","id":"b","serviceType":"{value}"}}"#),
            format!(r#"{{"name":"orders","id":"b","payload":{{"metadata":"{value}"}},"uriSpec":["{value}"]}}"#),
            format!(r#"{{"name":"orders","id":"b","password":"{value}""#),
        ]
    };
    values.iter().flat_map(of).collect()
}

#[tokio::test]
async fn the_log_and_errors_contain_no_value_of_an_invalid_node() {
    let (client, base) = (connected().await, path("foreign-data"));
    let _a = registered(&client, &base, "a").await;
    let services = discovery(&client, &base);
    let typed = services.with_payload::<ZookeeperInstance>();
    let node = format!("{base}/orders/b");
    client.create().for_path(&node, "").await.unwrap();
    for json in invalid() {
        client.set_data(&node, &json, None).await.unwrap();
        // A cache does not log similar failures again.
        let (raw_cache, cache) = (services.start_cache("orders").unwrap(), typed.start_cache("orders").unwrap());
        let log = listener();
        let caught_up = async { (soon(raw_cache.caught_up()).await.unwrap(), soon(cache.caught_up()).await.unwrap()) };
        let (raw, found) = caught_up.with_subscriber(log.clone()).await;
        assert_eq!([raw.unreadable().count(), found.unreadable().count()], [1, 1]);
        let lines = log.lines();
        assert_eq!(lines.len(), 2, "{lines:?}");
        for line in &lines {
            assert_eq!(line.get("path"), node);
        }
        let error = soon(typed.instance("orders", "b")).await.unwrap_err();
        for text in [format!("{lines:?}"), format!("{error}"), format!("{error:?} {error:#?}"), format!("{raw:?}")] {
            assert!(!text.contains(MARKER) && !text.contains("forged") && text.len() < 3_000, "{text:.1000}");
        }
    }
}

#[tokio::test]
async fn debug_output_of_found_instances_contains_no_value() {
    let (client, base) = (connected().await, path("foreign-debug"));
    let json = format!(
        r#"{{"name":"{MARKER}","id":"{MARKER}","address":"{MARKER}","payload":"{MARKER}","uriSpec":"{MARKER}","{MARKER}":"{MARKER}"}}"#
    );
    client.create().creating_parent_containers().for_path(format!("{base}/orders/a"), json).await.unwrap();
    let cache = discovery(&client, &base).start_cache("orders").unwrap();
    let found = soon(cache.caught_up()).await.unwrap();
    let mut events = cache.events();
    let event = soon(events.next()).await.unwrap();
    let provider = ServiceProvider::<RawJson>::new(&cache, Default::default());
    let instance = provider.instance().unwrap();
    assert_eq!(instance.id, MARKER);
    let texts = [
        format!("{found:?} {found:#?}"),
        format!("{event:?} {event:#?}"),
        format!("{instance:?} {instance:#?} {:?} {:#?}", *instance, *instance),
        format!("{provider:?} {cache:?} {events:?}"),
    ];
    for text in texts {
        assert!(!text.contains(MARKER), "{text}");
    }
}
