//! A future may be dropped at any await point. The target `matrix` drops each operation at each of
//! its requests.

use super::stage::Stage;
use super::subjects::Kind;
use crate::support::{drop_after, soon};

/// More polls than any acquire needs.
const MANY: usize = 200;

pub(super) async fn an_acquire_of_a_held_lock_dropped_at_every_await_leaves_nothing(kind: Kind) {
    let stage = Stage::quiet(kind, "drop-taken").await;
    let waiter = stage.client().await;
    for polls in 0..MANY {
        let guard = stage.blocker().acquire().await.unwrap();
        let held = stage.nodes().await;
        let lock = stage.lock(&waiter);
        let mut contending = tokio::spawn(drop_after(
            async move { lock.acquire().await.unwrap() },
            polls,
        ));
        let mut was_waiting = false;
        tokio::select! {
            outcome = &mut contending => assert!(outcome.unwrap().is_none(), "the waiter acquired a held lock"),
            () = stage.until_settled(2) => {
                // The abort drops the acquire while it waits, unless its last poll happens at this
                // moment.
                contending.abort();
                match contending.await {
                    Ok(outcome) => assert!(outcome.is_none(), "the waiter acquired a held lock"),
                    Err(error) => was_waiting = error.is_cancelled(),
                }
            }
        }
        soon(waiter.janitor().idle()).await;
        assert_eq!(stage.nodes().await, held);
        stage.until_watches(0).await;
        guard.release().await.unwrap();
        stage.free(&waiter).await;
        if was_waiting {
            return;
        }
    }
    panic!("{MANY} polls were not enough");
}
