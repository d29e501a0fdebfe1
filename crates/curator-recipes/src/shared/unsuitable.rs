//! Recognizes nodes that cannot keep a value, because the servers delete them.
//!
//! A value node is created as a persistent node. But a recipe that comes first creates its
//! directory as a container, and ZooKeeper's stat does not tell a container from a persistent node.
//! A directory that was never written is recognized by what it lacks: data.

use curator_client::Stat;

use crate::error::UnsuitableNode;

/// The owner of a container in the stats of ClickHouse Keeper. ZooKeeper's have 0.
const CONTAINER_OWNER: i64 = i64::MIN;

/// Whether a node without data may be a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MayBeEmpty {
    Yes,
    No,
}

/// Returns what the node is, if it cannot keep a value.
pub(crate) fn unsuitable(
    stat: &Stat,
    may_be_empty: impl FnOnce() -> MayBeEmpty,
) -> Option<UnsuitableNode> {
    let has_no_data = stat.data_length == 0 && stat.version == 0;
    match stat.ephemeral_owner {
        0 if has_no_data && stat.cversion != 0 => {
            (may_be_empty() == MayBeEmpty::No).then_some(UnsuitableNode::Directory)
        }
        0 => None,
        CONTAINER_OWNER => Some(UnsuitableNode::Container),
        session => Some(UnsuitableNode::Ephemeral { session }),
    }
}

/// Returns what the node was before the write whose reply is `stat`, if it cannot keep a value.
pub(super) fn was_unsuitable(
    stat: &Stat,
    may_be_empty: impl FnOnce() -> MayBeEmpty,
) -> Option<UnsuitableNode> {
    let mut before = *stat;
    // A first write may have replaced data that the node was created with, but a directory is
    // created without.
    (before.version, before.data_length) = (stat.version.wrapping_sub(1), 0);
    unsuitable(&before, may_be_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(data_length: i32, version: i32, cversion: i32, ephemeral_owner: i64) -> Stat {
        let mut stat = Stat::default();
        (stat.data_length, stat.version) = (data_length, version);
        (stat.cversion, stat.ephemeral_owner) = (cversion, ephemeral_owner);
        stat
    }

    #[test]
    fn a_directory_is_a_node_that_had_children_but_never_data() {
        let of = |data_length, version, cversion| {
            unsuitable(&stat(data_length, version, cversion, 0), || MayBeEmpty::No)
        };
        assert_eq!(of(0, 0, 1), Some(UnsuitableNode::Directory));
        assert_eq!(of(0, 0, 0), None);
        assert_eq!(of(8, 0, 1), None);
        assert_eq!(of(0, 1, 1), None);
        assert_eq!(unsuitable(&stat(0, 0, 1, 0), || MayBeEmpty::Yes), None);
        let before =
            |version, cversion| was_unsuitable(&stat(4, version, cversion, 0), || MayBeEmpty::No);
        assert_eq!(before(1, 1), Some(UnsuitableNode::Directory));
        assert_eq!([before(1, 0), before(2, 1)], [None, None]);
    }

    #[test]
    fn a_container_and_an_ephemeral_node_are_recognized_by_their_owner() {
        let of = |owner| unsuitable(&stat(8, 3, 0, owner), || MayBeEmpty::Yes);
        assert_eq!(of(i64::MIN), Some(UnsuitableNode::Container));
        assert_eq!(of(7), Some(UnsuitableNode::Ephemeral { session: 7 }));
        assert_eq!(of(-7), Some(UnsuitableNode::Ephemeral { session: -7 }));
    }
}
