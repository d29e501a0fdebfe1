//! What a client does while its server is hostile, and how long that may take.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use curator_recipes::client::{
    Acl, AuthId, CreateMode, CuratorClient, CuratorClientBuilder, Permission, ReadOperation, RetryNTimes,
};
use curator_recipes::{
    InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreV2, OwnerId,
};
use curator_test::{EmbeddedServer, FaultProxy, OpCode};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::Numbers;
use super::act::Act;
use super::answer::BODY;
use super::server::HostileServer;

const SESSION_TIMEOUT: Duration = Duration::from_secs(1);
const CONNECTION_TIMEOUT: Duration = Duration::from_millis(600);
const OPERATION_TIMEOUT: Duration = Duration::from_millis(400);
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
const ACQUIRE_TIMEOUT: Duration = Duration::from_millis(800);

/// How long an operation may take: three attempts, each of which waits for a connection and then for as many answers as the
/// longest of them needs; and then as long again, as the machine is busy. What waits without a bound takes longer.
const BOUND: Duration = Duration::from_secs(20);
/// For a close, which waits twice for the close timeout.
const CLOSE_BOUND: Duration = Duration::from_secs(6);
/// How long after the end of the hostilities the client is itself again.
const RECOVERY_BOUND: Duration = Duration::from_secs(60);

/// What became of a case.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    pub(crate) acts: Vec<Act>,
    /// Operations that have succeeded and failed.
    pub(crate) well: usize,
    pub(crate) ill: usize,
    /// What took the longest, and how long.
    pub(crate) longest: (Duration, &'static str),
    /// How long it took until everything worked, if the server has become good.
    pub(crate) recovery: Option<Duration>,
    /// What should not have happened.
    pub(crate) wrong: Vec<String>,
}

impl Ended {
    fn took(&mut self, what: &'static str, time: Duration) {
        self.longest = self.longest.max((time, what));
    }
}

/// All operations at once, against a server that is hostile as `seed` says.
pub(crate) async fn run(servers: &Handle, good: SocketAddr, seed: u64) -> Ended {
    let mut numbers = Numbers(seed);
    let hostile = [1, 1, 2, 3, usize::MAX][numbers.below(5)];
    let server = HostileServer::start(servers, good, numbers.next(), hostile).await.unwrap();
    let client = builder(&server, &mut numbers).start().unwrap();
    let mut ended = Ended::default();
    for (name, took, outcome) in operations(&client, seed).await {
        match outcome {
            Outcome::Well => ended.well += 1,
            Outcome::Ill => ended.ill += 1,
            Outcome::Panicked => ended.wrong.push(format!("{name} has panicked")),
            Outcome::NotAtAll => ended.wrong.push(format!("{name} has not ended within {BOUND:?}")),
        }
        ended.took(name, took);
    }
    if hostile != usize::MAX {
        let begun = Instant::now();
        match tokio::time::timeout(RECOVERY_BOUND, recover(&client, seed)).await {
            Ok(()) => ended.recovery = Some(begun.elapsed()),
            Err(_) => ended.wrong.push(format!("no recovery within {RECOVERY_BOUND:?}: {}", client.health())),
        }
    }
    let begun = Instant::now();
    // Whether the server has confirmed it is up to the server.
    let closed = tokio::time::timeout(CLOSE_BOUND, client.close()).await;
    ended.took("close", begun.elapsed());
    if closed.is_err() {
        ended.wrong.push(format!("close has not ended within {CLOSE_BOUND:?}"));
    }
    ended.acts = server.acts();
    ended
}

/// A case without hostilities.
pub(crate) async fn get_acquainted(servers: &Handle, good: SocketAddr) {
    let server = HostileServer::start(servers, good, 0, 0).await.unwrap();
    let client = builder(&server, &mut Numbers(0)).connect().await.unwrap();
    for path in ["/hostile", "/hostile-acl"] {
        client.create().for_path(path, "").await.unwrap();
    }
    let ill: Vec<_> =
        operations(&client, u64::MAX).await.into_iter().filter(|(.., outcome)| *outcome != Outcome::Well).collect();
    assert!(ill.is_empty(), "{ill:?} with a good server");
    client.close().await.unwrap();
}

/// A list of 2^31 - 1 names, of which there is none.
pub(crate) fn be_told_of_a_long_list() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let server = EmbeddedServer::start().unwrap();
        let proxy = FaultProxy::start(server.address()).unwrap();
        let client = CuratorClient::builder(proxy.connect_string()).connect().await.unwrap();
        proxy.alter_next_reply(OpCode::GetChildren, |answer| {
            answer.truncate(BODY);
            answer.extend(i32::MAX.to_be_bytes());
        });
        let _failed = client.get_children("/").await;
    });
}

fn builder(server: &HostileServer, numbers: &mut Numbers) -> CuratorClientBuilder {
    let builder = CuratorClient::builder(server.connect_string())
        .session_timeout(SESSION_TIMEOUT)
        .connection_timeout(CONNECTION_TIMEOUT)
        .close_timeout(CLOSE_TIMEOUT)
        .retry_policy(RetryNTimes::new(2, Duration::from_millis(20)).unwrap());
    let builder = if numbers.below(4) == 0 { builder.authorization("digest", "user:secret") } else { builder };
    // Without one, it is the session timeout; and that is not up to the server alone.
    if numbers.below(3) == 0 { builder } else { builder.operation_timeout(OPERATION_TIMEOUT) }
}

/// How an operation has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Well,
    Ill,
    Panicked,
    NotAtAll,
}

/// The name of each operation, how long it took, and how it has ended.
async fn operations(client: &CuratorClient, seed: u64) -> Vec<(&'static str, Duration, Outcome)> {
    let mut tasks = JoinSet::new();
    let mut started = BTreeMap::new();
    for name in NAMES {
        let work = operation(name, client.clone(), format!("/hostile/{seed}"));
        let task = tasks.spawn(async move {
            let begun = Instant::now();
            let outcome = match tokio::time::timeout(BOUND, work).await {
                Ok(true) => Outcome::Well,
                Ok(false) => Outcome::Ill,
                Err(_) => Outcome::NotAtAll,
            };
            (name, begun.elapsed(), outcome)
        });
        started.insert(task.id(), name);
    }
    let mut all = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(ended) => all.push(ended),
            // The panic hook has its place.
            Err(error) => all.push((started[&error.id()], Duration::ZERO, Outcome::Panicked)),
        }
    }
    all
}

const NAMES: [&str; 14] = [
    "create",
    "create with parents",
    "create, protected",
    "read",
    "list",
    "watch",
    "access list",
    "transaction",
    "several reads",
    "delete a tree",
    "mutex",
    "read-write lock",
    "semaphore",
    "multi-lock",
];

/// Whether it went well.
async fn operation(name: &str, client: CuratorClient, root: String) -> bool {
    let path = |leaf: &str| format!("{root}-{leaf}");
    let timeout = ACQUIRE_TIMEOUT;
    let done = match name {
        "create" => {
            let create = client.create().with_mode(CreateMode::EphemeralSequential);
            create.for_path(path("n-"), "data").await.map(drop).map_err(drop)
        }
        "create with parents" => {
            let create = client.create().creating_parent_containers();
            create.for_path(path("parent/child"), "data").await.map(drop).map_err(drop)
        }
        "create, protected" => {
            let create = client.create().with_mode(CreateMode::EphemeralSequential).with_protection();
            create.for_path(path("p-"), "data").await.map(drop).map_err(drop)
        }
        "read" => both(client.get_data("/zookeeper").await, client.check_exists("/zookeeper").await),
        "list" => both(client.get_children("/zookeeper").await, client.sync("/").await),
        "watch" => {
            let watched = client.watch_data("/zookeeper").await;
            let listed = client.watch_children("/zookeeper").await;
            if let Ok((_, _, mut watch)) = watched {
                // Nobody writes there: only a lie lets it fire.
                let _fired = tokio::time::timeout(Duration::from_millis(100), watch.fired()).await;
            }
            listed.map(drop).map_err(drop)
        }
        "access list" => {
            let anyone = [Acl::new(Permission::ALL, AuthId::anyone())];
            let read = client.get_acl("/zookeeper").await;
            both(read, client.set_acl("/hostile-acl", anyone, None).await)
        }
        "transaction" => transaction(&client, &path("t")).await,
        "several reads" => several_reads(&client).await,
        "delete a tree" => {
            let created = client.create().creating_parent_containers().for_path(path("tree/a/b"), "").await;
            both(created, client.delete().deleting_children_if_needed().for_path(path("tree")).await)
        }
        "mutex" => match InterProcessMutex::new(&client, path("mutex")).unwrap().acquire_timeout(timeout).await {
            Ok(Some(guard)) => {
                let written = guard.transaction().set_data("/hostile-acl", "x", None).unwrap().commit().await;
                both(written, guard.release().await)
            }
            _ => Err(()),
        },
        "read-write lock" => {
            let lock = InterProcessReadWriteLock::new(&client, path("rw")).unwrap();
            match lock.write().acquire_timeout_as(&OwnerId::new(), timeout).await {
                Ok(Some(guard)) => match guard.downgrade().await {
                    Ok(guard) => guard.release().await.map_err(drop),
                    Err(_) => Err(()),
                },
                _ => Err(()),
            }
        }
        "semaphore" => {
            let semaphore = InterProcessSemaphoreV2::new(&client, path("semaphore"), 3).unwrap();
            match semaphore.acquire_many_timeout(2, timeout).await {
                // Dropped: the janitor gives them back.
                Ok(Some(leases)) => both(Ok::<_, ()>(leases.len()), Ok::<_, ()>(())),
                _ => Err(()),
            }
        }
        _ => {
            let lock = InterProcessMultiLock::new(&client, [path("x"), path("y")]).unwrap();
            match lock.acquire_timeout(timeout).await {
                Ok(Some(guard)) => guard.release().await.map_err(drop),
                _ => Err(()),
            }
        }
    };
    done.is_ok()
}

fn both<A, B, E, F>(one: Result<A, E>, other: Result<B, F>) -> Result<(), ()> {
    one.map_err(drop)?;
    other.map(drop).map_err(drop)
}

/// What is returned for it has the form that was asked for, whatever the server has answered.
async fn transaction(client: &CuratorClient, path: &str) -> Result<(), ()> {
    let transaction = client.transaction().create(path, "data", CreateMode::Ephemeral).unwrap();
    let transaction = transaction.set_data(path, "more", None).unwrap().check(path, None).unwrap();
    let results = transaction.delete(path, None).unwrap().commit().await.map_err(drop)?;
    assert_eq!(results.len(), 4, "a transaction has one result for each operation");
    Ok(())
}

async fn several_reads(client: &CuratorClient) -> Result<(), ()> {
    let session = client.session().await.map_err(drop)?;
    let path = client.resolve("/zookeeper").unwrap();
    let reads = vec![ReadOperation::Children(path.clone()), ReadOperation::Data(path)];
    let results = session.read_all(reads).await.map_err(drop)?;
    assert_eq!(results.len(), 2, "there is one result for each read");
    Ok(())
}

/// Tries until everything works that a lock needs. The server is good by now, or soon.
async fn recover(client: &CuratorClient, seed: u64) {
    let attempt = |number: usize| {
        let mutex = InterProcessMutex::new(client, format!("/hostile/{seed}-recovered-{number}")).unwrap();
        async move {
            let guard = mutex.acquire_timeout_as(&OwnerId::new(), ACQUIRE_TIMEOUT).await.ok().flatten()?;
            guard.release().await.ok()
        }
    };
    let mut attempts: std::pin::Pin<Box<dyn Future<Output = Option<()>> + Send>> = Box::pin(attempt(0));
    let mut number = 0;
    while attempts.await.is_none() {
        number += 1;
        attempts = Box::pin(attempt(number));
        // What fails at once must not be tried a thousand times a second.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
