//! The minimal cost of a lock: a node is created and deleted; and of a hand-over: a delete, and its event.

use std::time::{Duration, Instant};

use curator_recipes::client::{CuratorClient, ZPath};
use tokio::sync::OnceCell;
use tokio::task::JoinSet;

use super::session::{BenchLock, Failure, Session};
use crate::protocol::{Done, Play, nanoseconds};

/// Creates and deletes a node, without locking.
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

    fn new(session: &S, path: &str, _: &Play) -> Result<Self, Failure> {
        let prefix = format!("{path}/node-");
        Ok(Self { session: session.clone(), directory: path.to_owned(), prefix, raw: OnceCell::new() })
    }

    async fn lock(&self) -> Result<Self::Guard, Failure> {
        let prepare = || async {
            self.session.make_directory(&self.directory).await?;
            self.session.raw().await
        };
        let raw = self.raw.get_or_try_init(prepare).await?;
        Ok((raw.clone(), S::create(raw, &self.prefix).await?))
    }

    async fn unlock((raw, node): Self::Guard) -> Result<(), Failure> {
        S::delete(&raw, &node).await
    }
}

/// The number of hand-overs in a round. A session that has released does not queue again within the round, so that no
/// other requests are sent.
const CHAIN: usize = 64;

/// In each round, nodes of all sessions in turn form a queue, each with a watch on the node before it. The first node
/// is deleted, and each session deletes its node when the one before it is gone.
pub(super) async fn handover(sessions: &[CuratorClient], play: &Play) -> Result<Done, Failure> {
    let mut all = Done::default();
    let looking = sessions.first().ok_or("there is no session")?;
    looking.make_directory(&play.path).await?;
    while Duration::from_nanos(all.nanoseconds) < play.time {
        let (mut chain, mut before) = (JoinSet::new(), None::<String>);
        let mut first = None;
        for client in sessions.iter().cycle().take(CHAIN) {
            let raw = client.raw().await?;
            let node = <CuratorClient as Session>::create(&raw, &format!("{}/node-", play.path)).await?;
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
        let (raw, node) = first.ok_or("there is no first node")?;
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
