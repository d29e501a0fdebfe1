//! Java's barriers, and ours in `examples/compositions`, on one path.

use curator_recipes::client::CuratorClient;
use curator_test::{FaultProxy, OpCode, TestingServer, soon, unique_path, until};
use tokio::task::JoinHandle;

use super::java::{java, java_at};
use super::stage::{ours, until_children, until_watches};
use crate::{LONG, ours::connect, still_waits::still_waits};
use barrier::DistributedBarrier;
use double_barrier::{Failure, Member};

#[allow(unreachable_pub, reason = "a file that users copy")]
#[path = "../../../../../examples/compositions/barrier.rs"]
mod barrier;
#[allow(unreachable_pub, reason = "a file that users copy")]
#[path = "../../../../../examples/compositions/double_barrier.rs"]
mod double_barrier;

#[tokio::test]
async fn each_language_waits_at_the_barrier_that_the_other_sets() {
    let client = ours().await;
    let mut java = java().await;
    let path = unique_path("barrier");
    let barrier = DistributedBarrier::new(&client, &path).unwrap();
    soon(barrier.set()).await.unwrap();
    java.send(&format!("barrier-wait {path}"));
    until_watches(&path, java.id()).await;
    assert!(java.still_waits().await);
    soon(barrier.remove()).await.unwrap();
    assert_eq!(java.answer().await, "ok true");

    assert_eq!(java.ask(&format!("barrier-set {path}")).await, "ok");
    let waiting = tokio::spawn(async move { barrier.wait().await });
    assert!(still_waits(&waiting, &client).await);
    assert_eq!(java.ask(&format!("barrier-remove {path}")).await, "ok");
    soon(waiting).await.unwrap().unwrap();
}

fn entering(client: &CuratorClient, path: &str) -> JoinHandle<Result<Member, Failure>> {
    let (client, path) = (client.clone(), path.to_owned());
    tokio::spawn(async move { Member::enter(&client, &path, 2).await })
}

/// In Curator 5.9.0, any event wakes a member, which then does not count again (GH-1290). Here, it
/// reconnects while the thread for callbacks is busy.
#[tokio::test]
async fn a_member_that_reconnects_enters_early_in_java_and_waits_here() {
    let server = TestingServer::shared().await;
    let observer = ours().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let path = unique_path("double-barrier-early");
    let mut java = java_at(&proxy.connect_string(), LONG).await;
    assert_eq!(
        java.ask_beside(&format!("block-callbacks {path}")).await,
        "ok"
    );
    proxy.reset_counts();
    java.send(&format!("enter {path} 2"));
    // It counts the members, and waits.
    proxy.wait_for_reply(OpCode::GetChildren2, 1).await.unwrap();
    assert!(java.still_waits().await);
    proxy.cut();
    assert_eq!(
        java.ask_beside(&format!("unblock-callbacks {path}")).await,
        "ok"
    );
    assert_eq!(java.answer().await, "ok true");
    // It is alone, and has opened nothing.
    until_children(&observer, &path, 1).await;
    assert_eq!(java.ask(&format!("leave {path}")).await, "ok true");

    let path = unique_path("double-barrier-waits");
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = connect(&proxy.connect_string(), LONG).await;
    let first = entering(&client, &path);
    until_children(&observer, &path, 1).await;
    assert!(still_waits(&first, &client).await);
    proxy.cut();
    until(async || client.check_exists("/").await.is_ok()).await;
    assert!(still_waits(&first, &client).await);
    until_children(&observer, &path, 1).await;
    let second = soon(entering(&observer, &path)).await.unwrap().unwrap();
    let first = soon(first).await.unwrap().unwrap();
    let (first, second) = soon(async { tokio::join!(first.leave(), second.leave()) }).await;
    first.and(second).unwrap();
}

/// The members of both languages enter and leave together, whichever comes first.
#[tokio::test]
async fn members_of_both_languages_enter_and_leave_a_double_barrier_together() {
    let client = ours().await;
    let mut java = java().await;
    let path = unique_path("double-barrier-both");
    for java_is_first in [true, false, true, false] {
        let mut entering_here = None;
        if java_is_first {
            java.send(&format!("enter {path} 2"));
            until_children(&client, &path, 1).await;
            assert!(java.still_waits().await);
        } else {
            let entering = entering(&client, &path);
            until_children(&client, &path, 1).await;
            assert!(still_waits(&entering, &client).await);
            entering_here = Some(entering);
            java.send(&format!("enter {path} 2"));
        }
        let entering = entering_here.unwrap_or_else(|| entering(&client, &path));
        let member = soon(entering).await.unwrap().unwrap();
        assert_eq!(java.answer().await, "ok true");

        if java_is_first {
            java.send(&format!("leave {path}"));
            assert!(java.still_waits().await);
            soon(member.leave()).await.unwrap();
        } else {
            let leaving = tokio::spawn(member.leave());
            assert!(still_waits(&leaving, &client).await);
            java.send(&format!("leave {path}"));
            soon(leaving).await.unwrap().unwrap();
        }
        assert_eq!(java.answer().await, "ok true");
        until_children(&client, &path, 0).await;
    }
}
