//! A number that several clients share, and the stream of its values.

use std::time::Duration;

use curator_recipes::client::{
    self, Acl, AuthId, CuratorClient, Outcome, Permission, RetryNTimes, WatchEvent,
};
use curator_recipes::{CountChanges, SharedCount, SharedValue, ValueError, VersionedCount};
use curator_test::{OpCode, TestingServer};
use futures_util::StreamExt as _;

use crate::support::{
    behind_proxy, behind_proxy_with, client, end_session, path, replace, requests_of, round_trips,
    soon, unplug, until, until_watched,
};

fn count(client: &CuratorClient, path: &str, seed: i32) -> SharedCount {
    SharedCount::new(client, path, seed).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_set_by_one_client_is_read_by_another() {
    let one = client().await;
    let other = client().await;
    let path = path("count/shared");
    let ours = count(&one, &path, 7);
    let theirs = count(&other, &path, 8);
    assert_eq!((*ours.seed(), ours.path().as_str()), (7, path.as_str()));
    assert!(
        one.check_exists(&path).await.unwrap().is_none(),
        "a request was sent before the first use"
    );

    // Both clients read the seed of the first.
    assert_eq!(ours.get().await.unwrap(), 7);
    assert_eq!(theirs.get().await.unwrap(), 7);
    for value in [-1, i32::MIN, i32::MAX, 258] {
        theirs.set(value).await.unwrap();
        one.sync(&path).await.unwrap();
        assert_eq!(ours.clone().get().await.unwrap(), value);
    }
    let now = ours.versioned().await.unwrap();
    assert_eq!((now.value, now.version), (258, 4));

    // Curator's layout: four bytes, in a node that outlives its clients.
    let (data, stat) = one.get_data(&path).await.unwrap();
    assert_eq!((data, stat.ephemeral_owner), (vec![0, 0, 1, 2], 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_version_changes_nothing() {
    let one = client().await;
    let other = client().await;
    let path = path("count/versions");
    let ours = count(&one, &path, 0);
    let theirs = count(&other, &path, 0);
    let seen = ours.versioned().await.unwrap();
    let seen_by_other = theirs.versioned().await.unwrap();
    assert_eq!(seen, seen_by_other);
    assert!(ours.compare_and_set(&seen, 1).await.unwrap());
    assert!(!theirs.compare_and_set(&seen_by_other, 2).await.unwrap());
    other.sync(&path).await.unwrap();
    assert_eq!(theirs.get().await.unwrap(), 1);

    // Setting the same number creates another version.
    let seen = theirs.versioned().await.unwrap();
    ours.set(1).await.unwrap();
    assert!(!theirs.compare_and_set(&seen, 2).await.unwrap());

    one.delete().for_path(&path).await.unwrap();
    assert!(
        !theirs.compare_and_set(&seen, 2).await.unwrap(),
        "a deleted count must not be set"
    );
    assert!(one.check_exists(&path).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_fires_on_a_change_and_on_the_deletion() {
    let one = client().await;
    let other = client().await;
    let path = path("count/watched");
    let ours = count(&one, &path, 3);
    let theirs = count(&other, &path, 0);
    let (now, mut watch) = ours.watch().await.unwrap();
    assert_eq!((now.value, now.version), (3, 0));
    theirs.set(4).await.unwrap();
    assert_eq!(soon(watch.fired()).await, WatchEvent::DataChanged);
    let (now, mut watch) = ours.watch().await.unwrap();
    assert_eq!((now.value, now.version), (4, 1));
    other.delete().for_path(&path).await.unwrap();
    assert_eq!(soon(watch.fired()).await, WatchEvent::Deleted);
    // The next `watch` creates the node again, with the seed.
    let (now, _watch) = ours.watch().await.unwrap();
    assert_eq!((now.value, now.version), (3, 0));
}

/// Another client creates the node between our first request, whose reply is held back, and our
/// create.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_created_concurrently_has_the_other_clients_value_until_it_is_set() {
    let other = client().await;
    for sets in [false, true] {
        let (proxy, slow) = behind_proxy().await;
        let path = path("count/meanwhile");
        let first_request = if sets {
            OpCode::SetData
        } else {
            OpCode::GetData
        };
        proxy.hold_replies(first_request);
        proxy.reset_counts();
        let reading = tokio::spawn({
            let count = count(&slow, &path, 1);
            async move {
                if sets {
                    count.set(3).await.unwrap();
                }
                count.get().await.unwrap()
            }
        });
        proxy.wait_for_reply(first_request, 1).await.unwrap();
        assert_eq!(count(&other, &path, 2).get().await.unwrap(), 2);
        proxy.release_held();
        assert_eq!(soon(reading).await.unwrap(), if sets { 3 } else { 2 });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_is_harmless_or_reported_as_outcome_unknown() {
    let (proxy, client) = behind_proxy().await;
    let count = count(&client, &path("count/lost-answers"), 6);

    // Creates the parents, so that the lost reply is the reply to the create of the count.
    let parent = count.path().parent().unwrap();
    client
        .ensure_containers(&client.session().await.unwrap(), &parent)
        .await
        .unwrap();
    proxy.cut_before_reply(OpCode::Create2);
    let created = soon(count.versioned()).await.unwrap();
    assert_eq!((created.value, created.version), (6, 0));

    proxy.cut_before_reply(OpCode::SetData);
    soon(count.set(7)).await.unwrap();
    let set = count.versioned().await.unwrap();
    assert_eq!((set.value, set.version), (7, 2), "set twice");

    proxy.cut_before_reply(OpCode::SetData);
    let error = soon(count.compare_and_set(&set, 8)).await.unwrap_err();
    assert!(
        matches!(
            &error,
            ValueError::OutcomeUnknown {
                cause: client::Error::Ambiguous { .. },
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert_eq!(soon(count.get()).await.unwrap(), 8);
}

// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_that_cannot_be_retried_after_a_lost_reply_is_outcome_unknown() {
    let once_more = RetryNTimes::new(1, Duration::from_millis(20)).unwrap();
    let (proxy, client) = behind_proxy_with(|builder| {
        builder
            .connection_timeout(Duration::from_millis(500))
            .retry_policy(once_more)
    })
    .await;
    let count = count(&client, &path("count/gives-up"), 6);
    // On a busy machine, the connection may be lost before the request is sent.
    let mut error = None;
    until(async || {
        proxy.refuse(false).unwrap();
        until(async || count.set(7).await.is_ok()).await;
        proxy.cut_before_reply(OpCode::SetData);
        proxy.refuse(true).unwrap();
        let failed = count.set(8).await.unwrap_err();
        let is_sent = failed.outcome() != Outcome::NotApplied;
        error = Some(failed);
        is_sent
    })
    .await;
    assert!(
        matches!(&error, Some(ValueError::OutcomeUnknown { .. })),
        "{error:?}"
    );
    // No request of this call is sent.
    let error = soon(count.set(9)).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error:?}");
}

/// The number and its version.
async fn next(changes: &mut CountChanges) -> (i32, i32) {
    let VersionedCount { value, version, .. } = soon(changes.next())
        .await
        .expect("the stream has not ended")
        .unwrap();
    (value, version)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stream_begins_with_the_current_value_and_yields_each_change_and_a_deletion() {
    let (proxy, one) = behind_proxy().await;
    let other = client().await;
    let path = path("changes");
    let theirs = count(&other, &path, 0);
    let mut changes = count(&one, &path, 3).changes();
    round_trips(&one).await;
    assert!(
        other.check_exists(&path).await.unwrap().is_none(),
        "a request was sent before the first use"
    );
    assert_eq!(next(&mut changes).await, (3, 0));
    proxy.reset_counts();
    // Setting the same number is a change too.
    for (value, version) in [(4, 1), (4, 2), (-5, 3)] {
        theirs.set(value).await.unwrap();
        assert_eq!(next(&mut changes).await, (value, version));
    }
    assert_eq!(
        requests_of(&proxy, OpCode::GetData),
        3,
        "one read for each change"
    );
    other.delete().for_path(&path).await.unwrap();
    assert_eq!(next(&mut changes).await, (3, 0));
    // `CountChanges` is a `Stream`, which can be combined with other streams.
    theirs.set(7).await.unwrap();
    let mut values = changes.map(|now| now.unwrap().value);
    assert_eq!(soon(values.next()).await, Some(7));
}

/// The retry policy permits no retry, so every other call fails during the outage.
// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_causes_no_error_and_no_change_in_the_stream_which_continues_in_another_session()
{
    let once = RetryNTimes::new(0, Duration::from_millis(1)).unwrap();
    let (proxy, one) = behind_proxy_with(|builder| {
        builder
            .connection_timeout(Duration::from_millis(500))
            .retry_policy(once)
    })
    .await;
    let other = client().await;
    let path = path("changes/outage");
    let mut changes = count(&one, &path, 0).changes();
    assert_eq!(next(&mut changes).await, (0, 0));
    for (value, ends) in [(1, false), (2, true)] {
        let following = tokio::spawn(async move { (next(&mut changes).await, changes) });
        unplug(&proxy, &one).await;
        count(&one, &path, 0).get().await.unwrap_err();
        if ends {
            end_session(&proxy).await;
        }
        assert!(!following.is_finished());
        let reads = requests_of(&proxy, OpCode::GetData);
        proxy.refuse(false).unwrap();
        // The read after the reconnect finds no change.
        proxy
            .wait_for_reply(OpCode::GetData, reads + 1)
            .await
            .unwrap();
        round_trips(&one).await;
        assert!(!following.is_finished());
        count(&other, &path, 0).set(value).await.unwrap();
        let seen;
        (seen, changes) = soon(following).await.unwrap();
        assert_eq!(seen, (value, value));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_data_is_an_error_item_and_does_not_end_the_stream() {
    let one = client().await;
    let other = client().await;
    let path = path("changes/bad");
    let count = count(&one, &path, 5);
    let mut changes = count.changes();
    assert_eq!(next(&mut changes).await, (5, 0));
    other.set_data(&path, "many", None).await.unwrap();
    assert_eq!(next(&mut changes).await, (i32::from_be_bytes(*b"many"), 1));
    for data in ["", "1", "123", "12345"] {
        other.set_data(&path, data, None).await.unwrap();
        one.sync(&path).await.unwrap();
        let error = soon(changes.next()).await.unwrap().unwrap_err();
        for error in [
            error,
            count.get().await.unwrap_err(),
            count.watch().await.map(drop).unwrap_err(),
        ] {
            let ValueError::Invalid { path: found, cause } = &error else {
                panic!("{error}")
            };
            assert_eq!(
                (found.as_str(), cause.to_string()),
                (
                    path.as_str(),
                    format!("expected 4 bytes, found {}", data.len())
                )
            );
            assert!(!error.is_retryable());
        }
    }
    count.set(6).await.unwrap();
    assert_eq!(next(&mut changes).await, (6, 6));
    assert_eq!(count.get().await.unwrap(), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permanent_error_is_the_last_item_of_the_stream() {
    let one = client().await;
    let other = client().await;
    let path = path("changes/forbidden");
    let no_reading = [Acl::new(Permission::WRITE, AuthId::anyone())];
    other
        .create()
        .creating_parent_containers()
        .with_acl(no_reading)
        .for_path(&path, "")
        .await
        .unwrap();
    let mut changes = count(&one, &path, 0).changes();
    let error = soon(changes.next()).await.unwrap().unwrap_err();
    assert!(
        matches!(&error, ValueError::Client(client::Error::NoAuth { .. })),
        "{error}"
    );
    for _ in 0..2 {
        assert!(soon(changes.next()).await.is_none());
    }
}

fn text(client: &CuratorClient, path: &str) -> SharedValue<String> {
    let codec = (
        |text: &String| text.clone().into_bytes(),
        |data: &[u8]| String::from_utf8(data.to_vec()),
    );
    SharedValue::with_codec(client, path, codec, "seed".to_owned()).unwrap()
}

/// Curator ignored version 0: CURATOR-329.
#[tokio::test]
async fn a_replacement_that_has_version_0_too_is_not_mistaken_for_the_old_node() {
    let ours = client().await;
    let other = client().await;
    let path = path("value/replaced");
    let value = text(&ours, &path);
    let mut changes = value.changes();
    let mut next = async || soon(changes.next()).await.unwrap().unwrap();
    assert_eq!(next().await.version, 0);
    replace(&other, &path, "replaced").await;
    let first = next().await;
    assert_eq!((&*first.value, first.version), ("replaced", 0));
    assert!(
        value
            .compare_and_set(&first, "set".to_owned())
            .await
            .unwrap()
    );
    let second = next().await;
    assert_eq!((&*second.value, second.version), ("set", 1));
    replace(&other, &path, "replaced").await;
    assert!(
        !value
            .compare_and_set(&second, "lost".to_owned())
            .await
            .unwrap()
    );
    assert_eq!(
        (next().await, value.versioned().await.unwrap()),
        (first.clone(), first)
    );
}

/// In Curator, removing a listener had no effect: CURATOR-420.
#[tokio::test]
async fn a_stream_that_is_dropped_leaves_no_watch() {
    let client = client().await;
    let path = path("value/dropped");
    let mut changes = text(&client, &path).changes();
    soon(changes.next()).await.unwrap().unwrap();
    until_watched(client.session().await.unwrap().id(), &path).await;
    drop(changes);
    let server = TestingServer::shared().await;
    until(async || !server.watches_by_path().await.unwrap().contains_key(&path)).await;
}
