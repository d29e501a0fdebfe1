//! Changes the snapshot of a stopped server on disk.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::error::Error;

/// The first bytes of a snapshot.
const MAGIC: [u8; 4] = *b"ZKSN";
const NAME: &str = "snapshot.";

/// The size of a node's `StatPersisted`: two zxids and two times, three counters, an owner, and the
/// zxid of the last change of the children.
const STAT: usize = 4 * 8 + 3 * 4 + 2 * 8;
/// The offset of the counter of creates, `cversion`, in `StatPersisted`.
const COUNTER: usize = 4 * 8 + 4;

/// Sets how many children of a node have been created, in the newest snapshot of a directory.
///
/// When it starts, the server replays its log onto the snapshot, which does not decrease the
/// counter.
pub(crate) fn set_create_counter(folder: &Path, path: &str, counter: i32) -> Result<(), Error> {
    let file = newest(folder)?;
    let bytes = fs::read(&file).map_err(Error::io(format!("read {}", file.display())))?;
    let changed = match with_counter(bytes, path, counter) {
        Ok(changed) => changed,
        Err(Problem::NoNode) => return Err(Error::NoNode(path.to_owned())),
        Err(Problem::Unexpected(problem)) => {
            return Err(Error::Snapshot {
                file,
                problem: problem.to_owned(),
            });
        }
    };
    fs::write(&file, changed).map_err(Error::io(format!("write {}", file.display())))
}

/// The snapshot with the highest zxid in its name, which is the one that the server loads.
fn newest(folder: &Path) -> Result<PathBuf, Error> {
    let entries = fs::read_dir(folder).map_err(Error::io(format!("read {}", folder.display())))?;
    let snapshot = |path: PathBuf| {
        let zxid = i64::from_str_radix(path.file_name()?.to_str()?.strip_prefix(NAME)?, 16).ok()?;
        Some((zxid, path))
    };
    let newest = entries
        .flatten()
        .filter_map(|entry| snapshot(entry.path()))
        .max();
    newest.map(|(_, path)| path).ok_or_else(|| Error::Snapshot {
        file: folder.to_owned(),
        problem: "there is none".to_owned(),
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Problem {
    NoNode,
    Unexpected(&'static str),
}

/// The snapshot with another counter and a new checksum. The digests that 3.6 and later append
/// after the checksum are left out, since they no longer match; the server reads the result as a
/// snapshot of an earlier release.
fn with_counter(mut bytes: Vec<u8>, path: &str, counter: i32) -> Result<Vec<u8>, Problem> {
    // The root has an empty path; the path `/` marks the end of the tree.
    let wanted = if path == "/" { "" } else { path };
    let mut reader = Reader {
        bytes: &bytes,
        at: 0,
    };
    if reader.take(4)? != MAGIC {
        return Err(Problem::Unexpected("it does not start with ZKSN"));
    }
    // The version of the format, and the database id.
    reader.take(4 + 8)?;
    for _ in 0..reader.count()? {
        // A session's id and timeout.
        reader.take(8 + 4)?;
    }
    for _ in 0..reader.count()? {
        // The id of an ACL.
        reader.take(8)?;
        for _ in 0..reader.count()? {
            // Permissions, scheme and id.
            reader.take(4)?;
            reader.text()?;
            reader.text()?;
        }
    }
    let mut found = None;
    loop {
        let path = reader.text()?;
        if path == b"/" {
            break;
        }
        let is_wanted = path == wanted.as_bytes();
        // The node's data, and the id of its ACL.
        reader.text()?;
        reader.take(8)?;
        if is_wanted {
            found = Some(reader.at + COUNTER);
        }
        reader.take(STAT)?;
    }
    let end = reader.at;
    let place = found.ok_or(Problem::NoNode)?;
    bytes.truncate(end);
    bytes[place..place + 4].copy_from_slice(&counter.to_be_bytes());
    let checksum = i64::from(adler32(&bytes)).to_be_bytes();
    bytes.extend(checksum);
    bytes.extend([0, 0, 0, 1, b'/']);
    Ok(bytes)
}

/// Parses ZooKeeper's records.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Problem> {
        let taken = self
            .at
            .checked_add(length)
            .and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or(Problem::Unexpected("it ends too early"))?;
        self.at += length;
        Ok(taken)
    }

    /// A number of elements or bytes; -1, for null, counts as 0.
    fn count(&mut self) -> Result<usize, Problem> {
        let number = self.take(4)?.try_into().map(i32::from_be_bytes);
        number
            .map(|number| usize::try_from(number).unwrap_or(0))
            .map_err(|_| Problem::Unexpected("it ends too early"))
    }

    fn text(&mut self) -> Result<&'a [u8], Problem> {
        let length = self.count()?;
        self.take(length)
    }
}

fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    let (low, high) = bytes.iter().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % MODULUS;
        (low, (high + low) % MODULUS)
    });
    (high << 16) | low
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        [&(text.len() as i32).to_be_bytes(), text.as_bytes()].concat()
    }

    /// A snapshot with one session, one ACL, and nodes with these paths and counters.
    fn snapshot(nodes: &[(&str, i32)]) -> Vec<u8> {
        let mut bytes = [
            &MAGIC[..],
            &[0; 12],
            &[0, 0, 0, 1],
            &[7; 12],
            &[0, 0, 0, 1],
            &[0; 8],
            &[0, 0, 0, 1],
        ]
        .concat();
        bytes.extend([&[0, 0, 0, 31][..], &text("world"), &text("anyone")].concat());
        for (path, counter) in nodes {
            bytes.extend(
                [
                    &text(path)[..],
                    &[255; 4],
                    &[0; 8],
                    &[9; COUNTER],
                    &counter.to_be_bytes(),
                ]
                .concat(),
            );
            bytes.extend([9; STAT - COUNTER - 4]);
        }
        bytes.extend(text("/"));
        bytes.extend(i64::from(adler32(&bytes)).to_be_bytes());
        bytes.extend(text("/"));
        bytes
    }

    #[test]
    fn setting_a_counter_changes_only_the_counter_and_the_checksum() {
        let changed = with_counter(snapshot(&[("", 3), ("/a", 5), ("/a/b", 0)]), "/a", i32::MAX);
        assert_eq!(
            changed,
            Ok(snapshot(&[("", 3), ("/a", i32::MAX), ("/a/b", 0)]))
        );
        assert_eq!(
            with_counter(snapshot(&[("", 3)]), "/", -1),
            Ok(snapshot(&[("", -1)]))
        );
        // The bytes that newer servers append after the checksum.
        let longer = [snapshot(&[("", 3)]), vec![1; 30]].concat();
        assert_eq!(with_counter(longer, "/", 4), Ok(snapshot(&[("", 4)])));
    }

    #[test]
    fn an_invalid_snapshot_and_a_missing_node_are_refused() {
        let whole = snapshot(&[("", 3)]);
        assert_eq!(
            with_counter(whole.clone(), "/none", 1),
            Err(Problem::NoNode)
        );
        let tree = whole.len() - 8 - 5;
        for length in 0..tree {
            let refused = with_counter(whole[..length].to_vec(), "/", 1);
            assert_eq!(
                refused,
                Err(Problem::Unexpected("it ends too early")),
                "{length}"
            );
        }
        let other = [b"ZKLG", &whole[4..]].concat();
        assert!(matches!(
            with_counter(other, "/", 1),
            Err(Problem::Unexpected(_))
        ));
    }
}
