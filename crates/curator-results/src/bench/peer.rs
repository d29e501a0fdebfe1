//! The clients that the bench compares.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A client of ZooKeeper with locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// This project's; always measured.
    #[cfg_attr(feature = "clap", value(skip))]
    Ours,
    /// Apache Curator, in Java.
    Curator,
    /// The same, where the threads of a crowd share one lock's object.
    CuratorShared,
    /// Kazoo, in Python.
    Kazoo,
    /// go-zookeeper, in Go.
    Go,
    /// The crate on which ours is built, with its own `Client::lock`.
    ZookeeperClient,
}

impl Peer {
    /// All of them; ours is the first.
    pub const ALL: [Self; 6] =
        [Self::Ours, Self::Curator, Self::CuratorShared, Self::Kazoo, Self::Go, Self::ZookeeperClient];
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ours => "ours",
            Self::Curator => "curator",
            Self::CuratorShared => "curator-shared",
            Self::Kazoo => "kazoo",
            Self::Go => "go",
            Self::ZookeeperClient => "zookeeper-client",
        })
    }
}
