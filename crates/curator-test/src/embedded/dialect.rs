//! The servers that speak ZooKeeper's protocol, and how each differs from ZooKeeper 3.9.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt,
    str::FromStr,
};

/// The environment variable with the [short name](Dialect::short_name) of the dialect that the
/// embedded servers of [`TestingServer`](crate::TestingServer) speak.
pub const DIALECT_VARIABLE: &str = "CURATOR_TEST_DIALECT";

/// A server that speaks ZooKeeper's protocol, with its differences from ZooKeeper 3.9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Dialect {
    /// ZooKeeper 3.5.
    ZooKeeper3_5,
    /// ZooKeeper 3.6.
    ZooKeeper3_6,
    /// ZooKeeper 3.7.0 and 3.7.1.
    ZooKeeper3_7,
    /// ZooKeeper 3.8.0 and 3.8.1.
    ZooKeeper3_8_0,
    /// ZooKeeper 3.8.2 and later releases of 3.8.
    ZooKeeper3_8,
    /// ZooKeeper 3.9, which the embedded server reproduces.
    #[default]
    ZooKeeper3_9,
    /// ZooKeeper 3.10, which is not released yet.
    ZooKeeper3_10,
    /// ClickHouse Keeper 25.8.
    ClickHouseKeeper25_8,
    /// ClickHouse Keeper 26.3.
    ClickHouseKeeper26_3,
    /// ClickHouse Keeper 26.9.
    ClickHouseKeeper26_9,
    /// RaftKeeper 2.3.
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

    /// The dialect that the environment variable [`DIALECT_VARIABLE`] names. Defaults to
    /// [`ZooKeeper3_9`](Self::ZooKeeper3_9).
    ///
    /// # Errors
    ///
    /// When the variable has another value than the [short name](Self::short_name) of a dialect, for
    /// example an empty one.
    pub fn from_environment() -> Result<Self, UnknownDialect> {
        Self::from_variable(env::var_os(DIALECT_VARIABLE).as_deref())
    }

    fn from_variable(value: Option<&OsStr>) -> Result<Self, UnknownDialect> {
        let Some(value) = value else {
            return Ok(Self::default());
        };
        value
            .to_str()
            .ok_or_else(|| UnknownDialect {
                name: value.to_owned(),
            })?
            .parse()
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
            "\"{}\" is not a dialect of {DIALECT_VARIABLE}: expected one of",
            self.name.display()
        )?;
        for dialect in Dialect::ALL {
            write!(f, " `{}`", dialect.short_name())?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownDialect {}
