//! One holder at a time, first come, first served, and nobody stuck.

use curator_recipes::{InterProcessMutex, LockGuard, OwnerId};
use futures_util::poll;
use tokio::task::JoinSet;

use crate::support::{PATIENCE, Witness, client, mutex, path, queue_of, soon};

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
                witness.enter(who, false, &guard);
                tokio::task::yield_now().await;
                witness.leave(false);
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
        let guard = shared.blocking_acquire_timeout(PATIENCE).unwrap().unwrap();
        // Reentrant by thread.
        let again = shared.blocking_try_acquire().unwrap().unwrap();
        assert!(shared.is_owned_by_current());
        witness.enter(who, false, &guard);
        witness.leave(false);
        again.blocking_release().unwrap();
        guard.blocking_release().unwrap();
    }
}
