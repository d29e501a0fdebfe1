//! Validates and splits paths.

use crate::embedded::code::Code;

/// The server's nodes, which cannot be deleted.
const SPECIAL: [&str; 4] = ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"];

/// The parent of a path. The path itself is not validated.
///
/// As a parent, the root is the empty path.
fn parent(path: &str) -> Result<&str, Code> {
    match path.rsplit_once('/') {
        Some((parent, _)) if !path.contains('\0') => Ok(parent),
        _ => Err(Code::BadArguments),
    }
}

/// The parent of a node to create.
pub(crate) fn parent_of_new(path: &str) -> Result<&str, Code> {
    parent(path)
}

/// The parent of a node to delete.
pub(crate) fn parent_of_old(path: &str) -> Result<&str, Code> {
    if SPECIAL.contains(&path) {
        Err(Code::BadArguments)
    } else {
        parent(path)
    }
}

/// The last component of a path.
pub(crate) fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// All ancestors of a path, the nearest first, up to the root.
pub(crate) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(above(path), |path| above(path))
}

fn above(path: &str) -> Option<&str> {
    let (above, name) = path.rsplit_once('/')?;
    match (above, name) {
        ("", "") => None,
        ("", _) => Some("/"),
        (above, _) => Some(above),
    }
}

/// The rules of ZooKeeper's `PathUtils.validatePath`.
pub(crate) fn validate(path: &str) -> Result<(), Code> {
    let Some(names) = path.strip_prefix('/') else {
        return Err(Code::BadArguments);
    };
    let good = |name: &str| !matches!(name, "" | "." | "..") && name.chars().all(is_allowed);
    if names.is_empty() || names.split('/').all(good) {
        Ok(())
    } else {
        Err(Code::BadArguments)
    }
}

/// Rejects control characters, private-use characters, and characters beyond the 16 bits of a Java
/// `char`.
fn is_allowed(c: char) -> bool {
    !matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}
