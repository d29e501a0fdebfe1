//! One holder at a time, unless they share; first come, first served.

use std::sync::{Arc, Mutex};

use curator_recipes::{FencingToken, LockGuard};
use tokio::task::JoinSet;

use super::stage::Stage;
use super::subjects::{Kind, Lock};
use crate::support::soon;

const SESSIONS: usize = 20;

/// Sees to it that nobody holds who should not, and writes down who held.
#[derive(Clone, Default)]
struct Witness(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    alone: usize,
    sharing: usize,
    held: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    who: usize,
    shares: bool,
    token: FencingToken,
}

impl Witness {
    fn enter(&self, who: usize, shares: bool, guard: &LockGuard) {
        let mut seen = self.0.lock().unwrap();
        assert_eq!(seen.alone, 0, "{who} holds beside one that should be alone");
        assert!(shares || seen.sharing == 0, "{who} should be alone, and others hold");
        *(if shares { &mut seen.sharing } else { &mut seen.alone }) += 1;
        assert!(guard.is_valid());
        let token = guard.fencing_token();
        // Those that hold together have no order among themselves.
        let mut before = seen.held.iter().filter(|entry| !(shares && entry.shares));
        assert!(before.all(|entry| entry.token < token), "{who} has {token:?} after {:?}", seen.held);
        seen.held.push(Entry { who, shares, token });
    }

    fn leave(&self, shares: bool) {
        let mut seen = self.0.lock().unwrap();
        *(if shares { &mut seen.sharing } else { &mut seen.alone }) -= 1;
    }

    /// Who held, in order. Of those that hold together, any may be the first.
    fn order(&self) -> Vec<usize> {
        let seen = self.0.lock().unwrap();
        let together = seen.held.chunk_by(|one, next| one.shares && next.shares);
        together
            .flat_map(|together| {
                let mut together: Vec<_> = together.iter().map(|entry| entry.who).collect();
                together.sort_unstable();
                together
            })
            .collect()
    }
}

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
    stage.nothing_left(&stage.admin).await;
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
    stage.nothing_left(&stage.admin).await;
}
