//! Java's `LeaderSelector` and ours take turns to run one job.

use std::{future::pending, io};

use curator_recipes::{LeaderObserver, LeaderSelector, Leadership};
use curator_test::{soon, unique_path};
use tokio::sync::mpsc;

use super::{
    java::java,
    stage::{ours, until_children, until_observed},
};

const TAKE_OVERS: usize = 20;

/// Each leader is interrupted, and rejoins at the end of the queue.
#[tokio::test]
async fn java_and_we_take_turns_to_run_the_job_and_agree_on_the_leader() {
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
    let (term_tx, mut term_rx) = mpsc::unbounded_channel::<Leadership>();
    let run = tokio::spawn(selector.clone().run(
        move |leadership| {
            let term_tx = term_tx.clone();
            async move {
                term_tx.send(leadership).unwrap();
                pending::<Result<(), io::Error>>().await
            }
        },
        pending::<()>(),
    ));
    let java_leads = format!("ok {}", java.name());
    for _ in 0..TAKE_OVERS / 2 {
        until_children(&client, &path, 2).await;
        assert!(!selector.has_leadership());
        assert_eq!(selector.participants().await.unwrap()[1].data, b"ours");
        assert_eq!(java.ask(&format!("leader {path}")).await, java_leads);
        until_observed(&observer, java.name()).await;
        assert_eq!(java.ask(&format!("interrupt {path}")).await, "ok");
        let term = soon(term_rx.recv()).await.unwrap();
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
