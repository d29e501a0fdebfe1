//! Acquires without a connection or without replies, in simulated time.

use std::time::Duration;

use curator_recipes::client::{
    self, ConnectionState, CuratorClient, Outcome, RetryForever, RetryNTimes,
};
use curator_recipes::{Error, InterProcessMultiLock};
use curator_test::{OpCode, Process, Simulation};
use tokio::time::{Instant, sleep};

use crate::retry_policies::Recording;
use crate::support::subjects::Kind;
use crate::support::{
    LONG_SESSION, Row, SHORT_SESSION, acquiring, arc, children, connect, mutex, read_write,
    simulated, unplug_process, until_simulated,
};

const CONNECTION_TIMEOUT: Duration = Duration::from_secs(1);
const OPERATION_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);
/// The time in which a call that does not wait returns.
const AT_ONCE: Duration = Duration::from_millis(10);
/// The time in which a multi-lock tries to release what it has acquired.
const GRACE: Duration = Duration::from_secs(1);

/// A client with this connection timeout, a short operation timeout, and three attempts.
async fn impatient(connection_timeout: Duration) -> (Simulation, Process, CuratorClient) {
    let retry_policy = RetryNTimes::new(2, PAUSE).unwrap();
    simulated(|builder| {
        builder
            .connection_timeout(connection_timeout)
            .operation_timeout(OPERATION_TIMEOUT)
            .retry_policy(retry_policy)
    })
    .await
}

/// Checks the error's number of attempts and minimum duration; returns the last cause.
#[track_caller]
fn cause_of(error: &Error, path: &str, tried: u32, at_least: Duration) -> client::Error {
    assert!(error.is_retryable(), "{error}");
    let error = if let Error::MultiLockMember { cause, .. } = error {
        cause
    } else {
        error
    };
    let Error::AcquireFailed {
        lock,
        attempts,
        failing_for,
        cause,
    } = error
    else {
        panic!("{error}")
    };
    assert!(
        lock.as_str().starts_with(path) && *attempts == tried,
        "{error}"
    );
    // Counted from the start of the first attempt.
    assert!(*failing_for >= at_least, "{error}");
    (**cause).clone()
}

#[tokio::test(start_paused = true)]
async fn without_a_connection_each_lock_fails_with_its_path_and_the_number_of_attempts() {
    let (_simulation, process, client) = impatient(CONNECTION_TIMEOUT).await;
    let locks: Vec<_> = Kind::all()
        .map(|kind| (kind, kind.lock(&client, &format!("/unplugged/{kind:?}"))))
        .collect();
    unplug_process(&process, &client).await;
    for (kind, lock) in locks {
        let _row = Row::of(kind);
        let waits = 3 * CONNECTION_TIMEOUT + 2 * PAUSE;
        // `try_acquire` does not retry.
        for (failed, attempts, waits) in [
            (lock.acquire().await.map(Some), 3, waits),
            (lock.try_acquire().await, 1, Duration::ZERO),
        ] {
            let cause = cause_of(
                &failed.unwrap_err(),
                &format!("/unplugged/{kind:?}"),
                attempts,
                waits,
            );
            assert!(
                matches!(cause, client::Error::NotConnected { .. }),
                "{cause}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquire_without_replies_fails_with_an_operation_timeout() {
    let (_simulation, process, client) = impatient(LONG_SESSION).await;
    let mutex = mutex(&client, "/unanswered");
    let lock = read_write(&client, "/unanswered-too");
    mutex.acquire().await.unwrap().release().await.unwrap();
    // The read node of a writer is created by a transaction.
    let _writing = lock.write().acquire().await.unwrap();
    process.hold_replies(OpCode::GetChildren);
    process.hold_replies(OpCode::Multi);
    let failed = [
        (
            mutex.acquire().await,
            "/unanswered",
            3,
            3 * OPERATION_TIMEOUT + 2 * PAUSE,
        ),
        (
            mutex.try_acquire().await.map(Option::unwrap),
            "/unanswered",
            1,
            OPERATION_TIMEOUT,
        ),
        (
            lock.read().try_acquire().await.map(Option::unwrap),
            "/unanswered-too",
            1,
            OPERATION_TIMEOUT,
        ),
    ];
    for (failed, path, attempts, at_least) in failed {
        let error = failed.unwrap_err();
        let cause = cause_of(&error, path, attempts, at_least);
        assert!(
            matches!(cause, client::Error::OperationTimeout { .. }),
            "{cause}"
        );
        assert_eq!(error.outcome(), Outcome::Unknown);
    }
}

/// If the wait counted, a policy with a time limit would permit no retry after the first lost
/// reply.
#[tokio::test(start_paused = true)]
async fn the_time_of_failing_excludes_the_time_in_the_queue() {
    let policy = Recording::new(RetryNTimes::new(2, PAUSE).unwrap());
    let asked = policy.clone();
    let (simulation, process, client) = simulated(|builder| {
        builder
            .operation_timeout(OPERATION_TIMEOUT)
            .retry_policy(asked)
    })
    .await;
    let others = connect(&simulation.connect_string()).await;
    let held = mutex(&others, "/late").acquire().await.unwrap();
    let waiter = acquiring(&client, "/late");
    sleep(Duration::from_secs(60 * 60)).await;
    assert!(!waiter.is_finished() && policy.taken().is_empty());
    process.hold_replies(OpCode::GetChildren);
    // The waiter queues again, but gets no list of the queue.
    let place = children(&others, "/late")
        .await
        .into_iter()
        .find(|name| name != held.node().name())
        .unwrap();
    others
        .delete()
        .for_path(format!("/late/{place}"))
        .await
        .unwrap();
    let error = waiter.await.unwrap().unwrap_err();
    let Error::AcquireFailed { failing_for, .. } = &error else {
        panic!("{error}")
    };
    assert!(*failing_for < Duration::from_secs(60), "{error}");
    let calls = policy.taken();
    assert_eq!((calls[0].0, calls[0].1), (0, Duration::ZERO), "{calls:?}");
}

/// The outage outlasts the session, and the retry policy always permits another attempt.
#[tokio::test(start_paused = true)]
async fn an_acquire_that_retries_forever_waits_through_any_outage() {
    let forever = RetryForever::new(PAUSE).unwrap();
    let (_simulation, process, client) = simulated(|builder| {
        builder
            .connection_timeout(CONNECTION_TIMEOUT)
            .retry_policy(forever)
    })
    .await;
    let epoch = client.session().await.unwrap().epoch();
    unplug_process(&process, &client).await;
    let waiter = acquiring(&client, "/any-outage");
    sleep(5 * LONG_SESSION).await;
    assert!(!waiter.is_finished() && client.connection_state() == ConnectionState::Lost);
    process.refuse(false);
    let guard = waiter.await.unwrap().unwrap();
    assert!(guard.is_valid() && client.session().await.unwrap().epoch() > epoch);
}

#[tokio::test(start_paused = true)]
async fn a_timed_acquire_returns_in_time_during_an_outage() {
    const TIMEOUT: Duration = Duration::from_millis(20);
    // Without a timeout the acquire would retry forever.
    let forever = RetryForever::new(Duration::from_millis(50)).unwrap();
    let (simulation, process, client) = simulated(|builder| {
        builder
            .session_timeout(SHORT_SESSION)
            .connection_timeout(Duration::from_secs(60))
            .retry_policy(forever)
    })
    .await;
    let mutex = mutex(&client, "/outage");
    mutex.acquire().await.unwrap().release().await.unwrap();
    let mut states = client.connection_states();
    simulation.partition(&process, 1);
    // In turn: before the client notices the outage, while the session is suspended, and after the
    // session is lost.
    for state in [
        None,
        Some(ConnectionState::Suspended),
        Some(ConnectionState::Lost),
    ] {
        if let Some(state) = state {
            assert!(states.wait_for(state).await);
        }
        let began = Instant::now();
        // `None` would mean that another client has the lock.
        match mutex.acquire_timeout(TIMEOUT).await {
            Err(Error::Client(error @ client::Error::NotConnected { .. })) => {
                assert!(error.is_retryable());
            }
            // To the client, the servers merely seem slow.
            Ok(None) if state.is_none() => {}
            outcome => panic!("{outcome:?}"),
        }
        assert!(
            began.elapsed() <= TIMEOUT + AT_ONCE,
            "{state:?}: {:?}",
            began.elapsed()
        );
    }
    // `try_acquire` does not wait for a connection, so its error is immediate.
    let began = Instant::now();
    let error = mutex.try_acquire().await.unwrap_err();
    assert!(
        error.is_retryable() && began.elapsed() <= AT_ONCE,
        "{:?}: {error}",
        began.elapsed()
    );
    simulation.heal_partition(&process, 1);
    assert!(mutex.acquire().await.unwrap().is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_timed_acquire_of_several_locks_returns_on_time_during_an_outage() {
    let (simulation, process, client) = simulated(|builder| builder).await;
    let others = connect(&simulation.connect_string()).await;
    let _held = mutex(&others, "/second").acquire().await.unwrap();
    let both =
        InterProcessMultiLock::of(["/first", "/second"].map(|path| arc(mutex(&client, path))))
            .unwrap();
    let began = Instant::now();
    let timeout = Duration::from_secs(5);
    let acquiring = tokio::spawn(async move { both.acquire_timeout(timeout).await });
    until_simulated(async || children(&others, "/second").await.len() == 2).await;
    simulation.partition(&process, 1);
    let acquired = acquiring.await.unwrap();
    // The acquired nodes cannot be released now, which delays the caller by the grace period at
    // most.
    assert!(
        began.elapsed() <= timeout + GRACE + AT_ONCE,
        "{:?}: {acquired:?}",
        began.elapsed()
    );
    match acquired {
        // To the client, the servers merely seemed slow.
        Ok(None) => {}
        Err(error @ Error::MultiLockMember { .. }) => assert!(error.is_retryable(), "{error}"),
        acquired => panic!("{acquired:?}"),
    }
}

/// The seventeenth contender waits in the client's line until it can enter the queue, during an
/// outage. Its earlier failures still count then.
#[tokio::test(start_paused = true)]
async fn failures_in_the_clients_line_still_count_in_the_queue() {
    let policy = RetryNTimes::new(20, Duration::from_secs(1)).unwrap();
    let (simulation, process, client) = simulated(|builder| {
        builder
            .retry_policy(policy)
            .connection_timeout(Duration::from_millis(200))
    })
    .await;
    let other = connect(&simulation.connect_string()).await;
    let _held = mutex(&other, "/line").acquire().await.unwrap();
    let mut waiters: Vec<_> = (0..16).map(|_| acquiring(&client, "/line")).collect();
    until_simulated(async || children(&other, "/line").await.len() == 17).await;
    let last = acquiring(&client, "/line");
    let session = client.session().await.unwrap();
    unplug_process(&process, &client).await;
    session.ended().await;
    let began = Instant::now();
    sleep(Duration::from_secs(12)).await;
    waiters.pop().unwrap().abort();
    for waiter in waiters {
        waiter.await.unwrap().unwrap_err();
    }
    let usual = began.elapsed();
    last.await.unwrap().unwrap_err();
    let took = began.elapsed();
    assert!(took < usual + Duration::from_secs(3), "{usual:?}, {took:?}");
}
