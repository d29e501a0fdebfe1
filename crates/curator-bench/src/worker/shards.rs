//! Runs the case of shards with our client: a member joins, and gets its part of the shards.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use curator_recipes::client::CuratorClient;
use curator_recipes::{Leadership, ShardAssignment, ShardAssignmentError, Shards};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::cases::session;
use super::{Failure, Step};
use crate::protocol::{Done, Reply, Workload, nanoseconds};

/// Starts a member in each session but the last, and waits until they serve all shards. In the next
/// step, the last member joins.
pub(super) async fn prepare(
    sessions: &[CuratorClient],
    workload: &Workload,
) -> Result<Step, Failure> {
    let last = session(sessions, workload.sessions.saturating_sub(1))?.clone();
    let mut members = Members::new(workload);
    for client in &sessions[..workload.sessions - 1] {
        members.join(client)?;
    }
    members.settle().await?;
    let wait = async move {
        let begin = Instant::now();
        members.join(&last)?;
        members.settle().await?;
        let done = Done::new(members.shards as u64, begin.elapsed());
        let end = async move {
            members.end().await?;
            Ok(Step::done(done))
        };
        let nanoseconds = nanoseconds(begin.elapsed());
        Ok(Step::then(Reply::Loaded { nanoseconds }, end))
    };
    Ok(Step::then(Reply::Held, wait))
}

struct Members {
    path: String,
    shards: usize,
    /// The number of shards that each member serves.
    served: watch::Sender<Vec<usize>>,
    running: JoinSet<Result<(), ShardAssignmentError>>,
    /// Dropped to end all members.
    stop: watch::Sender<()>,
}

impl Members {
    fn new(workload: &Workload) -> Self {
        Self {
            // Each run has other shards.
            path: format!("{}/{}", workload.path, workload.mark),
            shards: workload.nodes,
            served: watch::Sender::new(Vec::new()),
            running: JoinSet::new(),
            stop: watch::Sender::new(()),
        }
    }

    fn join(&mut self, client: &CuratorClient) -> Result<(), Failure> {
        let member = self.served.borrow().len();
        let id = format!("{member:04}");
        let shards = Shards::Count(self.shards);
        // All members end together.
        let assignment = ShardAssignment::builder(client, &self.path, id, shards)?
            .reserve_on_shutdown()
            .reserve_for(Duration::from_secs(60))
            .build();
        self.served.send_modify(|served| served.push(0));
        let served = self.served.clone();
        let job = move |_, lease: Leadership| {
            let served = served.clone();
            async move {
                let _serving = Serving::new(served, member);
                lease.shutdown_requested().await;
                Ok::<_, Infallible>(())
            }
        };
        let mut stop = self.stop.subscribe();
        let stopped = async move { while stop.changed().await.is_ok() {} };
        self.running.spawn(assignment.run(job, stopped));
        Ok(())
    }

    /// Waits until each member serves its part of the shards, rounded down or up.
    async fn settle(&mut self) -> Result<(), Failure> {
        let shards = self.shards;
        let is_settled = |served: &Vec<usize>| {
            let part = shards / served.len()..=shards.div_ceil(served.len());
            served.iter().sum::<usize>() == shards && served.iter().all(|its| part.contains(its))
        };
        let mut served = self.served.subscribe();
        tokio::select! {
            settled = served.wait_for(is_settled) => Ok(settled.map(drop)?),
            Some(ended) = self.running.join_next() => {
                ended??;
                Err("a member has ended".into())
            }
        }
    }

    async fn end(self) -> Result<(), Failure> {
        let Self {
            mut running, stop, ..
        } = self;
        drop(stop);
        while let Some(ended) = running.join_next().await {
            ended??;
        }
        Ok(())
    }
}

/// A served shard of a member.
struct Serving {
    served: watch::Sender<Vec<usize>>,
    member: usize,
}

impl Serving {
    fn new(served: watch::Sender<Vec<usize>>, member: usize) -> Self {
        served.send_modify(|served| served[member] += 1);
        Self { served, member }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.served.send_modify(|served| served[self.member] -= 1);
    }
}
