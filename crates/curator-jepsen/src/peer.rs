//! Workers that use other ZooKeeper clients.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::bail;
use clap::ValueEnum;

use crate::work::{LockKind, display_name};

/// The environment variable with the path of a Python interpreter that can import kazoo. The tests
/// with kazoo use this variable, too.
pub const KAZOO_PYTHON: &str = "CURATOR_TEST_KAZOO_PYTHON";

/// The environment variable with the class path of our programs that use Curator: their classes and
/// Curator's jars.
pub const CURATOR_CLASSPATH: &str = "CURATOR_TEST_CURATOR_CLASSPATH";

/// The directory of the workers with kazoo.
const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");

/// A worker that uses another client's recipes. `cargo xtask jepsen` prepares the client.
///
/// Workers with locks or leaders run `lock-set` in the variant `plain`. Workers with caches only
/// read: they copy the nodes that our workers write. Workers with counters increment a node that no
/// other kind of worker uses. Workers with services register instances, which our caches watch.
///
/// The programs are in `peers/`. They read the same standard input as our worker, but ignore the
/// parts of the [`Work`](crate::work::Work) and its seed. Each program has a separate path and
/// separate sets, because the locks of different clients do not exclude each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Peer {
    /// Curator's `InterProcessMutex`, in Java.
    Curator,
    /// Curator's `LeaderLatch` and `LeaderSelector`, in Java: each with a client with Curator's
    /// standard error policy, and with a client with its session error policy. On the command line,
    /// `curator` selects this peer too.
    #[value(hide = true)]
    CuratorLeaders,
    /// Curator's `CuratorCache`, in Java.
    CuratorCaches,
    /// Curator's `DistributedAtomicLong`, in Java.
    CuratorCounters,
    /// Curator's `ServiceDiscovery`, in Java.
    CuratorServices,
    /// Kazoo's `Lock`, in Python.
    Kazoo,
    /// Kazoo's `TreeCache`, in Python.
    KazooCaches,
    /// Kazoo's `Counter`, in Python.
    KazooCounters,
}

impl Peer {
    /// The keys of the peer's parts.
    #[must_use]
    pub fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Curator => &["curator-plain"],
            Self::CuratorLeaders => &[
                "curator-latch",
                "curator-latch-session",
                "curator-selector",
                "curator-selector-session",
            ],
            Self::CuratorCaches => &["curator-cache"],
            Self::CuratorCounters => &["curator-counter"],
            Self::CuratorServices => &["curator-service"],
            Self::Kazoo => &["kazoo-plain"],
            Self::KazooCaches => &["kazoo-cache"],
            Self::KazooCounters => &["kazoo-counter"],
        }
    }

    /// Whether the peer only keeps a cache, and has no part of the work.
    #[must_use]
    pub fn is_cache(self) -> bool {
        matches!(self, Self::CuratorCaches | Self::KazooCaches)
    }

    /// The peers that take part in a run with these locks if this peer is requested.
    #[must_use]
    pub fn beside(self, locks: &[LockKind]) -> Vec<Self> {
        let [leaders, others] =
            [true, false].map(|wanted| locks.iter().any(|lock| lock.is_of_leaders() == wanted));
        match self {
            Self::Curator => [(Self::Curator, others), (Self::CuratorLeaders, leaders)]
                .into_iter()
                .filter(|(_, is_wanted)| *is_wanted)
                .map(|(peer, _)| peer)
                .collect(),
            _ => vec![self],
        }
    }

    /// The command that starts the peer's worker, which reads a `Work` as our worker does.
    ///
    /// # Errors
    ///
    /// When the environment variable with the client's location is missing.
    pub fn command(self) -> anyhow::Result<Command> {
        let (variable, program) = match self {
            Self::Curator => (CURATOR_CLASSPATH, "CuratorWorker"),
            Self::CuratorLeaders => (CURATOR_CLASSPATH, "CuratorLeaders"),
            Self::CuratorCaches => (CURATOR_CLASSPATH, "CuratorCaches"),
            Self::CuratorCounters => (CURATOR_CLASSPATH, "CuratorCounters"),
            Self::CuratorServices => (CURATOR_CLASSPATH, "CuratorServices"),
            Self::Kazoo => (KAZOO_PYTHON, "kazoo_worker.py"),
            Self::KazooCaches => (KAZOO_PYTHON, "kazoo_caches.py"),
            Self::KazooCounters => (KAZOO_PYTHON, "kazoo_counters.py"),
        };
        let Some(location) = env::var_os(variable) else {
            bail!(
                "{self} cannot run, as {variable} is not set: `cargo xtask jepsen --peers curator,kazoo` prepares the peers"
            );
        };
        if variable == KAZOO_PYTHON {
            let mut command = Command::new(location);
            command.arg(Path::new(PEERS).join(program));
            return Ok(command);
        }
        let mut command = Command::new(java());
        // These options suit several JVMs on one machine, each with little work.
        command
            .args([
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-Xmx128m",
                "-cp",
            ])
            .arg(location)
            .arg(program);
        Ok(command)
    }
}

/// The Java command, found as the servers find it: in `JAVA_HOME`, or else in `PATH`.
#[must_use]
pub fn java() -> OsString {
    env::var_os("JAVA_HOME").map_or_else(
        || "java".into(),
        |home| Path::new(&home).join("bin/java").into(),
    )
}

display_name!(Peer);
