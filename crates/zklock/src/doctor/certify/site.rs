//! Where a check runs: its path, its sessions, and its waits for nodes, each with a limit.

use std::time::Duration;

use curator_recipes::client::{CuratorClient, CuratorClientBuilder, Error as ClientError, Stat};
use futures_util::future::BoxFuture;

use super::verdict::{Checked, Problem};
use crate::contender::Contender;
use crate::failure::Failure;
use crate::settings::Settings;

/// The longest wait within a check for what should happen at once.
pub(super) const STEP: Duration = Duration::from_secs(5);
/// How long a request of a check may take.
const REQUEST: Duration = Duration::from_secs(3);
/// How long a check may take to connect.
const CONNECT: Duration = Duration::from_secs(4);
/// How long the close of a session may take, once for its pending deletes and once for itself.
const CLOSE: Duration = Duration::from_secs(1);
/// More than a check has.
const REQUESTS_IN_FLIGHT: usize = 1_000;

/// Where a check runs. Its sessions may be on different servers, so a check calls `sync` before one
/// session reads what the other has written. While it runs, no other check uses these sessions and this path, so that a
/// check whose requests end a session, or remove a directory, disturbs no other.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) first: CuratorClient,
    pub(super) second: CuratorClient,
    /// A path that does not exist. Its parent exists.
    pub(super) path: String,
}

/// A check of one operation or of one recipe.
pub(super) struct Check<'a> {
    pub(super) name: &'static str,
    pub(super) run: Box<dyn Fn(Site) -> BoxFuture<'a, Checked> + Send + Sync + 'a>,
    /// Whether the recipe holds something that ends with the session.
    pub(super) is_hold: bool,
}

impl<'a> Check<'a> {
    pub(super) fn new<F: Future<Output = Checked> + Send + 'a>(
        name: &'static str,
        run: impl Fn(Site) -> F + Send + Sync + 'a,
    ) -> Self {
        Self {
            name,
            run: Box::new(move |site| Box::pin(run(site))),
            is_hold: false,
        }
    }

    /// The check of a recipe that holds something until its session ends.
    pub(super) fn of_hold<F: Future<Output = Checked> + Send + 'a>(
        name: &'static str,
        run: impl Fn(Site) -> F + Send + Sync + 'a,
    ) -> Self {
        Self {
            is_hold: true,
            ..Self::new(name, run)
        }
    }
}

/// The builder of a check's client, whose calls all return long before the check's limit.
pub(super) fn builder(settings: &Settings, connect: &str) -> Result<CuratorClientBuilder, Failure> {
    let retries = curator_recipes::client::RetryUntilElapsed::new(CONNECT, REQUEST / 30);
    Ok(settings
        .builder_to(connect, &Contender::this(None))?
        .max_requests_in_flight(REQUESTS_IN_FLIGHT)
        .connection_timeout(CONNECT)
        .operation_timeout(REQUEST)
        .close_timeout(CLOSE)
        .retry_policy(retries.map_err(ClientError::from)?))
}

/// Waits for what should happen at once. If it does not, the problem is the recipe's last error, if
/// it has one.
pub(super) async fn soon<T, E: Into<Problem>, L: Into<Problem>>(
    what: &str,
    future: impl Future<Output = Result<T, E>>,
    last_error: impl Fn() -> Option<L>,
) -> Result<T, Problem> {
    match tokio::time::timeout(STEP, future).await {
        Ok(done) => done.map_err(Into::into),
        Err(_) => Err(last_error().map_or_else(|| late(what), Into::into)),
    }
}

/// Like [`soon`], for a wait that has no error of its own.
pub(super) async fn within_step<T>(
    what: &str,
    future: impl Future<Output = T>,
) -> Result<T, Problem> {
    tokio::time::timeout(STEP, future)
        .await
        .map_err(|_| late(what))
}

fn late(what: &str) -> Problem {
    Problem::fault(format!("not within {}s: {what}", STEP.as_secs()))
}

/// Waits until the directory has this many children: until contenders have joined its queue, for
/// example. The directory may not exist yet, and may be removed meanwhile.
pub(super) async fn children(
    client: &CuratorClient,
    directory: &str,
    number: usize,
) -> Result<(), Problem> {
    let waiting = async {
        loop {
            match client.watch_children(directory).await {
                Ok((names, _)) if names.len() >= number => return Ok(()),
                Ok((_, watch)) => {
                    watch.await;
                }
                Err(ClientError::NoNode { .. }) => {
                    let (found, watch) = client.watch_exists(directory).await?;
                    if found.is_none() {
                        watch.await;
                    }
                }
                Err(error) => return Err(Problem::from(error)),
            }
        }
    };
    within_step("the contenders have joined the queue", waiting).await?
}

/// Waits until the stat of a node, or its absence, meets a condition.
pub(super) async fn node(
    client: &CuratorClient,
    path: &str,
    what: &str,
    is_met: impl Fn(Option<Stat>) -> bool,
) -> Result<(), Problem> {
    let waiting = async {
        loop {
            let (stat, watch) = client.watch_exists(path).await?;
            if is_met(stat) {
                return Ok(());
            }
            watch.await;
        }
    };
    within_step(what, waiting).await?
}
