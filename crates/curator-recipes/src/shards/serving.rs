//! Serves shards: a task for each, which takes part in the election of the shard.

use std::collections::BTreeMap;
use std::fmt::Display;

use curator_client::source::{self, watch};
use curator_client::{CuratorClient, Deadline, Error as ClientError, FailureLog, ZPath};
use futures_util::future::BoxFuture;

use super::ShardAssignment;
use super::planner::View;
use crate::leader::{LeaderSelector, Leadership};
use crate::task::follow::fired;
use crate::task::report::Truncated;

/// The shards that a run serves. Dropping this drops the futures of all jobs.
pub(super) struct Serving {
    id: String,
    /// Dropping a sender ends the task of the shard; its value is then whether another member comes
    /// for the shard.
    shards: BTreeMap<String, watch::Sender<bool>>,
    /// Dropping this drops the futures of all tasks. Each task has a receiver.
    tasks: watch::Sender<()>,
    start: Start,
    client: CuratorClient,
}

/// Makes the task of a shard; `None` if its name is invalid.
type Start = Box<dyn Fn(&str, Moved) -> Option<BoxFuture<'static, ()>> + Send + Sync>;

/// Becomes closed when the shard no longer belongs to the member.
type Moved = watch::Receiver<bool>;

impl Serving {
    pub(super) fn new<F, E>(
        assignment: &ShardAssignment,
        job: impl Fn(String, Leadership) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        let job = std::sync::Arc::new(job);
        let assignment = assignment.clone();
        let (id, client) = (assignment.id.clone(), assignment.client.clone());
        let start = move |shard: &str, moved: Moved| {
            // A plan that was written by another program may contain any name.
            let selector = assignment.selector(shard).ok()?;
            let (shard, job, assignment) = (shard.to_owned(), job.clone(), assignment.clone());
            let job = move |lease| job(shard.clone(), lease);
            let task: BoxFuture<'static, ()> = Box::pin(serve(assignment, selector, job, moved));
            Some(task)
        };
        Self {
            id,
            shards: BTreeMap::new(),
            tasks: watch::Sender::new(()),
            start: Box::new(start),
            client,
        }
    }

    /// Begins and stops to serve shards, so that they are those of the plan. Without a plan, all
    /// stays as it is.
    pub(super) fn follow(&mut self, view: &View) {
        let View { plan, version, .. } = view;
        if version.is_none() {
            return;
        }
        let mine = plan.shards_of(&self.id);
        self.shards.retain(|shard, moved| {
            let is_mine = mine.contains(shard);
            if !is_mine {
                let mut members = plan.members.values();
                moved.send_replace(members.any(|member| member.shards.contains(shard)));
            }
            is_mine
        });
        for shard in mine {
            if !self.shards.contains_key(&shard) {
                let moved = watch::Sender::new(false);
                if let Some(task) = (self.start)(&shard, moved.subscribe()) {
                    let mut dropped = self.tasks.subscribe();
                    self.client.spawn(async move {
                        tokio::select! {
                            biased;
                            _ = dropped.changed() => {}
                            () = task => {}
                        }
                    });
                }
                self.shards.insert(shard, moved);
            }
        }
    }

    /// Ends all jobs, and waits until their leases are released.
    pub(super) async fn end(mut self) {
        self.shards.clear();
        self.tasks.closed().await;
    }
}

/// Takes part in the election of a shard until it has moved.
async fn serve<F, E>(
    assignment: ShardAssignment,
    selector: LeaderSelector,
    mut job: impl FnMut(Leadership) -> F,
    mut moved: Moved,
) where
    F: Future<Output = Result<(), E>>,
    E: Display,
{
    let client = &assignment.client;
    let mut retrier = client.persistent_retrier();
    let mut failures = FailureLog::default();
    loop {
        let ending = async {
            while moved.changed().await.is_ok() {}
            if *moved.borrow() {
                let deadline = Deadline::after(assignment.grace_period);
                until_another_waits(client, selector.path(), deadline).await;
            }
        };
        let Err(error) = selector.clone().run(&mut job, ending).await else {
            return;
        };
        if failures.failed(&error, source::now()) {
            tracing::warn!(client = client.name(), path = %Truncated(selector.path()), error = %Truncated(&error), "shard assignment: cannot serve a shard");
        }
        if moved.has_changed().is_err() || retrier.again().await.is_err() {
            return;
        }
    }
}

/// Waits until the queue of an election has another participant, or until the deadline.
async fn until_another_waits(client: &CuratorClient, election: &ZPath, deadline: Deadline) {
    let mut retrier = client.persistent_retrier();
    let another = async {
        while let Ok(session) = client.session().await {
            match session.watch_children(election).await {
                Ok((queue, watch)) if queue.len() < 2 => {
                    fired(&mut Some((session, watch))).await;
                }
                Ok(_) | Err(ClientError::NoNode { .. }) => return,
                Err(_) if retrier.again().await.is_ok() => {}
                Err(_) => return,
            }
        }
    };
    tokio::select! {
        biased;
        () = client.sleep_until(deadline) => {}
        () = another => {}
    }
}
