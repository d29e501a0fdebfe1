//! Runs random schedules of every workload, which must pass, and schedules of a defective recipe,
//! one of which must fail.

mod determinism;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curator_recipes::client::{CreateMode, CuratorClient};
use curator_simulation::checks::{Entry, Kind};
use curator_simulation::life::Life;
use curator_simulation::search::{Found, Search, seed_of_commit};
use curator_simulation::simulated;
use curator_simulation::workload::{self, Workload};

/// In an exported tree, which has no commit, the seeds are always the same.
#[test]
fn five_hundred_schedules_of_this_commit_pass() {
    let workloads = workload::names().collect();
    let threads = std::thread::available_parallelism().map_or(1, Into::into);
    let search = Search {
        from: seed_of_commit().unwrap_or(0),
        seeds: 500,
        workloads,
        threads,
        stops: true,
    };
    let report = search.run(
        |seed, workload| simulated::run(seed, workload, false).0,
        |Found {
             seed,
             workload,
             failure,
         }| {
            let command =
                format!("cargo xtask simulate --workload {workload} --seed {seed} --trace");
            println!("{workload} with seed {seed}: {}: {command}", failure.what);
        },
    );
    assert!(report.found.is_empty(), "see above");
}

#[test]
fn a_schedule_is_the_same_each_time() {
    let traced = || {
        let (verdict, trace) = simulated::run(3, "mixed", true);
        (verdict.failure, verdict.events, verdict.trace_hash, trace)
    };
    let first = traced();
    assert!(first == traced(), "the second run differs");
    // The trace does not depend on whether it is printed.
    assert_eq!(simulated::run(3, "mixed", false).0.trace_hash, first.2);
}

/// A defective lock: it checks that no node exists, and then creates its node, so two processes can
/// check before either of them creates.
#[derive(Debug)]
struct NaiveLock;

impl NaiveLock {
    async fn acquire(client: &CuratorClient, name: &str) -> bool {
        let taken = client.get_children("/naive").await;
        if taken.is_ok_and(|holders| holders.is_empty()) {
            let create = client
                .create()
                .with_mode(CreateMode::Ephemeral)
                .creating_parent_containers();
            return create.for_path(format!("/naive/{name}"), "").await.is_ok();
        }
        false
    }
}

#[async_trait]
impl Workload for NaiveLock {
    async fn prepare(&self, client: &CuratorClient) -> Result<(), curator_recipes::client::Error> {
        client.create().for_path("/naive", "").await.map(drop)
    }

    async fn live(&self, life: &Life) {
        while life.goes_on() {
            life.think_for(Duration::from_millis(500)).await;
            if Self::acquire(life.client(), life.name()).await {
                let held = Arc::new(());
                let view = Arc::downgrade(&held);
                let entry = Entry {
                    who: life.name(),
                    owner: life.number(),
                    kind: Kind::AtMost(1),
                    token: 0,
                    node: "",
                };
                life.checks()
                    .owners("/naive")
                    .enter(life.world(), &entry, move || view.strong_count() > 0);
                life.think_for(Duration::from_millis(500)).await;
                drop(held);
                let _ = life
                    .client()
                    .delete()
                    .for_path(format!("/naive/{}", life.name()))
                    .await;
            }
        }
        life.at_rest().await;
        life.idle().await;
    }

    fn may_leave(&self, path: &str) -> bool {
        path == "/naive"
    }
}

#[test]
fn a_lock_with_a_defect_is_found() {
    let found = (0..20).find_map(|seed| {
        simulated::run_workload(seed, Arc::new(NaiveLock), false)
            .0
            .failure
    });
    let found = found.expect("no seed finds two owners");
    assert!(found.what.contains("2 valid leases of 1"), "{}", found.what);
}
