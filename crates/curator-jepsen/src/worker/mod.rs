//! A client process of a run: does its [`Work`] until it reads [`REST`](crate::work::REST), or its
//! standard input ends.
//!
//! Each part has a separate task, which repeats: acquire a lock, work under it, release it, pause.
//! The work is `lock-set`, as in Jepsen's tests: read a set, wait, and write it back with a new
//! element. The [kind of lock](crate::work::LockKind) determines the sets, and what a hold
//! [claims](crate::history::Claim); the [variant](crate::work::Variant) determines where the sets
//! are stored, and what prevents late writes. All events are recorded in the history immediately.

mod cache;
mod cache_writer;
mod counter;
mod held;
mod history;
mod leaders;
mod lock;
mod lock_set;
mod node_sets;
mod part;
mod service;
mod shards;

use std::future::pending;
use std::io::{self, BufRead};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;
use curator_recipes::client::{self, CuratorClient, EnsembleTracker, RetryForever};
use tokio::runtime;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::cache::CacheTask;
pub use self::cache::cached_nodes;
use self::cache_writer::CacheWriter;
use self::counter::CounterTask;
use self::history::HistoryFile;
pub use self::node_sets::node_sets;
use self::part::PartTask;
use self::service::ServiceTask;
use self::shards::ShardTask;
use crate::history::{CounterKind, What};
use crate::work::{CacheOrder, Work};

/// Runs the program `curator-jepsen worker`: reads a [`Work`] from the first line of standard input
/// and does it until the input ends. The exit status is 0 on success, even if locks were lost;
/// otherwise the error is printed to standard error. A worker that cannot write its history exits
/// immediately, with status 1.
#[must_use]
pub fn run() -> ExitCode {
    match work(&mut io::stdin().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("curator-jepsen worker: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The number of threads of a worker: few, because a dozen workers run on one machine.
const THREADS: usize = 2;

fn work(input: &mut impl BufRead) -> anyhow::Result<()> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    let work: Work = serde_json::from_str(&line)
        .context("the first line of standard input is not a `Work` as JSON")?;
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()?;
    let (orders, ordered) = watch::channel(CacheOrder::Work);
    let (finish, finishing) = watch::channel(false);
    let working = runtime.block_on(Working::start(work, ordered))?;
    let working = runtime.spawn(working.until_finished(finishing));
    // Reading the orders blocks this thread.
    for line in input.lines() {
        let line = line?;
        if let Some(order) = CacheOrder::read(&line) {
            orders.send_replace(order);
        }
    }
    finish.send_replace(true);
    orders.send_replace(CacheOrder::Rest);
    runtime.block_on(working)?
}

/// What all tasks of a worker share.
#[derive(Debug, Clone)]
struct Context {
    work: Arc<Work>,
    client: CuratorClient,
    history: Arc<HistoryFile>,
    orders: watch::Receiver<CacheOrder>,
}

impl Context {
    /// Waits until the conductor sends `rest`. Also returns when the sender of the orders is
    /// dropped.
    async fn rests(&self) {
        drop(
            self.orders
                .clone()
                .wait_for(|order| *order == CacheOrder::Rest)
                .await,
        );
    }
}

/// A running worker.
struct Working {
    context: Context,
    parts: JoinSet<()>,
}

impl Working {
    /// Starts the client, and tasks: one for each part, two for the cache, one for each counter,
    /// one for the service, and one for the shards. The ensemble need not be up.
    async fn start(work: Work, orders: watch::Receiver<CacheOrder>) -> anyhow::Result<Self> {
        let history = HistoryFile::append(&work.history, work.worker, work.life)
            .with_context(|| format!("cannot open the history {}", work.history.display()))?;
        let history = Arc::new(history);
        let name = format!("w{}.{}", work.worker, work.life);
        let client = CuratorClient::builder(&work.connect_string)
            .transport(work.transport.into())
            .ensemble_tracker(if work.follows {
                EnsembleTracker::Always
            } else {
                EnsembleTracker::Auto
            })
            .session_timeout(Duration::from_millis(work.session_timeout_ms))
            // An acquire must survive any outage.
            .retry_policy(
                RetryForever::new(Duration::from_millis(100)).map_err(client::Error::from)?,
            )
            .default_lock_data(name.clone().into_bytes())
            .name(name)
            .start()?;
        let context = Context {
            work: Arc::new(work),
            client,
            history,
            orders,
        };
        let work = &context.work;
        let mut parts = JoinSet::new();
        for part in &work.parts {
            parts.spawn(PartTask::new(&context, *part)?.run());
        }
        if let Some(root) = &work.cached {
            parts.spawn(CacheTask::new(&context, root)?.run());
            parts.spawn(CacheWriter::new(&context, root).run());
        }
        for kind in CounterKind::value_variants()
            .iter()
            .filter(|_| work.counters)
        {
            parts.spawn(CounterTask::new(&context, *kind)?.run());
        }
        if work.services {
            parts.spawn(ServiceTask::new(&context)?.run());
        }
        if work.shards > 0 {
            parts.spawn(ShardTask::new(&context)?.run());
        }
        Ok(Self { context, parts })
    }

    /// Waits until all parts have ended. Then records `Resting` when the client has no clean-up
    /// left, and closes the client when the worker must finish.
    async fn until_finished(self, mut finishing: watch::Receiver<bool>) -> anyhow::Result<()> {
        let Self {
            context: Context {
                client, history, ..
            },
            mut parts,
        } = self;
        let mut states = client.connection_states();
        // Every session of the client starts with a transition of this state.
        let sessions = async {
            while states.next().await.is_some() {
                if let Some(session) = client.current_session() {
                    history.session(session.id(), session.timeout());
                }
            }
            Ok(())
        };
        let working = async {
            while let Some(ended) = parts.join_next().await {
                ended?;
            }
            let finish = finishing.wait_for(|finishing| *finishing);
            let resting = async {
                client.janitor().idle().await;
                history.write(What::Resting);
                pending::<()>().await;
            };
            tokio::select! {
                // Also returns when the sender is dropped.
                _ = finish => Ok(()),
                () = resting => Ok(()),
            }
        };
        let worked = tokio::select! {
            worked = working => worked,
            // Returns only when the client is closed, which happens later.
            closed = sessions => closed,
        };
        let closed = client.close().await;
        history.write(What::Closed {
            error: closed.as_ref().err().map(ToString::to_string),
        });
        match closed {
            // The session expires on the servers, which may be down.
            Ok(()) | Err(client::Error::CloseUnconfirmed { .. }) => worked,
            Err(error) => worked.and(Err(error.into())),
        }
    }
}
