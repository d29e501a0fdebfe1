//! The values of a shared count, as a stream.

use std::collections::BTreeSet;

use curator_recipes::client::{self, Acl, AuthId, CuratorClient, Permission};
use curator_recipes::{CountChanges, Error, SharedCount, VersionedCount};
use curator_test::{FaultProxy, OpCode, TestingServer};
use futures_util::StreamExt as _;

use crate::support::{
    LONG_SESSION, behind_proxy, builder, client, end_session, path, requests_of, round_trips, soon, until,
};

fn count(client: &CuratorClient, path: &str, seed: i32) -> SharedCount {
    SharedCount::new(client, path, seed).unwrap()
}

/// The number and its version.
async fn next(changes: &mut CountChanges) -> (i32, i32) {
    let VersionedCount { value, version, .. } = soon(changes.next()).await.expect("it goes on").unwrap();
    (value, version)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stream_begins_with_the_current_value_and_yields_each_change_and_a_deletion() {
    let ((proxy, one), other, path) = (behind_proxy().await, client().await, path("changes"));
    let theirs = count(&other, &path, 0);
    let mut changes = count(&one, &path, 3).changes();
    round_trips(&one).await;
    assert!(other.check_exists(&path).await.unwrap().is_none(), "something was sent too early");
    assert_eq!(next(&mut changes).await, (3, 0));
    proxy.reset_counts();
    // The same number set again is a change too.
    for (value, version) in [(4, 1), (4, 2), (-5, 3)] {
        theirs.set(value).await.unwrap();
        assert_eq!(next(&mut changes).await, (value, version));
    }
    assert_eq!(requests_of(&proxy, OpCode::GetData), 3, "one for each change");
    other.delete().for_path(&path).await.unwrap();
    assert_eq!(next(&mut changes).await, (3, 0));
    // A stream, for those who combine it with others.
    theirs.set(7).await.unwrap();
    let mut values = changes.map(|now| now.unwrap().value);
    assert_eq!(soon(values.next()).await, Some(7));
}

/// Whoever comes late sees the latest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_that_nobody_waits_for_become_one() {
    let (one, other, path) = (client().await, client().await, path("changes/many"));
    let theirs = count(&other, &path, 0);
    let mut changes = count(&one, &path, 0).changes();
    assert_eq!(next(&mut changes).await, (0, 0));
    for value in 1..=20 {
        theirs.set(value).await.unwrap();
    }
    one.sync(&path).await.unwrap();
    assert_eq!(next(&mut changes).await, (20, 20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stream_goes_on_over_another_connection_and_in_another_session_without_an_error() {
    let server = TestingServer::shared().await;
    let ((proxy, one), other, path) = (behind_proxy().await, client().await, path("changes/lost"));
    let theirs = count(&other, &path, 0);
    let mut changes = count(&one, &path, 0).changes();
    assert_eq!(next(&mut changes).await, (0, 0));
    // A connection that breaks is no change.
    let reads = requests_of(&proxy, OpCode::GetData);
    proxy.cut();
    let mut following = tokio::spawn(async move { (next(&mut changes).await, changes) });
    proxy.wait_for_reply(OpCode::GetData, reads + 1).await.unwrap();
    round_trips(&one).await;
    assert!(!following.is_finished());
    theirs.set(1).await.unwrap();
    let (seen, mut changes) = soon(&mut following).await.unwrap();
    assert_eq!(seen, (1, 1));
    // What has changed while there was no connection is seen afterwards; here, in another session.
    let epoch = one.session().await.unwrap().epoch();
    end_session(server, &proxy).await;
    theirs.set(2).await.unwrap();
    assert_eq!(next(&mut changes).await, (2, 2));
    until(async || one.try_session().is_ok_and(|session| session.epoch() > epoch)).await;
    // A lost answer.
    proxy.cut_before_reply(OpCode::GetData);
    theirs.set(3).await.unwrap();
    assert_eq!(next(&mut changes).await, (3, 3));
}

/// Longer than any policy would wait: this one waits not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_that_is_too_long_for_the_retry_policy_is_no_error() {
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    let one = builder(&proxy.connect_string(), LONG_SESSION)
        .connection_timeout(std::time::Duration::from_millis(200))
        .retry_policy(client::RetryNTimes::new(0, std::time::Duration::from_millis(1)).unwrap())
        .connect()
        .await
        .unwrap();
    let (other, path) = (client().await, path("changes/outage"));
    let mut changes = count(&one, &path, 0).changes();
    assert_eq!(next(&mut changes).await, (0, 0));
    proxy.refuse(true).unwrap();
    proxy.cut();
    let following = tokio::spawn(async move { next(&mut changes).await });
    until(async || one.try_session().is_err()).await;
    count(&one, &path, 0).get().await.unwrap_err();
    count(&other, &path, 0).set(6).await.unwrap();
    assert!(!following.is_finished());
    proxy.refuse(false).unwrap();
    assert_eq!(soon(following).await.unwrap(), (6, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_that_are_no_number_are_an_item_and_not_the_end() {
    let (one, other, path) = (client().await, client().await, path("changes/bad"));
    let mut changes = count(&one, &path, 5).changes();
    assert_eq!(next(&mut changes).await, (5, 0));
    other.set_data(&path, "many", None).await.unwrap();
    assert_eq!(next(&mut changes).await, (i32::from_be_bytes(*b"many"), 1));
    for data in ["", "some"] {
        other.set_data(&path, format!("{data}!"), None).await.unwrap();
        let error = soon(changes.next()).await.unwrap().unwrap_err();
        assert!(matches!(&error, Error::InvalidSharedCount { .. }), "{error}");
    }
    count(&other, &path, 0).set(6).await.unwrap();
    assert_eq!(next(&mut changes).await, (6, 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_that_no_retry_can_help_is_the_last_item() {
    let (one, other, path) = (client().await, client().await, path("changes/forbidden"));
    let no_reading = [Acl::new(Permission::WRITE, AuthId::anyone())];
    other.create().creating_parent_containers().with_acl(no_reading).for_path(&path, "").await.unwrap();
    let mut changes = count(&one, &path, 0).changes();
    let error = soon(changes.next()).await.unwrap().unwrap_err();
    assert!(matches!(&error, Error::Client(client::Error::NoAuth { .. })), "{error}");
    for _ in 0..2 {
        assert!(soon(changes.next()).await.is_none());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stream_ends_with_the_client() {
    let (one, path) = (client().await, path("changes/closed"));
    let mut waiting = count(&one, &path, 0).changes();
    let unpolled = count(&one, &path, 0).changes();
    assert_eq!(next(&mut waiting).await, (0, 0));
    let ended = tokio::spawn(async move { (waiting.next().await.is_none(), waiting.next().await.is_none()) });
    round_trips(&one).await;
    one.close().await.unwrap();
    assert_eq!(soon(ended).await.unwrap(), (true, true));
    let values: BTreeSet<_> = soon(unpolled.map(|now| now.unwrap().value).collect()).await;
    assert!(values.is_empty());
}
