//! What the documentation of shards promises, in schedules that other tests do not have.

use std::time::Duration;

use curator_recipes::client::{Acl, AuthId, Permission};
use curator_recipes::{Leadership, ShardAssignment, ShardAssignmentBuilder, Shards};
use tokio::time::{Instant, sleep};
use tracing::Level;

use super::members::{Member, Members, PATH};
use crate::support::{Line, Logs, until_simulated};

const PLAN: &str = "/work/agreed/plan";
const LIST: &str = "/work/agreed/shards";

fn node_of(id: &str) -> String {
    format!("/work/agreed/members/{id}")
}

async fn vanish(members: &Members, id: &str, member: Member) {
    let node = node_of(id);
    member.process.kill();
    member.run.abort();
    until_simulated(async || members.simulation.node(&node).is_none()).await;
}

fn anyone(permission: Permission) -> Vec<Acl> {
    vec![Acl::new(permission, AuthId::anyone())]
}

fn of_assignment(logs: &Logs) -> Vec<Line> {
    let lines = logs.all().into_iter();
    lines
        .filter(|line| line.message.starts_with("shard assignment"))
        .collect()
}

/// "If several processes have one id, one of them serves its shards, and the others wait": the
/// second one takes over, and the two do not undo each other's plans.
#[tokio::test(start_paused = true)]
async fn a_process_that_stops_does_not_fight_a_waiting_one_with_its_id() {
    let mut all = Vec::new();
    for ending in [0, 3] {
        let mut members = Members::new();
        members.served.ending = Duration::from_secs(ending);
        let served = members.served.clone();
        let first = members.start("a", |builder| builder).await;
        let _b = members.start("b", |builder| builder).await;
        served.until(&[4, 4]).await;
        sleep(Duration::from_secs(30)).await;
        let _second = members.start("a", |builder| builder).await;
        sleep(Duration::from_secs(30)).await;
        let version = members.plan().1;
        first.stop().await;
        served.until(&[4, 4]).await;
        sleep(Duration::from_secs(60)).await;
        let writes = members.plan().1 - version;
        all.push(writes);
    }
    // One without this process at most, and one with the other process.
    assert!(all.iter().all(|writes| *writes <= 2), "{all:?}");
}

/// "can read and write again" is not said by a member that cannot write.
#[tokio::test(start_paused = true)]
async fn a_member_that_cannot_write_does_not_say_that_it_can() {
    let members = Members::new();
    let logs = Logs::at(Level::INFO);
    let a = logs.capture(members.start("a", |builder| builder)).await;
    members.served.until(&[8]).await;
    let acl = anyone(Permission::READ | Permission::ADMIN);
    a.client.set_acl(PLAN, acl, None).await.unwrap();
    for _ in 0..2 {
        a.client
            .create()
            .for_path(node_of("silent"), "1")
            .await
            .unwrap();
        sleep(Duration::from_secs(5)).await;
        a.client.delete().for_path(node_of("silent")).await.unwrap();
        sleep(Duration::from_secs(5)).await;
    }
    let lines = of_assignment(&logs);
    let levels: Vec<_> = lines.iter().map(|line| line.level).collect();
    assert_eq!(levels, [Level::WARN], "{lines:#?}");
}

/// "All other failures are logged": also that of the hand-over.
#[tokio::test(start_paused = true)]
async fn a_hand_over_that_cannot_be_written_is_logged() {
    let members = Members::new();
    let logs = Logs::at(Level::INFO);
    let _a = members.start("a", |builder| builder).await;
    let b = logs.capture(members.start("b", |builder| builder)).await;
    members.served.until(&[4, 4]).await;
    sleep(Duration::from_secs(30)).await;
    let acl = anyone(Permission::READ | Permission::ADMIN);
    b.client.set_acl(PLAN, acl, None).await.unwrap();
    b.stop().await;
    assert!(!of_assignment(&logs).is_empty());
}

/// "`run` returns after the time until other members come (at most a grace period, or the client's
/// close timeout if that is longer), at most another grace period, and at most a close timeout."
#[tokio::test(start_paused = true)]
async fn a_run_that_loses_its_connection_at_its_end_returns_in_time() {
    let grace = Duration::from_secs(10);
    let mut longest = Duration::ZERO;
    for cut_after in [0, 1, 4, 9, 11, 19] {
        let mut members = Members::new();
        members.session = Duration::from_secs(60);
        members.served.ending = Duration::MAX;
        let a = members
            .start("a", |builder| builder.grace_period(grace))
            .await;
        members.served.until(&[8]).await;
        // It never comes for its shards.
        let silent = node_of("silent");
        a.client.create().for_path(&*silent, "1").await.unwrap();
        sleep(Duration::from_secs(30)).await;
        let began = Instant::now();
        a.stop.send(()).unwrap();
        sleep(Duration::from_secs(cut_after)).await;
        a.process.refuse(true);
        a.process.cut();
        let _ = a.run.await.unwrap();
        let took = began.elapsed();
        eprintln!("cut after {cut_after} s: {took:?}");
        longest = longest.max(took);
    }
    let close_timeout = Duration::from_secs(5);
    assert!(longest <= 2 * grace + close_timeout, "{longest:?}");
}

/// "a member that vanishes keeps its shards for a time": also if it returned while the plan or the
/// list could not be used.
#[tokio::test(start_paused = true)]
async fn the_time_begins_again_if_a_member_returned_while_a_node_could_not_be_used() {
    for path in [PLAN, LIST] {
        let members = Members::new();
        let served = members.served.clone();
        let time = Duration::from_secs(100);
        let settings = |builder: ShardAssignmentBuilder| builder.reserve_for(time);
        let a = members.start("a", settings).await;
        let b = members.start("b", settings).await;
        served.until(&[4, 4]).await;
        vanish(&members, "b", b).await;
        sleep(Duration::from_secs(10)).await;
        let plan = members.plan().0;
        let data = a.client.get_data(path).await.unwrap().0;
        a.client.set_data(path, "a/b", None).await.unwrap();
        let create = a.client.create();
        create.for_path(node_of("b"), "1").await.unwrap();
        sleep(time).await;
        a.client.delete().for_path(node_of("b")).await.unwrap();
        let vanished = Instant::now();
        a.client.set_data(path, data, None).await.unwrap();
        until_simulated(async || members.plan().0 == plan).await;
        until_simulated(async || members.plan().0 != plan).await;
        let took = vanished.elapsed();
        assert!(took >= time, "{path}: {took:?}");
    }
}

/// A member that knows no list leaves what is reserved for others.
#[tokio::test(start_paused = true)]
async fn a_member_without_a_list_that_stops_leaves_the_plan_of_the_others() {
    let members = Members::new();
    let hour = Duration::from_secs(3_600);
    let settings =
        |builder: ShardAssignmentBuilder| builder.reserve_for(hour).reserve_on_shutdown();
    let a = members.start("a", settings).await;
    let b = members.start("b", settings).await;
    members.served.until(&[4, 4]).await;
    a.stop().await;
    b.client.delete().for_path(LIST).await.unwrap();
    let list = async || members.simulation.node(LIST).is_some();
    until_simulated(list).await;
    b.stop().await;
    let process = members.simulation.process("admin");
    let client = crate::support::builder(&members.simulation.connect_string(), members.session);
    let client = process.run(client.connect()).await.unwrap();
    client.delete().for_path(LIST).await.unwrap();
    let before = members.plan().0;
    let b = members
        .start_with("b", Shards::Listed, |builder| builder.reserve_for(hour))
        .await;
    sleep(Duration::from_secs(5)).await;
    b.stop().await;
    let of_a = |plan: &str| plan.lines().nth(1).unwrap().to_owned();
    assert_eq!(of_a(&members.plan().0), of_a(&before));
}

/// "the servers are down for less than 0.4 T | never" unserved: also a shard whose next member has
/// not come yet.
#[tokio::test(start_paused = true)]
async fn a_short_outage_ends_no_job_that_waits_for_the_next_member() {
    let mut members = Members::new();
    members.session = Duration::from_secs(60);
    let a = members.start("a", |builder| builder).await;
    members.served.until(&[8]).await;
    let silent = node_of("silent");
    a.client.create().for_path(&*silent, "1").await.unwrap();
    until_simulated(async || members.plan().0.contains("silent")).await;
    sleep(Duration::from_secs(30)).await;
    assert_eq!(members.served.counts(), [8]);
    a.process.refuse(true);
    a.process.cut();
    sleep(Duration::from_secs(20)).await;
    a.process.refuse(false);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(members.served.counts(), [8]);
}

/// A shard that is removed from the list ends, although the plan cannot be written.
#[tokio::test(start_paused = true)]
async fn a_shard_that_is_no_longer_listed_ends_before_the_next_plan() {
    let members = Members::new();
    let a = members.start("a", |builder| builder).await;
    members.served.until(&[8]).await;
    let acl = anyone(Permission::READ | Permission::ADMIN);
    a.client.set_acl(PLAN, acl, None).await.unwrap();
    let remove = |names: &mut std::collections::BTreeSet<String>| {
        names.remove("7");
    };
    a.assignment.edit_shards(remove).await.unwrap();
    sleep(Duration::from_secs(120)).await;
    assert_eq!(members.served.counts(), [7]);
}

/// A job whose future panics when it is dropped, because its lease was lost, is run again.
#[tokio::test(start_paused = true)]
async fn a_job_that_panics_when_it_is_dropped_is_run_again() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "on purpose");
        }
    }
    let members = Members::new();
    let process = members.simulation.process("a");
    let client = crate::support::builder(&members.simulation.connect_string(), members.session);
    let client = process.run(client.connect()).await.unwrap();
    let assignment = ShardAssignment::builder(&client, PATH, "a", Shards::Count(1)).unwrap();
    let (runs_tx, mut runs) = tokio::sync::mpsc::unbounded_channel();
    let job = move |_: String, lease: Leadership| {
        runs_tx.send(lease.fencing_token()).unwrap();
        async move {
            let _panics = Panics;
            std::future::pending::<std::io::Result<()>>().await
        }
    };
    let run = assignment.build().run(job, std::future::pending::<()>());
    let running = process.clone();
    let run = tokio::spawn(async move { running.run(run).await });
    runs.recv().await.unwrap();
    // What `zklock break` does.
    let nodes = members.simulation.nodes().into_keys();
    for node in nodes.filter(|path| path.contains("-lock-")) {
        client.delete().for_path(node).await.unwrap();
    }
    let again = tokio::time::timeout(Duration::from_secs(600), runs.recv()).await;
    run.abort();
    assert!(again.is_ok(), "no member serves the shard");
}

/// A member that joins need not wait for several members that are stopped.
#[tokio::test(start_paused = true)]
async fn a_member_joins_soon_although_several_are_stopped() {
    let mut members = Members::new();
    members.session = Duration::from_secs(60);
    let mut all = Vec::new();
    for id in ["a", "b", "c", "d", "e"] {
        all.push(members.start(id, |builder| builder).await);
    }
    until_simulated(async || members.served.counts().len() == 5).await;
    sleep(Duration::from_secs(30)).await;
    for member in &all[..4] {
        member.process.pause();
    }
    let began = Instant::now();
    let _z = members.start("z", |builder| builder).await;
    until_simulated(async || members.plan().0.contains("\nz\t")).await;
    let took = began.elapsed();
    for member in &all[..4] {
        member.process.resume();
    }
    assert!(took <= Duration::from_secs(2), "{took:?}");
}

/// A new release with another list is refused, and restarted again and again: it gets no shards.
#[tokio::test(start_paused = true)]
async fn a_program_that_is_refused_keeps_no_shard_unserved() {
    let members = Members::new();
    let served = members.served.clone();
    let a = members.start("a", |builder| builder).await;
    let _c = members.start("c", |builder| builder).await;
    served.until(&[4, 4]).await;
    sleep(Duration::from_secs(30)).await;
    let mut a = Some(a);
    let mut unserved = 0;
    for round in 0..30 {
        let refused = members
            .start_with("b", Shards::Count(9), |builder| builder)
            .await;
        refused.run.await.unwrap().unwrap_err();
        sleep(Duration::from_secs(1)).await;
        if round == 2 {
            a.take().unwrap().stop().await;
        }
        sleep(Duration::from_secs(2)).await;
        if round > 5 {
            unserved += usize::from(served.counts().iter().sum::<usize>() < 8);
        }
    }
    assert_eq!(unserved, 0, "of 24 times; {}", members.plan().0);
}
