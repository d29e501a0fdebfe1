//! `zklock ls` shows the holders and waiters of other clients: real programs in Java, Python and
//! Go.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test, a panic is the way to fail"
)]

#[allow(dead_code, reason = "the tests on one server use it")]
#[path = "../server/pseudo_terminal.rs"]
mod pseudo_terminal;
#[allow(
    dead_code,
    unused_imports,
    reason = "the tests on one server use more of it"
)]
#[path = "../server/support.rs"]
mod support;

use curator_test::{TestingServer, until};
use serde_json::Value;

use crate::support::printed;

/// Waits until `zklock ls` shows this many contenders in one queue at `path`. Returns their
/// sessions, and whether each holds the lock.
async fn listed(path: &str, kind: &str, count: usize) -> Vec<(i64, bool)> {
    let mut found = Vec::new();
    until(async || {
        let printed = printed(&format!("ls {path} --json"), None).await;
        let lock: Value = serde_json::from_str(printed.out.lines().next().unwrap()).unwrap();
        if printed.code == Some(1) {
            return false;
        }
        assert_eq!(lock["kind"], kind);
        found.clone_from(lock["contenders"].as_array().unwrap());
        found.len() == count
    })
    .await;
    let session =
        |node: &Value| i64::from_str_radix(&node["session"].as_str().unwrap()[2..], 16).unwrap();
    found
        .iter()
        .map(|node| (session(node), node["holds"].as_bool().unwrap()))
        .collect()
}

mod curator {
    use super::*;
    use test_support::java::java;

    #[tokio::test]
    async fn ls_shows_a_java_holder_and_a_java_waiter() {
        let path = support::path("java");
        let mut first = java().await;
        let mut second = java().await;
        assert_eq!(first.ask(&format!("acquire mutex {path}")).await, "ok true");
        second.send(&format!("acquire mutex {path}"));
        assert_eq!(
            listed(&path, "mutex", 2).await,
            [(first.id(), true), (second.id(), false)]
        );
        first.tell(&format!("release mutex {path}")).await;
        assert_eq!(second.answer().await, "ok true");
        assert_eq!(listed(&path, "mutex", 1).await, [(second.id(), true)]);
    }
}

mod kazoo {
    use super::*;
    use test_support::agent::Agent;

    const SCRIPT: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../curator-recipes/tests/interop/kazoo/agent.py"
    );

    #[tokio::test]
    async fn ls_shows_a_kazoo_holder_and_a_kazoo_waiter() {
        let path = support::path("kazoo");
        let server = TestingServer::shared().await.connect_string();
        let start = |name: &str| {
            Agent::start(
                "kazoo",
                "CURATOR_TEST_KAZOO_PYTHON",
                &[SCRIPT, name, &server],
            )
        };
        let mut first = start("a");
        let mut second = start("b");
        assert_eq!(first.ask(&format!("acquire lock {path}")), "ok True");
        second.send(&format!("acquire lock {path}"));
        let holds: Vec<_> = listed(&path, "kazoo-lock", 2)
            .await
            .into_iter()
            .map(|(_, holds)| holds)
            .collect();
        assert_eq!(holds, [true, false]);
        assert_eq!(first.ask(&format!("release lock {path}")), "ok True");
        assert_eq!(second.answer(), "ok True");
        first.stop();
        second.stop();
    }
}

mod go {
    use super::*;
    use test_support::agent::Agent;

    #[tokio::test]
    async fn ls_shows_a_go_holder_and_a_go_waiter() {
        let path = support::path("go");
        let server = TestingServer::shared().await.connect_string();
        let start =
            |name: &str| Agent::start("go-zookeeper", "CURATOR_TEST_GO_AGENT", &[name, &server]);
        let mut first = start("a");
        let mut second = start("b");
        assert!(first.ask(&format!("acquire {path}")).starts_with("ok _c_"));
        second.send(&format!("acquire {path}"));
        let holds: Vec<_> = listed(&path, "mutex", 2)
            .await
            .into_iter()
            .map(|(_, holds)| holds)
            .collect();
        assert_eq!(holds, [true, false]);
        assert_eq!(first.ask(&format!("release {path}")), "ok");
        assert!(second.answer().starts_with("ok _c_"));
        first.stop();
        second.stop();
    }
}
