//! Java's `DistributedAtomicLong` and ours on one node, and with one mutex if they are promoted to
//! a lock.

use std::time::Duration;

use curator_recipes::{
    AtomicValue, DistributedAtomicLong, ValueError,
    client::{CuratorClient, RetryNTimes},
};
use curator_test::{FaultProxy, OpCode, TestingServer, soon, unique_path};
use tokio::task::JoinHandle;

use super::{
    java::{java, java_at},
    stage::{ours, until_children},
};
use crate::{LONG, ours::connect, still_waits::still_waits};

async fn value(client: &CuratorClient, path: &str) -> i64 {
    soon(DistributedAtomicLong::new(client, path).unwrap().get())
        .await
        .unwrap()
}

#[tokio::test]
async fn both_languages_add_to_the_same_number() {
    let client = ours().await;
    let mut java = java().await;
    let path = unique_path("counter");
    let number = DistributedAtomicLong::new(&client, &path).unwrap();
    assert_eq!(java.ask(&format!("add {path} -5")).await, "ok true 0 -5");
    let added = soon(number.add(1 << 40)).await.unwrap();
    assert_eq!((added.pre_value, added.post_value), (-5, (1 << 40) - 5));
    assert_eq!(
        java.ask(&format!("add {path} 5")).await,
        format!("ok true {} {}", added.post_value, 1_i64 << 40)
    );
    assert_eq!(
        client.get_data(&path).await.unwrap().0,
        (1_i64 << 40).to_be_bytes()
    );
}

#[tokio::test]
async fn concurrent_additions_of_both_languages_are_each_counted_once() {
    let client = ours().await;
    let mut java = java().await;
    let path = unique_path("counter-both");
    let number = DistributedAtomicLong::new(&client, &path).unwrap();
    tokio::join!(
        async {
            for _ in 0..20 {
                assert!(
                    java.ask(&format!("add {path} 1"))
                        .await
                        .starts_with("ok true ")
                );
            }
        },
        async {
            for _ in 0..20 {
                soon(number.add(1000)).await.unwrap();
            }
        }
    );
    assert_eq!(value(&client, &path).await, 20 * 1001);
}

/// Our promoted number, behind a proxy. It makes one attempt without the mutex, and one with it.
struct Promoted {
    proxy: FaultProxy,
    client: CuratorClient,
    number: DistributedAtomicLong,
}

impl Promoted {
    async fn connect(path: &str, lock: &str) -> Self {
        let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
        let client = connect(&proxy.connect_string(), LONG).await;
        let once = RetryNTimes::new(0, Duration::from_millis(1)).unwrap();
        let number = DistributedAtomicLong::new(&client, path)
            .unwrap()
            .with_retry_policy(once)
            .promoted_to_lock(lock)
            .unwrap();
        Self {
            proxy,
            client,
            number,
        }
    }

    fn add(&self, delta: i64) -> JoinHandle<AtomicValue<i64>> {
        let number = self.number.clone();
        tokio::spawn(async move { number.add(delta).await.unwrap() })
    }
}

/// Calls `begin`, which starts an addition through `proxy`, and adds 100 between the read and the
/// write of its first attempt.
async fn overtake<T>(
    proxy: &FaultProxy,
    number: &DistributedAtomicLong,
    begin: impl FnOnce() -> T,
) -> T {
    proxy.reset_counts();
    proxy.hold_nth_reply(OpCode::GetData, 1);
    let begun = begin();
    proxy.wait_for_reply(OpCode::GetData, 1).await.unwrap();
    soon(number.add(100)).await.unwrap();
    proxy.release_held();
    begun
}

/// Both languages need the mutex, because another client changes the number during their first
/// attempts. The first in the queue is delayed by a held listing of the queue.
#[tokio::test]
async fn promoted_additions_of_both_languages_wait_for_each_other() {
    let path = unique_path("counter-promoted");
    let client = ours().await;
    let lock = format!("{path}-lock");
    let number = DistributedAtomicLong::new(&client, &path).unwrap();
    // A contender's first listing, which is held below, follows the create of its node only if the
    // directory exists.
    client.create().for_path(&lock, "").await.unwrap();
    let our_number = Promoted::connect(&path, &lock).await;
    let javas_proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    let mut java = java_at(&javas_proxy.connect_string(), LONG).await;
    let add = format!("add-promoted {path} 1 {lock}");
    assert_eq!(java.ask(&add).await, "ok true 0 1");

    // Java waits for us.
    our_number.proxy.hold_nth_reply(OpCode::GetChildren, 1);
    let adding = overtake(&our_number.proxy, &number, || our_number.add(1)).await;
    our_number
        .proxy
        .wait_for_reply(OpCode::GetChildren, 1)
        .await
        .unwrap();
    overtake(&javas_proxy, &number, || java.send(&add)).await;
    until_children(&client, &lock, 2).await;
    assert!(java.still_waits().await);
    our_number.proxy.release_held();
    let added = soon(adding).await.unwrap();
    assert_eq!((added.pre_value, added.post_value), (201, 202));
    assert_eq!(java.answer().await, "ok true 202 203");

    // We wait for Java.
    javas_proxy.hold_nth_reply(OpCode::GetChildren2, 1);
    overtake(&javas_proxy, &number, || java.send(&add)).await;
    javas_proxy
        .wait_for_reply(OpCode::GetChildren2, 1)
        .await
        .unwrap();
    let adding = overtake(&our_number.proxy, &number, || our_number.add(1)).await;
    until_children(&client, &lock, 2).await;
    assert!(still_waits(&adding, &our_number.client).await);
    javas_proxy.release_held();
    assert_eq!(java.answer().await, "ok true 403 404");
    let added = soon(adding).await.unwrap();
    assert_eq!((added.pre_value, added.post_value), (404, 405));
}

/// After a lost reply, Curator's framework repeats the write, and the repetition conflicts with the
/// first write. The recipe takes this for a write of another client, and adds again.
#[tokio::test]
async fn after_a_lost_reply_java_adds_twice_and_we_do_not() {
    let client = ours().await;
    let server = TestingServer::shared().await;
    let proxy = || FaultProxy::start(server.address()).unwrap();

    let javas_proxy = proxy();
    let path = unique_path("counter-lost-java");
    let mut java = java_at(&javas_proxy.connect_string(), LONG).await;
    assert_eq!(java.ask(&format!("add {path} 1")).await, "ok true 0 1");
    javas_proxy.cut_before_reply(OpCode::SetData);
    assert_eq!(java.ask(&format!("add {path} 1")).await, "ok true 2 3");
    assert_eq!(value(&client, &path).await, 3);

    let our_proxy = proxy();
    let path = unique_path("counter-lost-ours");
    let cut_off = connect(&our_proxy.connect_string(), LONG).await;
    let number = DistributedAtomicLong::new(&cut_off, &path).unwrap();
    soon(number.add(1)).await.unwrap();
    our_proxy.cut_before_reply(OpCode::SetData);
    let error = soon(number.add(1)).await.unwrap_err();
    assert!(
        matches!(error, ValueError::OutcomeUnknown { .. }),
        "{error:?}"
    );
    assert_eq!(value(&client, &path).await, 2);

    let with_receipt = number.exactly_once(format!("{path}-receipt")).unwrap();
    soon(with_receipt.add(1)).await.unwrap();
    our_proxy.cut_before_reply(OpCode::Multi);
    let added = soon(with_receipt.add(1)).await.unwrap();
    assert_eq!((added.pre_value, added.post_value), (3, 4));
    assert_eq!(value(&client, &path).await, 4);
}
