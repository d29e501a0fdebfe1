//! One run of all checks: a few at a time, each with a limit, in sessions that are used again as
//! long as no check has ended them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use curator_recipes::client::CuratorClient;
use futures_util::{StreamExt as _, stream};
use tokio::sync::watch;
use tokio::time::Instant;

use super::site::{Check, Site, builder};
use super::verdict::{Checked, Problem, Verdict};
use crate::print::step;
use crate::settings::Settings;
use crate::time::text;

/// When the last check ends. Closing the sessions and removing the nodes takes the rest of 30 s, if
/// the servers do not reply.
const CHECKS: Duration = Duration::from_secs(20);
/// The longest time of one check.
const CHECK: Duration = Duration::from_secs(10);
/// How many checks run at a time. A check with a cache has four connections, and a server may limit
/// the connections of one address to 60, ZooKeeper's default of `maxClientCnxns`.
const AT_A_TIME: usize = 6;

/// A run of all checks.
pub(super) struct Run<'a> {
    settings: &'a Settings,
    path: &'a str,
    deadline: Instant,
    is_stopped: watch::Sender<bool>,
    /// The sessions of checks that have ended, for the next ones.
    idle: Mutex<Vec<Pair>>,
}

/// The clients of a check.
type Pair = [CuratorClient; 2];

impl<'a> Run<'a> {
    /// A run below `path`, a node that exists, by a program that was started at `begun`.
    pub(super) fn new(settings: &'a Settings, path: &'a str, begun: Instant) -> Self {
        Self {
            settings,
            path,
            deadline: begun + CHECKS,
            is_stopped: watch::Sender::new(false),
            idle: Mutex::default(),
        }
    }

    /// Ends all checks soon, and starts no others.
    pub(super) fn stop(&self) {
        self.is_stopped.send_replace(true);
    }

    /// Runs the checks, and closes their sessions. Returns a verdict for each.
    pub(super) async fn verdicts(&self, checks: &[&Check<'_>]) -> Vec<Verdict> {
        let verdicts = stream::iter(checks.iter().enumerate())
            .map(|(number, check)| self.verdict(check, number))
            .buffered(AT_A_TIME)
            .collect()
            .await;
        let idle = std::mem::take(&mut *self.idle());
        close(idle.iter().flatten()).await;
        verdicts
    }

    /// Runs a check, and closes its sessions unless the next check can use them.
    async fn verdict(&self, check: &Check<'_>, number: usize) -> Verdict {
        let begun = Instant::now();
        let limit = self.deadline.min(begun + CHECK);
        let mut stopped = self.is_stopped.subscribe();
        let mut clients = None;
        let checked = tokio::select! {
            biased;
            _ = stopped.wait_for(|is_stopped| *is_stopped) => Ok(Verdict::NotChecked(
                "a signal has ended the run".to_owned(),
            )),
            () = tokio::time::sleep_until(limit) => Err(Problem::fault(
                match limit.saturating_duration_since(begun) {
                    Duration::ZERO => format!("not run: {} were over", text(CHECKS)),
                    time => format!("no result within {}", text(time)),
                },
            )),
            checked = self.checked(check, number, &mut clients) => checked,
        };
        let verdict = checked.unwrap_or_else(Problem::verdict);
        match clients {
            Some(clients) if !verdict.is_fault() && clients.iter().all(has_first_session) => {
                self.idle().push(clients);
            }
            clients => close(clients.iter().flatten()).await,
        }
        step(format_args!(
            "{}: {verdict}; {} ms",
            check.name,
            begun.elapsed().as_millis()
        ));
        verdict
    }

    async fn checked(
        &self,
        check: &Check<'_>,
        number: usize,
        clients: &mut Option<Pair>,
    ) -> Checked {
        let idle = self.idle().pop();
        let [first, second] = match idle {
            Some(pair) => pair,
            None => tokio::try_join!(self.connect(), self.connect())?.into(),
        };
        *clients = Some([first.clone(), second.clone()]);
        let path = format!("{}/{number}", self.path);
        let site = Site {
            first,
            second,
            path,
        };
        (check.run)(site).await
    }

    async fn connect(&self) -> Result<CuratorClient, Problem> {
        let builder = builder(self.settings, &self.settings.connect);
        let builder = builder.map_err(|error| Problem::fault(error.to_string()))?;
        Ok(builder.connect().await?)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Pair>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the client still has the session that it began with, and a connection.
fn has_first_session(client: &CuratorClient) -> bool {
    client
        .try_session()
        .is_ok_and(|session| session.epoch() == 1)
}

/// Closes the clients, all at the same time.
async fn close(clients: impl Iterator<Item = &CuratorClient>) {
    stream::iter(clients)
        .for_each_concurrent(None, async |client| {
            let _ = client.close().await;
        })
        .await;
}
