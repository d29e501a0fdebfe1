//! One holder at a time, first come, first served, and nobody stuck.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use curator_recipes::{FencingToken, InterProcessMutex, LockGuard, OwnerId};
use futures_util::poll;
use tokio::task::JoinSet;

use crate::support::{client, mutex, path, queue_of, soon};

/// Sees to it that there is one holder at a time, and writes down who held.
#[derive(Clone, Default)]
struct Witness {
    inside: Arc<AtomicUsize>,
    held: Arc<Mutex<Vec<(usize, FencingToken)>>>,
}

impl Witness {
    fn enter(&self, who: usize, guard: &LockGuard) {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two holders at once");
        assert!(guard.is_valid());
        self.held.lock().unwrap().push((who, guard.fencing_token()));
    }

    fn leave(&self) {
        assert_eq!(self.inside.fetch_sub(1, Ordering::SeqCst), 1, "two holders at once");
    }

    /// Who held, in order; the fencing tokens must have risen.
    fn order(&self) -> Vec<usize> {
        let held = self.held.lock().unwrap();
        assert!(held.windows(2).all(|pair| pair[0].1 < pair[1].1), "the tokens do not rise: {held:?}");
        held.iter().map(|(who, _)| *who).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_instance_shared_by_twenty_tasks_is_fair_and_nobody_is_stuck() {
    let (client, path) = (client().await, path("twenty-tasks"));
    let shared = mutex(&client, &path);
    let witness = Witness::default();
    let guard = shared.acquire().await.unwrap();
    let mut tasks = JoinSet::new();
    for who in 0..20 {
        let (shared, witness) = (shared.clone(), witness.clone());
        let owner = OwnerId::new();
        let mut first = Box::pin({
            let (shared, owner) = (shared.clone(), owner.clone());
            async move { soon(shared.acquire_as(&owner)).await.unwrap() }
        });
        // It has its place when it was polled once: some in the queue, the others in the line of the client.
        assert!(poll!(&mut first).is_pending());
        tasks.spawn(async move {
            let hold = async |guard: LockGuard| {
                witness.enter(who, &guard);
                tokio::task::yield_now().await;
                witness.leave();
                guard.release().await.unwrap();
            };
            hold(first.await).await;
            // The second round contends with the first rounds of the others.
            hold(soon(shared.acquire_as(&owner)).await.unwrap()).await;
        });
    }
    guard.release().await.unwrap();
    soon(tasks.join_all()).await;
    let order = witness.order();
    assert_eq!(order[..20], (0..20).collect::<Vec<_>>());
    assert_eq!(order.len(), 40);
}

#[test]
fn one_instance_shared_by_ten_plain_threads_is_fair_and_nobody_is_stuck() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (client, path) = (runtime.block_on(client()), path("ten-threads"));
    let shared = mutex(&client, &path);
    let witness = Witness::default();
    let guard = shared.blocking_acquire().unwrap();
    let threads: Vec<_> = (0..10)
        .map(|who| {
            let (shared, witness) = (shared.clone(), witness.clone());
            let thread = std::thread::spawn(move || blocking_rounds(who, &shared, &witness));
            runtime.block_on(queue_of(&client, &path, who + 2));
            thread
        })
        .collect();
    guard.blocking_release().unwrap();
    for thread in threads {
        thread.join().unwrap();
    }
    let order = witness.order();
    assert_eq!(order[..10], (0..10).collect::<Vec<_>>());
    assert_eq!(order.len(), 20);
}

fn blocking_rounds(who: usize, shared: &InterProcessMutex, witness: &Witness) {
    for _ in 0..2 {
        let guard = shared.blocking_acquire_timeout(crate::support::PATIENCE).unwrap().unwrap();
        // Reentrant by thread.
        let again = shared.blocking_try_acquire().unwrap().unwrap();
        assert!(shared.is_owned_by_current());
        witness.enter(who, &guard);
        witness.leave();
        again.blocking_release().unwrap();
        guard.blocking_release().unwrap();
    }
}
