//! Members that join, leave, vanish and return: which shards move, and when.

use std::collections::BTreeSet;
use std::time::Duration;

use curator_recipes::{LeaderSelector, ShardAssignmentError, Shards};
use tokio::time::{Instant, sleep};

use super::members::{Members, moved};
use crate::support::until_simulated;

const HOUR: Duration = Duration::from_secs(60 * 60);

#[tokio::test(start_paused = true)]
async fn a_member_that_joins_or_leaves_moves_its_part() {
    let members = Members::new();
    let served = members.served.clone();
    let a = members.start("a", |builder| builder).await;
    served.until(&[8]).await;
    let one = served.now();
    let b = members.start("b", |builder| builder).await;
    served.until(&[4, 4]).await;
    let two = served.now();
    assert_eq!(moved(&one, &two), 4);
    let c = members.start("c", |builder| builder).await;
    until_simulated(async || {
        let counts = served.counts();
        counts.len() == 3 && counts.iter().all(|count| (2..=3).contains(count))
    })
    .await;
    let three = served.now();
    assert!(moved(&two, &three) <= 3);
    // A shard that did not move was not interrupted: only the moved ones have gaps.
    assert_eq!(served.gaps().len(), moved(&one, &two) + moved(&two, &three));

    let of_c = three["c"].len();
    c.stop().await;
    served.until(&[4, 4]).await;
    assert_eq!(moved(&three, &served.now()), of_c);
    let election = a.assignment.shard_path("0").unwrap();
    let election = LeaderSelector::builder(&a.client, election)
        .unwrap()
        .build();
    let leader = election.leader().await.unwrap().unwrap();
    let server = if served.now()["a"].contains("0") {
        "a"
    } else {
        "b"
    };
    assert_eq!(leader.data, server.as_bytes());
    assert_eq!(a.assignment.plan().await.unwrap(), served.now());
    a.stop().await;
    b.stop().await;
    assert_eq!(members.plan().0, "shards 1\n");
    let left: Vec<_> = members.simulation.nodes().into_keys().collect();
    let left: Vec<_> = left
        .iter()
        .filter(|path| path.contains("/members/") || path.contains("-lock-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn weights_divide_the_shards_and_a_member_without_weight_gets_none() {
    let members = Members::new();
    let _a = members.start("a", |builder| builder).await;
    let _b = members.start("b", |builder| builder.weight(3)).await;
    let _c = members.start("c", |builder| builder.weight(0)).await;
    members.served.until(&[2, 6]).await;
    assert_eq!(members.plan().0.lines().count(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_restarts_in_time_continues_with_its_shards() {
    for is_shut_down in [true, false] {
        let members = Members::new();
        let served = members.served.clone();
        let reserve = |builder: curator_recipes::ShardAssignmentBuilder| {
            builder.reserve_for(HOUR).reserve_on_shutdown()
        };
        let _a = members.start("a", reserve).await;
        let b = members.start("b", reserve).await;
        served.until(&[4, 4]).await;
        let (before, plan) = (served.now(), members.plan());
        if is_shut_down {
            b.stop().await;
        } else {
            b.process.kill();
            b.run.abort();
            served.until(&[4]).await;
            // The servers end the session.
            sleep(2 * members.session).await;
        }
        sleep(HOUR / 2).await;
        assert_eq!(served.counts(), [4]);
        let _b = members.start("b", reserve).await;
        served.until(&[4, 4]).await;
        assert_eq!((served.now(), members.plan()), (before, plan));
    }
}

#[tokio::test(start_paused = true)]
async fn the_shards_of_a_member_that_does_not_return_are_taken_after_the_time() {
    let members = Members::new();
    let served = members.served.clone();
    let time = Duration::from_secs(600);
    let _a = members
        .start("a", |builder| builder.reserve_for(time))
        .await;
    let b = members
        .start("b", |builder| builder.reserve_for(time))
        .await;
    served.until(&[4, 4]).await;
    b.process.kill();
    let killed = Instant::now();
    served.until(&[4]).await;
    served.until(&[8]).await;
    let took = killed.elapsed();
    assert!(
        took >= time && took < time + 3 * members.session,
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_program_with_other_shards_is_refused_and_the_list_can_change() {
    let members = Members::new();
    let served = members.served.clone();
    let listed = members
        .start_with("a", Shards::Listed, |builder| builder)
        .await;
    sleep(HOUR).await;
    assert_eq!(served.counts(), [0_usize; 0]);
    let b = members.start("b", |builder| builder).await;
    served.until(&[4, 4]).await;

    let other = members
        .start_with("c", Shards::Count(9), |builder| builder)
        .await;
    let error = other.run.await.unwrap().unwrap_err();
    assert!(
        matches!(&error, ShardAssignmentError::OtherShards { path, found: 8, expected: 9 } if path == b.assignment.list_path()),
        "{error}"
    );
    assert!(!error.is_retryable() && !error.is_closed());
    assert_eq!(served.counts(), [4, 4]);

    let before = served.now();
    let to_ten = |names: &mut BTreeSet<String>| names.extend(["8", "9"].map(str::to_owned));
    listed.assignment.edit_shards(to_ten).await.unwrap();
    served.until(&[5, 5]).await;
    assert_eq!(moved(&before, &served.now()), 0);
    let to_named = |names: &mut BTreeSet<String>| {
        *names = ["north", "south"].map(str::to_owned).into();
    };
    b.assignment.edit_shards(to_named).await.unwrap();
    served.until(&[1, 1]).await;
    let before = served.now();
    // Of two edits at once, neither is lost.
    let add = |name: &'static str| {
        move |names: &mut BTreeSet<String>| {
            names.insert(name.to_owned());
        }
    };
    let (east, west) = tokio::join!(
        b.assignment.edit_shards(add("east")),
        listed.assignment.edit_shards(add("west"))
    );
    east.unwrap();
    west.unwrap();
    served.until(&[2, 2]).await;
    assert_eq!(moved(&before, &served.now()), 0);
    b.assignment.edit_shards(BTreeSet::clear).await.unwrap_err();
    assert_eq!(served.counts(), [2, 2]);
}

#[tokio::test(start_paused = true)]
async fn options_that_are_out_of_range_are_refused() {
    let members = Members::new();
    let a = members.start("a", |builder| builder).await;
    let build = |id: &str, shards| {
        curator_recipes::ShardAssignment::builder(&a.client, "/other", id, shards).map(drop)
    };
    for shards in [
        Shards::Count(0),
        Shards::Count(10_001),
        Shards::Names([].into()),
    ] {
        let count = match &shards {
            Shards::Count(count) => *count,
            _ => 0,
        };
        let error = build("a", shards).unwrap_err().to_string();
        let expected = format!("invalid number and size of shards {count} names of ");
        assert!(error.starts_with(&expected), "{error}");
    }
    build("a", Shards::Names(["a/b".to_owned()].into())).unwrap_err();
    let long = Shards::Names((0..5_001).map(|shard| format!("{shard:0100}")).collect());
    assert_eq!(
        build("a", long).unwrap_err().to_string(),
        "invalid number and size of shards 5001 names of 500100 bytes: expected 1 to 10000 names of at most 500000 bytes"
    );
    build("a/b", Shards::Count(1)).unwrap_err();
    build("a", Shards::Count(10_000)).unwrap();
}
