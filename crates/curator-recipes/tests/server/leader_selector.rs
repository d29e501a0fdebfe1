//! The leader selector: where its job runs, how it is stopped, and how failed jobs are reported.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use curator_recipes::client::{self, CuratorClient};
use curator_recipes::{Error, LeaderLatch, LeaderSelector, LeaderSelectorError, Leadership};
use curator_test::{Direction, TestingServer};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::support::{
    LONG_SESSION, SHORT_SESSION, behind_proxy_with, builder, children, client as connected,
    create_dir_without_delete, id_and_number, mutex, nothing_left, path, queue_of, soon, until,
};

pub(crate) type Ended = Result<(), LeaderSelectorError<io::Error>>;

/// A task that runs a selector whose job ends only when it is dropped.
pub(crate) struct Running {
    pub(crate) selector: LeaderSelector,
    pub(crate) terms: mpsc::UnboundedReceiver<Leadership>,
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) task: JoinHandle<Ended>,
    /// Each running job has a clone.
    pub(crate) jobs: Arc<()>,
}

/// Spawns the run. Like a user's helper function, it is generic, so only the bounds of the job are
/// known.
pub(crate) fn spawn<F, E>(
    selector: LeaderSelector,
    job: impl FnMut(Leadership) -> F + Send + 'static,
    shutdown: impl Future + Send + 'static,
) -> JoinHandle<Result<(), LeaderSelectorError<E>>>
where
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: std::fmt::Display + Send + 'static,
{
    tokio::spawn(async move { selector.run(job, shutdown).await })
}

pub(crate) fn running(client: &CuratorClient, path: &str, id: &str) -> Running {
    run(LeaderSelector::builder(client, path)
        .unwrap()
        .id(id)
        .build())
}

fn run(selector: LeaderSelector) -> Running {
    let (term_tx, terms) = mpsc::unbounded_channel();
    let (stop_tx, stop_rx) = oneshot::channel();
    let jobs = Arc::default();
    let counted = Arc::clone(&jobs);
    let job = move |leadership: Leadership| {
        let running = Arc::clone(&counted);
        let term_tx = term_tx.clone();
        async move {
            term_tx.send(leadership).unwrap();
            let _running = running;
            pending().await
        }
    };
    let task = spawn(selector.clone(), job, stop_rx);
    Running {
        selector,
        terms,
        stop: stop_tx,
        task,
        jobs,
    }
}

impl Running {
    /// Waits until a job begins, and returns its term.
    pub(crate) async fn next_term(&mut self) -> Leadership {
        soon(self.terms.recv()).await.unwrap()
    }

    fn is_running(&self) -> bool {
        // One clone is here, and one is in the closure that makes the jobs.
        Arc::strong_count(&self.jobs) > 2
    }
}

#[tokio::test]
async fn one_job_runs_at_a_time_and_the_next_after_the_first_was_stopped() {
    let client = connected().await;
    let path = path("selector");
    let mut first = running(&client, &path, "first");
    let term = first.next_term().await;
    let mut second = running(&client, &path, "second");
    queue_of(&client, &path, 2).await;
    assert!(
        term.is_valid() && first.selector.has_leadership() && !second.selector.has_leadership()
    );
    let participants = second.selector.participants().await.unwrap();
    assert_eq!(
        participants
            .iter()
            .map(|each| &*each.data)
            .collect::<Vec<_>>(),
        [b"first".as_slice(), b"second"]
    );
    for name in children(&client, &path).await {
        // Checks that the name has the format of Curator's mutex.
        id_and_number(&name, "-lock-");
    }
    assert!(mutex(&client, &path).try_acquire().await.unwrap().is_none());

    first.selector.interrupt_leadership();
    let next = second.next_term().await;
    assert!(!term.is_valid() && !first.is_running() && next.fencing_token() > term.fencing_token());
    queue_of(&client, &path, 2).await;
    second.selector.interrupt_leadership();
    assert!(first.next_term().await.is_valid());
    stop_both(first, second).await;
    nothing_left(&client, &[path]).await;
}

/// Stops the waiter's run, aborts the leader's run, and checks that the leader's job is dropped.
async fn stop_both(leader: Running, waiter: Running) {
    waiter.stop.send(()).unwrap();
    soon(waiter.task).await.unwrap().unwrap();
    leader.task.abort();
    assert!(soon(leader.task).await.unwrap_err().is_cancelled());
    assert_eq!(Arc::strong_count(&leader.jobs), 1);
}

// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_cut_off_is_dropped_before_another_begins_and_runs_again_later() {
    let (proxy, cut_off) =
        behind_proxy_with(|builder| builder.session_timeout(SHORT_SESSION)).await;
    let others = connected().await;
    let path = path("selector-cut-off");
    let mut first = running(&cut_off, &path, "first");
    let term = first.next_term().await;
    let mut second = running(&others, &path, "second");
    queue_of(&others, &path, 2).await;
    proxy.black_hole(Direction::Both);
    second.next_term().await;
    assert!(!term.is_valid() && !first.is_running(), "two jobs");
    proxy.heal();
    queue_of(&others, &path, 2).await;
    second.stop.send(()).unwrap();
    // The job does not end by itself, so a stopped run would wait for the grace period.
    second.task.abort();
    assert!(first.next_term().await.fencing_token() > term.fencing_token());
}

#[tokio::test]
async fn a_shutdown_requests_an_endless_job_to_end() {
    let client = connected().await;
    let path = path("selector-asked");
    // Waiting for the grace period would fail the test.
    let grace = Duration::from_secs(3_600);
    let selector = LeaderSelector::builder(&client, &path)
        .unwrap()
        .grace_period(grace)
        .build();
    let (stop_tx, stop_rx) = oneshot::channel::<()>();
    let (began_tx, mut began_rx) = mpsc::unbounded_channel();
    let job = move |leadership: Leadership| {
        let began_tx = began_tx.clone();
        async move {
            let mut requested = Box::pin(leadership.shutdown_requested());
            assert!(futures_util::poll!(&mut requested).is_pending());
            began_tx.send(leadership.clone()).unwrap();
            requested.await;
            assert!(leadership.is_valid());
            // After the request, further waits return immediately.
            leadership.shutdown_requested().await;
            Ok::<_, io::Error>(())
        }
    };
    let task = spawn(selector, job, stop_rx);
    let leadership = soon(began_rx.recv()).await.unwrap();
    drop(stop_tx);
    soon(task).await.unwrap().unwrap();
    assert!(!leadership.is_valid());
    let latch = LeaderLatch::builder(&client, &path).unwrap().start();
    let latch_term = soon(latch.leadership()).await.unwrap();
    assert!(futures_util::FutureExt::now_or_never(latch_term.shutdown_requested()).is_none());
}

#[tokio::test]
async fn after_the_shutdown_the_job_has_a_grace_period() {
    for finishes in [true, false] {
        let client = connected().await;
        let path = path("selector-grace");
        let grace = Duration::from_millis(if finishes { 60_000 } else { 300 });
        let selector = LeaderSelector::builder(&client, &path)
            .unwrap()
            .grace_period(grace)
            .build();
        let (stop_tx, stop_rx) = oneshot::channel::<()>();
        let (began_tx, mut began_rx) = mpsc::unbounded_channel();
        let (finish_tx, mut finish_rx) = oneshot::channel();
        let mut finish_tx = Some(finish_tx);
        let job = move |leadership: Leadership| {
            let began_tx = began_tx.clone();
            let finish_tx = finish_tx.take().unwrap();
            async move {
                began_tx.send(()).unwrap();
                if !finishes {
                    pending::<()>().await;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
                finish_tx.send(leadership.is_valid()).unwrap();
                Ok::<_, io::Error>(())
            }
        };
        let task = spawn(selector, job, stop_rx);
        soon(began_rx.recv()).await.unwrap();
        let stopping = Instant::now();
        drop(stop_tx);
        soon(task).await.unwrap().unwrap();
        assert_eq!(finish_rx.try_recv().ok(), finishes.then_some(true));
        assert!(finishes || stopping.elapsed() >= grace);
        assert!(children(&client, &path).await.is_empty());
    }
}

#[tokio::test]
async fn a_job_that_ends_immediately_leads_again_after_growing_pauses() {
    let client = connected().await;
    let path = path("selector-short");
    let selector = LeaderSelector::builder(&client, &path).unwrap().build();
    let (began_tx, mut began_rx) = mpsc::unbounded_channel();
    let mut number = 0;
    let job = move |_: Leadership| {
        number += 1;
        let began_tx = began_tx.clone();
        async move {
            began_tx.send(Instant::now()).unwrap();
            match number % 3 {
                0 => Ok(()),
                1 => Err(io::Error::other("on purpose")),
                _ => panic!("on purpose"),
            }
        }
    };
    let task = spawn(selector, job, pending::<()>());
    let mut times = Vec::new();
    for _ in 0..4 {
        times.push(soon(began_rx.recv()).await.unwrap());
    }
    let pauses: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (pause, least) in pauses.iter().zip([100, 200, 400]) {
        assert!(*pause >= Duration::from_millis(least), "{pauses:?}");
    }
    client.close().await.unwrap();
    // The run returns no error, because this program closed the client.
    soon(task).await.unwrap().unwrap();
}

#[tokio::test]
async fn stop_on_failure_ends_the_run_when_the_job_fails_or_panics() {
    let client = connected().await;
    let path = path("selector-failure");
    let selector = LeaderSelector::builder(&client, &path)
        .unwrap()
        .stop_on_failure()
        .build();
    let failing = |_| async { Err(io::Error::other("on purpose")) };
    let error = soon(selector.clone().run(failing, pending::<()>()))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, LeaderSelectorError::JobFailed { path: found, cause } if found.as_str() == path && cause.to_string() == "on purpose")
    );
    let boxed = |_| async { Err(Box::<dyn std::error::Error + Send + Sync>::from("in a box")) };
    let error = soon(selector.clone().run(boxed, pending::<()>()))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("the leader's job at {path} failed: in a box")
    );
    let panics = |_| async { panic!("on purpose") };
    let ended: Ended = soon(selector.clone().run(panics, pending::<()>())).await;
    assert!(
        matches!(&ended, Err(LeaderSelectorError::JobPanicked { message, .. }) if message == "on purpose"),
        "{ended:?}"
    );
    // A panic before the future exists is reported in the same way.
    let ended: Ended = soon(selector.run(
        |_| -> std::future::Ready<_> { panic!("on the call") },
        pending::<()>(),
    ))
    .await;
    assert!(
        matches!(&ended, Err(LeaderSelectorError::JobPanicked { message, .. }) if message == "on the call"),
        "{ended:?}"
    );
    assert!(children(&client, &path).await.is_empty());
}

// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test]
async fn a_run_waits_for_its_servers_and_can_be_stopped_meanwhile() {
    let server = TestingServer::start().await.unwrap();
    let address = server.connect_string();
    let path = path("selector-early");
    server.stop().await.unwrap();
    let client = builder(&address, LONG_SESSION)
        .retry_policy(client::RetryOneTime::new(Duration::from_millis(1)).unwrap())
        .connection_timeout(Duration::from_millis(500))
        .start()
        .unwrap();
    let mut first = running(&client, &path, "first");
    let second = running(&client, &path, "second");
    // Meanwhile, both acquires fail, each after two attempts of 500 ms.
    client
        .wait_connected(Duration::from_millis(1_500))
        .await
        .unwrap_err();
    second.stop.send(()).unwrap();
    soon(second.task).await.unwrap().unwrap();
    server.restart().await.unwrap();
    first.next_term().await;
    until(async || first.selector.has_leadership()).await;
}

/// The job always has work, like a job that reads from a full channel.
#[tokio::test]
async fn a_busy_job_can_be_shut_down_and_interrupted() {
    let client = connected().await;
    let path = path("selector-busy");
    let selector = LeaderSelector::builder(&client, &path)
        .unwrap()
        .grace_period(Duration::from_millis(100))
        .build();
    let (stop_tx, stop_rx) = oneshot::channel::<()>();
    let (began_tx, mut began_rx) = mpsc::unbounded_channel();
    let job = move |_: Leadership| {
        let began_tx = began_tx.clone();
        async move {
            began_tx.send(()).unwrap();
            loop {
                tokio::task::consume_budget().await;
            }
        }
    };
    let task: JoinHandle<Ended> = spawn(selector.clone(), job, stop_rx);
    for _ in 0..2 {
        soon(began_rx.recv()).await.unwrap();
        selector.interrupt_leadership();
    }
    soon(began_rx.recv()).await.unwrap();
    stop_tx.send(()).unwrap();
    soon(task).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_run_without_permission_to_delete_its_node_fails_with_release_refused() {
    let owner = connected().await;
    let client = connected().await;
    let path = path("selector-refused");
    create_dir_without_delete(&owner, &path).await;
    let mut running = run(LeaderSelector::builder(&client, &path)
        .unwrap()
        .grace_period(Duration::ZERO)
        .build());
    running.next_term().await;
    drop(running.stop);
    let ended = soon(running.task).await.unwrap();
    assert!(
        matches!(
            &ended,
            Err(LeaderSelectorError::Selector(Error::ReleaseRefused { .. }))
        ),
        "{ended:?}"
    );
}
