//! `zklock ls`: prints the holders and the waiters of the locks at a path.
//!
//! The JSON of `zklock ls --json` and `zklock tree --json` has one line for each lock, with the
//! same keys in each line.

use std::time::Duration;

use curator_recipes::client::CuratorClient;
use serde::Serialize;

use crate::arguments::List;
use crate::contended::{Found, LockContenders, Node, read};
use crate::contender::{Contender, Kind, names};
use crate::failure::Failure;
use crate::print::{NAME, PATH, print, printable, printable_json, step};
use crate::time::text;

/// How often `--watch` reads the contenders.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// Prints the contenders of the locks at a path. With `--watch`, reads them repeatedly, through
/// outages of any length, and prints them after each change. Their age alone does not count as a
/// change.
pub(crate) async fn list(list: &List, client: &CuratorClient) -> Result<u8, Failure> {
    let mut before: Option<Found> = None;
    loop {
        match read(client, &list.path).await {
            Ok(found) => {
                if before.as_ref() != Some(&found) {
                    let locks = before.as_ref().map(|before| before.locks.as_slice());
                    if before.as_ref().map(|before| &before.unreadable) != Some(&found.unreadable) {
                        found.print_unreadable()?;
                    }
                    print(if list.json || locks.is_none() {
                        ""
                    } else {
                        "\n"
                    })?;
                    print(&if list.json {
                        changes(&list.path, locks, &found.locks)?
                    } else {
                        tables(&list.path, &found.locks)
                    })?;
                }
                if !list.watch {
                    return Ok(u8::from(found.locks.is_empty()));
                }
                before = Some(found);
            }
            // The connection log prints outages.
            Err(error) if list.watch && error.is_retryable() => step(error),
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

/// A line of JSON for each lock that has changed, including locks whose contenders have all left.
fn changes(
    path: &str,
    before: Option<&[LockContenders]>,
    found: &[LockContenders],
) -> Result<String, Failure> {
    if found.is_empty() && before.is_none() {
        return json_of_free_lock(path, None);
    }
    let before = before.unwrap_or_default();
    let left = before
        .iter()
        .filter(|lock| found.iter().all(|other| other.kind != lock.kind));
    left.map(|lock| json_of_free_lock(path, Some(lock.kind)))
        .chain(
            found
                .iter()
                .filter(|lock| !before.contains(lock))
                .map(json_of_lock),
        )
        .collect()
}

fn tables(path: &str, found: &[LockContenders]) -> String {
    let mixed = if found.len() > 1 {
        "\nThese kinds do not exclude each other.\n"
    } else {
        ""
    };
    match found {
        [] => format!("{}: no contenders\n", printable(path, PATH)),
        found => found.iter().map(table).collect::<Vec<_>>().join("\n") + mixed,
    }
}

/// One line about a lock.
pub(crate) fn line(lock: &LockContenders) -> String {
    let waiting = lock.contenders.len() - lock.holders().count();
    let holders = names(lock.holders().map(|node| node.contender.clone()));
    let holders = holders.map_or_else(|| "free".to_owned(), |holders| format!("held by {holders}"));
    let used_up = if lock.used_up {
        "; its sequence numbers are used up: stop its clients"
    } else {
        ""
    };
    let path = printable(&lock.path, PATH);
    format!(
        "{path}  {}  {holders}, {waiting} waiting{used_up}\n",
        lock.kind
    )
}

/// A table with a header and aligned columns.
fn table(lock: &LockContenders) -> String {
    let head = ["STATE", "HOST", "PID", "LABEL", "AGE", "SESSION", "TOKEN"].map(str::to_owned);
    let rows: Vec<_> = lock.contenders.iter().map(|node| row(lock, node)).collect();
    let mut widths = head.each_ref().map(|cell| cell.chars().count());
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = line(lock);
    for row in std::iter::once(&head).chain(&rows) {
        let cells = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text += "\n";
    }
    text
}

fn row(lock: &LockContenders, node: &Node) -> [String; 7] {
    let state = match (lock.kind, node.holds, node.reads) {
        (_, true, true) => "reads",
        (Kind::ReadWriteLock, true, false) => "writes",
        (_, false, true) => "waits to read",
        (Kind::ReadWriteLock, false, false) => "waits to write",
        (_, true, _) => "holds",
        (_, false, _) => "waits",
    };
    let or_dash = |text: Option<String>| {
        text.filter(|text| !text.is_empty())
            .unwrap_or_else(|| "-".to_owned())
    };
    let Contender { host, pid, label } = &node.contender;
    let seen = node.stat.as_ref();
    [
        state.to_owned(),
        or_dash(Some(printable(host, NAME))),
        or_dash(pid.map(|pid| pid.to_string())),
        or_dash(label.as_deref().map(|label| printable(label, NAME))),
        or_dash(seen.map(|seen| text(seen.age()))),
        or_dash(seen.map(|seen| seen.session.clone())),
        or_dash(seen.map(|seen| seen.token.to_string())),
    ]
}

#[derive(Serialize)]
struct LockJson<'a> {
    path: &'a str,
    /// `null` if the lock has had no contenders: only their nodes show the kind.
    kind: Option<Kind>,
    used_up: bool,
    contenders: Vec<ContenderJson<'a>>,
}

#[derive(Serialize)]
struct ContenderJson<'a> {
    path: &'a str,
    holds: bool,
    reads: bool,
    host: Option<&'a str>,
    pid: Option<u32>,
    label: Option<&'a str>,
    session: Option<&'a str>,
    created: Option<u64>,
    token: Option<i64>,
}

/// The line of JSON for a lock.
pub(crate) fn json_of_lock(lock: &LockContenders) -> Result<String, Failure> {
    let LockContenders {
        path,
        kind,
        used_up,
        contenders,
    } = lock;
    let contenders = contenders.iter().map(json_of_contender).collect();
    json_line(&LockJson {
        path,
        kind: Some(*kind),
        used_up: *used_up,
        contenders,
    })
}

/// The line of JSON for a lock without contenders. `kind` is the kind that the lock had when it
/// last had contenders.
pub(crate) fn json_of_free_lock(path: &str, kind: Option<Kind>) -> Result<String, Failure> {
    json_line(&LockJson {
        path,
        kind,
        used_up: false,
        contenders: Vec::new(),
    })
}

fn json_of_contender(node: &Node) -> ContenderJson<'_> {
    let Node {
        path,
        holds,
        reads,
        contender,
        stat,
    } = node;
    let stat = stat.as_ref();
    ContenderJson {
        path,
        holds: *holds,
        reads: *reads,
        host: Some(contender.host.as_str()).filter(|host| !host.is_empty()),
        pid: contender.pid,
        label: contender.label.as_deref(),
        session: stat.map(|stat| stat.session.as_str()),
        created: stat.map(|stat| stat.created),
        token: stat.map(|stat| stat.token),
    }
}

fn json_line(lock: &LockJson<'_>) -> Result<String, Failure> {
    let json = serde_json::to_string(lock)
        .map_err(|error| Failure::here(format!("cannot print: {error}")))?;
    Ok(printable_json(&json) + "\n")
}
