//! Serves shards: a task for each, which takes part in the election of the shard.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::pending;
use std::sync::Arc;

use curator_client::source::{self, watch};
use curator_client::{CuratorClient, Error as ClientError, FailureLog, ZPath};
use futures_util::future::BoxFuture;

use super::ShardAssignment;
use super::planner::View;
use crate::leader::{LeaderSelector, Leadership};
use crate::task::follow::fired;
use crate::task::report::Truncated;

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
    id: String,
    client: CuratorClient,
    /// The duty of each task that has not ended. Dropping a sender drops the task's future.
    shards: BTreeMap<String, watch::Sender<Duty>>,
    /// Changes when a task has ended. Each task has a clone.
    ended: Arc<watch::Sender<u64>>,
    start: Start,
}

/// Makes the task of a shard; `None` if its name is invalid.
type Start =
    Box<dyn Fn(&str, watch::Receiver<Duty>) -> Option<BoxFuture<'static, ()>> + Send + Sync>;

impl Serving {
    pub(super) fn new<F, E>(
        assignment: &ShardAssignment,
        job: impl Fn(String, Leadership) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        let job = Arc::new(job);
        let assignment = assignment.clone();
        let (id, client) = (assignment.id.clone(), assignment.client.clone());
        let start = move |shard: &str, duty: watch::Receiver<Duty>| {
            // A plan that was written by another program may contain any name.
            let selector = assignment.selector(shard).ok()?;
            let (client, shard, job) = (assignment.client.clone(), shard.to_owned(), job.clone());
            let job = move |lease| job(shard.clone(), lease);
            let task: BoxFuture<'static, ()> = Box::pin(serve(client, selector, job, duty));
            Some(task)
        };
        Self {
            id,
            client,
            shards: BTreeMap::new(),
            ended: Arc::new(watch::Sender::new(0)),
            start: Box::new(start),
        }
    }

    /// Changes when a task has ended: then [`follow`](Self::follow) may have to start another.
    pub(super) fn ended(&self) -> watch::Receiver<u64> {
        self.ended.subscribe()
    }

    /// Begins, continues and stops to serve shards, so that they become those of the plan. Without
    /// a plan, all stays as it is.
    pub(super) fn follow(&mut self, view: &View) {
        if view.version.is_none() {
            return;
        }
        // A plan that was written by another program may have any number of shards.
        let mut mine = view.plan.shards_of(&self.id);
        mine.retain(|shard| view.shards.contains(shard));
        self.set_duties(|shard| {
            let mut members = view.plan.members.values();
            if mine.contains(shard) {
                Duty::Serve
            } else if members.any(|member| member.shards.contains(shard)) {
                Duty::HandOver
            } else {
                Duty::End
            }
        });
        for shard in mine {
            if !self.shards.contains_key(&shard) {
                self.start(shard);
            }
        }
    }

    /// Hands the shards over to those members of the plan that are present, and ends to serve the
    /// other shards. Returns whether all tasks have ended.
    pub(super) fn hand_over(&mut self, view: &View) -> bool {
        self.set_duties(|shard| {
            let mut members = view.plan.members.iter();
            match members.find(|(_, member)| member.shards.contains(shard)) {
                Some((id, _)) if view.present.contains_key(id) => Duty::HandOver,
                _ => Duty::End,
            }
        });
        self.shards.is_empty()
    }

    /// Ends all jobs, and waits until their leases are released.
    pub(super) async fn end(mut self) {
        self.set_duties(|_| Duty::End);
        let mut ended = self.ended();
        // Then only tasks have senders.
        drop(self.ended);
        while ended.changed().await.is_ok() {}
    }

    /// Sets the duties of the tasks that have not ended.
    fn set_duties(&mut self, duty_of: impl Fn(&str) -> Duty) {
        self.shards.retain(|_, duty| !duty.is_closed());
        for (shard, duty) in &self.shards {
            let wanted = duty_of(shard);
            duty.send_if_modified(|duty| std::mem::replace(duty, wanted) != wanted);
        }
    }

    fn start(&mut self, shard: String) {
        let duty_tx = watch::Sender::new(Duty::Serve);
        let Some(task) = (self.start)(&shard, duty_tx.subscribe()) else {
            return;
        };
        let mut duty = duty_tx.subscribe();
        let ended = Arc::clone(&self.ended);
        self.client.spawn(async move {
            tokio::select! {
                biased;
                () = async { while duty.changed().await.is_ok() {} } => {}
                () = task => {}
            }
            // Now the task has no receiver.
            drop(duty);
            ended.send_modify(|ended| *ended += 1);
        });
        self.shards.insert(shard, duty_tx);
    }
}

/// Takes part in the election of a shard until another member serves the shard.
async fn serve<F, E>(
    client: CuratorClient,
    selector: LeaderSelector,
    mut job: impl FnMut(Leadership) -> F,
    duty: watch::Receiver<Duty>,
) where
    F: Future<Output = Result<(), E>>,
    E: Display,
{
    let mut retrier = client.persistent_retrier();
    let mut failures = FailureLog::default();
    loop {
        let ending = until_end(&client, selector.path(), duty.clone());
        let Err(error) = selector.clone().run(&mut job, ending).await else {
            return;
        };
        if failures.failed(&error, source::now()) {
            tracing::warn!(client = client.name(), path = %Truncated(selector.path()), error = %Truncated(&error), "shard assignment: cannot serve a shard");
        }
        if *duty.borrow() != Duty::Serve || retrier.again().await.is_err() {
            return;
        }
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

/// Waits until the queue of an election has another participant.
async fn another_waits(client: &CuratorClient, election: &ZPath) {
    let mut retrier = client.persistent_retrier();
    while let Ok(session) = client.session().await {
        match session.watch_children(election).await {
            // One node is this participant's. Another may belong to a process with the same id, which
            // serves the shard as well.
            Ok((queue, watch)) if queue.len() < 2 => {
                fired(&mut Some((session, watch))).await;
            }
            Ok(_) | Err(ClientError::NoNode { .. }) => return,
            Err(_) if retrier.again().await.is_ok() => {}
            Err(_) => return,
        }
    }
}
