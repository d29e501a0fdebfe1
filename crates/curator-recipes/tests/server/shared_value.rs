//! A value that several clients share, with a codec: when replies are lost, and when its node is deleted.

use curator_recipes::client::{CuratorClient, Outcome};
use curator_recipes::{SharedValue, ValueError};
use curator_test::{OpCode, TestingServer};

use crate::support::{behind_proxy, client, path, replace, soon, until, until_watched};

fn text(client: &CuratorClient, path: &str) -> SharedValue<String> {
    let codec = (|text: &String| text.clone().into_bytes(), |data: &[u8]| String::from_utf8(data.to_vec()));
    SharedValue::with_codec(client, path, codec, "seed".to_owned()).unwrap()
}

#[tokio::test]
async fn a_shared_value_is_set_and_compared_and_invalid_data_is_an_error() {
    let (client, path) = (client().await, path("value/text"));
    let value = text(&client, &path);
    assert_eq!((value.get().await.unwrap(), value.seed()), ("seed".to_owned(), &"seed".to_owned()));
    let before = value.versioned().await.unwrap();
    assert!(value.compare_and_set(&before, "first".to_owned()).await.unwrap());
    assert!(!value.compare_and_set(&before, "second".to_owned()).await.unwrap());
    client.set_data(&path, [0xff], None).await.unwrap();
    let error = value.get().await.unwrap_err();
    assert!(matches!(&error, ValueError::Invalid { path: at, .. } if at.as_str() == path), "{error}");
    assert!(error.to_string().contains("invalid utf-8") && !error.is_retryable(), "{error}");
    value.set("repaired".to_owned()).await.unwrap();
    assert_eq!(client.get_data(&path).await.unwrap().0, b"repaired");
    assert!(format!("{value:?}").starts_with("SharedValue { path: "));
}

/// Curator's `SharedValue` sets no watch if its node does not exist, and keeps the old value.
#[tokio::test]
async fn changes_continue_when_the_node_is_deleted_and_recreated() {
    let (ours, other, path) = (client().await, client().await, path("value/deleted"));
    let value = text(&ours, &path);
    let mut changes = value.changes();
    let mut next = async || soon(changes.next()).await.unwrap().unwrap().value;
    assert_eq!(next().await, "seed");
    for round in 0..3 {
        other.set_data(&path, format!("value {round}"), None).await.unwrap();
        assert_eq!(next().await, format!("value {round}"));
        other.delete().for_path(&path).await.unwrap();
        assert_eq!(next().await, "seed");
    }
}

/// Curator ignored version 0: CURATOR-329.
#[tokio::test]
async fn a_replaced_node_with_version_0_again_is_not_taken_for_the_old_one() {
    let (ours, other, path) = (client().await, client().await, path("value/replaced"));
    let value = text(&ours, &path);
    let mut changes = value.changes();
    let mut next = async || soon(changes.next()).await.unwrap().unwrap();
    assert_eq!(next().await.version, 0);
    replace(&other, &path, "replaced").await;
    let first = next().await;
    assert_eq!((&*first.value, first.version), ("replaced", 0));
    assert!(value.compare_and_set(&first, "set".to_owned()).await.unwrap());
    let second = next().await;
    assert_eq!((&*second.value, second.version), ("set", 1));
    replace(&other, &path, "replaced").await;
    assert!(!value.compare_and_set(&second, "lost".to_owned()).await.unwrap());
    assert_eq!((next().await, value.versioned().await.unwrap()), (first.clone(), first));
}

/// In this case, Curator's `trySetValue` returns false, although the value was set.
#[tokio::test]
async fn compare_and_set_with_a_lost_reply_is_outcome_unknown() {
    let (proxy, client) = behind_proxy().await;
    let value = text(&client, &path("value/lost"));
    let before = value.versioned().await.unwrap();
    proxy.cut_before_reply(OpCode::SetData);
    let error = soon(value.compare_and_set(&before, "set".to_owned())).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    assert_eq!(soon(value.get()).await.unwrap(), "set");
}

/// In Curator, removing a listener had no effect: CURATOR-420.
#[tokio::test]
async fn a_stream_that_is_dropped_leaves_no_watch() {
    let (client, path) = (client().await, path("value/dropped"));
    let mut changes = text(&client, &path).changes();
    soon(changes.next()).await.unwrap().unwrap();
    until_watched(client.session().await.unwrap().id(), &path).await;
    drop(changes);
    let server = TestingServer::shared().await;
    until(async || !server.watches_by_path().await.unwrap().contains_key(&path)).await;
}
