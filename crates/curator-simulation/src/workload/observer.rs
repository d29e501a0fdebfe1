//! Observers of the leader, and latches that change it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curator_recipes::{LeaderLatch, LeaderObserver, ObservedLeader};
use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use std::pin::pin;
use tokio::time::timeout;

use super::latch::enter;
use super::{Workload, must_succeed, try_call};
use crate::checks::Rising;
use crate::life::Life;

pub(super) fn make(root: String) -> Arc<dyn Workload> {
    Arc::new(Observer { root })
}

#[derive(Debug)]
struct Observer {
    root: String,
}

#[async_trait]
impl Workload for Observer {
    async fn live(&self, life: &Life) {
        let observer = LeaderObserver::observe_latch(life.client(), self.root.as_str());
        let Some(observer) = must_succeed(life, "make an observer", observer) else {
            return;
        };
        let watching = pin!(self.watch(life, &observer));
        let changing = pin!(self.change(life));
        let latch = match select(watching, changing).await {
            Either::Left(((), _)) => None,
            Either::Right((latch, _)) => latch,
        };
        if life.at_rest().await {
            life.eventually("observe the leader", || {
                let first = self.first(life);
                match (observer.state().get(), &first) {
                    (ObservedLeader::NoLeader, None) => Ok(()),
                    (ObservedLeader::Leader(leader), Some(first))
                        if leader.path.as_str() == first =>
                    {
                        Ok(())
                    }
                    (observed, _) => Err(format!(
                        "observes {observed:?}, but the leader is {first:?}"
                    )),
                }
            })
            .await;
        }
        life.idle().await;
        drop(latch);
    }
}

impl Observer {
    /// Follows the observer's reports until the client's lifetime ends.
    async fn watch(&self, life: &Life, observer: &LeaderObserver) {
        let highest = Rising::<i64>::default();
        let mut changes = observer.changes();
        while let Some(observed) = changes.next().await {
            life.note(|| format!("observes {observed:?}"));
            if let ObservedLeader::Leader(leader) = observed {
                let what = || format!("{}: the token of the observed leader", life.name());
                highest.note(life.world(), &what(), leader.fencing_token.as_i64());
            }
        }
        // The client keeps the observer alive.
        life.world()
            .fail(format!("{}: the observer has ended", life.name()));
    }

    /// Takes part in the election from time to time. Returns the last latch, if it is still open.
    async fn change(&self, life: &Life) -> Option<LeaderLatch> {
        let mut kept = None;
        while life.goes_on() {
            life.think_for(Duration::from_secs(4)).await;
            match kept.take() {
                None => kept = self.join(life),
                Some(latch) if life.one_in(3) => {
                    let latch: LeaderLatch = latch;
                    try_call(life, "close the latch", latch.close()).await;
                }
                Some(latch) => {
                    let wait = timeout(life.time(Duration::from_secs(4)), latch.leadership());
                    if let Some(Ok(Ok(term))) = life.call("lead", wait).await {
                        enter(life, &self.root, &term);
                    }
                    if life.one_in(2) {
                        kept = Some(latch);
                    }
                }
            }
        }
        kept
    }

    fn join(&self, life: &Life) -> Option<LeaderLatch> {
        let latch = LeaderLatch::builder(life.client(), self.root.as_str());
        must_succeed(life, "make a latch", latch).map(|latch| latch.id(life.name()).start())
    }

    /// The first participant according to the servers.
    fn first(&self, life: &Life) -> Option<String> {
        let nodes = life.world().servers().nodes();
        nodes
            .into_iter()
            .filter(|(path, _)| {
                path.strip_prefix(&self.root)
                    .is_some_and(|rest| rest.starts_with('/'))
            })
            .min_by_key(|(_, node)| node.czxid)
            .map(|(path, _)| path)
    }
}
