//! A function for each request, with the usual values where it takes more than a path.

use crate::op::{Acl, Body, CONTAINER, Op, TTL, open};

/// Empty data, open to all, persistent; `flags`, `data`, `acl` change that.
pub(crate) fn create(path: &str) -> Op {
    creating(1, path, 0, None)
}

pub(crate) fn create2(path: &str) -> Op {
    creating(15, path, 0, None)
}

pub(crate) fn create_container(path: &str) -> Op {
    creating(19, path, CONTAINER, None)
}

pub(crate) fn create_ttl(path: &str, ttl: i64) -> Op {
    creating(21, path, TTL, Some(ttl))
}

fn creating(code: i32, path: &str, flags: i32, ttl: Option<i64>) -> Op {
    Op::new(code, Body::Create { path: path.to_owned(), data: Some(Vec::new()), acl: open(), flags, ttl })
}

/// Of any version; `version` changes that.
pub(crate) fn delete(path: &str) -> Op {
    Op::new(2, Body::Versioned { path: path.to_owned(), version: -1 })
}

pub(crate) fn check(path: &str, version: i32) -> Op {
    Op::new(13, Body::Versioned { path: path.to_owned(), version })
}

/// Of any version; `version` changes that.
pub(crate) fn set_data(path: &str, data: &str) -> Op {
    Op::new(5, Body::SetData { path: path.to_owned(), data: None, version: -1 }).data(data)
}

fn watched(code: i32, path: &str) -> Op {
    Op::new(code, Body::Watched { path: path.to_owned(), watch: false })
}

pub(crate) fn exists(path: &str) -> Op {
    watched(3, path)
}

pub(crate) fn get_data(path: &str) -> Op {
    watched(4, path)
}

pub(crate) fn get_children(path: &str) -> Op {
    watched(8, path)
}

pub(crate) fn get_children2(path: &str) -> Op {
    watched(12, path)
}

fn with_path(code: i32, path: &str) -> Op {
    Op::new(code, Body::Path(path.to_owned()))
}

pub(crate) fn get_acl(path: &str) -> Op {
    with_path(6, path)
}

pub(crate) fn sync(path: &str) -> Op {
    with_path(9, path)
}

pub(crate) fn get_ephemerals(prefix: &str) -> Op {
    with_path(103, prefix)
}

pub(crate) fn get_all_children_number(path: &str) -> Op {
    with_path(104, path)
}

pub(crate) fn delete_container(path: &str) -> Op {
    with_path(20, path)
}

/// Of any version; `version` changes that.
pub(crate) fn set_acl(path: &str, acl: &[Acl]) -> Op {
    Op::new(7, Body::SetAcl { path: path.to_owned(), acl: acl.to_vec(), version: -1 })
}

pub(crate) fn multi(ops: &[Op]) -> Op {
    Op::new(14, Body::Operations(ops.to_vec()))
}

pub(crate) fn multi_read(ops: &[Op]) -> Op {
    Op::new(22, Body::Operations(ops.to_vec()))
}

pub(crate) fn auth(scheme: &str, auth: &str) -> Op {
    Op::new(100, Body::Auth { scheme: scheme.to_owned(), auth: auth.to_owned() })
}

pub(crate) fn who_am_i() -> Op {
    Op::new(107, Body::Empty)
}

pub(crate) fn ping() -> Op {
    Op::new(11, Body::Empty)
}

pub(crate) fn close_session() -> Op {
    Op::new(-11, Body::Empty)
}

fn owned(paths: &[&str]) -> Vec<String> {
    paths.iter().map(ToString::to_string).collect()
}

/// `since` counts from the scenario's start.
pub(crate) fn set_watches(since: i64, data: &[&str], exist: &[&str], child: &[&str]) -> Op {
    Op::new(101, Body::Watches { zxid: since, paths: [data, exist, child].map(owned).into() })
}

/// The five lists of `setWatches2`: data, exist, child, persistent, persistent recursive.
pub(crate) fn set_watches2(since: i64, lists: [&[&str]; 5]) -> Op {
    Op::new(105, Body::Watches { zxid: since, paths: lists.map(owned).into() })
}

/// `mode` is 0 for persistent, 1 for persistent recursive.
pub(crate) fn add_watch(path: &str, mode: i32) -> Op {
    Op::new(106, Body::Numbered { path: path.to_owned(), number: mode })
}

pub(crate) fn check_watches(path: &str, kind: i32) -> Op {
    Op::new(17, Body::Numbered { path: path.to_owned(), number: kind })
}

pub(crate) fn remove_watches(path: &str, kind: i32) -> Op {
    check_watches(path, kind).code(18)
}

/// Any kind of request with any body.
pub(crate) fn raw(code: i32, bytes: &[u8], text: &str) -> Op {
    Op::new(code, Body::Raw { bytes: bytes.to_vec(), text: text.to_owned() })
}
