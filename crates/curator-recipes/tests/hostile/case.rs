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
/// for as many replies as the longest operation needs; doubled for a busy machine. The longest
/// attempts are those without an operation timeout.
const BOUND: Duration = Duration::from_secs(20);
/// For a close, which waits twice for the close timeout.
const CLOSE_BOUND: Duration = Duration::from_secs(6);
/// How soon after the last hostile act the client must work again.
const RECOVERY_BOUND: Duration = Duration::from_secs(60);

/// Runs all operations concurrently against a server whose acts follow from `seed`.
pub(crate) async fn run(servers: &Handle, good: SocketAddr, seed: u64) -> Survey {
    let mut numbers = Numbers(seed);
    let hostile = [1, 1, 2, 3, usize::MAX][numbers.below(5)];
    let server = HostileServer::start(servers, good, numbers.next(), hostile)
        .await
        .unwrap();
    let client = builder(&server, &mut numbers).start().unwrap();
    let mut ended = Survey::default();
    for (name, took, outcome) in operations(&client, seed).await {
        match outcome {
            Ok(true) => ended.succeeded += 1,
            Ok(false) => ended.failed += 1,
            Err(wrong) => ended.wrong.push(format!("{name} {wrong}")),
        }
        ended.longest = ended.longest.max((took, name));
    }
    if hostile != usize::MAX {
        let begun = Instant::now();
        match tokio::time::timeout(RECOVERY_BOUND, recover(&client, seed)).await {
            Ok(()) => (ended.recovered, ended.longest_recovery) = (1, begun.elapsed()),
            Err(_) => ended.wrong.push(format!(
                "no recovery within {RECOVERY_BOUND:?}: {}",
                client.health()
            )),
        }
    }
    let begun = Instant::now();
    // The server decides whether it confirms the close.
    let closed = tokio::time::timeout(CLOSE_BOUND, client.close()).await;
    ended.longest = ended.longest.max((begun.elapsed(), "close"));
    if closed.is_err() {
        ended
            .wrong
            .push(format!("close has not ended within {CLOSE_BOUND:?}"));
    }
    for act in server.acts() {
        *ended.acts.entry(act.name()).or_default() += 1;
    }
    ended
}

/// Runs a case without hostile acts.
pub(crate) async fn run_without_acts(servers: &Handle, good: SocketAddr) {
    let server = HostileServer::start(servers, good, 0, 0).await.unwrap();
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
    // Without an operation timeout, the session timeout applies, which does not depend on the
    // server alone.
    if numbers.below(3) == 0 {
        builder
    } else {
        builder.operation_timeout(OPERATION_TIMEOUT)
    }
}

/// For each operation: its name, how long it took, and whether it succeeded; or what should not
/// have happened.
async fn operations(
    client: &CuratorClient,
    seed: u64,
) -> Vec<(&'static str, Duration, Result<bool, String>)> {
    let tasks = NAMES.map(|name| {
        let work = operation(name, client.clone(), format!("/hostile/{seed}"));
        tokio::spawn(async move {
            let begun = Instant::now();
            let ended = tokio::time::timeout(BOUND, work).await;
            let outcome = ended
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
    "access list",
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
    const MISSED: &str = "not acquired in time";
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
        "access list" => {
            let anyone = [Acl::new(Permission::ALL, AuthId::anyone())];
            try_join!(
                client.get_acl("/zookeeper"),
                client.set_acl("/hostile-acl", anyone, None)
            )?;
        }
        "transaction" => {
            let path = &path("t");
            let transaction = client
                .transaction()
                .create(path, "data", CreateMode::Ephemeral)?;
            let transaction = transaction
                .set_data(path, "more", None)?
                .check(path, None)?
                .delete(path, None)?;
            let results = transaction.commit().await?;
            assert_eq!(
                results.len(),
                4,
                "a transaction has one result for each operation"
            );
        }
        "several reads" => {
            let (session, path) = (client.session().await?, client.resolve("/zookeeper")?);
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
            let guard = mutex.acquire_timeout(timeout).await?.ok_or(MISSED)?;
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
                .ok_or(MISSED)?;
            guard.downgrade().await?.release().await?;
        }
        "semaphore" => {
            let semaphore = InterProcessSemaphoreV2::new(&client, path("semaphore"), 3)?;
            // The leases are dropped, so the janitor releases them.
            drop(
                semaphore
                    .acquire_many_timeout(2, timeout)
                    .await?
                    .ok_or(MISSED)?,
            );
        }
        _ => {
            let lock = InterProcessMultiLock::new(&client, [path("x"), path("y")])?;
            lock.acquire_timeout(timeout)
                .await?
                .ok_or(MISSED)?
                .release()
                .await?;
        }
    }
    Ok(())
}

/// Retries until a lock can be acquired and released. The server behaves correctly by now, or soon.
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
