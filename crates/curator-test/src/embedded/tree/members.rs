//! The node with the members of the ensemble.

use std::fmt::Write as _;

use super::{CONFIG, DataTree, Event};
use crate::embedded::{codec::EventKind, family::Family};

/// The ports of servers for each other. No server listens there.
const QUORUM_PORTS: &str = "2888:3888";

impl DataTree {
    /// Writes the members, by the addresses for their clients, as a reconfiguration does.
    pub(crate) fn set_members(&mut self, members: &[String], zxid: i64, time: i64) -> Vec<Event> {
        let family = self.rules.family;
        let path = match family {
            Family::ZooKeeper | Family::RaftKeeper => CONFIG,
            Family::ClickHouseKeeper => "/keeper/config",
        };
        let text = describe(members, zxid, family);
        let Ok(node) = self.node_mut(path) else {
            return Vec::new();
        };
        node.data = Some(text.into_bytes());
        // The transaction of a reconfiguration sets the version to -1.
        (node.state.mzxid, node.state.mtime, node.state.version) = (zxid, time, -1);
        vec![Event {
            kind: EventKind::NodeDataChanged,
            path: path.to_owned(),
            acl: node.acl.clone(),
        }]
    }
}

/// The members in the format of the server.
fn describe(members: &[String], zxid: i64, family: Family) -> String {
    let mut text = String::new();
    for (member, number) in members.iter().zip(1..) {
        let host = member.rsplit_once(':').map_or(&**member, |(host, _)| host);
        // Writing to a string cannot fail.
        let _: std::fmt::Result = match family {
            Family::ZooKeeper | Family::RaftKeeper => writeln!(
                text,
                "server.{number}={host}:{QUORUM_PORTS}:participant;{member}"
            ),
            // ClickHouse Keeper lists the addresses of servers for each other.
            Family::ClickHouseKeeper => {
                writeln!(text, "server.{number}={host}:9234;participant;1")
            }
        };
    }
    match family {
        Family::ZooKeeper | Family::RaftKeeper => text + &format!("version={zxid:x}"),
        Family::ClickHouseKeeper => text,
    }
}
