//! Java's `DistributedAtomicLong` and ours on one node.

use curator_recipes::{DistributedAtomicLong, ValueError, client::CuratorClient};
use curator_test::{FaultProxy, OpCode, TestingServer, soon, unique_path};

use super::{
    java::{java, java_at},
    stage::ours,
};
use crate::{LONG, ours::connect};

async fn value(client: &CuratorClient, path: &str) -> i64 {
    soon(DistributedAtomicLong::new(client, path).unwrap().get()).await.unwrap()
}

#[tokio::test]
async fn both_languages_add_to_the_same_number() {
    let (client, mut java, path) = (ours().await, java().await, unique_path("counter"));
    let number = DistributedAtomicLong::new(&client, &path).unwrap();
    assert_eq!(java.ask(&format!("add {path} -5")).await, "ok true 0 -5");
    let added = soon(number.add(1 << 40)).await.unwrap();
    assert_eq!((added.pre_value, added.post_value), (-5, (1 << 40) - 5));
    assert_eq!(java.ask(&format!("add {path} 5")).await, format!("ok true {} {}", added.post_value, 1_i64 << 40));
    assert_eq!(client.get_data(&path).await.unwrap().0, (1_i64 << 40).to_be_bytes());
}

#[tokio::test]
async fn concurrent_additions_of_both_languages_are_each_counted_once() {
    let (client, mut java, path) = (ours().await, java().await, unique_path("counter-both"));
    let number = DistributedAtomicLong::new(&client, &path).unwrap();
    let of_java = async {
        for _ in 0..20 {
            assert!(java.ask(&format!("add {path} 1")).await.starts_with("ok true "));
        }
    };
    let of_ours = async {
        for _ in 0..20 {
            soon(number.add(1000)).await.unwrap();
        }
    };
    tokio::join!(of_java, of_ours);
    assert_eq!(value(&client, &path).await, 20 * 1001);
}

/// After a lost reply, Curator's framework repeats the write, and the repetition conflicts with the first write. The
/// recipe takes this for a write of another client, and adds again.
#[tokio::test]
async fn after_a_lost_reply_java_adds_twice_and_we_do_not() {
    let (client, server) = (ours().await, TestingServer::shared().await);
    let proxy = || FaultProxy::start(server.address()).unwrap();

    let (of_java, path) = (proxy(), unique_path("counter-lost-java"));
    let mut java = java_at(&of_java.connect_string(), LONG).await;
    assert_eq!(java.ask(&format!("add {path} 1")).await, "ok true 0 1");
    of_java.cut_before_reply(OpCode::SetData);
    assert_eq!(java.ask(&format!("add {path} 1")).await, "ok true 2 3");
    assert_eq!(value(&client, &path).await, 3);

    let (of_ours, path) = (proxy(), unique_path("counter-lost-ours"));
    let cut_off = connect(&of_ours.connect_string(), LONG).await;
    let number = DistributedAtomicLong::new(&cut_off, &path).unwrap();
    soon(number.add(1)).await.unwrap();
    of_ours.cut_before_reply(OpCode::SetData);
    let error = soon(number.add(1)).await.unwrap_err();
    assert!(matches!(error, ValueError::OutcomeUnknown { .. }), "{error:?}");
    assert_eq!(value(&client, &path).await, 2);

    let with_receipt = number.exactly_once(format!("{path}-receipt")).unwrap();
    soon(with_receipt.add(1)).await.unwrap();
    of_ours.cut_before_reply(OpCode::Multi);
    let added = soon(with_receipt.add(1)).await.unwrap();
    assert_eq!((added.pre_value, added.post_value), (3, 4));
    assert_eq!(value(&client, &path).await, 4);
}
