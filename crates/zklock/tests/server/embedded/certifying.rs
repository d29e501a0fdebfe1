//! `zklock doctor --certify` on servers that are slow, or where something is wrong.

use std::time::{Duration, Instant};

use curator_test::{Direction, EmbeddedServer, FaultProxy, OpCode, soon};

use crate::certified::{certified, certify};
use crate::support::finished;

/// More than the requests of all checks, of which about 700 were counted.
const REQUESTS: u64 = 900;

/// Each request and each reply takes 10 ms, as between regions. What a busy machine adds must fit
/// into the limit of a run too.
#[tokio::test]
async fn all_checks_end_in_time_on_a_distant_server() {
    let server = EmbeddedServer::start().unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    proxy.set_delay(Duration::from_millis(10));
    let (printed, certified) = certified(&mut certify(&proxy.connect_string(), "")).await;
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert!(certified.limited_recipes().is_empty(), "{certified:?}");
    let requests: u64 = server.requests().values().sum();
    assert!(
        requests < REQUESTS,
        "{requests} requests: {:?}",
        server.requests()
    );
    assert!(server.session_ids().is_empty(), "sessions remain");
}

/// What hangs is a fault, and its sessions and nodes are removed.
#[tokio::test]
async fn an_operation_that_hangs_is_a_fault_of_the_recipes_that_need_it() {
    let server = EmbeddedServer::start().unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    proxy.hold_replies(OpCode::AddWatch);
    let (printed, certified) = certified(&mut certify(&proxy.connect_string(), "")).await;
    assert_eq!(printed.code, Some(1), "{printed:?}");
    let faults = ["recursive watches", "CuratorCache", "GroupMember"];
    for name in faults {
        assert!(
            certified.verdict(name).starts_with("fault: "),
            "{printed:?}"
        );
    }
    let last = format!(
        "- do not use on these servers, or repeat the check: {}\n",
        faults.join(", ")
    );
    assert!(printed.out.ends_with(&last), "{printed:?}");
    assert_eq!(certified.verdict("InterProcessMutex"), "works");
    let client = curator_recipes::client::CuratorClient::builder(server.connect_string())
        .connect()
        .await
        .unwrap();
    assert_eq!(client.get_children("/").await.unwrap(), ["zookeeper"]);
}

/// A run takes at most 30 s; the bound is for a busy machine.
#[tokio::test]
async fn a_run_on_servers_that_fall_silent_ends_and_names_the_node_that_remains() {
    let server = EmbeddedServer::start().unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let begun = Instant::now();
    let run = certify(&proxy.connect_string(), "").spawn().unwrap();
    proxy.wait_for_reply(OpCode::AddWatch, 1).await.unwrap();
    proxy.black_hole(Direction::Both);
    let printed = soon(finished(run)).await;
    assert!(begun.elapsed() < Duration::from_secs(60), "{printed:?}");
    assert_eq!(printed.code, Some(1), "{printed:?}");
    let client = curator_recipes::client::CuratorClient::builder(server.connect_string())
        .connect()
        .await
        .unwrap();
    let nodes = client.get_children("/").await.unwrap();
    let remains = nodes
        .iter()
        .find(|name| name.starts_with("zklock-certify-"));
    let line = format!(
        "- /{} was not removed, and remains: delete it",
        remains.unwrap()
    );
    assert!(printed.out.contains(&line), "{printed:?}");
}

#[tokio::test]
async fn an_invalid_root_is_a_failure_and_no_fault_of_the_servers() {
    let server = EmbeddedServer::start().unwrap();
    let mut run = certify(&server.connect_string(), "--root relative");
    let printed = soon(finished(run.spawn().unwrap())).await;
    assert_eq!(printed.code, Some(125), "{printed:?}");
    assert!(!printed.out.contains("RESULT"), "{printed:?}");
}
