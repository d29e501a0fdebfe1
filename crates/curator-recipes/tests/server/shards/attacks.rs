//! An assignment in adverse conditions: members that return late, cold starts, foreign data.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use curator_recipes::{ShardAssignmentBuilder, Shards};
use tokio::time::{Instant, sleep};

use super::members::{Member, Members, moved};
use crate::support::until_simulated;

const GRACE: Duration = Duration::from_secs(100);

fn servers(members: &Members) -> std::ops::RangeInclusive<usize> {
    1..=members.simulation.connect_string().split(',').count()
}

/// A member returns in time, while the member that would take its shards cannot see it.
async fn returns_in_time(begin: impl Fn(&Members, &Member), end: impl Fn(&Members, &Member)) {
    let members = Members::new();
    let served = members.served.clone();
    let time = Duration::from_secs(60);
    let settings = |builder: ShardAssignmentBuilder| builder.reserve_for(time);
    let a = members.start("a", settings).await;
    let b = members.start("b", settings).await;
    served.until(&[4, 4]).await;
    sleep(Duration::from_secs(30)).await;
    let (before, plan) = (served.now(), members.plan());
    b.process.kill();
    b.run.abort();
    until_simulated(async || members.simulation.node("/work/agreed/members/b").is_none()).await;
    sleep(time - Duration::from_secs(1)).await;
    begin(&members, &a);
    // Half a second before the reservation ends, b is present again.
    let b = members.start("b", settings).await;
    until_simulated(async || members.simulation.node("/work/agreed/members/b").is_some()).await;
    sleep(Duration::from_millis(2_000)).await;
    end(&members, &a);
    sleep(Duration::from_secs(60)).await;
    served.until(&[4, 4]).await;
    drop(b);
    let after = served.now();
    assert_eq!((after, members.plan()), (before, plan));
}

#[tokio::test(start_paused = true)]
async fn a_paused_member_takes_no_shards_of_a_member_that_returned_in_time() {
    returns_in_time(|_, a| a.process.pause(), |_, a| a.process.resume()).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_was_cut_off_takes_no_shards_of_a_member_that_returned_in_time() {
    returns_in_time(
        |members, a| {
            for server in servers(members) {
                members.simulation.partition(&a.process, server);
            }
        },
        |members, _| members.simulation.heal(),
    )
    .await;
}

/// A member that was paused writes no plan with a member that has left meanwhile.
#[tokio::test(start_paused = true)]
async fn a_paused_member_gives_no_shards_to_a_member_that_has_left() {
    let members = Members::new();
    let a = members.start("a", |builder| builder).await;
    members.served.until(&[8]).await;
    sleep(Duration::from_secs(30)).await;
    let plan = members.plan();
    let process = members.simulation.process("admin");
    let client = crate::support::builder(&members.simulation.connect_string(), members.session);
    let client = process.run(client.connect()).await.unwrap();
    // A new member writes the plan itself; after a second, the others do.
    let joins = "/work/agreed/members/joins";
    client.create().for_path(joins, "1").await.unwrap();
    sleep(Duration::from_millis(500)).await;
    a.process.pause();
    client.delete().for_path(joins).await.unwrap();
    sleep(Duration::from_secs(2)).await;
    a.process.resume();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(members.plan(), plan);
}

/// "a member that vanishes keeps its shards for a time": from the last time that it vanished.
#[tokio::test(start_paused = true)]
async fn the_time_begins_again_if_a_member_returned_while_another_had_no_connection() {
    let members = Members::new();
    let served = members.served.clone();
    let time = Duration::from_secs(100);
    let settings = |builder: ShardAssignmentBuilder| builder.reserve_for(time);
    let a = members.start("a", settings).await;
    let b = members.start("b", settings).await;
    served.until(&[4, 4]).await;
    let vanish = async |b: Member| {
        b.process.kill();
        b.run.abort();
        until_simulated(async || members.simulation.node("/work/agreed/members/b").is_none()).await;
    };
    vanish(b).await;
    let plan = members.plan();
    sleep(Duration::from_secs(10)).await;
    a.process.refuse(true);
    a.process.cut();
    sleep(Duration::from_secs(1)).await;
    let b = members.start("b", settings).await;
    served.until(&[4]).await;
    sleep(time).await;
    vanish(b).await;
    let vanished = Instant::now();
    a.process.refuse(false);
    until_simulated(async || members.plan() != plan).await;
    let took = vanished.elapsed();
    assert!(took >= time);
}

/// A member that crashes right after it has joined.
#[tokio::test(start_paused = true)]
async fn a_member_that_crashes_as_it_joins_interrupts_no_shard() {
    let mut members = Members::new();
    members.session = Duration::from_secs(30);
    let served = members.served.clone();
    let _a = members.start("a", |builder| builder).await;
    served.until(&[8]).await;
    served.gaps();
    let b = members.start("b", |builder| builder).await;
    let plan = members.plan();
    until_simulated(async || members.plan() != plan).await;
    b.process.kill();
    b.run.abort();
    sleep(Duration::from_secs(120)).await;
    let gaps: Vec<_> = served.gaps();
    assert!(gaps.is_empty());
}

/// Many members that join at once: each hand-over is as short as a single one.
#[tokio::test(start_paused = true)]
async fn members_that_join_at_once_get_their_shards_without_long_gaps() {
    let latency = Duration::from_millis(20);
    for ending in [Duration::ZERO, Duration::from_secs(3)] {
        let mut members = Members::new();
        members.simulation = curator_test::Simulation::builder()
            .servers(1)
            .latency(latency..=latency)
            .start();
        members.served.ending = ending;
        let served = members.served.clone();
        let shards = || Shards::Count(40);
        let _a = members.start_with("a", shards(), |builder| builder).await;
        served.until(&[40]).await;
        served.gaps();
        let mut others = Vec::new();
        for id in ["z", "y", "x", "w", "v"] {
            others.push(members.start_with(id, shards(), |builder| builder).await);
            sleep(Duration::from_millis(30)).await;
        }
        until_simulated(async || {
            let counts = served.counts();
            counts.len() == 6
                && counts.iter().sum::<usize>() == 40
                && counts.iter().all(|c| (6..=7).contains(c))
        })
        .await;
        sleep(Duration::from_secs(60)).await;
        let mut gaps = served.gaps();
        gaps.sort_by_key(|(_, gap)| *gap);
        let mut of_shard = BTreeMap::<String, u32>::new();
        for (shard, _) in &gaps {
            *of_shard.entry(shard.clone()).or_default() += 1;
        }
        let longest = gaps.last().unwrap().1;
        let most = of_shard.values().max().unwrap();
        eprintln!(
            "ending {ending:?}: {} hand-overs of {} shards, at most {most} of one; longest gap {longest:?}; plan version {}",
            gaps.len(),
            of_shard.len(),
            members.plan().1
        );
        assert!(longest <= 4 * latency, "{longest:?}");
    }
}

/// Many members start at once, without a plan.
#[tokio::test(start_paused = true)]
async fn a_cold_start_of_many_members() {
    let mut members = Members::new();
    members.session = Duration::from_secs(60);
    let served = members.served.clone();
    let (count, shards) = (20, 200);
    let began = Instant::now();
    let ids: Vec<_> = (0..count).rev().map(|id| format!("m{id:02}")).collect();
    let all = futures_util::future::join_all(
        ids.iter()
            .map(|id| members.start_with(id, Shards::Count(shards), |builder| builder)),
    )
    .await;
    until_simulated(async || {
        let counts = served.counts();
        counts.len() == count && counts.iter().all(|c| *c == shards / count)
    })
    .await;
    let took = began.elapsed();
    let requests: u64 = all.iter().map(Member::requests).sum();
    let gaps = served.gaps();
    eprintln!(
        "{took:?}; {requests} requests; {} hand-overs; plan version {}; longest gap {:?}",
        gaps.len(),
        members.plan().1,
        gaps.iter().map(|(_, gap)| *gap).max()
    );
    assert!(took < Duration::from_secs(30));
}

/// The plan moves a shard away and back before the other member has come.
#[tokio::test(start_paused = true)]
async fn a_shard_that_moves_away_and_back_is_served_again() {
    let mut members = Members::new();
    members.served.ending = Duration::from_secs(5);
    let served = members.served.clone();
    let a = members
        .start("a", |builder| builder.grace_period(GRACE))
        .await;
    served.until(&[8]).await;
    let plan = members.plan().0;
    // A member that is present, and never comes.
    for path in ["/work/agreed/members/silent"] {
        for wait in [1, 20] {
            a.client.create().for_path(path, "1").await.unwrap();
            until_simulated(async || members.plan().0 != plan).await;
            sleep(Duration::from_secs(wait)).await;
            a.client.delete().for_path(path).await.unwrap();
            until_simulated(async || members.plan().0 == plan).await;
            sleep(Duration::from_secs(600)).await;
            assert_eq!(served.counts(), [8]);
            let gaps = served.gaps();
            assert!(gaps.len() <= 4);
        }
    }
}

/// The shards stay where they are when the plan's node is deleted.
#[tokio::test(start_paused = true)]
async fn a_deleted_plan_is_made_again_without_moves() {
    let members = Members::new();
    let served = members.served.clone();
    let a = members.start("a", |builder| builder).await;
    let _b = members.start("b", |builder| builder).await;
    let _c = members.start("c", |builder| builder).await;
    until_simulated(async || served.counts().len() == 3).await;
    sleep(Duration::from_secs(30)).await;
    let before = served.now();
    a.client
        .delete()
        .for_path("/work/agreed/plan")
        .await
        .unwrap();
    sleep(Duration::from_secs(60)).await;
    let moves = moved(&before, &served.now());
    assert_eq!(moves, 0);
}

/// A list that was changed at run time is not undone when its node is deleted.
#[tokio::test(start_paused = true)]
async fn a_deleted_list_is_made_again_as_it_was() {
    let members = Members::new();
    let served = members.served.clone();
    let a = members.start("a", |builder| builder).await;
    served.until(&[8]).await;
    let to_ten = |names: &mut BTreeSet<String>| names.extend(["8", "9"].map(str::to_owned));
    a.assignment.edit_shards(to_ten).await.unwrap();
    served.until(&[10]).await;
    a.client
        .delete()
        .for_path("/work/agreed/shards")
        .await
        .unwrap();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(served.counts(), [10]);
}

/// Others write the plan: a shard that the list does not have, names that are not valid, many
/// shards, and a member with spaces in its id.
#[tokio::test(start_paused = true)]
async fn a_plan_that_others_write_is_mended() {
    let members = Members::new();
    let served = members.served.clone();
    let a = members
        .start("a b", |builder| builder.reserve_for(Duration::ZERO))
        .await;
    served.until(&[8]).await;
    for plan in [
        "shards 1\na b\t1\tforeign\t\t.\t..\tx/y\t0\n".to_owned(),
        "shards 1\n\t4294967295\t1\nghost\t0\t2\t3\n".to_owned(),
        "shards 1\r\na b\t1\t0\r\n".to_owned(),
        format!(
            "shards 1\na b\t1{}\n",
            (0..20_000).map(|n| format!("\tn{n}")).collect::<String>()
        ),
    ] {
        a.client
            .set_data("/work/agreed/plan", plan, None)
            .await
            .unwrap();
        sleep(Duration::from_secs(60)).await;
        served.until(&[8]).await;
        let foreign = members.simulation.nodes().into_keys();
        let foreign = foreign
            .filter(|path| path.starts_with("/work/locks/") && path.contains("-lock-"))
            .count();
        assert_eq!(foreign, 8);
    }
}

/// A weight that changes at a restart, while the old session still has its node.
#[tokio::test(start_paused = true)]
async fn a_member_that_restarts_with_another_weight_gets_its_new_part() {
    let members = Members::new();
    let served = members.served.clone();
    let _a = members.start("a", |builder| builder).await;
    let b = members.start("b", |builder| builder).await;
    served.until(&[4, 4]).await;
    b.process.kill();
    b.run.abort();
    let _b = members.start("b", |builder| builder.weight(3)).await;
    served.until(&[2, 6]).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(served.counts(), [2, 6]);
}

/// Members with other reserve times do not undo each other's plans.
#[tokio::test(start_paused = true)]
async fn members_with_other_times_agree() {
    let members = Members::new();
    let served = members.served.clone();
    let hour = Duration::from_secs(3_600);
    let _a = members
        .start("a", |builder| builder.reserve_for(hour))
        .await;
    let _b = members
        .start("b", |builder| builder.reserve_for(Duration::from_secs(5)))
        .await;
    let c = members
        .start("c", |builder| builder.reserve_for(hour))
        .await;
    until_simulated(async || served.counts().len() == 3).await;
    sleep(Duration::from_secs(30)).await;
    let version = members.plan().1;
    c.process.kill();
    c.run.abort();
    served.until(&[4, 4]).await;
    sleep(Duration::from_secs(600)).await;
    assert_eq!(members.plan().1, version + 1);
}

/// The run is polled outside of a runtime, by another executor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_polled_by_another_executor() {
    let path = format!("/shards{}", crate::support::path("elsewhere"));
    let client = crate::support::client().await;
    let served = super::members::Served::default();
    let assignment =
        curator_recipes::ShardAssignment::builder(&client, &*path, "a", Shards::Count(6));
    let (stop, stop_rx) = tokio::sync::oneshot::channel::<()>();
    let run = assignment.unwrap().build().run(served.job("a"), stop_rx);
    let thread = std::thread::spawn(move || futures_executor::block_on(run));
    crate::support::until(async || served.counts() == [6]).await;
    stop.send(()).unwrap();
    crate::support::soon(tokio::task::spawn_blocking(|| thread.join()))
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    crate::support::until(async || served.counts().is_empty()).await;
    client.close().await.unwrap();
}

/// Two programs with other lists start at once: one is refused, the other one serves.
#[tokio::test(start_paused = true)]
async fn programs_with_other_lists_start_at_once() {
    for offset in (0..30).step_by(3) {
        let members = Members::new();
        let (a, b) = futures_util::future::join(
            members.start_with("a", Shards::Count(8), |builder| builder),
            async {
                sleep(Duration::from_millis(offset)).await;
                members
                    .start_with("b", Shards::Count(9), |builder| builder)
                    .await
            },
        )
        .await;
        let (mut a_run, mut b_run) = (a.run, b.run);
        let expected = tokio::select! {
            ended = &mut a_run => { ended.unwrap().unwrap_err(); 9 }
            ended = &mut b_run => { ended.unwrap().unwrap_err(); 8 }
        };
        members.served.until(&[expected]).await;
        sleep(Duration::from_secs(60)).await;
        members.served.until(&[expected]).await;
        assert_eq!(members.plan().0.lines().count(), 2, "offset {offset}");
        let gaps = members.served.gaps();
        assert!(gaps.is_empty(), "{gaps:?}");
    }
}

/// The servers are restored from a backup.
#[tokio::test(start_paused = true)]
async fn restored_servers_have_the_plan_of_the_members_again() {
    for ago in [1, 20] {
        let members = Members::new();
        sleep(Duration::from_secs(5)).await;
        let a = members.start("a", |builder| builder).await;
        sleep(Duration::from_secs(30)).await;
        let b = members.start("b", |builder| builder).await;
        members.served.until(&[4, 4]).await;
        sleep(Duration::from_secs(30)).await;
        members.simulation.restore_older(Duration::from_secs(ago));
        sleep(Duration::from_secs(120)).await;
        members.served.until(&[4, 4]).await;
        drop((a, b));
    }
}
