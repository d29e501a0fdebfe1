//! `zklock doctor --certify`: runs each operation and each recipe on the servers, and prints which
//! of them may be used there.
//!
//! Every check has its path, below a node that is removed at the end, and two sessions that no other
//! check uses at the same time, or after it has ended one of them. Only the results count: the
//! version that a server reports is not read. All recipes are used as a program would use them,
//! through the public interface of the library.

mod kept;
mod leaders;
mod locks;
mod operations;
mod resume;
mod site;
mod values;
mod verdict;

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use curator_recipes::client::{CuratorClient, Error as ClientError};
use futures_util::{StreamExt as _, stream};
use tokio::sync::watch;
use tokio::time::Instant;

use self::site::{Check, Site, builder};
use self::verdict::{Problem, Verdict};
use super::nearest;
use crate::command::code;
use crate::failure::{Code, Failure};
use crate::print::{SENTENCE, print, printable, step};
use crate::settings::{Connection, Settings};
use crate::signals::Signals;
use crate::time::text;

/// When the last check ends. Closing the sessions and removing the nodes takes the rest of 30 s, if
/// the servers do not reply.
const CHECKS: Duration = Duration::from_secs(22);
/// The longest time of one check.
const CHECK: Duration = Duration::from_secs(10);
/// How many checks run at a time. A check with a cache has four connections, and a server may limit
/// the connections of one address to 60, ZooKeeper's default of `maxClientCnxns`.
const AT_A_TIME: usize = 6;
/// How long the creation of the node for all checks may take, and its removal.
const NODE: Duration = Duration::from_secs(3);

/// Prints a line for each operation and each recipe. Returns the exit code: 1 if there is a fault,
/// or if nodes remain.
pub(crate) async fn certify(root: &str, connection: &Connection) -> Result<u8, Failure> {
    let settings = connection.settings()?;
    let deadline = Instant::now() + CHECKS;
    let mut signals = Signals::new()?;
    let begun = signals.unless_deadly(begin(&settings, root)).await;
    let (client, path) = match begun {
        Ok(begun) => begun?,
        Err(status) => {
            signals.end_as(status);
            return Ok(code(status));
        }
    };
    print(&format!(
        "{}, transport {}\n",
        printable(&settings.connect, SENTENCE),
        settings.transport_name()
    ))?;
    let stop = watch::Sender::new(false);
    let run = Run {
        settings: &settings,
        path: &path,
        deadline,
        stopped: stop.subscribe(),
        idle: Mutex::default(),
    };
    let operations = operations::checks(&settings);
    let recipes: Vec<_> = [
        locks::checks(),
        leaders::checks(),
        values::checks(),
        kept::checks(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let checks: Vec<_> = operations.iter().chain(&recipes).collect();
    let mut results = pin!(
        stream::iter(checks.iter().enumerate())
            .map(|(number, check)| run.verdict(check, number))
            .buffered(AT_A_TIME)
            .collect::<Vec<_>>()
    );
    let ended = signals.unless_deadly(&mut results).await;
    let (verdicts, signal) = match ended {
        Ok(verdicts) => (verdicts, None),
        Err(status) => {
            stop.send_replace(true);
            (results.await, Some(status))
        }
    };
    let idle = std::mem::take(&mut *run.idle());
    close(idle.iter().flatten()).await;
    let removed = remove(&client, &path).await;
    let _ = client.close().await;
    if let Some(status) = signal {
        if let Err(remains) = removed {
            print(&format!("- {}\n", printable(&remains, SENTENCE)))?;
        }
        signals.end_as(status);
        return Ok(code(status));
    }
    report(&checks, &verdicts, operations.len(), removed)
}

/// Connects, and creates the node below which all checks run.
async fn begin(settings: &Settings, root: &str) -> Result<(CuratorClient, String), Failure> {
    step(format_args!("connecting to {}", settings.connect));
    let client = builder(settings, &settings.connect)?.connect().await?;
    let root = nearest(&client, root).await;
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let process = std::process::id();
    let path = format!("{root}/zklock-certify-{process}-{}", since.as_millis());
    step(format_args!("all checks run below {path}"));
    let created = tokio::time::timeout(NODE, client.create().for_path(&path, "")).await;
    match created {
        Ok(Err(error @ ClientError::NoAuth { .. })) => Err(Failure::new(
            Code::NoConnection,
            format!("{error}; give this client CREATE, or name another --root"),
        )),
        Ok(Err(error @ ClientError::NoNode { .. })) => Err(Failure::new(
            Code::NoConnection,
            format!("{error}; the chroot of the connect string is missing: create it"),
        )),
        // The checks report everything else.
        _ => Ok((client, path)),
    }
}

/// A run of all checks.
struct Run<'a> {
    settings: &'a Settings,
    path: &'a str,
    deadline: Instant,
    /// Whether a signal has ended the run.
    stopped: watch::Receiver<bool>,
    /// The sessions of checks that have ended, for the next ones.
    idle: Mutex<Vec<Pair>>,
}

/// The clients of a check.
type Pair = [CuratorClient; 2];

impl Run<'_> {
    /// Runs a check, and closes its sessions unless the next check can use them.
    async fn verdict(&self, check: &Check<'_>, number: usize) -> Verdict {
        let begun = Instant::now();
        let limit = self.deadline.min(begun + CHECK);
        let mut stopped = self.stopped.clone();
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
    ) -> verdict::Checked {
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

/// Removes the nodes of all checks. Returns what remains.
async fn remove(client: &CuratorClient, path: &str) -> Result<(), String> {
    let delete = client.delete().deleting_children_if_needed();
    let removed = tokio::time::timeout(NODE, delete.for_path(path)).await;
    let why = match removed {
        Ok(Ok(()) | Err(ClientError::NoNode { .. })) => return Ok(()),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no reply within {}s", NODE.as_secs()),
    };
    Err(format!(
        "{path} was not removed, and remains: delete it ({why})"
    ))
}

/// Prints the verdicts in two tables: the operations, and the recipes.
fn report(
    checks: &[&Check<'_>],
    verdicts: &[Verdict],
    operations: usize,
    removed: Result<(), String>,
) -> Result<u8, Failure> {
    let width = checks.iter().map(|check| check.name.len()).max();
    let width = width.unwrap_or_default();
    let line = |name: &str, result: &str| format!("{name:width$}  {result}\n");
    let mut lines = line("OPERATION", "RESULT");
    let mut faults = Vec::new();
    for (number, (check, verdict)) in checks.iter().zip(verdicts).enumerate() {
        if number == operations {
            lines += &format!("\n{}", line("RECIPE", "RESULT"));
        }
        lines += &line(check.name, &printable(&verdict.to_string(), SENTENCE));
        if verdict.is_fault() {
            faults.push(check.name);
        }
    }
    lines += "\n";
    if !faults.is_empty() {
        lines += &format!(
            "- do not use on these servers, or repeat the check: {}\n",
            faults.join(", ")
        );
    }
    let is_right = faults.is_empty() && removed.is_ok();
    if let Err(remains) = removed {
        lines += &format!("- {}\n", printable(&remains, SENTENCE));
    }
    if is_right {
        lines += "nothing is wrong\n";
    }
    print(&lines)?;
    Ok(u8::from(!is_right))
}
