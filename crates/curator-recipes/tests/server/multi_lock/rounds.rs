//! Many who want some of the same locks.

use std::time::Duration;

use curator_recipes::LockGuard;
use curator_recipes::client::CuratorClient;
use tokio::task::JoinSet;

use super::{multi, paths};
use crate::support::{Numbers, Witness, client, free, mutex, soon};

const PATHS: usize = 5;
const ROUNDS: usize = 200;

struct Contender {
    client: CuratorClient,
    paths: [String; PATHS],
    who: usize,
    /// One for each path.
    witnesses: [Witness; PATHS],
    numbers: Numbers,
}

impl Contender {
    /// So many of the paths, in any order.
    fn some(&mut self, number: usize) -> Vec<usize> {
        let mut all: Vec<_> = (0..PATHS).collect();
        (0..number).map(|_| all.swap_remove(self.numbers.below(all.len()))).collect()
    }

    /// Whether it has given up on the way.
    async fn round(&mut self) -> bool {
        let chosen = self.some(3);
        let locked: Vec<_> = chosen.iter().map(|index| self.paths[*index].clone()).collect();
        let lock = multi(&self.client, &locked);
        // Some give up, and come again.
        let is_impatient = self.numbers.below(4) == 0;
        let in_time = if is_impatient { lock.acquire_timeout(Duration::from_millis(5)).await.unwrap() } else { None };
        let gives_up = is_impatient && in_time.is_none();
        let guard = match in_time {
            Some(guard) => guard,
            None => soon(lock.acquire()).await.unwrap(),
        };
        self.hold(guard, &chosen).await;
        let one = self.some(1);
        let guard = soon(mutex(&self.client, &self.paths[one[0]]).acquire()).await.unwrap();
        self.hold(guard, &one).await;
        gives_up
    }

    async fn hold(&mut self, guard: LockGuard, chosen: &[usize]) {
        assert!(guard.is_valid());
        let tokens: Vec<_> = guard.fencing_tokens().collect();
        assert_eq!(tokens.len(), chosen.len());
        for (index, (node, token)) in chosen.iter().zip(tokens) {
            assert_eq!(node.parent().unwrap().as_str(), self.paths[*index]);
            self.witnesses[*index].enter_with(self.who, false, token);
        }
        tokio::task::yield_now().await;
        chosen.iter().for_each(|index| self.witnesses[*index].leave(false));
        if self.numbers.below(3) == 0 {
            drop(guard);
        } else {
            guard.release().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_tasks_with_three_of_five_paths_in_any_order_never_block_each_other_for_ever() {
    let (witnesses, paths): ([Witness; PATHS], _) = (Default::default(), paths("rounds"));
    let mut tasks = JoinSet::new();
    for who in 0..8 {
        let (client, paths, witnesses) = (client().await, paths.clone(), witnesses.clone());
        let mut contender = Contender { client, paths, who, witnesses, numbers: Numbers(who as u64) };
        tasks.spawn(async move {
            let mut given_up = 0;
            for _ in 0..ROUNDS {
                given_up += u32::from(contender.round().await);
            }
            soon(contender.client.janitor().idle()).await;
            given_up
        });
    }
    let given_up: u32 = soon(tasks.join_all()).await.into_iter().sum();
    assert!(given_up > 0, "nobody has given up");
    free(&client().await, &paths).await;
}
