//! The JSON of `zklock ls --json` and `zklock tree --json`: one line for each lock, with the same
//! keys in each line.

use serde::Serialize;

use crate::contended::{LockContenders, Node};
use crate::failure::Failure;
use crate::printable::printable_json;
use crate::queue::Kind;

#[derive(Serialize)]
struct Lock<'a> {
    path: &'a str,
    /// `null` if there are no contenders, so that the kind is not known.
    kind: Option<Kind>,
    used_up: bool,
    contenders: Vec<Contender<'a>>,
}

#[derive(Serialize)]
struct Contender<'a> {
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

/// The line of a lock.
pub(crate) fn of_lock(lock: &LockContenders) -> Result<String, Failure> {
    let LockContenders {
        path,
        kind,
        used_up,
        contenders,
    } = lock;
    let contenders = contenders.iter().map(of_contender).collect();
    line(&Lock {
        path,
        kind: Some(*kind),
        used_up: *used_up,
        contenders,
    })
}

/// The line of a lock that has no contenders: of this kind, if it had any before.
pub(crate) fn of_free_lock(path: &str, kind: Option<Kind>) -> Result<String, Failure> {
    line(&Lock {
        path,
        kind,
        used_up: false,
        contenders: Vec::new(),
    })
}

fn of_contender(node: &Node) -> Contender<'_> {
    let Node {
        path,
        holds,
        reads,
        contender,
        stat,
    } = node;
    let stat = stat.as_ref();
    Contender {
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

fn line(lock: &Lock<'_>) -> Result<String, Failure> {
    let json = serde_json::to_string(lock)
        .map_err(|error| Failure::here(format!("cannot print: {error}")))?;
    Ok(printable_json(&json) + "\n")
}
