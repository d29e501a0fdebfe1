//! Serves shards: a task for each, which takes part in the election of the shard.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use curator_client::source::watch;
use curator_client::text::panic_message;
use curator_client::{CuratorClient, ZPath};
use futures_util::future::{BoxFuture, FutureExt as _};

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

    /// Starts and ends tasks, so that this member serves its shards of the plan. It serves a shard
    /// that moves until the next member comes.
    pub(super) fn follow(&mut self, view: &View) {
        // A plan that was written by another program may have any number of shards.
        let mut mine = view.plan.shards_of(&self.assignment.id);
        mine.retain(|shard| view.shards.contains(shard));
        self.set_duties(|shard| {
            if mine.contains(shard) {
                Duty::Serve
            } else if view.shards.contains(shard) && view.plan.member_of(shard).is_some() {
                Duty::HandOver
            } else {
                Duty::End
            }
        });
        for shard in mine {
            if !self.duties.contains_key(&shard) {
                self.start(shard);
            }
        }
    }

    /// Hands the shards over to those members of the plan that are present, and ends the tasks of
    /// the other shards. Returns whether all tasks have ended.
    pub(super) fn hand_over(&mut self, view: &View) -> bool {
        self.set_duties(|shard| match view.plan.member_of(shard) {
            Some(id) if view.present.contains_key(id) => Duty::HandOver,
            _ => Duty::End,
        });
        self.duties.is_empty()
    }

    /// Sets the duties of the tasks that have not ended.
    fn set_duties(&mut self, duty_of: impl Fn(&str) -> Duty) {
        self.duties.retain(|_, duty| !duty.is_closed());
        for (shard, duty) in &self.duties {
            let wanted = duty_of(shard);
            duty.send_if_modified(|duty| std::mem::replace(duty, wanted) != wanted);
        }
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
            // A job can panic when it is dropped.
            let run = selector.run(|lease| job(shard.clone(), lease), ending);
            let run = AssertUnwindSafe(run).catch_unwind();
            tokio::select! {
                biased;
                () = async { while dropped.changed().await.is_ok() {} } => {}
                run = run => {
                    let error = match run {
                        Ok(run) => run.err().map(|error| error.to_string()),
                        Err(panic) => Some(panic_message(&*panic)),
                    };
                    if let Some(error) = error {
                        tracing::warn!(client = client.name(), path = %Truncated(&path), error = %Truncated(error), "shard assignment: cannot serve a shard");
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
