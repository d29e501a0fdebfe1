//! An assignment under faults: lost replies, outages, pauses, and nodes that cannot be used.

use std::time::Duration;

use curator_test::RequestInfo;
use tokio::time::sleep;
use tracing::Level;

use super::members::{Member, Members};
use crate::support::{Logs, until_simulated};

fn is_to(part: &'static str) -> impl Fn(&RequestInfo) -> bool + Send + 'static {
    move |request| request.path().is_some_and(|path| path.contains(part))
}

#[tokio::test(start_paused = true)]
async fn lost_requests_and_replies_delay_the_plan_but_nothing_is_lost() {
    for part in [
        "/agreed/shards",
        "/agreed/plan",
        "/agreed/members",
        "/locks/3",
    ] {
        for is_reply in [false, true] {
            let members = Members::new();
            let lose = || {
                if is_reply {
                    members.simulation.cut_before_reply(is_to(part));
                } else {
                    members.simulation.cut_before_request(is_to(part));
                }
            };
            lose();
            let a = members.start("a", |builder| builder).await;
            members.served.until(&[8]).await;
            lose();
            let b = members.start("b", |builder| builder).await;
            members.served.until(&[4, 4]).await;
            lose();
            b.stop().await;
            members.served.until(&[8]).await;
            a.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_cut_off_or_paused_loses_its_shards_and_joins_again() {
    type Fault = fn(&Members, &Member);
    type Healed = fn(&Members, &Member);
    let faults: [(Fault, Healed); 2] = [
        (
            |members, member| {
                for server in 1..=members.simulation.connect_string().split(',').count() {
                    members.simulation.partition(&member.process, server);
                }
            },
            |members, _| members.simulation.heal(),
        ),
        (
            |_, member| member.process.pause(),
            |_, member| member.process.resume(),
        ),
    ];
    for (begin, end) in faults {
        let members = Members::new();
        let served = members.served.clone();
        let zero =
            |builder: curator_recipes::ShardAssignmentBuilder| builder.reserve_for(Duration::ZERO);
        let _a = members.start("a", zero).await;
        let b = members.start("b", zero).await;
        served.until(&[4, 4]).await;
        begin(&members, &b);
        served.until(&[8]).await;
        end(&members, &b);
        served.until(&[4, 4]).await;
    }
}

/// The jobs continue, the cause is logged once, and the plan is followed when it is repaired.
#[tokio::test(start_paused = true)]
async fn a_plan_or_a_list_that_cannot_be_used_stops_no_job() {
    let members = Members::new();
    let served = members.served.clone();
    let logs = Logs::at(Level::INFO);
    let a = logs.capture(members.start("a", |builder| builder)).await;
    served.until(&[8]).await;
    for (path, data) in [
        ("/work/agreed/plan", "shards 9\n"),
        ("/work/agreed/shards", "a/b\n"),
    ] {
        let before = a.client.get_data(path).await.unwrap().0;
        a.client.set_data(path, data, None).await.unwrap();
        sleep(Duration::from_secs(60)).await;
        assert_eq!(served.counts(), [8]);
        let unusable =
            "the data of /work/agreed/plan cannot be used: its first line is not \"shards 1\"";
        match a.assignment.plan().await {
            Err(error) => assert_eq!(error.to_string(), unusable),
            Ok(_) => assert_eq!(path, "/work/agreed/shards"),
        }
        a.client.set_data(path, before, None).await.unwrap();
        sleep(Duration::from_secs(60)).await;
        assert_eq!(served.counts(), [8]);
    }
    let lines = logs.all();
    let of_assignment = |line: &&crate::support::Line| line.message.starts_with("shard assignment");
    let mut levels: Vec<_> = lines
        .iter()
        .filter(of_assignment)
        .map(|line| line.level)
        .collect();
    // A lasting failure is logged again after a minute.
    levels.dedup();
    assert_eq!(levels, [Level::WARN, Level::INFO].repeat(2), "{lines:?}");
    let b = members.start("b", |builder| builder).await;
    served.until(&[4, 4]).await;
    drop(b);
}

/// An administrator may delete everything that the members agree on.
#[tokio::test(start_paused = true)]
async fn deleted_nodes_are_made_again() {
    let members = Members::new();
    let served = members.served.clone();
    let a = members.start("a", |builder| builder).await;
    served.until(&[8]).await;
    a.client
        .delete()
        .for_path("/work/agreed/plan")
        .await
        .unwrap();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(
        (served.counts(), served.gaps()),
        (vec![8], vec![]),
        "no job has ended"
    );
    let _b = members.start("b", |builder| builder).await;
    served.until(&[4, 4]).await;
    for path in ["/work/agreed/plan", "/work/agreed/shards", "/work/agreed"] {
        let delete = a.client.delete().deleting_children_if_needed();
        delete.for_path(path).await.unwrap();
        until_simulated(async || members.simulation.node("/work/agreed/plan").is_some()).await;
        sleep(Duration::from_secs(60)).await;
        served.until(&[4, 4]).await;
        assert_eq!(members.plan().0.lines().count(), 3, "{path}");
    }
}

/// Two processes with one id exclude each other, and the second one takes over.
#[tokio::test(start_paused = true)]
async fn a_second_process_with_the_same_id_waits() {
    let members = Members::new();
    let served = members.served.clone();
    let first = members.start("a", |builder| builder).await;
    served.until(&[8]).await;
    let second = members.start("a", |builder| builder).await;
    sleep(Duration::from_secs(60)).await;
    first.process.kill();
    drop(first);
    until_simulated(async || served.counts() == [0_usize; 0]).await;
    served.until(&[8]).await;
    second.stop().await;
}
