//! A leader selector in each process.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curator_recipes::{LeaderSelector, Leadership};
use futures_util::future::join;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::latch::{enter, use_term};
use super::{Ledger, Workload, explain, must_succeed};
use crate::life::Life;
use crate::world::Phase;

pub(super) fn make(root: String) -> Arc<dyn Workload> {
    let ledger = Ledger::new(format!("{root}-ledger"));
    Arc::new(Selector { root, ledger })
}

#[derive(Debug)]
struct Selector {
    root: String,
    ledger: Ledger,
}

#[async_trait]
impl Workload for Selector {
    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.ledger)
    }

    async fn live(&self, life: &Life) {
        let selector = LeaderSelector::builder(life.client(), self.root.as_str());
        let Some(selector) = must_succeed(life, "make a selector", selector) else {
            return;
        };
        let selector = selector
            .id(life.name())
            .grace_period(Duration::from_secs(1))
            .build();
        while life.goes_on() && life.one_in(2) {
            // The future is dropped while the selector takes part in the election, or leads.
            let run = Box::pin(
                selector
                    .clone()
                    .run(|term| self.job(life, term), std::future::pending::<()>()),
            );
            if let Ok(Err(error)) = timeout(life.time(Duration::from_secs(8)), run).await {
                explain(life, "run the selector", &error);
            }
        }
        let shutdown = Notify::new();
        let run = async {
            let ran = Box::pin(
                selector
                    .clone()
                    .run(|term| self.job(life, term), shutdown.notified()),
            )
            .await;
            if let Err(error) = ran {
                explain(life, "run the selector", &error);
            }
        };
        let control = async {
            while life.goes_on() {
                life.think_for(Duration::from_secs(4)).await;
                if life.one_in(3) {
                    selector.interrupt_leadership();
                }
            }
            if life.at_rest().await {
                // After short jobs, a participant waits for up to half a minute before it takes
                // part again.
                sleep(Duration::from_secs(31)).await;
                let leader = life.complete("read the leader", selector.leader()).await;
                let leader = must_succeed(life, "read the leader", leader).flatten();
                life.world().check(leader.is_some(), || {
                    format!("{}: no leader at rest", self.root)
                });
                if leader.is_some_and(|leader| leader.id() == life.name()) {
                    let leads = selector.has_leadership();
                    life.world()
                        .check(leads, || format!("{}: a leader without a job", life.name()));
                }
            }
            life.idle().await;
            shutdown.notify_one();
        };
        join(run, control).await;
    }
}

impl Selector {
    async fn job(&self, life: &Life, term: Leadership) -> Result<(), Infallible> {
        enter(life, &self.root, &term);
        if life.world().phase() >= Phase::Healed || life.one_in(4) {
            term.shutdown_requested().await;
            return Ok(());
        }
        life.world().check(term.is_valid(), || {
            format!("{}: a job begins after its term", life.name())
        });
        use_term(life, &term, &self.root, &self.ledger).await;
        life.think_for(Duration::from_secs(6)).await;
        life.world().check(term.is_valid(), || {
            format!("{}: a job is polled after its term", life.name())
        });
        Ok(())
    }
}
