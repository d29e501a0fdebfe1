//! Java's `LeaderSelector` and ours run one job in turn.

use std::{future::pending, io};

use curator_recipes::{LeaderObserver, LeaderSelector, Leadership};
use curator_test::{soon, unique_path};
use tokio::sync::mpsc;

use super::{
    java::java,
    stage::{ours, until_children, until_observed},
};

const TAKE_OVERS: usize = 20;

/// Each leader is interrupted, and all rejoin at the end.
#[tokio::test]
async fn java_and_we_run_the_job_by_turns_and_agree_on_the_leader() {
    let path = unique_path("selector");
    let client = ours().await;
    let mut java = java().await;
    let observer = LeaderObserver::observe_selector(&client, &path).unwrap();
    assert_eq!(java.ask(&format!("select {path}")).await, "ok");
    assert_eq!(java.ask("event").await, "ok leader");
    let selector = LeaderSelector::builder(&client, &path)
        .unwrap()
        .id("ours")
        .build();
    let (begins, mut began) = mpsc::unbounded_channel::<Leadership>();
    let job = move |leadership| {
        let begins = begins.clone();
        async move {
            begins.send(leadership).unwrap();
            pending::<Result<(), io::Error>>().await
        }
    };
    let run = tokio::spawn(selector.clone().run(job, pending::<()>()));
    let java_leads = format!("ok {}", java.name());
    for _ in 0..TAKE_OVERS / 2 {
        until_children(&client, &path, 2).await;
        assert!(!selector.has_leadership());
        assert_eq!(selector.participants().await.unwrap()[1].data, b"ours");
        assert_eq!(java.ask(&format!("leader {path}")).await, java_leads);
        until_observed(&observer, java.name()).await;
        assert_eq!(java.ask(&format!("interrupt {path}")).await, "ok");
        let term = soon(began.recv()).await.unwrap();
        assert_eq!(java.ask("event").await, "ok not-leader");
        until_children(&client, &path, 2).await;
        assert!(term.is_valid());
        assert_eq!(java.ask(&format!("leader {path}")).await, "ok ours");
        until_observed(&observer, "ours").await;
        selector.interrupt_leadership();
        assert_eq!(java.ask("event").await, "ok leader");
        assert!(!term.is_valid());
    }
    run.abort();
}
