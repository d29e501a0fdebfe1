//! Members that end: together, while they join or leave, and with jobs that pause.

use std::time::Duration;

use curator_recipes::{ShardAssignmentBuilder, Shards};
use tokio::time::{Instant, sleep};

use super::members::{Member, Members};
use crate::support::until_simulated;

const GRACE: Duration = Duration::from_secs(100);

/// A whole deployment that is stopped: no member waits for one that is leaving too.
#[tokio::test(start_paused = true)]
async fn members_that_stop_at_the_same_time_do_not_wait_for_each_other() {
    for count in [2, 3, 5] {
        let members = Members::new();
        let settings = |builder: ShardAssignmentBuilder| builder.grace_period(GRACE);
        let mut all = Vec::new();
        for id in 0..count {
            all.push(members.start(&format!("m{id}"), settings).await);
        }
        until_simulated(async || {
            members.served.now().len() == count
                && members.served.counts().iter().sum::<usize>() == 8
        })
        .await;
        sleep(Duration::from_secs(30)).await;
        let began = Instant::now();
        let stops = all.into_iter().map(Member::stop);
        futures_util::future::join_all(stops).await;
        let took = began.elapsed();
        assert!(took < GRACE, "{count}: {took:?}");
    }
}

/// "If several processes have one id, one of them serves its shards, and the others wait."
#[tokio::test(start_paused = true)]
async fn a_waiting_process_with_the_same_id_that_stops_moves_nothing() {
    let members = Members::new();
    let served = members.served.clone();
    let _a = members.start("a", |builder| builder).await;
    let _b = members.start("b", |builder| builder).await;
    served.until(&[4, 4]).await;
    sleep(Duration::from_secs(30)).await;
    let second = members.start("a", |builder| builder).await;
    sleep(Duration::from_secs(30)).await;
    let (before, plan) = (served.now(), members.plan());
    served.gaps();
    second.stop().await;
    sleep(Duration::from_secs(60)).await;
    let gaps = served.gaps();
    assert_eq!((served.now(), members.plan(), gaps), (before, plan, vec![]));
}

/// Nothing is handed over, so nothing is waited for.
#[tokio::test(start_paused = true)]
async fn a_member_without_a_list_stops_at_once() {
    let members = Members::new();
    let a = members
        .start_with("a", Shards::Listed, |builder| builder)
        .await;
    sleep(Duration::from_secs(10)).await;
    let began = Instant::now();
    a.stop().await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
}

/// A shutdown that completes before the first connection.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_stopped_as_it_begins_leaves_nothing() {
    for refused in [false, true] {
        let members = Members::new();
        let a = members.start("a", |builder| builder).await;
        members.served.until(&[8]).await;
        let b = members.start("b", |builder| builder.weight(0)).await;
        b.stop().await;
        let process = members.simulation.process("c");
        let client = crate::support::builder(&members.simulation.connect_string(), members.session);
        let client = process.run(client.connect()).await.unwrap();
        if refused {
            process.refuse(true);
            process.cut();
        }
        let assignment =
            curator_recipes::ShardAssignment::builder(&client, "/work", "c", Shards::Listed);
        let assignment = assignment.unwrap().build();
        let ended = process
            .run(assignment.run(members.served.job("c"), async {}))
            .await;
        assert!(ended.is_ok() || refused, "{ended:?}");
        process.refuse(false);
        sleep(Duration::from_secs(60)).await;
        assert!(members.simulation.node("/work/agreed/members/c").is_none());
        assert_eq!(members.served.counts(), [8]);
        drop(a);
    }
}

/// A member that has lost its session, and is stopped before it has a connection again.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_stopped_after_its_session_was_lost_ends() {
    let members = Members::new();
    let served = members.served.clone();
    let a = members.start("a", |builder| builder).await;
    let b = members.start("b", |builder| builder).await;
    served.until(&[4, 4]).await;
    b.process.refuse(true);
    b.process.cut();
    served.until(&[4]).await;
    sleep(Duration::from_secs(60)).await;
    b.stop.send(()).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(600), b.run).await;
    ended.unwrap().unwrap().unwrap();
    drop(a);
}

/// The next member of some shards is stopped before it has come for them.
#[tokio::test(start_paused = true)]
async fn members_that_stop_shortly_after_each_other_do_not_wait_for_each_other() {
    let mut slow = Vec::new();
    for offset in (0..60).step_by(6) {
        let members = Members::new();
        let settings = |builder: ShardAssignmentBuilder| builder.grace_period(GRACE);
        let a = members.start("a", settings).await;
        let b = members.start("b", settings).await;
        members.served.until(&[4, 4]).await;
        sleep(Duration::from_secs(30)).await;
        let began = Instant::now();
        let later = async {
            sleep(Duration::from_millis(offset)).await;
            b.stop().await;
        };
        futures_util::future::join(a.stop(), later).await;
        let took = began.elapsed();
        if took > Duration::from_secs(2) {
            slow.push((offset, took));
        }
    }
    assert!(slow.is_empty());
}

/// A member joins, and is stopped at once.
#[tokio::test(start_paused = true)]
async fn a_member_that_is_stopped_as_it_joins_interrupts_no_shard_for_long() {
    let mut slow = Vec::new();
    for offset in (0..60).step_by(6) {
        let members = Members::new();
        let settings = |builder: ShardAssignmentBuilder| builder.grace_period(GRACE);
        let a = members.start("a", settings).await;
        members.served.until(&[8]).await;
        members.served.gaps();
        let b = members.start("b", settings).await;
        sleep(Duration::from_millis(offset)).await;
        b.stop().await;
        sleep(Duration::from_secs(600)).await;
        members.served.until(&[8]).await;
        let gaps = members.served.gaps();
        let longest = gaps.iter().map(|(_, gap)| *gap).max().unwrap_or_default();
        if longest > Duration::from_millis(40) {
            slow.push((offset, gaps.len(), longest));
        }
        drop(a);
    }
    assert!(slow.is_empty());
}

/// "Closing the client ends the run without an error", and a run can be dropped at any await.
#[tokio::test(start_paused = true)]
async fn a_client_that_closes_while_the_run_leaves() {
    let mut errors = Vec::new();
    for is_drop in [false, true] {
        for offset in (0..40).step_by(4) {
            let members = Members::new();
            let a = members.start("a", |builder| builder).await;
            let b = members.start("b", |builder| builder).await;
            members.served.until(&[4, 4]).await;
            b.stop.send(()).unwrap();
            sleep(Duration::from_millis(offset)).await;
            if is_drop {
                b.run.abort();
            } else {
                b.process.run(b.client.close()).await.unwrap();
                if let Err(error) = b.run.await.unwrap() {
                    errors.push((offset, error.to_string()));
                }
            }
            members.served.until(&[8]).await;
            until_simulated(async || {
                !members.simulation.nodes().into_iter().any(|(path, node)| {
                    path.ends_with("/members/b") || (path.contains("-lock-") && node.data == b"b")
                })
            })
            .await;
            drop(a);
        }
    }
    assert!(errors.is_empty());
}

/// A member whose jobs fail is in a pause when it is stopped: another member already serves.
#[tokio::test(start_paused = true)]
async fn a_member_whose_jobs_pause_stops_when_another_serves() {
    for panics in [0, 1, 2] {
        let members = Members::new();
        let served = members.served.clone();
        let a = members.start("a", |builder| builder.weight(0)).await;
        let process = members.simulation.process("b");
        let client = crate::support::builder(&members.simulation.connect_string(), members.session);
        let client = process.run(client.connect()).await.unwrap();
        let other =
            curator_recipes::ShardAssignment::builder(&client, "/work", "b", Shards::Listed);
        let other = other.unwrap().grace_period(GRACE).build();
        let (stop, stop_rx) = tokio::sync::oneshot::channel::<()>();
        let job = move |_: String, _| {
            assert!(panics != 1, "in the call, on purpose");
            async move {
                assert!(panics != 2, "in the future, on purpose");
                Err::<(), _>(std::io::Error::other("on purpose"))
            }
        };
        let run = other.run(job, stop_rx);
        let running = process.clone();
        let run = tokio::spawn(async move { running.run(run).await });
        sleep(Duration::from_secs(300)).await;
        let began = Instant::now();
        stop.send(()).unwrap();
        // With weight 0, `a` takes nothing; this one does.
        let c = members.start("c", |builder| builder).await;
        served.until(&[8]).await;
        run.await.unwrap().unwrap();
        let took = began.elapsed();
        assert!(took < GRACE / 2, "{took:?}");
        drop((a, c));
    }
}

/// The same with the member that takes over there from the start.
#[tokio::test(start_paused = true)]
async fn a_member_whose_jobs_pause_hands_over() {
    let members = Members::new();
    let served = members.served.clone();
    let _a = members.start("a", |builder| builder).await;
    let process = members.simulation.process("b");
    let client = crate::support::builder(&members.simulation.connect_string(), members.session);
    let client = process.run(client.connect()).await.unwrap();
    let other = curator_recipes::ShardAssignment::builder(&client, "/work", "b", Shards::Listed);
    let other = other.unwrap().grace_period(GRACE).build();
    let (stop, stop_rx) = tokio::sync::oneshot::channel::<()>();
    let job = move |_: String, _| async move { Err::<(), _>(std::io::Error::other("on purpose")) };
    let run = other.run(job, stop_rx);
    let running = process.clone();
    let run = tokio::spawn(async move { running.run(run).await });
    served.until(&[4]).await;
    sleep(Duration::from_secs(300)).await;
    let began = Instant::now();
    stop.send(()).unwrap();
    run.await.unwrap().unwrap();
    let took = began.elapsed();
    assert!(took < GRACE / 2, "{took:?}");
}
