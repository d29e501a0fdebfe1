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
mod recursive_watches;
mod resume;
mod run;
mod site;
mod values;
mod verdict;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::pin::pin;
use std::time::{Duration, SystemTime};

use curator_recipes::client::{CuratorClient, Error as ClientError};
use tokio::time::Instant;

use self::run::Run;
use self::site::{Check, builder};
use self::verdict::Verdict;
use super::nearest;
use crate::command::code;
use crate::failure::{Code, Failure};
use crate::print::{SENTENCE, print, printable, step};
use crate::settings::{Connection, Settings};
use crate::signals::Signals;

/// How long the creation of the node for all checks may take, and its removal.
const NODE: Duration = Duration::from_secs(3);
/// How long the first connection may take, and the search for the node below which the checks run.
const BEGIN: Duration = Duration::from_secs(8);

/// Prints a line for each operation and each recipe. Returns the exit code: 1 if there is a fault,
/// or if nodes remain.
pub(crate) async fn certify(root: &str, connection: &Connection) -> Result<u8, Failure> {
    let begun = Instant::now();
    let settings = connection.settings()?;
    let mut signals = Signals::new()?;
    // Printed before there are nodes, because a closed pipe ends the process.
    print(&format!(
        "{}, transport {}\n",
        printable(&settings.connect, SENTENCE),
        settings.transport_name()
    ))?;
    let (client, path) = match signals.unless_deadly(begin(&settings, root)).await {
        Ok(begun) => begun?,
        Err(status) => {
            signals.end_as(status);
            return Ok(code(status));
        }
    };
    create(&client, &path).await?;
    let operations = operations::checks(&settings);
    let recipes = [
        locks::checks(),
        leaders::checks(),
        values::checks(),
        kept::checks(),
    ];
    let checks: Vec<_> = operations.iter().chain(recipes.iter().flatten()).collect();
    let run = Run::new(&settings, &path, begun);
    let mut verdicts = pin!(run.verdicts(&checks));
    let ended = signals.unless_deadly(&mut verdicts).await;
    let signal = ended.as_ref().err().copied();
    let mut verdicts = match ended {
        Ok(verdicts) => verdicts,
        Err(_) => {
            run.stop();
            verdicts.await
        }
    };
    limit_holds(&checks, &mut verdicts);
    let removed = remove(&client, &path).await;
    let _ = client.close().await;
    let Some(status) = signal else {
        return report(&checks, &verdicts, operations.len(), removed);
    };
    if let Err(remains) = removed {
        print(&format!("- {}\n", printable(&remains, SENTENCE)))?;
    }
    signals.end_as(status);
    Ok(code(status))
}

/// Adds the limitation of the check of a resume to the recipes whose hold ends with the session.
fn limit_holds(checks: &[&Check<'_>], verdicts: &mut [Verdict]) {
    let ends = Verdict::WorksBut(resume::SESSION_ENDS.to_owned());
    if !verdicts.contains(&ends) {
        return;
    }
    for (check, verdict) in checks.iter().zip(verdicts) {
        if check.is_hold && *verdict == Verdict::Works {
            *verdict = Verdict::WorksBut("a broken connection loses it".to_owned());
        }
    }
}

/// Connects. Returns the path of the node for all checks.
async fn begin(settings: &Settings, root: &str) -> Result<(CuratorClient, String), Failure> {
    step(format_args!("connecting to {}", settings.connect));
    let connecting = builder(settings, &settings.connect)?.connect();
    let beginning = async {
        let client = connecting.await?;
        let root = nearest(&client, root).await;
        Ok::<_, Failure>((client, root))
    };
    let begun = tokio::time::timeout(BEGIN, beginning).await;
    let (client, root) = begun.map_err(|_| {
        let why = format!(
            "no reply within {}s; check that the servers run, and try `zklock doctor`",
            BEGIN.as_secs()
        );
        Failure::new(Code::NoConnection, why)
    })??;
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let process = std::process::id();
    // Processes in different containers can have the same id at the same time.
    let random = RandomState::new().build_hasher().finish();
    let path = format!(
        "{root}/zklock-certify-{process}-{}-{random:016x}",
        since.as_millis()
    );
    step(format_args!("all checks run below {path}"));
    Ok((client, path))
}

/// Creates the node for all checks. No signal interrupts this, so that the node is not left behind.
async fn create(client: &CuratorClient, path: &str) -> Result<(), Failure> {
    let created = tokio::time::timeout(NODE, client.create().for_path(path, "")).await;
    let failure = match created {
        // The checks report servers that do not answer.
        Ok(Ok(_)) | Err(_) => return Ok(()),
        Ok(Err(error)) if error.is_retryable() => return Ok(()),
        Ok(Err(error @ ClientError::NoAuth { .. })) => Failure::new(
            Code::NoConnection,
            format!("{error}; give this client CREATE, or name another --root"),
        ),
        Ok(Err(error @ ClientError::NoNode { .. })) => Failure::new(
            Code::NoConnection,
            format!("{error}; the chroot of the connect string is missing: create it"),
        ),
        // An invalid --root, or a quota, for example.
        Ok(Err(error)) => error.into(),
    };
    let _ = client.close().await;
    Err(failure)
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
