//! A leader latch in each process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curator_recipes::{LeaderLatch, Leadership};
use tokio::time::timeout;

use super::{Ledger, Workload, explain, must_succeed, try_call};
use crate::checks::{Entry, Kind};
use crate::life::Life;

pub(super) fn make(root: String) -> Arc<dyn Workload> {
    let ledger = Ledger::new(format!("{root}-ledger"));
    Arc::new(Latch { root, ledger })
}

#[derive(Debug)]
struct Latch {
    root: String,
    ledger: Ledger,
}

#[async_trait]
impl Workload for Latch {
    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.ledger)
    }

    async fn live(&self, life: &Life) {
        let latch = LeaderLatch::builder(life.client(), self.root.as_str());
        let Some(latch) = must_succeed(life, "make a latch", latch) else {
            return;
        };
        let latch = latch.id(life.name()).start();
        while life.goes_on() {
            self.step(life, &latch).await;
            life.think().await;
        }
        latch.stand_by();
        if life.at_rest().await {
            let leader = life.complete("read the leader", latch.leader()).await;
            let leader = must_succeed(life, "read the leader", leader).flatten();
            life.world().check(leader.is_some(), || {
                format!("{}: no leader at rest", self.root)
            });
            if leader.is_some_and(|leader| leader.id() == life.name()) {
                let term = life.complete("lead", latch.leadership()).await;
                if let Some(term) = must_succeed(life, "lead", term) {
                    enter(life, &self.root, &term);
                    life.world().check(latch.has_leadership(), || {
                        format!("{}: a leader without a term", life.name())
                    });
                }
            }
        }
        life.idle().await;
        if life.one_in(2) {
            try_call(life, "close the latch", latch.close()).await;
        }
    }
}

impl Latch {
    async fn step(&self, life: &Life, latch: &LeaderLatch) {
        match life.below(8) {
            0 => {
                try_call(life, "resign", latch.resign()).await;
            }
            1 => {
                try_call(life, "stand aside", latch.stand_aside()).await;
                life.think().await;
                latch.stand_by();
            }
            _ => {
                let wait = timeout(life.time(Duration::from_secs(6)), latch.leadership());
                match life.call("lead", wait).await {
                    Some(Ok(Ok(term))) => self.lead(life, &term).await,
                    Some(Ok(Err(error))) => explain(life, "lead", &error),
                    Some(Err(_)) | None => {}
                }
            }
        }
    }

    async fn lead(&self, life: &Life, term: &Leadership) {
        enter(life, &self.root, term);
        use_term(life, term, &self.root, &self.ledger).await;
    }
}

/// Records the beginning of a term.
pub(super) fn enter(life: &Life, root: &str, term: &Leadership) {
    let token = term.fencing_token().as_i64();
    // A view of a term keeps the client open, so `life` keeps the view, and the checks get only a
    // weak reference to it. Views of the same term have the same token.
    let view = life.keep(term.clone());
    let entry = Entry {
        who: life.name(),
        owner: token.cast_unsigned(),
        kind: Kind::Exclusive,
        token,
        node: term.node().as_str(),
    };
    life.checks()
        .owners(root)
        .enter(life.world(), &entry, move || {
            view.upgrade().is_some_and(|view| view.is_valid())
        });
}

/// Works during a term. Returns whether the servers may still apply a write later.
pub(super) async fn use_term(life: &Life, term: &Leadership, store: &str, ledger: &Ledger) -> bool {
    match life.below(3) {
        0 => {
            let store = life.checks().store(store);
            let token = term.fencing_token();
            let Some(read) = store.read(token) else {
                return false;
            };
            life.think().await;
            store.write(life.world(), life.name(), token, read);
        }
        1 => return ledger.add(life, || term.transaction()).await,
        _ => {
            let work = async {
                life.think().await;
                life.world().check(term.is_valid(), || {
                    format!("{}: work is polled after its term", life.name())
                });
            };
            if let Err(lost) = life.complete("run in the term", term.run(work)).await {
                explain(life, "run in the term", &lost);
                life.world().check(!term.is_valid(), || {
                    format!("{}: a valid term reports its loss", life.name())
                });
            }
        }
    }
    false
}
