//! Which paths a node may have.

use crate::embedded::code::Code;

/// The server's own nodes, which cannot be deleted.
const SPECIAL: [&str; 4] = ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"];

/// The parent in a path, by its text; the path itself is not validated.
///
/// The root is the empty path here.
fn parent(path: &str) -> Result<&str, Code> {
    match path.rsplit_once('/') {
        Some((parent, _)) if !path.contains('\0') => Ok(parent),
        _ => Err(Code::BadArguments),
    }
}

/// The parent of a node to be created.
pub(crate) fn parent_of_new(path: &str) -> Result<&str, Code> {
    parent(path)
}

/// The parent of a node to be deleted.
pub(crate) fn parent_of_old(path: &str) -> Result<&str, Code> {
    if SPECIAL.contains(&path) { Err(Code::BadArguments) } else { parent(path) }
}

/// The last name in a path.
pub(crate) fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// All paths above one, the nearest first, down to the root.
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
    let Some(names) = path.strip_prefix('/') else { return Err(Code::BadArguments) };
    let good = |name: &str| !matches!(name, "" | "." | "..") && name.chars().all(is_allowed);
    if names.is_empty() || names.split('/').all(good) { Ok(()) } else { Err(Code::BadArguments) }
}

/// No control characters, no private-use characters, and nothing beyond the 16 bits of a Java `char`.
fn is_allowed(c: char) -> bool {
    !matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}
