//! Values and numbers that many clients change, without a fault.
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use curator_recipes::client::{CuratorClient, Outcome, RetryNTimes};
use curator_recipes::{
    DistributedAtomicLong, DistributedAtomicValue, IdGenerator, InterProcessMutex, SharedCount,
    ValueError,
};
use curator_test::OpCode;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::support::{
    adjusted_server, behind_proxy, client, connect, path, replace, soon, until, without_probes,
};

fn long(client: &CuratorClient, path: &str) -> DistributedAtomicLong {
    DistributedAtomicLong::new(client, path).unwrap()
}

fn no_retry() -> RetryNTimes {
    RetryNTimes::new(0, Duration::from_millis(1)).unwrap()
}

#[tokio::test]
async fn a_change_returns_the_values_before_and_after_it() {
    let one = client().await;
    let path = path("atomic/number");
    let number = long(&one, &path);
    assert_eq!(number.get().await.unwrap(), 0);
    assert!(
        one.check_exists(&path).await.unwrap().is_none(),
        "a read creates nothing"
    );
    let changed = number.increment().await.unwrap();
    assert_eq!((changed.pre_value, changed.post_value), (0, 1));
    let other = long(&client().await, &path);
    let changed = other.add(41).await.unwrap();
    assert_eq!((changed.pre_value, changed.post_value), (1, 42));
    assert_eq!(number.decrement().await.unwrap().post_value, 41);
    // Curator's layout: eight bytes, in a node that outlives its clients.
    let (data, stat) = one.get_data(&path).await.unwrap();
    assert_eq!(
        (data, stat.ephemeral_owner),
        (vec![0, 0, 0, 0, 0, 0, 0, 41], 0)
    );
}

#[tokio::test]
async fn overflow_and_invalid_data_are_errors_and_change_nothing() {
    let client = client().await;
    let path = path("atomic/limits");
    let number = long(&client, &path);
    number.force_set(i64::MAX).await.unwrap();
    let error = number.increment().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{} is {}: adding 1 overflows", path, i64::MAX)
    );
    assert!(!error.is_retryable() && error.outcome() == Outcome::NotApplied);
    assert_eq!(number.add(-1).await.unwrap().post_value, i64::MAX - 1);
    number.force_set(i64::MIN).await.unwrap();
    assert!(matches!(
        number.decrement().await,
        Err(ValueError::Overflow {
            value: i64::MIN,
            delta: -1,
            ..
        })
    ));
    assert_eq!(number.get().await.unwrap(), i64::MIN);

    client.set_data(&path, b"seven", None).await.unwrap();
    for error in [
        number.get().await.unwrap_err(),
        number.increment().await.unwrap_err(),
    ] {
        assert_eq!(
            error.to_string(),
            format!("{path} has no valid value: expected 8 bytes, found 5")
        );
        assert_eq!(error.outcome(), Outcome::NotApplied);
    }
    // Curator reads empty data as 0.
    client.set_data(&path, b"", None).await.unwrap();
    assert_eq!(number.increment().await.unwrap().post_value, 1);
}

#[tokio::test]
async fn a_value_is_initialized_once_and_set_only_if_the_expected_value_matches() {
    let client = client().await;
    let path = path("atomic/initialized");
    let number = long(&client, &path);
    assert!(number.initialize(5).await.unwrap());
    assert!(!number.initialize(6).await.unwrap());
    assert!(!number.compare_and_set(&6, 7).await.unwrap());
    assert!(number.compare_and_set(&5, 7).await.unwrap());
    assert_eq!(number.get().await.unwrap(), 7);
    client.delete().for_path(&path).await.unwrap();
    // A missing node counts as 0.
    assert!(!number.compare_and_set(&7, 1).await.unwrap());
    assert!(number.compare_and_set(&0, 1).await.unwrap());
    assert_eq!(number.get().await.unwrap(), 1);
}

#[tokio::test]
async fn an_atomic_value_of_any_type_is_stored_with_a_codec() {
    let client = client().await;
    let path = path("atomic/text");
    let codec = (
        |text: &String| text.clone().into_bytes(),
        |data: &[u8]| String::from_utf8(data.to_vec()),
    );
    let text =
        DistributedAtomicValue::with_codec(&client, &path, codec, "unassigned".to_owned()).unwrap();
    assert_eq!(text.get().await.unwrap(), "unassigned");
    let changed = text
        .update(|text| Some(format!("{text}, worker-1")))
        .await
        .unwrap();
    assert_eq!(
        (&*changed.pre_value, &*changed.post_value),
        ("unassigned", "unassigned, worker-1")
    );
    let declined = text
        .update(|text| (!text.contains("worker-1")).then(String::new))
        .await
        .unwrap_err();
    assert!(matches!(&declined, ValueError::Declined { .. }) && !declined.is_retryable());
    client.set_data(&path, [0xff], None).await.unwrap();
    let invalid = text.get().await.unwrap_err();
    assert!(invalid.to_string().contains("invalid utf-8"), "{invalid}");
    text.force_set("repaired".to_owned()).await.unwrap();
    assert_eq!(client.get_data(&path).await.unwrap().0, b"repaired");
}

#[tokio::test]
async fn a_change_sends_two_requests_and_the_first_with_a_receipt_one_more_read() {
    let (proxy, client) = behind_proxy().await;
    let base = path("atomic/cost");
    client
        .create()
        .creating_parent_containers()
        .for_path(format!("{base}/receipts/other"), "")
        .await
        .unwrap();
    client
        .create()
        .for_path(format!("{base}/number"), [0; 8])
        .await
        .unwrap();
    let number = long(&client, &format!("{base}/number"));
    proxy.reset_counts();
    for _ in 0..3 {
        number.increment().await.unwrap();
    }
    assert_eq!(
        without_probes(&proxy),
        [(OpCode::GetData, 3), (OpCode::SetData, 3)].into()
    );

    proxy.reset_counts();
    long(&client, &format!("{base}/new"))
        .increment()
        .await
        .unwrap();
    assert_eq!(
        without_probes(&proxy),
        [(OpCode::GetData, 1), (OpCode::Create2, 1)].into()
    );

    let number = number.exactly_once(format!("{base}/receipts/w1")).unwrap();
    proxy.reset_counts();
    number.increment().await.unwrap();
    let first = without_probes(&proxy);
    assert_eq!(
        (first[&OpCode::GetData], first[&OpCode::Multi]),
        (2, 1),
        "{first:?}"
    );
    proxy.reset_counts();
    for _ in 0..3 {
        number.increment().await.unwrap();
    }
    assert_eq!(
        without_probes(&proxy),
        [(OpCode::GetData, 3), (OpCode::Multi, 3)].into()
    );
    assert_eq!(number.get().await.unwrap(), 7);
}

/// Another client writes between each read and each write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_always_conflicts_gives_up_or_acquires_the_mutex() {
    let (proxy, client) = behind_proxy().await;
    let path = path("atomic/contended");
    let other = crate::support::client().await;
    let number = long(&client, &path).with_retry_policy(no_retry());
    number.increment().await.unwrap();
    let begin = |number: DistributedAtomicLong| {
        proxy.reset_counts();
        proxy.hold_replies(OpCode::GetData);
        tokio::spawn(async move { number.increment().await })
    };
    let overtake = async || {
        proxy.wait_for_reply(OpCode::GetData, 1).await.unwrap();
        long(&other, &path).add(100).await.unwrap();
        proxy.release_held();
    };
    let changing = begin(number.clone());
    overtake().await;
    let error = soon(changing).await.unwrap().unwrap_err();
    assert!(
        matches!(&error, ValueError::Contended { attempts: 1, .. }),
        "{error}"
    );
    assert!(error.is_retryable() && error.outcome() == Outcome::NotApplied);
    assert_eq!(number.get().await.unwrap(), 101);

    // Another client holds the mutex.
    let lock = format!("{path}-lock");
    let guard = InterProcessMutex::non_reentrant(&other, &lock)
        .unwrap()
        .acquire()
        .await
        .unwrap();
    let changing = begin(number.clone().promoted_to_lock(&lock).unwrap());
    overtake().await;
    crate::support::queue_of(&other, &lock, 2).await;
    assert_eq!(number.get().await.unwrap(), 201);
    guard.release().await.unwrap();
    assert_eq!(soon(changing).await.unwrap().unwrap().post_value, 202);
    crate::support::nothing_left(&other, &[lock]).await;
}

/// A client's first attempts do not acquire the mutex, so the mutex does not exclude them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_holds_the_mutex_can_still_conflict_and_then_releases_it() {
    let other = client().await;
    let client = client().await;
    let path = path("atomic/late");
    let number = long(&client, &path);
    let rival = long(&other, &path);
    let number = number
        .with_retry_policy(no_retry())
        .promoted_to_lock(format!("{path}-lock"))
        .unwrap();
    let changing = number.update(|value| {
        let overtaken = block_in_place(|| Handle::current().block_on(rival.add(100)));
        overtaken.is_ok().then(|| value + 1)
    });
    let error = soon(changing).await.unwrap_err();
    assert!(
        matches!(error, ValueError::Contended { attempts: 2, .. }),
        "{error}"
    );
    assert_eq!(rival.get().await.unwrap(), 200);
    crate::support::nothing_left(&other, &[format!("{path}-lock")]).await;
}

/// Increments, and runs `meanwhile`, which acts for another client, between the first read and the
/// write.
async fn increment_while(
    number: &DistributedAtomicLong,
    meanwhile: impl AsyncFn() + Send + Sync,
) -> (i64, i64) {
    let is_first = AtomicBool::new(true);
    let changing = number.update(|value| {
        if is_first.swap(false, Ordering::Relaxed) {
            block_in_place(|| Handle::current().block_on(meanwhile()));
        }
        Some(value + 1)
    });
    let changed = soon(changing).await.unwrap();
    (changed.pre_value, changed.post_value)
}

/// If a client mistook an equal write of another client for its own, one of two increments would be
/// lost. Netflix's Curator did not detect a deletion (its issue 187), and Curator's shared value
/// ignored version 0 (CURATOR-329).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_equal_write_of_another_client_a_deletion_and_a_replacement_are_detected() {
    let other = client().await;
    let client = client().await;
    for has_receipt in [false, true] {
        let path = path("atomic/meanwhile");
        let number = long(&client, &path);
        let rival = long(&other, &path);
        let number = if has_receipt {
            number.exactly_once(format!("{path}-receipt")).unwrap()
        } else {
            number
        };
        // In the first round, the other client creates the node, and our client must not mistake
        // this create for its own.
        assert_eq!(
            increment_while(&number, async || assert!(rival.increment().await.is_ok())).await,
            (1, 2)
        );
        assert_eq!(
            increment_while(&number, async || assert!(rival.increment().await.is_ok())).await,
            (3, 4)
        );
        assert_eq!(
            increment_while(&number, async || other
                .delete()
                .for_path(&path)
                .await
                .unwrap())
            .await,
            (0, 1)
        );
        // The version is 0 before and after.
        let replace = async |value: i64| replace(&other, &path, value.to_be_bytes()).await;
        replace(7).await;
        assert!(!number.compare_and_set(&1, 2).await.unwrap());
        assert_eq!(number.increment().await.unwrap().post_value, 8);
        // The node is replaced between the read, which finds version 1, and the write.
        assert_eq!(
            increment_while(&number, async || replace(20).await).await,
            (20, 21)
        );
        assert_eq!(
            (
                number.get().await.unwrap(),
                client.get_data(&path).await.unwrap().1.version
            ),
            (21, 1)
        );
    }
}

#[tokio::test]
async fn missing_parents_become_containers_without_data() {
    let client = connect(&adjusted_server().await.connect_string()).await;
    let top = path("top");
    let nodes = ["numbers/one", "sure/one", "receipts/w1", "counts/one"]
        .map(|below| format!("{top}/{below}"));
    long(&client, &nodes[0]).increment().await.unwrap();
    long(&client, &nodes[1])
        .exactly_once(&nodes[2])
        .unwrap()
        .increment()
        .await
        .unwrap();
    SharedCount::new(&client, &nodes[3], 0)
        .unwrap()
        .get()
        .await
        .unwrap();
    for dir in ["", "/numbers", "/sure", "/receipts", "/counts"] {
        assert_eq!(
            client.get_data(format!("{top}{dir}")).await.unwrap().0,
            b"",
            "{dir}"
        );
    }
    for node in nodes {
        client.delete().for_path(node).await.unwrap();
    }
    // The server removes only containers that have had children.
    until(async || client.check_exists(&top).await.unwrap().is_none()).await;
}

#[tokio::test]
async fn invalid_paths_and_a_receipt_or_lock_at_the_path_of_the_value_are_rejected() {
    let client = client().await;
    let number = long(&client, "/atomic");
    assert!(DistributedAtomicLong::new(&client, "atomic").is_err());
    assert!(number.clone().promoted_to_lock("lock/").is_err());
    assert!(number.clone().exactly_once("//").is_err());
    let same = number.clone().exactly_once("/atomic").unwrap_err();
    assert!(
        same.to_string()
            .contains("the receipt must be another node than the value"),
        "{same}"
    );
    let same = number.promoted_to_lock("/atomic").unwrap_err();
    assert!(
        same.to_string()
            .contains("the lock must be at another path than the value"),
        "{same}"
    );
}

#[tokio::test]
async fn a_block_of_ids_costs_two_requests_and_another_generator_continues_after_it() {
    let (proxy, client) = behind_proxy().await;
    let path = path("ids/blocks");
    let ids = IdGenerator::new(&client, &path, 100).unwrap();
    assert_eq!(ids.next().await.unwrap(), 0);
    proxy.reset_counts();
    for id in 1..=250 {
        assert_eq!(ids.next().await.unwrap(), id);
    }
    assert_eq!(
        without_probes(&proxy),
        [(OpCode::GetData, 2), (OpCode::SetData, 2)].into()
    );
    let others = IdGenerator::new(&crate::support::client().await, &path, 0).unwrap();
    assert_eq!(
        (others.next().await.unwrap(), others.next().await.unwrap()),
        (300, 301)
    );
}
