//! A lock has one holder at a time, in order of arrival, and no contender gets stuck.

use std::panic::catch_unwind;

use curator_recipes::{FencingToken, LockGuard, OwnerId};
use futures_util::poll;
use tokio::task::JoinSet;

use crate::support::{Witness, client, mutex, path, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_instance_shared_by_twenty_tasks_is_fair_and_no_task_is_stuck() {
    let client = client().await;
    let path = path("twenty-tasks");
    let shared = mutex(&client, &path);
    let witness = Witness::default();
    let guard = shared.acquire().await.unwrap();
    let mut tasks = JoinSet::new();
    for who in 0..20 {
        let shared = shared.clone();
        let witness = witness.clone();
        let owner = OwnerId::new();
        let mut first = Box::pin({
            let shared = shared.clone();
            let owner = owner.clone();
            async move { soon(shared.acquire_as(&owner)).await.unwrap() }
        });
        // The first poll enqueues the acquire: in the lock's queue, or, after the sixteenth, within
        // the client.
        assert!(poll!(&mut first).is_pending());
        tasks.spawn(async move {
            let hold = async |guard: LockGuard| {
                witness.enter(who, false, &guard);
                tokio::task::yield_now().await;
                witness.leave(false);
                guard.release().await.unwrap();
            };
            hold(first.await).await;
            // The second round contends with the first rounds of the other contenders.
            hold(soon(shared.acquire_as(&owner)).await.unwrap()).await;
        });
    }
    guard.release().await.unwrap();
    soon(tasks.join_all()).await;
    let order = witness.order();
    assert_eq!(order[..20], (0..20).collect::<Vec<_>>());
    assert_eq!(order.len(), 40);
}

/// Other tests find only the violations that [`Witness`] detects.
#[test]
fn the_witness_detects_concurrent_holders_and_a_token_that_does_not_rise() {
    let alone = false;
    let shared = true;
    let token = |number: i64| number.to_string().parse::<FencingToken>().unwrap();
    // Each entry is a holder: whether it shares, its token, and whether it leaves before the next
    // holder enters.
    let run_witness = |entries: &[(bool, i64, bool)]| {
        let seen = catch_unwind(|| {
            let witness = Witness::default();
            for (who, (shares, number, leaves)) in entries.iter().enumerate() {
                witness.enter_with(who, *shares, token(*number));
                if *leaves {
                    witness.leave(*shares);
                }
            }
            witness.order()
        });
        seen.map_err(drop)
    };
    assert_eq!(
        run_witness(&[
            (alone, 1, true),
            (shared, 3, false),
            (shared, 2, true),
            (shared, 4, true)
        ]),
        Ok(vec![0, 1, 2, 3])
    );
    for wrong in [
        [(alone, 1, false), (alone, 2, false)],
        [(alone, 1, false), (shared, 2, false)],
        [(shared, 1, false), (alone, 2, false)],
        [(alone, 2, true), (alone, 2, true)],
        [(alone, 2, true), (shared, 1, true)],
        [(shared, 2, true), (alone, 1, true)],
    ] {
        assert_eq!(run_witness(&wrong), Err(()), "{wrong:?}");
    }
}
