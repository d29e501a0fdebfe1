//! A number that several clients share.

use curator_recipes::client::{self, CuratorClient, Outcome, WatchEvent};
use curator_recipes::{Error, SharedCount};
use curator_test::OpCode;

use crate::support::{behind_proxy, client, path, soon};

fn count(client: &CuratorClient, path: &str, seed: i32) -> SharedCount {
    SharedCount::new(client, path, seed).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_client_sets_another_gets() {
    let (one, other, path) = (client().await, client().await, path("count/shared"));
    let (ours, theirs) = (count(&one, &path, 7), count(&other, &path, 8));
    assert_eq!((ours.seed(), ours.path().as_str()), (7, path.as_str()));
    assert!(one.check_exists(&path).await.unwrap().is_none(), "something was sent too early");

    // The first one's seed, for both.
    assert_eq!(ours.get().await.unwrap(), 7);
    assert_eq!(theirs.get().await.unwrap(), 7);
    for value in [-1, i32::MIN, i32::MAX, 258] {
        theirs.set(value).await.unwrap();
        one.sync(&path).await.unwrap();
        assert_eq!(ours.clone().get().await.unwrap(), value);
    }
    let now = ours.versioned().await.unwrap();
    assert_eq!((now.value, now.version), (258, 4));

    // As Curator has it: four bytes, and it outlives its clients.
    let (data, stat) = one.get_data(&path).await.unwrap();
    assert_eq!((data, stat.ephemeral_owner), (vec![0, 0, 1, 2], 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_version_changes_nothing() {
    let (one, other, path) = (client().await, client().await, path("count/versions"));
    let (ours, theirs) = (count(&one, &path, 0), count(&other, &path, 0));
    let (seen, seen_by_other) = (ours.versioned().await.unwrap(), theirs.versioned().await.unwrap());
    assert_eq!(seen, seen_by_other);
    assert!(ours.compare_and_set(&seen, 1).await.unwrap());
    assert!(!theirs.compare_and_set(&seen_by_other, 2).await.unwrap());
    other.sync(&path).await.unwrap();
    assert_eq!(theirs.get().await.unwrap(), 1);

    // The same number set again is another version.
    let seen = theirs.versioned().await.unwrap();
    ours.set(1).await.unwrap();
    assert!(!theirs.compare_and_set(&seen, 2).await.unwrap());

    one.delete().for_path(&path).await.unwrap();
    assert!(!theirs.compare_and_set(&seen, 2).await.unwrap(), "it is gone, and was not set");
    assert!(one.check_exists(&path).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_sees_a_change_and_the_deletion() {
    let (one, other, path) = (client().await, client().await, path("count/watched"));
    let (ours, theirs) = (count(&one, &path, 3), count(&other, &path, 0));
    let (now, mut watch) = ours.watch().await.unwrap();
    assert_eq!((now.value, now.version), (3, 0));
    theirs.set(4).await.unwrap();
    assert_eq!(soon(watch.fired()).await, WatchEvent::DataChanged);
    let (now, mut watch) = ours.watch().await.unwrap();
    assert_eq!((now.value, now.version), (4, 1));
    other.delete().for_path(&path).await.unwrap();
    assert_eq!(soon(watch.fired()).await, WatchEvent::Deleted);
    // A follower goes on, with the seed.
    let (now, _watch) = ours.watch().await.unwrap();
    assert_eq!((now.value, now.version), (3, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_that_are_no_number_are_an_error_until_one_is_set() {
    let (client, path) = (client().await, path("count/bad"));
    let count = count(&client, &path, 0);
    for data in ["", "1", "123", "12345"] {
        match client.check_exists(&path).await.unwrap() {
            None => drop(client.create().creating_parent_containers().for_path(&path, data).await.unwrap()),
            Some(_) => drop(client.set_data(&path, data, None).await.unwrap()),
        }
        for error in [count.get().await.unwrap_err(), count.watch().await.map(drop).unwrap_err()] {
            let Error::InvalidSharedCount { path: at, size } = &error else { panic!("{error}") };
            assert_eq!((at.as_str(), *size), (path.as_str(), data.len()));
            assert!(!error.is_retryable());
        }
    }
    count.set(9).await.unwrap();
    assert_eq!(count.get().await.unwrap(), 9);
}

/// Another creates it between our look and our create: the reply to the look is held back meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_that_another_creates_meanwhile_is_anothers_until_it_is_set() {
    let other = client().await;
    for sets in [false, true] {
        let (proxy, slow) = behind_proxy().await;
        let path = path("count/meanwhile");
        let looked_at = if sets { OpCode::SetData } else { OpCode::GetData };
        proxy.hold_replies(looked_at);
        proxy.reset_counts();
        let looking = tokio::spawn({
            let count = count(&slow, &path, 1);
            async move {
                if sets {
                    count.set(3).await.unwrap();
                }
                count.get().await.unwrap()
            }
        });
        proxy.wait_for_reply(looked_at, 1).await.unwrap();
        assert_eq!(count(&other, &path, 2).get().await.unwrap(), 2);
        proxy.release_held();
        assert_eq!(soon(looking).await.unwrap(), if sets { 3 } else { 2 });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_does_no_harm_or_is_told() {
    let (proxy, client) = behind_proxy().await;
    let count = count(&client, &path("count/lost-answers"), 6);

    // The parents are there, so that it is the count's own create that is in doubt.
    let parent = count.path().parent().unwrap();
    client.ensure_containers(&client.session().await.unwrap(), &parent).await.unwrap();
    proxy.cut_before_reply(OpCode::Create2);
    let created = soon(count.versioned()).await.unwrap();
    assert_eq!((created.value, created.version), (6, 0));

    proxy.cut_before_reply(OpCode::SetData);
    soon(count.set(7)).await.unwrap();
    let set = count.versioned().await.unwrap();
    assert_eq!((set.value, set.version), (7, 2), "set twice");

    proxy.cut_before_reply(OpCode::SetData);
    let error = soon(count.compare_and_set(&set, 8)).await.unwrap_err();
    assert!(matches!(&error, Error::Client(client::Error::Ambiguous { .. })), "{error}");
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert_eq!(soon(count.get()).await.unwrap(), 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_call_is_one_request_when_the_node_is_there() {
    let (proxy, client) = behind_proxy().await;
    let count = count(&client, &path("count/cost"), 0);
    count.set(1).await.unwrap();
    proxy.reset_counts();
    count.set(2).await.unwrap();
    let seen = count.versioned().await.unwrap();
    assert!(count.compare_and_set(&seen, 3).await.unwrap());
    let requests = proxy.requests();
    assert_eq!((requests.get(&OpCode::SetData), requests.get(&OpCode::GetData)), (Some(&2), Some(&1)), "{requests:?}");
    assert!(!requests.contains_key(&OpCode::Create2), "{requests:?}");
}
