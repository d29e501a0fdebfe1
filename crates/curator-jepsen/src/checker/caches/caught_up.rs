//! Checks that a cache contains all earlier writes once `caught_up` has returned.

use std::collections::BTreeMap;

use super::nodes::{Snapshot, show};
use super::writes::Writes;

/// Returns the writes that each snapshot lacks, with the time of the snapshot. A snapshot must
/// contain all writes of any client whose replies arrived before the snapshot was requested:
///
/// - A node that was created or set must be present in that state or a later one, unless a delete
///   may have been applied after the write: a delete whose reply had not arrived when the write was
///   sent.
/// - A deleted node must be absent, or have been created after all transactions whose replies
///   arrived before the delete was sent: the servers order writes as they happen.
pub(super) fn check(snapshots: &[Snapshot], writes: &Writes) -> Vec<(u64, String)> {
    let mut snapshots: Vec<&Snapshot> = snapshots.iter().collect();
    snapshots.sort_by_key(|snapshot| snapshot.asked);
    let (mut found, mut answered) = (Vec::new(), writes.answered().peekable());
    // For each path: the transaction of its last write and the time at which it was sent; and the
    // time at which its last delete was sent.
    let (mut set, mut deleted) = (
        BTreeMap::<&str, (i64, u64)>::new(),
        BTreeMap::<&str, u64>::new(),
    );
    for snapshot in snapshots {
        while let Some((_, write)) = answered.next_if(|(answered, _)| *answered < snapshot.asked) {
            for (path, zxid) in &write.set {
                let last = set.entry(path).or_default();
                *last = (*zxid, write.asked).max(*last);
            }
            for path in &write.deleted {
                let last = deleted.entry(path).or_default();
                *last = write.asked.max(*last);
            }
        }
        for (path, (zxid, asked)) in &set {
            match snapshot.nodes.get(*path) {
                Some(node) if node.mzxid < *zxid => {
                    found.push((
                        snapshot.at,
                        format!("{} is older than {zxid:#x}, whose reply had arrived before the request", show(node)),
                    ));
                }
                None if !writes.may_be_deleted(path, *asked, snapshot.at) => {
                    found.push((
                        snapshot.at,
                        format!(
                            "{path} is absent, but was set by {zxid:#x}, whose reply had arrived before the request"
                        ),
                    ));
                }
                _ => {}
            }
        }
        for (path, asked) in &deleted {
            let earlier = writes.greatest_before(*asked);
            let below = format!("{path}/");
            for node in snapshot
                .nodes
                .values()
                .filter(|node| node.path == *path || node.path.starts_with(&below))
            {
                if node.czxid <= earlier {
                    let what = format!(
                        "{} is present after its delete, which was sent after {earlier:#x}",
                        show(node)
                    );
                    found.push((snapshot.at, what));
                }
            }
        }
    }
    found
}
