//! The baselines: the minimal cost of a lock is a create and a delete of a node; of a hand-over, a
//! delete and its event.

use std::time::{Duration, Instant};

use curator_recipes::client::{CuratorClient, ZPath};
use tokio::sync::OnceCell;
use tokio::task::JoinSet;

use super::{BenchLock, Failure, Session};
use crate::protocol::{Done, Workload, nanoseconds};

/// The baseline of a cycle: creates and deletes a node, without locking.
pub(super) struct Floor<S: Session> {
    session: S,
    directory: String,
    prefix: String,
    /// Set at the first use, when the directory has been created.
    raw: OnceCell<S::Raw>,
}

impl<S: Session> BenchLock for Floor<S> {
    type Session = S;
    type Guard = (S::Raw, String);

    fn new(session: &S, path: &str, _: &Workload) -> Result<Self, Failure> {
        Ok(Self {
            session: session.clone(),
            directory: path.to_owned(),
            prefix: format!("{path}/node-"),
            raw: OnceCell::new(),
        })
    }

    async fn lock(&self) -> Result<Self::Guard, Failure> {
        let raw = self
            .raw
            .get_or_try_init(async || {
                self.session.make_directory(&self.directory).await?;
                self.session.raw().await
            })
            .await?;
        Ok((raw.clone(), S::create(raw, &self.prefix).await?))
    }

    async fn unlock((raw, node): Self::Guard) -> Result<(), Failure> {
        S::delete(&raw, &node).await
    }
}

/// The number of nodes in the queue of a round. A session that has deleted its node does not queue
/// again within the round, so that sessions send only deletes.
const CHAIN: usize = 64;

/// The baseline of a hand-over. In each round, the sessions take turns to create the nodes of a
/// queue, each with a watch on the node before it. The first node is deleted, and each session
/// deletes its node when the node before it is gone.
pub(super) async fn handover(
    sessions: &[CuratorClient],
    workload: &Workload,
) -> Result<Done, Failure> {
    let mut all = Done::default();
    sessions
        .first()
        .ok_or("no session is open")?
        .make_directory(&workload.path)
        .await?;
    while Duration::from_nanos(all.nanoseconds) < workload.time {
        let mut chain = JoinSet::new();
        let mut before = None::<String>;
        let mut first = None;
        for client in sessions.iter().cycle().take(CHAIN) {
            let raw = client.raw().await?;
            let node =
                <CuratorClient as Session>::create(&raw, &format!("{}/node-", workload.path))
                    .await?;
            match before.replace(node.clone()) {
                None => first = Some((raw, node)),
                Some(before) => {
                    let (_, _, mut gone) = raw.0.watch_data(&ZPath::on_server(&before)?).await?;
                    chain.spawn(async move {
                        gone.fired().await;
                        <CuratorClient as Session>::delete(&raw, &node).await
                    });
                }
            }
        }
        let (raw, node) = first.ok_or("the queue is empty")?;
        let begin = Instant::now();
        <CuratorClient as Session>::delete(&raw, &node).await?;
        while let Some(done) = chain.join_next().await {
            done??;
        }
        all.operations += CHAIN as u64;
        all.nanoseconds += nanoseconds(begin.elapsed());
    }
    Ok(all)
}
