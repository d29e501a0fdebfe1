//! `zklock ls` and `zklock tree`: print the holders and the waiters of locks.

use std::time::Duration;

use curator_recipes::client::{CuratorClient, Error as ClientError};
use serde::Serialize;

use crate::arguments::{List, Tree};
use crate::clock::text;
use crate::contended::{LockContenders, Node, among, read};
use crate::contender::{Contender, printable, replaced};
use crate::failure::{Code, Failure};
use crate::print::{print, print_message};
use crate::queue::Kind;

/// The interval at which `--watch` reads the contenders.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// Prints the contenders of the locks at a path. With `--watch`, reads them repeatedly, through outages of any length,
/// and prints them after each change.
pub(crate) async fn list(list: &List, client: &CuratorClient) -> Result<u8, Failure> {
    let mut printed = String::new();
    loop {
        match listed(client, list).await {
            Ok((code, text)) => {
                if text != printed {
                    print(if list.json || printed.is_empty() { "" } else { "\n" })?;
                    print(&text)?;
                    printed = text;
                }
                if !list.watch {
                    return Ok(code);
                }
            }
            Err(failure) if list.watch && failure.code == Code::NoConnection => print_message(&failure),
            Err(failure) => return Err(failure),
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

/// Reads the locks at the path. Returns the exit code and the text.
async fn listed(client: &CuratorClient, list: &List) -> Result<(u8, String), Failure> {
    let found = read(client, &list.path).await?;
    let text = match found.as_slice() {
        found if list.json => json(found)?,
        [] => format!("{}: no contenders\n", list.path),
        found => {
            let mixed = if found.len() > 1 { "\nThese kinds do not exclude each other.\n" } else { "" };
            found.iter().map(table).collect::<Vec<_>>().join("\n") + mixed
        }
    };
    Ok((u8::from(found.is_empty()), text))
}

/// Prints a line for each lock below a node.
pub(crate) async fn tree(tree: &Tree, client: &CuratorClient) -> Result<u8, Failure> {
    let mut code = 1;
    let mut below = vec![tree.root.clone()];
    while let Some(path) = below.pop() {
        let mut names = match client.get_children(&path).await {
            Err(ClientError::NoNode { .. } | ClientError::NoAuth { .. }) => continue,
            names => names?,
        };
        let found = among(client, &path, &names).await?;
        for lock in &found {
            code = 0;
            print(&if tree.json { json(lock)? } else { line(lock) })?;
        }
        if !found.is_empty() {
            continue;
        }
        // The stack's last path is printed first.
        names.sort_unstable_by(|a, b| b.cmp(a));
        below.extend(names.iter().map(|name| format!("{}/{name}", path.trim_end_matches('/'))));
    }
    if code == 1 && !tree.json {
        print(&format!("{}: no locks\n", tree.root))?;
    }
    Ok(code)
}

fn json(found: &(impl Serialize + ?Sized)) -> Result<String, Failure> {
    let text = serde_json::to_string(found).map_err(|error| Failure::here(format!("cannot print: {error}")))?;
    Ok(text + "\n")
}

fn line(lock: &LockContenders) -> String {
    let holders: Vec<_> = lock.holders().map(|node| node.contender.to_string()).collect();
    let waiting = lock.contenders.len() - holders.len();
    let holders = if holders.is_empty() { "free".to_owned() } else { format!("held by {}", holders.join(", ")) };
    let used_up = if lock.used_up { "; its sequence numbers are used up: stop its clients" } else { "" };
    let path: String = replaced(&lock.path).collect();
    format!("{path}  {}  {holders}, {waiting} waiting{used_up}\n", lock.kind)
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
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
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
    let or_dash = |text: Option<String>| text.filter(|text| !text.is_empty()).unwrap_or_else(|| "-".to_owned());
    let Contender { host, pid, label } = &node.contender;
    let seen = node.stat.as_ref();
    [
        state.to_owned(),
        or_dash(Some(printable(host))),
        or_dash(pid.map(|pid| pid.to_string())),
        or_dash(label.as_deref().map(printable)),
        or_dash(seen.map(|seen| text(seen.age()))),
        or_dash(seen.map(|seen| seen.session.clone())),
        or_dash(seen.map(|seen| seen.token.to_string())),
    ]
}
