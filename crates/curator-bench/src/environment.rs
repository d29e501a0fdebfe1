//! The environments that cases run in: servers, and the network delay between clients and servers.

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use curator_test::{
    FaultProxy, ServerKind, TestingCluster, TestingClusterBuilder, TestingServer,
    TestingServerBuilder,
};
use tokio::sync::OnceCell;

use crate::tree::Trees;

/// A file system in memory.
const RAM_DISK: &str = "/dev/shm";
/// Java options that undo the restrictions of test servers: the optimizing compiler, the default
/// compilation thresholds, and enough memory for a crowd.
const JAVA: [&str; 3] = [
    "-XX:TieredStopAtLevel=4",
    "-XX:CompileThresholdScaling=1",
    "-Xmx4g",
];
/// The property with the number of threads that read from and write to sockets. Test servers have
/// no such threads.
const WORKER_THREADS: &str = "zookeeper.nio.numWorkerThreads";
/// Long enough that no crowd keeps a member busy for twenty ticks, after which the ensemble would
/// drop the member.
const TICK: Duration = Duration::from_secs(1);
/// How often servers delete empty containers. Longer than any run: otherwise, requests that
/// recreate a lock's directory would be counted.
const CONTAINER_CHECK: Duration = Duration::from_secs(24 * 3600);

/// The kind of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnvironmentKind {
    /// One server, with negligible network delay.
    Loopback,
    /// One server, behind a proxy that delays each frame by this much.
    Delayed(Duration),
    /// This many servers, which write transactions to disk before they reply.
    Ensemble(usize),
}

/// Running servers, which are stopped when this value is dropped.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) name: String,
    pub(crate) description: String,
    servers: Servers,
    delay: Option<(FaultProxy, Duration)>,
    /// Connected for the first case that needs trees.
    trees: OnceCell<Arc<Trees>>,
}

#[derive(Debug)]
enum Servers {
    One(TestingServer),
    /// Clients connect to this member, which is not the leader.
    Ensemble(Box<TestingCluster>, usize),
}

impl fmt::Display for EnvironmentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback => f.write_str("loopback"),
            Self::Delayed(delay) => write!(f, "delay-{}ms", delay.as_millis()),
            Self::Ensemble(members) => write!(f, "ensemble-{members}"),
        }
    }
}

impl EnvironmentKind {
    pub(crate) async fn start(self, kind: ServerKind, disk: &Path) -> anyhow::Result<Environment> {
        match self {
            Self::Loopback | Self::Delayed(_) => one(self.delay(), kind).await,
            Self::Ensemble(members) => ensemble(members, disk).await,
        }
    }

    pub(crate) fn delay(self) -> Duration {
        match self {
            Self::Delayed(delay) => delay,
            Self::Loopback | Self::Ensemble(_) => Duration::ZERO,
        }
    }
}

async fn one(delay: Duration, kind: ServerKind) -> anyhow::Result<Environment> {
    let mut builder = TestingServer::builder()
        .kind(kind)
        .container_check_interval(CONTAINER_CHECK);
    let mut on = "in the bench's own process".to_owned();
    if kind == ServerKind::Real {
        let directory = ram_disk();
        on = format!(
            "its data in {} ({})",
            directory.display(),
            file_system(&directory)
        );
        builder = builder
            .tick_time(TICK)
            .data_directory(directory)
            .system_property(WORKER_THREADS, worker_threads());
        builder = JAVA
            .into_iter()
            .fold(builder, TestingServerBuilder::java_option);
    }
    let server = builder.start().await?;
    let version = server
        .version()
        .map_or("unknown".to_owned(), |version| version.to_string());
    let servers = format!(
        "one {} server {version}, {on}, without fsync",
        server.kind()
    );
    let (name, description, delay) = if delay.is_zero() {
        (EnvironmentKind::Loopback.to_string(), servers, None)
    } else {
        let proxy = FaultProxy::start(server.address())?;
        proxy.set_delay(delay);
        let description = format!(
            "{servers}, behind a proxy that delays each frame by {} ms",
            delay.as_millis()
        );
        (
            EnvironmentKind::Delayed(delay).to_string(),
            description,
            Some((proxy, delay)),
        )
    };
    Ok(Environment {
        name,
        description,
        servers: Servers::One(server),
        delay,
        trees: OnceCell::new(),
    })
}

/// Twice the number of cores, which is ZooKeeper's default.
fn worker_threads() -> String {
    (2 * std::thread::available_parallelism().map_or(1, usize::from)).to_string()
}

async fn ensemble(members: usize, disk: &Path) -> anyhow::Result<Environment> {
    let builder = TestingCluster::builder()
        .tick_time(TICK)
        .data_directory(disk)
        .system_property("zookeeper.forceSync", "yes")
        .system_property(WORKER_THREADS, worker_threads())
        .system_property(
            "znode.container.checkIntervalMs",
            CONTAINER_CHECK.as_millis().to_string(),
        );
    let cluster = JAVA
        .into_iter()
        .fold(builder, TestingClusterBuilder::java_option)
        .start(members)
        .await?;
    let leader = cluster.leader().await?;
    let member = (0..members)
        .find(|member| *member != leader)
        .unwrap_or(leader);
    let version = cluster
        .member(member)
        .version()
        .map_or("unknown".to_owned(), |version| version.to_string());
    let description = format!(
        "{members} real servers {version}, their data in {} ({}), with fsync; clients are connected to a follower",
        disk.display(),
        file_system(disk),
    );
    Ok(Environment {
        name: EnvironmentKind::Ensemble(members).to_string(),
        description,
        servers: Servers::Ensemble(Box::new(cluster), member),
        delay: None,
        trees: OnceCell::new(),
    })
}

impl Environment {
    /// The connect string of the clients.
    pub(crate) fn connect_string(&self) -> String {
        self.delay.as_ref().map_or_else(
            || self.server().to_string(),
            |(proxy, _)| proxy.connect_string(),
        )
    }

    /// Starts a separate proxy for the server, with the same delay.
    pub(crate) fn proxy(&self) -> anyhow::Result<FaultProxy> {
        let proxy = FaultProxy::start(self.server())?;
        if let Some((_, delay)) = &self.delay {
            proxy.set_delay(*delay);
        }
        Ok(proxy)
    }

    /// The trees on these servers. The client that creates and changes the trees connects without
    /// the delay.
    pub(crate) async fn trees(&self) -> anyhow::Result<Arc<Trees>> {
        let server = self.server().to_string();
        self.trees
            .get_or_try_init(async || Trees::connect(&server).await.map(Arc::new))
            .await
            .cloned()
    }

    /// Restarts servers that do not reply, as a crowd may crash a server. Returns whether it
    /// restarted any.
    pub(crate) async fn revive(&self) -> anyhow::Result<bool> {
        let servers = match &self.servers {
            Servers::One(server) => slice::from_ref(server),
            Servers::Ensemble(cluster, _) => cluster.members(),
        };
        let mut has_revived = false;
        for server in servers {
            if server.four_letter_word("ruok").await.is_err() {
                server.restart().await?;
                has_revived = true;
            }
        }
        Ok(has_revived)
    }

    fn server(&self) -> SocketAddr {
        match &self.servers {
            Servers::One(server) => server.address(),
            Servers::Ensemble(cluster, member) => cluster.member(*member).address(),
        }
    }
}

fn ram_disk() -> PathBuf {
    Some(PathBuf::from(RAM_DISK))
        .filter(|path| path.is_dir())
        .unwrap_or_else(std::env::temp_dir)
}

/// The kind of the directory's file system, from `/proc/mounts`.
fn file_system(directory: &Path) -> String {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let directory = directory
        .canonicalize()
        .unwrap_or_else(|_| directory.to_owned());
    kind_of(&mounts, &directory)
        .unwrap_or("unknown file system")
        .to_owned()
}

/// The kind of the mount with the longest path that contains the directory; of two mounts with the
/// same path, the later one.
fn kind_of<'a>(mounts: &'a str, directory: &Path) -> Option<&'a str> {
    mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            Some((words.next()?, words.next()?))
        })
        .filter(|(path, _)| directory.starts_with(path))
        .max_by_key(|(path, _)| path.len())
        .map(|(_, kind)| kind)
}
