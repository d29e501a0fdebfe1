//! Values and numbers that many clients change, when replies are lost, connections are cut, and
//! sessions end.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use curator_recipes::client::{CuratorClient, Outcome, RetryForever, RetryNTimes};
use curator_recipes::{
    BigEndian, CodecError, DistributedAtomicLong, DistributedAtomicValue, SharedCount, ValueCodec,
    ValueError,
};
use curator_test::{FaultProxy, OpCode};

use crate::support::{
    FAULTS, behind_proxy, behind_proxy_with, client, drop_after, path, soon, until,
};

fn long(client: &CuratorClient, path: &str) -> DistributedAtomicLong {
    DistributedAtomicLong::new(client, path).unwrap()
}

fn receipt(path: &str) -> String {
    format!("{path}-receipts/w1")
}

/// A client behind a proxy, with a short operation timeout, that retries forever.
async fn impatient() -> (FaultProxy, CuratorClient) {
    let again = RetryForever::new(Duration::from_millis(20)).unwrap();
    behind_proxy_with(|builder| {
        builder
            .operation_timeout(Duration::from_millis(500))
            .retry_policy(again)
    })
    .await
}

/// In this case, Curator's `compareAndSet` and `initialize` return false and its `increment` adds
/// twice, because they mistake their own write for another client's.
// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test]
async fn a_lost_reply_is_outcome_unknown_for_each_kind_of_conditional_write() {
    let others = client().await;
    let (proxy, client) = impatient().await;
    let is_unknown = |error: ValueError| matches!(error, ValueError::OutcomeUnknown { .. });
    for (name, fault) in FAULTS {
        let base = path("atomic-faults/writes");
        others
            .create()
            .creating_parent_containers()
            .for_path(&base, "")
            .await
            .unwrap();
        let number_at = |kind: &str| long(&client, &format!("{base}/{kind}"));
        let added = number_at("added");
        let compared = number_at("compared");
        let initialized = number_at("initialized");
        fault(&proxy, OpCode::Create2);
        assert!(
            is_unknown(soon(added.increment()).await.unwrap_err()),
            "{name}"
        );
        fault(&proxy, OpCode::Create2);
        assert!(
            is_unknown(soon(compared.compare_and_set(&0, 1)).await.unwrap_err()),
            "{name}"
        );
        fault(&proxy, OpCode::Create2);
        assert!(
            is_unknown(soon(initialized.initialize(1)).await.unwrap_err()),
            "{name}"
        );
        for number in [&added, &compared, &initialized] {
            assert!(
                [0, 1].contains(&soon(number.get()).await.unwrap()),
                "{name}"
            );
            // `force_set` is repeated, because it is unconditional.
            fault(&proxy, OpCode::SetData);
            soon(number.force_set(5)).await.unwrap();
            proxy.disarm();
            assert_eq!(soon(number.get()).await.unwrap(), 5, "{name}");
            fault(&proxy, OpCode::SetData);
            assert!(
                is_unknown(soon(number.compare_and_set(&5, 6)).await.unwrap_err()),
                "{name}"
            );
            assert!(
                [5, 6].contains(&soon(number.get()).await.unwrap()),
                "{name}"
            );
        }
    }
}

// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test]
async fn a_lost_reply_counts_once_with_a_receipt() {
    let (proxy, client) = impatient().await;
    let path = path("atomic-faults/receipt");
    let number = long(&client, &path).exactly_once(receipt(&path)).unwrap();
    for round in 0..12 {
        match round % 4 {
            0 => proxy.cut_before_reply(OpCode::Multi),
            1 => proxy.swallow_next_reply(OpCode::Multi),
            2 => proxy.cut_before_request(OpCode::Multi),
            _ => {}
        }
        let changed = soon(number.increment()).await.unwrap();
        assert_eq!((changed.pre_value, changed.post_value), (round, round + 1));
        proxy.disarm();
    }
    let (data, _) = client.get_data(receipt(&path)).await.unwrap();
    assert!(
        data.starts_with(b"12 "),
        "{}",
        String::from_utf8_lossy(&data)
    );
    assert_eq!(
        client
            .get_children(format!("{path}-receipts"))
            .await
            .unwrap(),
        ["w1"]
    );
}

/// Drops the future of a change at each await point. The next change finds out whether the dropped
/// one was applied.
#[tokio::test]
async fn a_dropped_change_is_applied_at_most_once() {
    let client = client().await;
    let path = path("atomic-faults/dropped");
    let number = long(&client, &path).exactly_once(receipt(&path)).unwrap();
    let mut last = 0;
    for polls in 0..8 {
        let done = drop_after(number.increment(), polls).await;
        let next = soon(number.increment()).await.unwrap();
        assert!(
            (1..=2).contains(&(next.post_value - last)),
            "{last}, {next:?}"
        );
        if let Some(done) = done {
            assert_eq!(done.unwrap().post_value + 1, next.post_value);
        }
        last = next.post_value;
    }
    let (data, _) = client.get_data(receipt(&path)).await.unwrap();
    assert!(
        data.starts_with(format!("{last} ").as_bytes()),
        "the receipt counts every change"
    );
}

#[tokio::test]
async fn a_receipt_is_adopted_after_a_restart_and_its_concurrent_use_is_reported() {
    let one = client().await;
    let other = client().await;
    let path = path("atomic-faults/taken");
    let with_receipt = |client| long(client, &path).exactly_once(receipt(&path)).unwrap();
    let first = with_receipt(&one);
    first.increment().await.unwrap();
    let second = with_receipt(&other);
    assert_eq!(second.increment().await.unwrap().post_value, 2);
    let error = first.increment().await.unwrap_err();
    assert!(
        matches!(
            &error,
            ValueError::ReceiptInUse {
                is_in_doubt: false,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(
        (error.outcome(), error.is_retryable()),
        (Outcome::NotApplied, true)
    );
    assert!(error.to_string().ends_with(" was not changed"), "{error}");
    // `first` has read the other client's change by now.
    assert_eq!(first.increment().await.unwrap().post_value, 3);
    let (data, _) = one.get_data(receipt(&path)).await.unwrap();
    assert!(data.starts_with(b"3 "));
}

#[tokio::test]
async fn a_lost_reply_during_concurrent_use_of_a_receipt_is_outcome_unknown() {
    let (proxy, one) = behind_proxy().await;
    let other = client().await;
    let path = path("atomic-faults/doubt");
    let with_receipt = |client| long(client, &path).exactly_once(receipt(&path)).unwrap();
    let first = with_receipt(&one);
    first.increment().await.unwrap();
    proxy.reset_counts();
    proxy.hold_replies(OpCode::Multi);
    let changing = tokio::spawn(async move { first.increment().await });
    proxy.wait_for_reply(OpCode::Multi, 1).await.unwrap();
    with_receipt(&other).increment().await.unwrap();
    proxy.cut();
    proxy.release_held();
    let error = soon(changing).await.unwrap().unwrap_err();
    assert!(
        matches!(
            &error,
            ValueError::ReceiptInUse {
                is_in_doubt: true,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert!(
        error.to_string().ends_with(" may have been changed"),
        "{error}"
    );
    assert_eq!(long(&other, &path).get().await.unwrap(), 3);
}

/// The first attempt reaches the server after the client has read the receipt, and before the next
/// attempt.
#[tokio::test]
async fn an_attempt_that_arrives_late_is_applied_once_or_never() {
    let (proxy, client) = behind_proxy().await;
    let other = crate::support::client().await;
    let path = path("atomic-faults/late");
    let number = long(&client, &path).exactly_once(receipt(&path)).unwrap();
    number.increment().await.unwrap();
    proxy.reset_counts();
    proxy.cut_before_request(OpCode::Multi);
    // The second read is the read of the receipt.
    proxy.hold_nth_reply(OpCode::GetData, 2);
    let changing = tokio::spawn({
        let number = number.clone();
        async move { number.compare_and_set(&1, 2).await }
    });
    proxy.wait_for_reply(OpCode::GetData, 2).await.unwrap();
    // The other client sends the lost request, as if it arrived late.
    let (data, _) = other.get_data(receipt(&path)).await.unwrap();
    let text = String::from_utf8(data).unwrap();
    let words: Vec<&str> = text.split(' ').collect();
    let data = format!("2 {} {}", words[1], words[2].parse::<u64>().unwrap() + 1);
    let late_request = || {
        other
            .transaction()
            .set_data(&path, 2_i64.to_be_bytes(), Some(0))
            .unwrap()
            .set_data(receipt(&path), &data, Some(0))
            .unwrap()
    };
    late_request().commit().await.unwrap();
    proxy.release_held();
    assert!(
        soon(changing).await.unwrap().unwrap(),
        "the late request was the attempt of this client"
    );
    assert_eq!(number.get().await.unwrap(), 2);

    // The server rejects the lost request if it arrives after the next attempt.
    proxy.reset_counts();
    proxy.cut_before_request(OpCode::Multi);
    assert_eq!(soon(number.increment()).await.unwrap().post_value, 3);
    late_request().commit().await.unwrap_err();
    assert_eq!(number.get().await.unwrap(), 3);
}

// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test]
async fn a_change_that_cannot_be_retried_after_a_lost_reply_is_outcome_unknown() {
    let once_more = RetryNTimes::new(1, Duration::from_millis(20)).unwrap();
    let (proxy, client) = behind_proxy_with(|builder| {
        builder
            .connection_timeout(Duration::from_millis(500))
            .retry_policy(once_more)
    })
    .await;
    let path = path("atomic-faults/gives-up");
    let number = long(&client, &path).exactly_once(receipt(&path)).unwrap();
    // On a busy machine, the connection may be lost before the request is sent.
    let mut outcome = Outcome::NotApplied;
    until(async || {
        proxy.refuse(false).unwrap();
        until(async || number.increment().await.is_ok()).await;
        proxy.cut_before_reply(OpCode::Multi);
        proxy.refuse(true).unwrap();
        outcome = number.increment().await.unwrap_err().outcome();
        outcome != Outcome::NotApplied
    })
    .await;
    assert_eq!(outcome, Outcome::Unknown);
    // No request of the next change is sent.
    let error = soon(number.increment()).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error:?}");
}

#[tokio::test]
async fn encoded_data_that_the_codec_cannot_decode_is_not_written() {
    let client = client().await;
    let path = path("atomic-faults/codec");
    let codec = (
        |_: &String| vec![0xff_u8],
        |data: &[u8]| String::from_utf8(data.to_vec()),
    );
    let value = DistributedAtomicValue::with_codec(&client, &path, codec, String::new()).unwrap();
    let error = value.update(|_| Some("x".to_owned())).await.unwrap_err();
    assert!(matches!(error, ValueError::Invalid { .. }), "{error}");
    assert!(client.check_exists(&path).await.unwrap().is_none());
}

#[tokio::test]
async fn creating_missing_parents_does_not_count_as_a_conflict() {
    let client = client().await;
    let path = path("atomic-faults/alone");
    let never = RetryNTimes::new(0, Duration::from_millis(1)).unwrap();
    let number = long(&client, &path)
        .with_retry_policy(never)
        .exactly_once(receipt(&path))
        .unwrap();
    assert_eq!(number.increment().await.unwrap().post_value, 1);
}

/// The version of a node is -1 after 2^32 - 1 writes, but in a request, -1 matches any version.
#[tokio::test]
async fn a_version_of_minus_one_is_refused() {
    let (proxy, client) = behind_proxy().await;
    let other = crate::support::client().await;
    let path = path("atomic-faults/minus-one");
    let number = long(&client, &path);
    number.increment().await.unwrap();
    // The offset of the version: after the header, the length, eight bytes of data, and four fields
    // of the stat.
    let minus_one = |reply: &mut Vec<u8>| {
        reply[16 + 4 + 8 + 32..][..4].copy_from_slice(&(-1_i32).to_be_bytes());
    };
    proxy.alter_next_reply(OpCode::GetData, minus_one);
    let error = number.increment().await.unwrap_err();
    assert!(
        matches!(&error, ValueError::VersionExhausted { path: found } if found.as_str() == path),
        "{error}"
    );
    assert_eq!(long(&other, &path).get().await.unwrap(), 1);
    let shared = SharedCount::new(&client, &path, 0).unwrap();
    other
        .set_data(&path, 1_i32.to_be_bytes(), None)
        .await
        .unwrap();
    let mut before = shared.versioned().await.unwrap();
    before.version = -1;
    let error = shared.compare_and_set(&before, 2).await.unwrap_err();
    assert!(
        matches!(&error, ValueError::VersionExhausted { path: found } if found.as_str() == path),
        "{error}"
    );
    assert_eq!(shared.get().await.unwrap(), 1);
}

/// A recreated value starts at 0. Without its receipt, a change that is in doubt can count twice,
/// so the first change after the receipt's deletion is not applied, and reports `ReceiptInUse`.
#[tokio::test]
async fn deleted_value_and_receipt_nodes_are_recreated() {
    let client = client().await;
    let path = path("atomic-faults/deleted");
    let number = long(&client, &path).exactly_once(receipt(&path)).unwrap();
    number.add(5).await.unwrap();
    client.delete().for_path(&path).await.unwrap();
    assert_eq!(number.increment().await.unwrap().post_value, 1);
    client.delete().for_path(receipt(&path)).await.unwrap();
    let error = number.increment().await.unwrap_err();
    assert!(
        matches!(
            error,
            ValueError::ReceiptInUse {
                is_in_doubt: false,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(number.increment().await.unwrap().post_value, 2);
}

/// Decodes only once, like a codec whose schema registry then becomes unavailable.
struct DecodesOnce(AtomicU32);

impl ValueCodec<i64> for DecodesOnce {
    fn encode(&self, value: &i64) -> Vec<u8> {
        BigEndian.encode(value)
    }

    fn decode(&self, data: &[u8]) -> Result<i64, CodecError> {
        if self.0.fetch_add(1, Ordering::Relaxed) > 0 {
            Err("unavailable".into())
        } else {
            BigEndian.decode(data)
        }
    }
}

#[tokio::test]
async fn nothing_is_decoded_after_the_write() {
    let client = client().await;
    let path = path("late-codec");
    let number =
        DistributedAtomicValue::with_codec(&client, &path, DecodesOnce(AtomicU32::new(0)), 0)
            .unwrap();
    let changed = number.update(|value| Some(value + 1)).await.unwrap();
    assert_eq!((changed.pre_value, changed.post_value), (0, 1));
    assert_eq!(
        DistributedAtomicLong::new(&client, &path)
            .unwrap()
            .get()
            .await
            .unwrap(),
        1
    );
}
