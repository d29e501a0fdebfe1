//! A node layout of the user's own, whose names carry no id.

use curator_recipes::{ContenderIdentity, LockInternalsDriver, Queue, Uuid, Verdict, sequence_after};
use curator_test::{FaultProxy, OpCode, TestingServer};

use crate::support::{children, client, connect, mutex, path, queue_of, soon, still_waits};

#[derive(Debug)]
struct HostnameDriver;

impl LockInternalsDriver for HostnameDriver {
    fn node_prefix(&self, _id: &Uuid) -> String {
        "host-W-".to_owned()
    }
    fn identity(&self) -> ContenderIdentity {
        ContenderIdentity::Data
    }
    fn sequence(&self, child: &str) -> Option<i32> {
        sequence_after(child, "-W-")
    }
    fn verdict(&self, _queue: &Queue, own: usize) -> Verdict {
        own.checked_sub(1).map_or(Verdict::Owns, Verdict::WaitsFor)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_finds_the_right_one_of_several_nodes_of_the_same_name() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (client, steady, path) = (connect(&proxy.connect_string()).await, client().await, path("same-names"));
    let named = |client| mutex(client, &path).with_driver(HostnameDriver).unwrap();
    let guard = named(&client).acquire().await.unwrap();
    assert_eq!(guard.node().name(), "host-W-0000000000");

    // Two contenders of the same session; the second one's answer is lost.
    let waiting = named(&client);
    let first = tokio::spawn(async move { waiting.acquire().await.unwrap() });
    queue_of(&steady, &path, 2).await;
    proxy.cut_before_reply(OpCode::Create2);
    let waiting = named(&client);
    let second = tokio::spawn(async move { waiting.acquire().await.unwrap() });
    queue_of(&steady, &path, 3).await;

    guard.release().await.unwrap();
    let first = soon(first).await.unwrap();
    assert_eq!(first.node().name(), "host-W-0000000001");
    assert!(still_waits(&second, &client).await, "it has taken another's node for its own");
    first.release().await.unwrap();
    let second = soon(second).await.unwrap();
    assert_eq!(second.node().name(), "host-W-0000000002");
    assert_eq!(children(&steady, &path).await.len(), 1);
    second.release().await.unwrap();
}
