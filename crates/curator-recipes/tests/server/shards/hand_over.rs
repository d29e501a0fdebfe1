//! A planned hand-over: how long a shard is unserved, and what happens to jobs that do not end.

use std::future::pending;
use std::io;
use std::time::Duration;

use curator_recipes::{Leadership, ShardAssignment, ShardAssignmentBuilder, Shards};
use tokio::time::{Instant, sleep, timeout};

use super::members::{Members, PATH};
use crate::support::until_simulated;

/// From a client to its server, or back.
const LATENCY: Duration = Duration::from_millis(20);
const ROUND_TRIP: Duration = Duration::from_millis(40);

#[tokio::test(start_paused = true)]
async fn a_shard_is_unserved_while_its_job_ends_and_for_two_round_trips() {
    for ending in [Duration::ZERO, Duration::from_secs(3)] {
        let mut members = Members::new();
        // A single server, so that no time passes between servers.
        members.simulation = curator_test::Simulation::builder()
            .servers(1)
            .latency(LATENCY..=LATENCY)
            .start();
        members.served.ending = ending;
        let served = members.served.clone();
        let _a = members.start("a", |builder| builder).await;
        served.until(&[8]).await;
        let b = members.start("b", |builder| builder).await;
        served.until(&[4, 4]).await;
        b.stop().await;
        served.until(&[8]).await;
        let gaps = served.gaps();
        assert_eq!(gaps.len(), 8);
        for (shard, gap) in gaps {
            assert!(
                gap <= 2 * ROUND_TRIP,
                "{shard}: {gap:?} (ending {ending:?})"
            );
        }
    }
}

/// A member that the plan gives shards to may be present, and never come for them.
#[tokio::test(start_paused = true)]
async fn a_member_serves_until_the_next_one_comes_and_at_its_shutdown_for_the_grace_period() {
    let members = Members::new();
    let served = members.served.clone();
    let grace = Duration::from_secs(100);
    let settings = |builder: ShardAssignmentBuilder| builder.grace_period(grace);
    let a = members.start("a", settings).await;
    served.until(&[8]).await;
    let silent = "/work/agreed/members/silent";
    a.client.create().for_path(silent, "1").await.unwrap();
    sleep(3 * grace).await;
    assert_eq!(a.assignment.plan().await.unwrap()["silent"].len(), 4);
    assert_eq!((served.counts(), served.gaps()), (vec![8], vec![]));
    let began = Instant::now();
    a.stop().await;
    let took = began.elapsed();
    assert!(took >= grace && took < 2 * grace, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_does_not_end_is_dropped_after_the_grace_period() {
    let mut members = Members::new();
    members.served.ending = Duration::MAX;
    let served = members.served.clone();
    let grace = Duration::from_secs(30);
    let settings = |builder: ShardAssignmentBuilder| builder.grace_period(grace);
    let _a = members.start("a", settings).await;
    served.until(&[8]).await;
    let began = Instant::now();
    let _b = members.start("b", settings).await;
    served.until(&[4, 4]).await;
    let took = began.elapsed();
    assert!(took >= grace && took < 2 * grace, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_fails_runs_again_in_the_same_member() {
    let members = Members::new();
    let a = members.start("a", |builder| builder.weight(0)).await;
    let (runs_tx, mut runs) = tokio::sync::mpsc::unbounded_channel();
    let job = move |shard: String, _: Leadership| {
        let runs_tx = runs_tx.clone();
        async move {
            runs_tx.send(shard).unwrap();
            Err(io::Error::other("on purpose"))
        }
    };
    let other = ShardAssignment::builder(&a.client, PATH, "b", Shards::Listed).unwrap();
    let run = a.process.run(other.build().run(job, pending::<()>()));
    let again = async {
        let mut counts = std::collections::BTreeMap::<String, u32>::new();
        while counts.len() < 8 || counts.values().any(|count| *count < 3) {
            *counts.entry(runs.recv().await.unwrap()).or_default() += 1;
        }
    };
    tokio::select! {
        ended = run => panic!("{ended:?}"),
        () = again => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_with_its_client_or_when_it_is_dropped() {
    let members = Members::new();
    let served = members.served.clone();
    let a = members.start("a", |builder| builder).await;
    let b = members.start("b", |builder| builder).await;
    served.until(&[4, 4]).await;
    b.run.abort();
    served.until(&[4]).await;
    // Its shards are reserved, and its nodes are deleted.
    let nodes = || {
        members
            .simulation
            .nodes()
            .into_keys()
            .filter(|path| path.ends_with("/members/b") || path.contains("-lock-"))
            .count()
    };
    until_simulated(async || nodes() == 4).await;
    served.until(&[8]).await;
    a.process.run(a.client.close()).await.unwrap();
    a.run.await.unwrap().unwrap();
    assert_eq!(served.counts(), [0_usize; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_stopped_without_a_connection_ends() {
    let members = Members::new();
    let served = members.served.clone();
    let a = members.start("a", |builder| builder).await;
    served.until(&[8]).await;
    a.process.refuse(true);
    a.process.cut();
    until_simulated(async || a.client.try_session().is_err()).await;
    a.stop.send(()).unwrap();
    let ended = timeout(Duration::from_secs(600), a.run).await.unwrap();
    // The node's deletion may be unconfirmed; the servers delete it with the session.
    if let Err(error) = ended.unwrap() {
        assert!(
            error.is_retryable() || error.outcome() == curator_recipes::client::Outcome::Unknown,
            "{error}"
        );
    }
    assert_eq!(served.counts(), [0_usize; 0]);
    sleep(Duration::from_secs(1)).await;
}
