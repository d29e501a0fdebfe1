//! Serves shards: a task for each, which takes part in the election of the shard.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::pending;
use std::sync::Arc;

use curator_client::source::watch;
use curator_client::{CuratorClient, ZPath};
use futures_util::future::BoxFuture;

use super::ShardAssignment;
use super::planner::View;
use crate::leader::{Leadership, another_waits};
use crate::task::report::Truncated;

/// The user's job.
pub(super) type Job = Arc<dyn Fn(String, Leadership) -> RunningJob + Send + Sync>;
pub(super) type RunningJob = BoxFuture<'static, Result<(), Box<dyn Display + Send>>>;

/// What the task of a shard does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Duty {
    Serve,
    /// Serves until another participant waits in the queue of the election, and then ends.
    HandOver,
    End,
}

/// The shards that a run serves. Dropping this drops the futures of all jobs.
pub(super) struct Serving {
    assignment: ShardAssignment,
    job: Job,
    /// The duty of each task that has not ended. Dropping a sender drops the task's future.
    duties: BTreeMap<String, watch::Sender<Duty>>,
    /// Changes when a task has ended. Each task has a clone.
    ended: Arc<watch::Sender<()>>,
}

impl Serving {
    pub(super) fn new(assignment: ShardAssignment, job: Job) -> Self {
        Self {
            assignment,
            job,
            duties: BTreeMap::new(),
            ended: Arc::new(watch::Sender::new(())),
        }
    }

    /// Changes when a task has ended: then [`follow`](Self::follow) may have to start another.
    pub(super) fn ended(&self) -> watch::Receiver<()> {
        self.ended.subscribe()
    }

    /// Begins, continues and stops to serve shards, so that they become those of the plan. A member
    /// that is leaving waits for no member that is absent. Returns whether all tasks have ended.
    pub(super) fn follow(&mut self, view: &View, is_leaving: bool) -> bool {
        // A plan that was written by another program may have any number of shards.
        let mut mine = view.plan.shards_of(&self.assignment.id);
        mine.retain(|shard| view.shards.contains(shard));
        self.duties.retain(|_, duty| !duty.is_closed());
        for (shard, duty) in &self.duties {
            let mut members = view.plan.members.iter();
            let wanted = if mine.contains(shard) {
                Duty::Serve
            } else {
                match members.find(|(_, member)| member.shards.contains(shard)) {
                    Some((id, _)) if !is_leaving || view.present.contains_key(id) => Duty::HandOver,
                    _ => Duty::End,
                }
            };
            duty.send_if_modified(|duty| std::mem::replace(duty, wanted) != wanted);
        }
        for shard in mine {
            if !self.duties.contains_key(&shard) {
                self.start(shard);
            }
        }
        self.duties.is_empty()
    }

    /// Ends all jobs, and waits until their leases are released.
    pub(super) async fn end(self) {
        for duty in self.duties.values() {
            duty.send_replace(Duty::End);
        }
        let mut ended = self.ended();
        // Then only tasks have senders.
        drop(self.ended);
        while ended.changed().await.is_ok() {}
    }

    fn start(&mut self, shard: String) {
        // A plan that was written by another program may contain any name.
        let Some(selector) = self.assignment.selector(&shard) else {
            return;
        };
        let client = self.assignment.client.clone();
        let (job, ended) = (Arc::clone(&self.job), Arc::clone(&self.ended));
        let duty_tx = watch::Sender::new(Duty::Serve);
        let mut dropped = duty_tx.subscribe();
        let duty = duty_tx.subscribe();
        self.duties.insert(shard.clone(), duty_tx);
        self.assignment.client.spawn(async move {
            let path = selector.path().clone();
            let ending = until_end(&client, &path, duty);
            tokio::select! {
                biased;
                () = async { while dropped.changed().await.is_ok() {} } => {}
                run = selector.run(|lease| job(shard.clone(), lease), ending) => {
                    if let Err(error) = run {
                        tracing::warn!(client = client.name(), path = %Truncated(&path), error = %Truncated(&error), "shard assignment: cannot serve a shard");
                    }
                }
            }
            // Now the task has no receiver.
            drop(dropped);
            ended.send_replace(());
        });
    }
}

/// Waits until the job must end.
async fn until_end(client: &CuratorClient, election: &ZPath, mut duty: watch::Receiver<Duty>) {
    loop {
        let now = *duty.borrow_and_update();
        let can_end = async {
            match now {
                Duty::Serve => pending().await,
                Duty::HandOver => another_waits(client, election).await,
                Duty::End => {}
            }
        };
        tokio::select! {
            biased;
            Ok(()) = duty.changed() => {}
            () = can_end => return,
        }
    }
}
