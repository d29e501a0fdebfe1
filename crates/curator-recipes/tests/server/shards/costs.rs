//! What an assignment sends: at a join, and at rest.

use std::time::Duration;

use curator_recipes::Shards;
use tokio::time::{Instant, sleep};

use super::members::{Member, Members};
use crate::support::until_simulated;

const SHARDS: usize = 1_000;
const MEMBERS: usize = 50;

fn sent(members: &[Member]) -> u64 {
    members.iter().map(Member::requests).sum()
}

/// The page states these numbers.
#[tokio::test(start_paused = true)]
async fn a_thousand_shards_settle_soon_after_a_join_and_then_nothing_is_sent() {
    let members = Members::new();
    let served = members.served.clone();
    let mut all = Vec::new();
    for id in 0..MEMBERS {
        let id = format!("m{id:02}");
        all.push(
            members
                .start_with(&id, Shards::Count(SHARDS), |builder| builder)
                .await,
        );
    }
    let is_settled = |members: usize| {
        let counts = served.counts();
        let quota = SHARDS / members..=SHARDS.div_ceil(members);
        counts.len() == members
            && counts.iter().all(|count| quota.contains(count))
            && counts.iter().sum::<usize>() == SHARDS
    };
    until_simulated(async || is_settled(MEMBERS)).await;
    sleep(Duration::from_secs(60)).await;
    served.gaps();

    let before = sent(&all);
    let began = Instant::now();
    let joins = members
        .start_with("joins", Shards::Count(SHARDS), |builder| builder)
        .await;
    until_simulated(async || is_settled(MEMBERS + 1)).await;
    let took = began.elapsed();
    sleep(Duration::from_secs(60)).await;
    let of_others = sent(&all) - before;
    let moved = served.gaps().len();
    eprintln!(
        "{took:?}; {moved} shards moved; {} requests of the new member, {of_others} of the others",
        joins.requests()
    );
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(moved, SHARDS / (MEMBERS + 1));

    let before = sent(&all) + joins.requests();
    sleep(Duration::from_secs(600)).await;
    assert_eq!(sent(&all) + joins.requests(), before);
}
