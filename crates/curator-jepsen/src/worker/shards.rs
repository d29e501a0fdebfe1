//! Serves a part of the shards, as a member: the job of each shard writes with its lease's token.

use std::convert::Infallible;
use std::time::Duration;

use curator_recipes::{Leadership, ShardAssignment, ShardAssignmentError, Shards};
use fastrand::Rng;
use tokio::time::sleep;

use super::Context;
use super::history::{PartHistory, Sampler, now};
use super::leaders::Term;
use super::lock::{Grant, ROOT};
use super::lock_set::LockSet;
use crate::history::SHARDS;
use crate::work::{LockKind, Part, Variant};

/// How the sets of a shard are written.
const PART: Part = Part {
    lock: LockKind::LeaderSelector,
    variant: Variant::Token,
};
/// For how long the shards of a client whose session has ended stay reserved.
const RESERVED: Duration = Duration::from_secs(1);
const GRACE: Duration = Duration::from_secs(2);
/// The pause after a run that has failed.
const PAUSE: Duration = Duration::from_millis(200);

/// The task of a member.
#[derive(Debug)]
pub(super) struct ShardTask {
    context: Context,
    assignment: ShardAssignment,
}

impl ShardTask {
    pub(super) fn new(context: &Context) -> Result<Self, ShardAssignmentError> {
        let (client, work) = (&context.client, &context.work);
        // The id is the same in each life, so that a process continues with its shards.
        let id = format!("w{}", work.worker);
        let shards = Shards::Count(work.shards);
        let builder = ShardAssignment::builder(client, format!("{ROOT}/{SHARDS}"), id, shards)?;
        let builder = if work.worker % 2 == 0 {
            builder
        } else {
            builder.reserve_on_shutdown()
        };
        Ok(Self {
            context: context.clone(),
            assignment: builder.reserve_for(RESERVED).grace_period(GRACE).build(),
        })
    }

    /// Runs until the conductor sends `rest`.
    pub(super) async fn run(self) {
        let Self {
            context,
            assignment,
        } = self;
        let history = PartHistory::new(SHARDS, &context.history);
        loop {
            let asked = now();
            let (its, path) = (context.clone(), assignment.clone());
            let job = move |shard: String, lease| {
                // The name is that of a shard of the plan, so it is valid.
                let path = path.shard_path(&shard).map(|path| path.as_str().to_owned());
                serve(its.clone(), path.unwrap_or(shard), lease)
            };
            let run = Box::pin(assignment.clone().run(job, context.rests()));
            match run.await {
                Ok(()) => return,
                Err(error) => history.not_acquired(asked, Some(error)),
            }
            sleep(PAUSE).await;
        }
    }
}

/// The job of the shard with this election: writes until it is asked to end.
async fn serve(context: Context, path: String, lease: Leadership) -> Result<(), Infallible> {
    let asked = now();
    let Some(term) = Term::of_job(lease.clone(), &context.client) else {
        return Ok(());
    };
    let history = PartHistory::new(SHARDS, &context.history);
    let mut set = LockSet::new(&context.work, PART, &context.client).with_key(SHARDS);
    let grant = Grant::of_leader(term, path);
    let hold = history.begin(&grant, asked, None);
    let mut random = Rng::new();
    let writing = async {
        loop {
            let think = set.thinking(&mut random);
            set.update(history.file(), hold, &grant.held, &grant.claims, think)
                .await;
        }
    };
    let work = async {
        tokio::select! {
            biased;
            () = lease.shutdown_requested() => {}
            () = writing => {}
        }
    };
    Sampler::new(history.file(), hold, || grant.held.state())
        .during(work)
        .await;
    // The lease is released when this job has ended.
    history.releasing(hold);
    Ok(())
}
