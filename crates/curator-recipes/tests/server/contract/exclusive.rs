//! One holder at a time, unless they share; first come, first served.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::stage::Stage;
use super::subjects::{Kind, Lock};
use crate::support::{Witness, soon};

const SESSIONS: usize = 20;

/// Holds once, for some round trips, in which one that should not be there would show.
async fn hold_once(who: usize, (lock, shares): (Lock, bool), stage: &Stage, witness: &Witness) {
    let guard = soon(lock.acquire()).await.unwrap();
    witness.enter(who, shares, &guard);
    for _ in 0..3 {
        stage.admin.check_exists("/").await.unwrap();
    }
    witness.leave(shares);
    guard.release().await.unwrap();
}

pub(super) async fn twenty_sessions_hold_in_the_order_of_their_coming(kind: Kind) {
    let (stage, witness) = (Arc::new(Stage::shared(kind, "order").await), Witness::default());
    let guard = stage.blocker().acquire().await.unwrap();
    let mut contenders = JoinSet::new();
    for who in 0..SESSIONS {
        let (client, stage_, witness) = (stage.client().await, Arc::clone(&stage), witness.clone());
        contenders.spawn(async move {
            hold_once(who, kind.contender(who, &client, &stage_.path), &stage_, &witness).await;
            client.close().await.unwrap();
        });
        stage.contenders(who + 2).await;
    }
    guard.release().await.unwrap();
    soon(contenders.join_all()).await;
    assert_eq!(witness.order(), (0..SESSIONS).collect::<Vec<_>>());
    stage.free(&stage.admin).await;
}

pub(super) async fn twenty_sessions_in_a_crowd_keep_out_whom_they_must(kind: Kind) {
    let (stage, witness) = (Arc::new(Stage::shared(kind, "crowd").await), Witness::default());
    let mut contenders = JoinSet::new();
    for who in 0..SESSIONS {
        let (stage, witness) = (Arc::clone(&stage), witness.clone());
        contenders.spawn(async move {
            let client = stage.client().await;
            for _ in 0..2 {
                hold_once(who, kind.contender(who, &client, &stage.path), &stage, &witness).await;
            }
            client.close().await.unwrap();
        });
    }
    soon(contenders.join_all()).await;
    assert_eq!(witness.order().len(), 2 * SESSIONS);
    stage.free(&stage.admin).await;
}
