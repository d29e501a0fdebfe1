//! Many contenders for overlapping sets of locks.

use std::time::Duration;

use curator_recipes::client::CuratorClient;
use tokio::task::JoinSet;

use super::{multi, paths};
use crate::support::{Numbers, Witness, client, free, mutex, soon};

const PATHS: usize = 5;
const ROUNDS: usize = 100;

/// Acquires three random paths and one random path in turn. Returns the number of acquires that timed out.
async fn contend(who: usize, client: CuratorClient, paths: [String; PATHS], witnesses: [Witness; PATHS]) -> u32 {
    let (mut numbers, mut given_up) = (Numbers(who as u64), 0);
    for quantity in [3, 1].repeat(ROUNDS) {
        let mut all: Vec<_> = (0..PATHS).collect();
        let chosen: Vec<_> = (0..quantity).map(|_| all.swap_remove(numbers.below(all.len()))).collect();
        let guard = if let [one] = chosen[..] {
            soon(mutex(&client, &paths[one]).acquire()).await.unwrap()
        } else {
            let lock = multi(&client, &chosen.iter().map(|index| paths[*index].clone()).collect::<Vec<_>>());
            // Some acquires have a short timeout, after which they are repeated without one.
            let is_impatient = numbers.below(4) == 0;
            let in_time =
                if is_impatient { lock.acquire_timeout(Duration::from_millis(5)).await.unwrap() } else { None };
            given_up += u32::from(is_impatient && in_time.is_none());
            match in_time {
                Some(guard) => guard,
                None => soon(lock.acquire()).await.unwrap(),
            }
        };
        assert!(guard.is_valid());
        let tokens: Vec<_> = guard.fencing_tokens().collect();
        assert_eq!(tokens.len(), chosen.len());
        for (index, (node, token)) in chosen.iter().zip(tokens) {
            assert_eq!(node.parent().unwrap().as_str(), paths[*index]);
            witnesses[*index].enter_with(who, false, token);
        }
        tokio::task::yield_now().await;
        chosen.iter().for_each(|index| witnesses[*index].leave(false));
        if numbers.below(3) == 0 {
            drop(guard);
        } else {
            guard.release().await.unwrap();
        }
    }
    soon(client.janitor().idle()).await;
    given_up
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_tasks_that_lock_three_of_five_paths_in_any_order_never_deadlock() {
    let (witnesses, paths): ([Witness; PATHS], _) = (Default::default(), paths("rounds"));
    let mut tasks = JoinSet::new();
    for who in 0..8 {
        tasks.spawn(contend(who, client().await, paths.clone(), witnesses.clone()));
    }
    let given_up: u32 = soon(tasks.join_all()).await.into_iter().sum();
    assert!(given_up > 0, "no acquire has timed out");
    free(&client().await, &paths).await;
}
