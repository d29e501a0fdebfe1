//! What an assignment sends: at a join, and at rest.

use std::time::Duration;

use curator_recipes::{ShardAssignmentBuilder, Shards};
use tokio::time::{Instant, sleep};

use super::members::{Member, Members};
use crate::support::{LONG_SESSION, until_simulated};

const SHARDS: usize = 1_000;
const MEMBERS: usize = 50;

fn sent(members: &[Member]) -> u64 {
    members.iter().map(Member::requests).sum()
}

/// The page states these numbers.
#[tokio::test(start_paused = true)]
async fn a_thousand_shards_settle_soon_after_a_join_and_then_nothing_is_sent() {
    let mut members = Members::new();
    // Few probes, so that the test is fast.
    members.session = LONG_SESSION;
    let served = members.served.clone();
    // With this plan, the members begin without a join for each.
    let ids: Vec<_> = (0..MEMBERS).map(|id| format!("m{id:02}")).collect();
    let mut plan = "shards 1\n".to_owned();
    for (at, id) in ids.iter().enumerate() {
        let shards = (at..SHARDS)
            .step_by(MEMBERS)
            .map(|shard| format!("\t{shard}"));
        plan += &format!("{id}\t1{}\n", shards.collect::<String>());
    }
    let settings =
        |builder: ShardAssignmentBuilder| builder.reserve_for(Duration::from_secs(3_600));
    let mut all = Vec::new();
    for id in ids {
        let shards = Shards::Count(SHARDS);
        all.push(members.start_with(&id, shards, settings).await);
        if all.len() == 1 {
            let create = all[0].client.create().creating_parent_containers();
            create.for_path("/work/agreed/plan", &plan).await.unwrap();
        }
    }
    let is_settled = |members: usize| {
        let counts = served.counts();
        let quota = SHARDS / members..=SHARDS.div_ceil(members);
        counts.len() == members
            && counts.iter().all(|count| quota.contains(count))
            && counts.iter().sum::<usize>() == SHARDS
    };
    until_simulated(async || is_settled(MEMBERS)).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(members.plan(), (plan, 0));
    served.gaps();

    let before = sent(&all);
    let began = Instant::now();
    let joins = members
        .start_with("joins", Shards::Count(SHARDS), settings)
        .await;
    until_simulated(async || is_settled(MEMBERS + 1)).await;
    let took = began.elapsed();
    sleep(Duration::from_secs(5)).await;
    let of_others = sent(&all) - before;
    let moved = served.gaps().len();
    eprintln!("{took:?} {:?}", joins.process.requests());
    assert_eq!((joins.requests(), of_others), (88, 167));
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(moved, SHARDS / (MEMBERS + 1));

    let before = sent(&all) + joins.requests();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(sent(&all) + joins.requests(), before);
}
