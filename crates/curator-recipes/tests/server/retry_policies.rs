//! Retry policies of single locks and recipes: views of one client, and closures. Tests with
//! outages run in simulated time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use curator_recipes::client::{
    CuratorClient, Error as ClientError, RetryContext, RetryForever, RetryNTimes, RetryPolicy,
    RetryUntilElapsed, retry_fn,
};
use curator_recipes::{
    DistributedAtomicLong, Error, IdGenerator, InterProcessMultiLock, LeaderLatch, LockGuard,
    Result, SharedCount, ValueError,
};
use curator_test::{OpCode, Process, Simulation};
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, block_in_place};

use crate::support::subjects::Kind;
use crate::support::{
    AnyLock, arc, behind_proxy_with, children, client as connected, keep, mutex, non_reentrant,
    nothing_left, path, requests_of, simulated, soon, spawn_acquire, unplug_process,
    until_simulated,
};

const CONNECTION_TIMEOUT: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(10);

/// A client whose own policy retries once.
async fn client_with_short_timeout() -> (Simulation, Process, CuratorClient) {
    let once = RetryNTimes::new(1, PAUSE).unwrap();
    simulated(|builder| {
        builder
            .connection_timeout(CONNECTION_TIMEOUT)
            .retry_policy(once)
    })
    .await
}

/// A policy that does not retry.
fn none() -> impl RetryPolicy + Clone {
    retry_fn(|_| None)
}

/// A mutex and a multi-lock of this client or view, on separate paths below `path`.
fn mutex_and_multi_lock(client: &CuratorClient, path: &str) -> [AnyLock; 2] {
    let multi =
        InterProcessMultiLock::non_reentrant(client, [format!("{path}/b"), format!("{path}/c")]);
    [
        arc(non_reentrant(client, &format!("{path}/a"))),
        arc(multi.unwrap()),
    ]
}

/// The requests with which the locks of [`mutex_and_multi_lock`] list their queues.
const LISTS: [OpCode; 2] = [OpCode::GetChildren, OpCode::MultiRead];

fn spawn_all(locks: [AnyLock; 2]) -> Vec<JoinHandle<Result<LockGuard>>> {
    locks.into_iter().map(spawn_acquire).collect()
}

/// The number of attempts, how long they failed, and the last cause.
#[track_caller]
fn failed(error: Error) -> (u32, Duration, ClientError) {
    match error {
        Error::AcquireFailed {
            attempts,
            failing_for,
            cause,
            ..
        } => (attempts, failing_for, *cause),
        error => panic!("{error}"),
    }
}

/// The retries, the elapsed time and the error of one failure.
pub(crate) type Call = (u32, Duration, Option<ClientError>);

/// A policy that records what it gets, and decides like its inner policy.
#[derive(Debug, Clone)]
pub(crate) struct Recording<P> {
    calls: Arc<Mutex<Vec<Call>>>,
    policy: P,
}

impl<P> Recording<P> {
    pub(crate) fn new(policy: P) -> Self {
        Self {
            calls: Arc::default(),
            policy,
        }
    }

    pub(crate) fn taken(&self) -> Vec<Call> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

impl<P: RetryPolicy> RetryPolicy for Recording<P> {
    fn next_delay(&self, failed: &RetryContext<'_>) -> Option<Duration> {
        self.calls.lock().unwrap().push((
            failed.retries(),
            failed.elapsed(),
            failed.error().cloned(),
        ));
        self.policy.next_delay(failed)
    }
}

#[tokio::test(start_paused = true)]
async fn in_an_outage_one_lock_fails_without_a_retry_and_another_of_the_same_session_waits() {
    let (_simulation, process, client) = client_with_short_timeout().await;
    let hasty = client.using_retry_policy(none());
    let patient = client.using_retry_policy(RetryForever::new(PAUSE).unwrap());
    // All locks of a client on one path share a line before the queue, which must not keep the
    // policy of the first lock.
    let default_locks = [
        mutex_and_multi_lock(&client, "/hasty"),
        mutex_and_multi_lock(&client, "/patient"),
    ];
    let hasty_locks = mutex_and_multi_lock(&hasty, "/hasty");
    let patient_locks = mutex_and_multi_lock(&patient, "/patient");
    let id = client.session().await.unwrap().id();
    for view in [&hasty, &patient] {
        assert_eq!(view.session().await.unwrap().id(), id);
    }
    unplug_process(&process, &client).await;
    let waiting = spawn_all(patient_locks);
    for lock in hasty_locks {
        let (attempts, _, cause) = failed(lock.acquire().await.unwrap_err());
        assert_eq!(attempts, 1);
        assert!(matches!(cause, ClientError::NotConnected { .. }), "{cause}");
    }
    for lock in default_locks.into_iter().flatten() {
        assert_eq!(failed(lock.acquire().await.unwrap_err()).0, 2);
    }
    assert!(!waiting.iter().any(JoinHandle::is_finished));
    process.refuse(false);
    for waiter in waiting {
        waiter.await.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_fails_when_the_time_limit_of_its_policy_has_passed() {
    let (_simulation, process, client) = client_with_short_timeout().await;
    let limit = 3 * CONNECTION_TIMEOUT;
    let policy = Recording::new(RetryUntilElapsed::new(limit, PAUSE).unwrap());
    let locks = mutex_and_multi_lock(&client.using_retry_policy(policy.clone()), "/time-limit");
    unplug_process(&process, &client).await;
    for lock in locks {
        let (attempts, failing_for, _) = failed(lock.acquire().await.unwrap_err());
        // The time limit of the policy starts at the first failure, which is after the first
        // attempt.
        assert!(failing_for >= CONNECTION_TIMEOUT + limit, "{failing_for:?}");
        let calls = policy.taken();
        assert_eq!(calls.len(), attempts as usize);
        assert_eq!((calls[0].0, calls[0].1), (0, Duration::ZERO));
        let (last, earlier) = calls.split_last().unwrap();
        assert!(
            last.1 >= limit && earlier.iter().all(|(_, elapsed, _)| *elapsed < limit),
            "{calls:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_closure_decides_by_the_kind_of_error() {
    let (simulation, process, client) = client_with_short_timeout().await;
    let patient = RetryForever::new(PAUSE).unwrap();
    let policy = Recording::new(retry_fn(move |failed| match failed.error() {
        Some(ClientError::Throttled { .. }) => None,
        _ => patient.next_delay(failed),
    }));
    let view = client.using_retry_policy(policy.clone());
    for (lock, list) in mutex_and_multi_lock(&view, "/kinds").into_iter().zip(LISTS) {
        // The directories exist from now on.
        lock.acquire().await.unwrap().release().await.unwrap();
        policy.taken();
        process.cut_before_reply(list);
        lock.acquire().await.unwrap().release().await.unwrap();
        let calls = policy.taken();
        let is_lost = |error| matches!(error, &Some(ClientError::ConnectionLost { .. }));
        assert!(calls.iter().any(|(.., error)| is_lost(error)), "{calls:?}");
        simulation.throttle(move |request| request.op() == list);
        let (attempts, _, cause) = failed(lock.acquire().await.unwrap_err());
        assert_eq!(attempts, 1);
        assert!(matches!(cause, ClientError::Throttled { .. }), "{cause}");
        let calls = policy.taken();
        assert!(
            matches!(
                &calls[..],
                [(0, Duration::ZERO, Some(ClientError::Throttled { .. }))]
            ),
            "{calls:?}"
        );
    }
    // The client's own policy retries the same error.
    for (lock, list) in mutex_and_multi_lock(&client, "/kinds")
        .into_iter()
        .zip(LISTS)
    {
        simulation.throttle(move |request| request.op() == list);
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    client.janitor().idle().await;
    for path in ["/kinds/a", "/kinds/b", "/kinds/c"] {
        assert_eq!(children(&client, path).await, [""; 0]);
    }
}

/// Each call fails, and asks only the policy of its view.
#[tokio::test(start_paused = true)]
async fn each_recipe_asks_the_policy_of_the_client_with_which_it_was_made() {
    let client_policy = Recording::new(RetryNTimes::new(1, PAUSE).unwrap());
    let view_policy = Recording::new(none());
    let (_simulation, process, client) = simulated(|builder| {
        builder
            .connection_timeout(CONNECTION_TIMEOUT)
            .retry_policy(client_policy.clone())
    })
    .await;
    // The namespace of a view is independent of its policy.
    let view = client
        .using_namespace("")
        .unwrap()
        .using_retry_policy(view_policy.clone())
        .using_namespace("")
        .unwrap();
    // The client creates locks on the same paths first, and with them the state that all locks on
    // one path share.
    let locks = |client: &CuratorClient| {
        let lock = |kind: Kind| kind.lock(client, &format!("/{kind:?}"));
        Kind::all().map(lock).collect::<Vec<_>>()
    };
    let _client_locks = locks(&client);
    let locks = locks(&view);
    let number = DistributedAtomicLong::new(&view, "/number").unwrap();
    let promoted = number.clone().exactly_once("/receipt").unwrap();
    let ids = IdGenerator::new(&view, "/ids", 10).unwrap();
    let count = SharedCount::new(&view, "/count", 0).unwrap();
    let latch = LeaderLatch::builder(&view, "/latch").unwrap();
    unplug_process(&process, &client).await;
    client_policy.taken();
    view_policy.taken();
    let check = async |what: &str, call: BoxFuture<'_, bool>| {
        assert!(!call.await, "{what} succeeded without a server");
        let calls = view_policy.taken();
        let is_not_connected = |error| matches!(error, &Some(ClientError::NotConnected { .. }));
        assert!(
            !calls.is_empty() && calls.iter().all(|(.., error)| is_not_connected(error)),
            "{what}: {calls:?}"
        );
        assert_eq!(
            client_policy.taken().len(),
            0,
            "{what} asked the policy of the client"
        );
    };
    for (kind, lock) in Kind::all().zip(&locks) {
        check(
            kind.name(),
            Box::pin(async { lock.acquire().await.is_ok() }),
        )
        .await;
        check(
            "participants",
            Box::pin(async { lock.participants().await.is_ok() }),
        )
        .await;
    }
    check(
        "atomic number",
        Box::pin(async { number.increment().await.is_ok() }),
    )
    .await;
    check("atomic get", Box::pin(async { number.get().await.is_ok() })).await;
    check(
        "exactly once",
        Box::pin(async { promoted.increment().await.is_ok() }),
    )
    .await;
    check("ids", Box::pin(async { ids.next().await.is_ok() })).await;
    check("count", Box::pin(async { count.set(1).await.is_ok() })).await;
    check(
        "read of a node",
        Box::pin(async { view.get_data("/").await.is_ok() }),
    )
    .await;
    check(
        "create",
        Box::pin(async { view.create().for_path("/created", "").await.is_ok() }),
    )
    .await;
    // The task of the latch asks the policy after each failed attempt to join the queue.
    let latch = latch.start();
    until_simulated(async || view_policy.calls.lock().unwrap().len() > 1).await;
    assert_eq!(client_policy.taken().len(), 0);
    process.refuse(false);
    assert!(latch.leadership().await.unwrap().is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_release_is_repeated_by_the_policy_of_its_lock() {
    let (_simulation, process, client) = client_with_short_timeout().await;
    for (retries, is_released) in [(0, false), (20, true)] {
        let policy = Recording::new(RetryNTimes::new(retries, PAUSE).unwrap());
        let view = client.using_retry_policy(policy.clone());
        let guard = non_reentrant(&view, "/releases").acquire().await.unwrap();
        process.cut_before_request(OpCode::Delete);
        match guard.release().await {
            Ok(()) => assert!(is_released),
            Err(Error::ReleasePending { .. }) => assert!(!is_released),
            Err(error) => panic!("{error}"),
        }
        // A further failure is possible while the connection is still down.
        assert!((1..=retries.max(1) as usize).contains(&policy.taken().len()));
        client.janitor().idle().await;
        assert_eq!(children(&client, "/releases").await, [""; 0]);
    }
}

/// Conflicts with other clients have a separate policy, because they are not failures of requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conflict_has_no_error_and_does_not_reach_the_policy_of_the_client() {
    let client = connected().await;
    let path = path("conflict");
    let failures = Recording::new(none());
    let conflicts = Recording::new(RetryNTimes::new(1, PAUSE).unwrap());
    let number =
        DistributedAtomicLong::new(&client.using_retry_policy(failures.clone()), &path).unwrap();
    let rival = number.clone();
    let number = number.with_retry_policy(conflicts.clone());
    let changing = number.update(|value| {
        block_in_place(|| Handle::current().block_on(rival.increment())).unwrap();
        Some(value + 1)
    });
    let error = soon(changing).await.unwrap_err();
    assert!(
        matches!(error, ValueError::Contended { attempts: 2, .. }),
        "{error}"
    );
    assert!(failures.taken().is_empty());
    let calls = conflicts.taken();
    assert!(
        matches!(&calls[..], [(0, Duration::ZERO, None), (1, _, None)]),
        "{calls:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_is_not_asked_about_an_error_that_is_not_retryable() {
    let client = connected().await;
    let path = path("denied");
    let policy = Recording::new(RetryForever::new(PAUSE).unwrap());
    let view = client.using_retry_policy(policy.clone());
    crate::support::create_dir_without_create(&client, &path).await;
    let multi = InterProcessMultiLock::new(&view, [&path, &format!("{path}-other")]).unwrap();
    for lock in [arc(mutex(&view, &path)), arc(multi)] {
        let error = soon(lock.acquire()).await.unwrap_err();
        assert!(
            matches!(&error, Error::Client(cause) if !cause.is_retryable()),
            "{error}"
        );
        assert!(error.to_string().contains("permission denied"), "{error}");
    }
    assert!(policy.taken().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_panics_ends_its_acquire_like_a_drop_and_not_the_client() {
    let (proxy, client) = behind_proxy_with(|builder| builder).await;
    let path = path("panic");
    let panics = Arc::new(AtomicBool::new(false));
    let is_armed = Arc::clone(&panics);
    let view = client.using_retry_policy(retry_fn(move |_| {
        assert!(
            !is_armed.swap(false, Ordering::Relaxed),
            "the policy panics"
        );
        Some(PAUSE)
    }));
    let held = mutex(&client, &format!("{path}/other"))
        .acquire()
        .await
        .unwrap();
    let dirs = ["a", "b", "c"].map(|name| format!("{path}/{name}"));
    keep(&client, &dirs).await;
    for (lock, list) in mutex_and_multi_lock(&view, &path).into_iter().zip(LISTS) {
        // The contender has a node when the policy is asked.
        panics.store(true, Ordering::Relaxed);
        let lists = requests_of(&proxy, list);
        proxy.cut_before_reply(list);
        let panicked = soon(spawn_acquire(Arc::clone(&lock))).await.unwrap_err();
        assert!(panicked.is_panic() && requests_of(&proxy, list) > lists);
        // The same lock can be acquired again, so nothing is left in the queue or in the line
        // before it.
        soon(lock.acquire()).await.unwrap().release().await.unwrap();
    }
    assert!(held.is_valid());
    held.release().await.unwrap();
    nothing_left(&client, &dirs).await;
}
