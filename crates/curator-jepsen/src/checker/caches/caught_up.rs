//! Checks that a cache contains all earlier writes once `caught_up` has returned.

use std::collections::BTreeMap;

use super::nodes::{Snapshot, show};
use super::writes::Writes;

/// Returns what each snapshot lacks of the writes that any client had completed before the snapshot was requested, with
/// the snapshot's time.
///
/// A node that was created or set must be present in that state or a later one, unless a delete may have been applied
/// after the write, that is, a delete not yet answered when the write was sent. A deleted node must be absent, or have
/// been created after all transactions that were answered before the delete was sent: the servers order writes as they
/// happen.
pub(super) fn check(snapshots: &[Snapshot], writes: &Writes) -> Vec<(u64, String)> {
    let mut snapshots: Vec<&Snapshot> = snapshots.iter().collect();
    snapshots.sort_by_key(|snapshot| snapshot.asked);
    let (mut found, mut answered) = (Vec::new(), writes.answered().peekable());
    // For each path: its last set and the transaction of it, and the time at which its last delete was sent.
    let (mut set, mut deleted) = (BTreeMap::<&str, (i64, u64)>::new(), BTreeMap::<&str, u64>::new());
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
                        format!("{} is older than {zxid:#x}, which was answered before", show(node)),
                    ));
                }
                None if !writes.may_be_deleted(path, *asked, snapshot.at) => {
                    found.push((
                        snapshot.at,
                        format!("{path} is absent, and was set by {zxid:#x}, which was answered before"),
                    ));
                }
                _ => {}
            }
        }
        for (path, asked) in &deleted {
            let floor = writes.floor(*asked);
            let below = format!("{path}/");
            for node in snapshot.nodes.values().filter(|node| node.path == *path || node.path.starts_with(&below)) {
                if node.czxid <= floor {
                    let what = format!("{} is there after its delete, which came after {floor:#x}", show(node));
                    found.push((snapshot.at, what));
                }
            }
        }
    }
    found
}
