//! The servers that speak ZooKeeper's protocol, and how each differs from ZooKeeper 3.9.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt,
    str::FromStr,
};

/// The environment variable with the [short name](Dialect::short_name) of the dialect that the
/// embedded and simulated servers of [`TestingServer`](crate::TestingServer) speak. So a test suite
/// can run on each dialect. Defaults to ZooKeeper 3.9.
///
/// The name `zookeeper-3.10-eager` is [`Dialect::ZooKeeper3_10`] with a hostile removal of containers:
/// every 10 ms, and without a grace period of more than a second for containers that never had a
/// child, whatever the test sets.
pub const DIALECT_VARIABLE: &str = "CURATOR_TEST_DIALECT";

/// A server that speaks ZooKeeper's protocol, with its differences from ZooKeeper 3.9.
///
/// An [`EmbeddedServer`](crate::EmbeddedServer) and the servers of a simulation reproduce what a
/// client can see of these differences, as far as it matters to locks, leaders and caches.
///
/// # How the dialects were checked
///
/// Conformance tests compare ZooKeeper 3.9, and the watches of 3.8, with real servers, byte by byte.
/// The other dialects were read in the sources, issues and pull requests that are named below, as of
/// September 2026. **No test was run against ClickHouse Keeper or RaftKeeper themselves.**
///
/// # ClickHouse Keeper
///
/// In its repository `ClickHouse/ClickHouse`:
///
/// - *Sessions* (`src/Server/KeeperTCPHandler.cpp`): a connection always gets a new session. A client
///   that resumes a session gets another one, without an error (issue 116690). The nodes of the first
///   session stay until its timeout, because the end of a connection does not end a session
///   (`src/Coordination/KeeperDispatcher.cpp`). The server checks neither the password, which is
///   16 zeros, nor the zxid that the client has seen. Session ids count from 1
///   (`src/Coordination/KeeperStorage.h`), or from the ids of the ZooKeeper whose data it was given
///   by `clickhouse-keeper-converter` (`src/Coordination/ZooKeeperDataReader.cpp`); set the first one
///   with [`first_session_id`](crate::EmbeddedServerBuilder::first_session_id). Timeouts are 10 s to 100 s by default
///   (`src/Common/ZooKeeper/ZooKeeperConstants.h`). Without a quorum, the server replies to a
///   handshake with the version 42 of the protocol, and closes the connection. It does not reply to
///   the request that ends a session. A server that is stopped in an orderly way ends the sessions of
///   its clients (issue 41076).
/// - *Unknown requests*, alone or in a transaction, and requests that it cannot read: it closes the
///   connection without a reply (`KeeperTCPHandler.cpp`; issues 48141 and 55595). All versions lack
///   SASL, `getEphemerals`, `getAllChildrenNumber` and `whoAmI`, and nodes with a time to live, which
///   a flag enables since 26.6 (pull request 100397). 25.8 lacks `create2` (pull request 90741), and
///   all requests about watches other than reads (pull request 88813). Containers came in July 2026
///   (pull request 108908).
/// - *Watches* (`src/Coordination/KeeperStorage.cpp`): the events of a recursive watch name the node
///   of the watch, not the node that has changed (issue 115475). A connection gets an event for each
///   of its watches. Events have the zxid -1.
/// - *Stats*: a write of a node increases its parent's `cversion`, and a delete leaves its parent's
///   `pzxid` (issue 115457). The owner of a container is `i64::MIN` (pull request 108908). Before
///   26.7, the reply to `create2` has the data length 0 (pull request 108909).
/// - *System nodes*: `/keeper` in place of `/zookeeper`. Nodes there cannot be written
///   (`src/Coordination/KeeperConstants.h`, `KeeperStorageImpl.cpp`).
///
/// # RaftKeeper
///
/// In its repository `JDRaftKeeper/RaftKeeper`:
///
/// - *Sessions* (`src/Service/ConnectionHandler.cpp`): as ClickHouse Keeper's, but sessions are
///   resumed, without their password. A session that has ended is refused with the version 42 of the
///   protocol and the timeout -1. A server without a quorum replies the same to every client,
///   although the client's session may be alive.
/// - *Unknown requests*, and requests that it cannot read, get no reply; the connection stays open,
///   and later requests are answered (`ConnectionHandler.cpp`; issue 34). Pull request 400, merged in
///   August 2026, replaces this by an error. The requests that 25.8 of ClickHouse Keeper lacks are
///   missing here too, and `reconfig`; but `setWatches` is known
///   (`src/ZooKeeper/ZooKeeperCommon.cpp`).
/// - *Stats* (`src/Service/KeeperStore.cpp`): `cversion` is the number of children ever created.
///   Events have the zxid -1.
///
/// # Not reproduced
///
/// ACLs and authentication (both accept only `digest`, and read a stat without permission),
/// ClickHouse Keeper's own requests and protocol versions, which ZooKeeper's clients do not use,
/// `checkWatches` for the watches of other clients, the requests of a session while the quorum is
/// lost, and all that differs in time or load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Dialect {
    /// ZooKeeper 3.5: as 3.6, without `multiRead`, persistent watches, `getEphemerals` and
    /// `getAllChildrenNumber`.
    ZooKeeper3_5,
    /// ZooKeeper 3.6: as 3.7, without `whoAmI`.
    ZooKeeper3_6,
    /// ZooKeeper 3.7.0 and 3.7.1: as 3.8.0.
    ZooKeeper3_7,
    /// ZooKeeper 3.8.0 and 3.8.1: as 3.8.2, but the reply to a transaction has no stats
    /// (ZOOKEEPER-4026).
    ZooKeeper3_8_0,
    /// ZooKeeper 3.8.2 and later releases of 3.8: a connection has one watch on a node, the last one
    /// (ZOOKEEPER-4466), and events have the zxid -1 (ZOOKEEPER-4655).
    ZooKeeper3_8,
    /// ZooKeeper 3.9, which the embedded server reproduces.
    #[default]
    ZooKeeper3_9,
    /// ZooKeeper 3.10, not released yet: containers that never had a child are removed after five
    /// minutes (ZOOKEEPER-4915).
    ZooKeeper3_10,
    /// ClickHouse Keeper 25.8: no `create2`, containers or persistent watches.
    ClickHouseKeeper25_8,
    /// ClickHouse Keeper 26.3: no containers.
    ClickHouseKeeper26_3,
    /// ClickHouse Keeper 26.9, with its defaults: no nodes with a time to live.
    ClickHouseKeeper26_9,
    /// RaftKeeper 2.3: no `create2`, containers or persistent watches.
    RaftKeeper2_3,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 11] = [
        Self::ZooKeeper3_5,
        Self::ZooKeeper3_6,
        Self::ZooKeeper3_7,
        Self::ZooKeeper3_8_0,
        Self::ZooKeeper3_8,
        Self::ZooKeeper3_9,
        Self::ZooKeeper3_10,
        Self::ClickHouseKeeper25_8,
        Self::ClickHouseKeeper26_3,
        Self::ClickHouseKeeper26_9,
        Self::RaftKeeper2_3,
    ];

    /// The name of the server and its version, such as "ClickHouse Keeper 26.9".
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ZooKeeper3_5 => "ZooKeeper 3.5",
            Self::ZooKeeper3_6 => "ZooKeeper 3.6",
            Self::ZooKeeper3_7 => "ZooKeeper 3.7",
            Self::ZooKeeper3_8_0 => "ZooKeeper 3.8.0",
            Self::ZooKeeper3_8 => "ZooKeeper 3.8",
            Self::ZooKeeper3_9 => "ZooKeeper 3.9",
            Self::ZooKeeper3_10 => "ZooKeeper 3.10",
            Self::ClickHouseKeeper25_8 => "ClickHouse Keeper 25.8",
            Self::ClickHouseKeeper26_3 => "ClickHouse Keeper 26.3",
            Self::ClickHouseKeeper26_9 => "ClickHouse Keeper 26.9",
            Self::RaftKeeper2_3 => "RaftKeeper 2.3",
        }
    }

    /// The name in [`DIALECT_VARIABLE`], such as "clickhouse-keeper-26.9".
    #[must_use]
    pub fn short_name(self) -> &'static str {
        match self {
            Self::ZooKeeper3_5 => "zookeeper-3.5",
            Self::ZooKeeper3_6 => "zookeeper-3.6",
            Self::ZooKeeper3_7 => "zookeeper-3.7",
            Self::ZooKeeper3_8_0 => "zookeeper-3.8.0",
            Self::ZooKeeper3_8 => "zookeeper-3.8",
            Self::ZooKeeper3_9 => "zookeeper-3.9",
            Self::ZooKeeper3_10 => "zookeeper-3.10",
            Self::ClickHouseKeeper25_8 => "clickhouse-keeper-25.8",
            Self::ClickHouseKeeper26_3 => "clickhouse-keeper-26.3",
            Self::ClickHouseKeeper26_9 => "clickhouse-keeper-26.9",
            Self::RaftKeeper2_3 => "raft-keeper-2.3",
        }
    }
}

/// Shows the [name](Dialect::name).
impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Parses the [short name](Dialect::short_name).
impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(name: &str) -> Result<Self, UnknownDialect> {
        let named = Self::ALL
            .into_iter()
            .find(|dialect| dialect.short_name() == name);
        named.ok_or_else(|| UnknownDialect { name: name.into() })
    }
}

/// The short name of ZooKeeper 3.10 with an eager removal of containers.
const EAGER: &str = "zookeeper-3.10-eager";

/// What [`DIALECT_VARIABLE`] selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Selected {
    pub(crate) dialect: Dialect,
    pub(crate) reaper: Reaper,
}

/// How often and after which time a server removes empty containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Reaper {
    /// As the test sets it.
    #[default]
    Configured,
    Eager,
}

impl Selected {
    /// # Errors
    ///
    /// When the variable has an unknown value, for example an empty one.
    pub(crate) fn from_environment() -> Result<Self, UnknownDialect> {
        Self::from_variable(env::var_os(DIALECT_VARIABLE).as_deref())
    }

    fn from_variable(value: Option<&OsStr>) -> Result<Self, UnknownDialect> {
        let Some(value) = value else {
            return Ok(Self::default());
        };
        let name = value.to_str().ok_or_else(|| UnknownDialect {
            name: value.to_owned(),
        })?;
        if name == EAGER {
            return Ok(Self {
                dialect: Dialect::ZooKeeper3_10,
                reaper: Reaper::Eager,
            });
        }
        let dialect = name.parse()?;
        Ok(Self {
            dialect,
            reaper: Reaper::Configured,
        })
    }
}

/// The error for a short name that no [`Dialect`] has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownDialect {
    /// The name.
    pub name: OsString,
}

impl fmt::Display for UnknownDialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" is not a dialect: set {DIALECT_VARIABLE} to one of",
            self.name.display()
        )?;
        for dialect in Dialect::ALL {
            write!(f, " `{}`,", dialect.short_name())?;
        }
        write!(
            f,
            " `{EAGER}`, or unset it, which means `{}`",
            Dialect::default().short_name()
        )
    }
}

impl std::error::Error for UnknownDialect {}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(value: &str) -> Result<Selected, UnknownDialect> {
        Selected::from_variable(Some(value.as_ref()))
    }

    #[test]
    fn each_short_name_selects_its_dialect() {
        for dialect in Dialect::ALL {
            assert_eq!(dialect.short_name().parse(), Ok(dialect));
            let expected = Selected {
                dialect,
                reaper: Reaper::Configured,
            };
            assert_eq!(selected(dialect.short_name()), Ok(expected));
        }
        let eager = Selected {
            dialect: Dialect::ZooKeeper3_10,
            reaper: Reaper::Eager,
        };
        assert_eq!(selected(EAGER), Ok(eager));
        assert_eq!(Selected::from_variable(None), Ok(Selected::default()));
    }

    #[test]
    fn an_unknown_dialect_is_refused_by_name() {
        for value in ["", "zookeeper", "ZooKeeper 3.9", "zookeeper-3.9 "] {
            let error = selected(value).unwrap_err();
            assert_eq!(error.name, value);
            let text = error.to_string();
            assert!(text.contains(&format!("\"{value}\"")), "{text}");
            let is_named = |dialect: Dialect| text.contains(&format!("`{}`", dialect.short_name()));
            assert!(Dialect::ALL.into_iter().all(is_named), "{text}");
        }
    }
}
