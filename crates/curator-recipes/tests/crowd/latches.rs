//! One client with a thousand latches: all in the queue of one path, or each on a separate path.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use curator_recipes::client::CuratorClient;
use curator_recipes::{LeaderLatch, LeaderState};
use curator_test::within;
use tokio::task::JoinSet;

use crate::support::{say, without_probes};
use crate::{ALONE, CROWD_TIMEOUT, Stage};

const LATCHES: usize = 1_000;

fn latch(client: &CuratorClient, path: &str) -> LeaderLatch {
    LeaderLatch::builder(client, path).unwrap().start()
}

/// Waits until every latch is queued or leads.
async fn all_take_part(latches: &[LeaderLatch]) {
    within(CROWD_TIMEOUT, async {
        for latch in latches {
            latch
                .state()
                .wait_for(|state| *state != LeaderState::Unknown)
                .await
                .unwrap();
        }
    })
    .await;
}

/// Prints the time, requests and bytes received per latch, checks the requests, and resets the
/// counts.
fn print_and_check_costs(stage: &Stage, what: &str, begun: Instant) {
    let latches = LATCHES as u64;
    let by_kind = without_probes(&stage.proxy);
    let requests: u64 = by_kind.values().sum();
    say(&format!(
        "crowd: {LATCHES} latches {what} in {:.1?}; each {:.2} requests, {} bytes received",
        begun.elapsed(),
        requests as f64 / LATCHES as f64,
        stage.proxy.bytes_received() / latches
    ));
    assert!(
        requests <= 6 * latches,
        "{requests} requests of {latches} latches: {by_kind:?}"
    );
    stage.proxy.reset_counts();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_latches_of_one_client_lead_in_turn() {
    let _alone = ALONE.lock().await;
    let stage = Stage::new().await;
    // Without the parent, a varying number of creates would fail and be sent again.
    stage.holding.create().for_path("/crowd", "").await.unwrap();
    stage.proxy.reset_counts();
    let begun = Instant::now();
    let latches: Vec<_> = (0..LATCHES)
        .map(|_| latch(&stage.waiting, "/crowd"))
        .collect();
    within(CROWD_TIMEOUT, async {
        while stage
            .holding
            .get_children("/crowd")
            .await
            .map_or(0, |nodes| nodes.len())
            < LATCHES
        {}
    })
    .await;
    all_take_part(&latches).await;
    print_and_check_costs(&stage, "have joined one queue", begun);
    let begun = Instant::now();
    let leaders = Arc::new(AtomicUsize::new(0));
    let mut leading = JoinSet::new();
    for latch in latches {
        let leaders = Arc::clone(&leaders);
        leading.spawn(async move {
            let leadership = latch.leadership().await.unwrap();
            assert_eq!(
                leaders.fetch_add(1, Ordering::SeqCst),
                0,
                "two latches lead at the same time"
            );
            assert!(leadership.is_valid());
            leaders.fetch_sub(1, Ordering::SeqCst);
            latch.close().await.unwrap();
        });
    }
    within(CROWD_TIMEOUT, async {
        while leading.join_next().await.transpose().unwrap().is_some() {}
    })
    .await;
    print_and_check_costs(&stage, "have led in turn, and left", begun);
    assert_eq!(
        stage.waiting.health().sessions_replaced,
        0,
        "a session was lost"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_latches_of_one_client_each_lead_on_a_separate_path() {
    let _alone = ALONE.lock().await;
    let stage = Stage::new().await;
    // Without the parent, a varying number of creates would fail and be sent again.
    stage.holding.create().for_path("/crowd", "").await.unwrap();
    stage.proxy.reset_counts();
    let begun = Instant::now();
    let latches: Vec<_> = (0..LATCHES)
        .map(|number| latch(&stage.waiting, &format!("/crowd/{number}")))
        .collect();
    within(CROWD_TIMEOUT, async {
        for latch in &latches {
            latch.leadership().await.unwrap();
        }
    })
    .await;
    print_and_check_costs(&stage, "lead, on a path each", begun);
    let begun = Instant::now();
    let mut closing: JoinSet<_> = latches
        .into_iter()
        .map(|latch| async move { latch.close().await.unwrap() })
        .collect();
    within(CROWD_TIMEOUT, async {
        while closing.join_next().await.transpose().unwrap().is_some() {}
    })
    .await;
    print_and_check_costs(&stage, "have left", begun);
    assert_eq!(
        stage.waiting.health().sessions_replaced,
        0,
        "a session was lost"
    );
}
