//! The clients that the bench compares.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A ZooKeeper client that the bench measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// This project's client; always measured.
    #[cfg_attr(feature = "clap", value(skip))]
    Ours,
    /// This project's client with its own transport, `Transport::Native`.
    Native,
    /// Apache Curator, in Java.
    Curator,
    /// Curator, where all threads of a crowd share one lock object.
    CuratorShared,
    /// Kazoo, in Python.
    Kazoo,
    /// go-zookeeper, in Go.
    Go,
    /// The crate `zookeeper-client`, on which this project's client is built, with its
    /// `Client::lock`.
    ZookeeperClient,
}

impl Peer {
    /// All clients; ours is the first.
    pub const ALL: [Self; 7] = [
        Self::Ours,
        Self::Native,
        Self::Curator,
        Self::CuratorShared,
        Self::Kazoo,
        Self::Go,
        Self::ZookeeperClient,
    ];
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ours => "ours",
            Self::Native => "native",
            Self::Curator => "curator",
            Self::CuratorShared => "curator-shared",
            Self::Kazoo => "kazoo",
            Self::Go => "go",
            Self::ZookeeperClient => "zookeeper-client",
        })
    }
}
