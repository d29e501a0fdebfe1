//! What a client does while its server is hostile, and how long that may take.

use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use curator_recipes::client::{
    Acl, AuthId, CreateMode, CuratorClient, CuratorClientBuilder, Permission, ReadOperation,
    RetryNTimes,
};
use curator_recipes::{
    InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreV2,
    OwnerId,
};
use curator_test::{EmbeddedServer, FaultProxy, OpCode};
use tokio::runtime::Handle;
use tokio::{join, try_join};

use super::Numbers;
use super::reply::BODY;
use super::server::HostileServer;
use super::survey::Survey;
use test_support::transport::transport;

const SESSION_TIMEOUT: Duration = Duration::from_secs(1);
const CONNECTION_TIMEOUT: Duration = Duration::from_millis(600);
const OPERATION_TIMEOUT: Duration = Duration::from_millis(400);
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
const ACQUIRE_TIMEOUT: Duration = Duration::from_millis(800);

/// The longest an operation may take: three attempts, each of which waits for a connection and then
/// for as many replies as the longest operation needs; doubled for a busy machine. Attempts
/// without an operation timeout take the longest.
const BOUND: Duration = Duration::from_secs(20);
/// The longest a close may take: it waits for the close timeout twice.
const CLOSE_BOUND: Duration = Duration::from_secs(6);
/// How soon after the last hostile act the client must work again.
const RECOVERY_BOUND: Duration = Duration::from_secs(60);

/// Runs all operations concurrently against a hostile server in front of `upstream`, whose acts
/// follow from `seed`.
pub(crate) async fn run(server_runtime: &Handle, upstream: SocketAddr, seed: u64) -> Survey {
    let mut numbers = Numbers(seed);
    let hostile = [1, 1, 2, 3, usize::MAX][numbers.below(5)];
    let server = HostileServer::start(server_runtime, upstream, numbers.next(), hostile)
        .await
        .unwrap();
    let client = builder(&server, &mut numbers).start().unwrap();
    let mut survey = Survey::default();
    for (name, took, outcome) in operations(&client, seed).await {
        match outcome {
            Ok(true) => survey.succeeded += 1,
            Ok(false) => survey.failed += 1,
            Err(wrong) => survey.wrong.push(format!("{name} {wrong}")),
        }
        survey.longest = survey.longest.max((took, name));
    }
    if hostile != usize::MAX {
        let begun = Instant::now();
        match tokio::time::timeout(RECOVERY_BOUND, recover(&client, seed)).await {
            Ok(()) => {
                survey.recovered = 1;
                survey.longest_recovery = begun.elapsed();
            }
            Err(_) => survey.wrong.push(format!(
                "no recovery within {RECOVERY_BOUND:?}: {}",
                client.health()
            )),
        }
    }
    let begun = Instant::now();
    // The close must end, but may fail: a hostile server need not confirm it.
    let closed = tokio::time::timeout(CLOSE_BOUND, client.close()).await;
    survey.longest = survey.longest.max((begun.elapsed(), "close"));
    if closed.is_err() {
        survey
            .wrong
            .push(format!("close has not ended within {CLOSE_BOUND:?}"));
    }
    for act in server.acts() {
        *survey.acts.entry(act.name()).or_default() += 1;
    }
    survey
}

/// Runs a case without hostile acts.
pub(crate) async fn run_without_acts(server_runtime: &Handle, upstream: SocketAddr) {
    let server = HostileServer::start(server_runtime, upstream, 0, 0)
        .await
        .unwrap();
    let client = CuratorClient::builder(server.connect_string())
        .transport(transport())
        .connect()
        .await
        .unwrap();
    for path in ["/hostile", "/hostile-acl"] {
        client.create().for_path(path, "").await.unwrap();
    }
    for (name, _, outcome) in operations(&client, u64::MAX).await {
        assert_eq!(outcome, Ok(true), "{name} with a good server");
    }
    client.close().await.unwrap();
}

/// Lists children with a reply that announces 2^31 - 1 names and contains none.
pub(crate) fn list_children_with_huge_count() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = EmbeddedServer::start().unwrap();
        let proxy = FaultProxy::start(server.address()).unwrap();
        let client = CuratorClient::builder(proxy.connect_string())
            .transport(transport())
            .connect()
            .await
            .unwrap();
        proxy.alter_next_reply(OpCode::GetChildren, |reply| {
            reply.truncate(BODY);
            reply.extend(i32::MAX.to_be_bytes());
        });
        let _failed = client.get_children("/").await;
    });
}

fn builder(server: &HostileServer, numbers: &mut Numbers) -> CuratorClientBuilder {
    let builder = CuratorClient::builder(server.connect_string())
        .transport(transport())
        .session_timeout(SESSION_TIMEOUT)
        .connection_timeout(CONNECTION_TIMEOUT)
        .close_timeout(CLOSE_TIMEOUT)
        .retry_policy(RetryNTimes::new(2, Duration::from_millis(20)).unwrap());
    let builder = if numbers.below(4) == 0 {
        builder.authorization("digest", "user:secret")
    } else {
        builder
    };
    // Without an operation timeout, the configured or the granted session timeout applies,
    // whichever is shorter: the server cannot lengthen it.
    if numbers.below(3) == 0 {
        builder
    } else {
        builder.operation_timeout(OPERATION_TIMEOUT)
    }
}

/// Runs all operations concurrently. Returns for each its name, how long it took, and whether it
/// succeeded, or an error if it did not end or panicked.
async fn operations(
    client: &CuratorClient,
    seed: u64,
) -> Vec<(&'static str, Duration, Result<bool, String>)> {
    let tasks = NAMES.map(|name| {
        let work = operation(name, client.clone(), format!("/hostile/{seed}"));
        tokio::spawn(async move {
            let begun = Instant::now();
            let outcome = tokio::time::timeout(BOUND, work)
                .await
                .map(|done| done.is_ok())
                .map_err(|_| format!("has not ended within {BOUND:?}"));
            (begun.elapsed(), outcome)
        })
    });
    let mut all = Vec::new();
    for (name, task) in NAMES.into_iter().zip(tasks) {
        // The panic hook has recorded the place.
        let (took, outcome) = task
            .await
            .unwrap_or_else(|_| (Duration::ZERO, Err("has panicked".to_owned())));
        all.push((name, took, outcome));
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
    "get and set an ACL",
    "transaction",
    "several reads",
    "delete a tree",
    "mutex",
    "read-write lock",
    "semaphore",
    "multi-lock",
];

/// Runs one operation. If it succeeds, its result must have the requested form, whatever the server
/// has replied.
async fn operation(
    name: &str,
    client: CuratorClient,
    root: String,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    const TIMED_OUT: &str = "not acquired within the timeout";
    let path = |leaf: &str| format!("{root}-{leaf}");
    let timeout = ACQUIRE_TIMEOUT;
    let sequential = || client.create().with_mode(CreateMode::EphemeralSequential);
    match name {
        "create" => drop(sequential().for_path(path("n-"), "data").await?),
        "create, protected" => drop(
            sequential()
                .with_protection()
                .for_path(path("p-"), "data")
                .await?,
        ),
        "create with parents" => {
            client
                .create()
                .creating_parent_containers()
                .for_path(path("parent/child"), "data")
                .await?;
        }
        "read" => drop(try_join!(
            client.get_data("/zookeeper"),
            client.check_exists("/zookeeper")
        )?),
        "list" => drop(try_join!(
            client.get_children("/zookeeper"),
            client.sync("/")
        )?),
        "watch" => {
            let (watched, listed) = join!(
                client.watch_data("/zookeeper"),
                client.watch_children("/zookeeper")
            );
            let (_, _, mut watch) = watched?;
            // No client writes there: only a false event can fire the watch.
            let _fired = tokio::time::timeout(Duration::from_millis(100), watch.fired()).await;
            drop(listed?);
        }
        "get and set an ACL" => {
            let anyone = [Acl::new(Permission::ALL, AuthId::anyone())];
            try_join!(
                client.get_acl("/zookeeper"),
                client.set_acl("/hostile-acl", anyone, None)
            )?;
        }
        "transaction" => {
            let path = &path("t");
            let results = client
                .transaction()
                .create(path, "data", CreateMode::Ephemeral)?
                .set_data(path, "more", None)?
                .check(path, None)?
                .delete(path, None)?
                .commit()
                .await?;
            assert_eq!(
                results.len(),
                4,
                "a transaction has one result for each operation"
            );
        }
        "several reads" => {
            let session = client.session().await?;
            let path = client.resolve("/zookeeper")?;
            let reads = vec![
                ReadOperation::Children(path.clone()),
                ReadOperation::Data(path),
            ];
            let results = session.read_all(reads).await?;
            assert_eq!(results.len(), 2, "there is one result for each read");
        }
        "delete a tree" => {
            let created = client
                .create()
                .creating_parent_containers()
                .for_path(path("tree/a/b"), "")
                .await;
            client
                .delete()
                .deleting_children_if_needed()
                .for_path(path("tree"))
                .await?;
            created?;
        }
        "mutex" => {
            let mutex = InterProcessMutex::new(&client, path("mutex"))?;
            let guard = mutex.acquire_timeout(timeout).await?.ok_or(TIMED_OUT)?;
            let written = guard
                .transaction()
                .set_data("/hostile-acl", "x", None)?
                .commit()
                .await;
            guard.release().await?;
            written?;
        }
        "read-write lock" => {
            let lock = InterProcessReadWriteLock::new(&client, path("rw"))?;
            let guard = lock
                .write()
                .acquire_timeout_as(&OwnerId::new(), timeout)
                .await?
                .ok_or(TIMED_OUT)?;
            guard.downgrade().await?.release().await?;
        }
        "semaphore" => {
            let semaphore = InterProcessSemaphoreV2::new(&client, path("semaphore"), 3)?;
            // The leases are dropped, so the janitor releases them.
            drop(
                semaphore
                    .acquire_many_timeout(2, timeout)
                    .await?
                    .ok_or(TIMED_OUT)?,
            );
        }
        _ => {
            let lock = InterProcessMultiLock::new(&client, [path("x"), path("y")])?;
            lock.acquire_timeout(timeout)
                .await?
                .ok_or(TIMED_OUT)?
                .release()
                .await?;
        }
    }
    Ok(())
}

/// Retries until a lock can be acquired and released. The server behaves correctly now, or will
/// after a few more connections.
async fn recover(client: &CuratorClient, seed: u64) {
    for number in 0.. {
        let mutex =
            InterProcessMutex::new(client, format!("/hostile/{seed}-recovered-{number}")).unwrap();
        let acquired = mutex
            .acquire_timeout_as(&OwnerId::new(), ACQUIRE_TIMEOUT)
            .await;
        if let Ok(Some(guard)) = acquired
            && guard.release().await.is_ok()
        {
            return;
        }
        // Do not retry immediate failures a thousand times a second.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
