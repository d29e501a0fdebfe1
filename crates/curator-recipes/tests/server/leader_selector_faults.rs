//! The leader selector under faults that broke Curator's `LeaderSelector`, with one test for each
//! fault.

use curator_recipes::{LeaderSelector, LeaderSelectorError, Leadership};
use curator_test::Direction;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tracing::Level;

use crate::leader_selector::{Ended, running, spawn};
use crate::support::{
    Logs, SHORT_SESSION, behind_proxy, behind_proxy_with, children, client as connected,
    drop_after, free, path, queue_of, soon,
};

/// Curator's leader continued if its job ignored the interrupt: CURATOR-54.
// Runs in real time: the job blocks its thread, and simulated time would stand still.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_job_that_blocks_its_thread_can_see_the_end_of_its_term_before_another_begins() {
    let (proxy, cut_off) =
        behind_proxy_with(|builder| builder.session_timeout(SHORT_SESSION)).await;
    let others = connected().await;
    let path = path("selector-blocked");
    let (began_tx, mut began_rx) = mpsc::unbounded_channel();
    let stopped = Arc::new(AtomicBool::new(false));
    let job_stopped = Arc::clone(&stopped);
    let blocking = move |term: Leadership| {
        let began_tx = began_tx.clone();
        let job_stopped = Arc::clone(&job_stopped);
        async move {
            began_tx.send(term.clone()).unwrap();
            // Nothing interrupts or drops the job meanwhile.
            while term.is_valid() {
                std::thread::sleep(Duration::from_millis(1));
            }
            job_stopped.store(true, Ordering::SeqCst);
            pending::<Result<(), io::Error>>().await
        }
    };
    let selector = LeaderSelector::builder(&cut_off, &path).unwrap().build();
    let first: JoinHandle<Ended> = spawn(selector, blocking, pending::<()>());
    let term = soon(began_rx.recv()).await.unwrap();
    let mut second = running(&others, &path, "second");
    queue_of(&others, &path, 2).await;
    proxy.black_hole(Direction::Both);
    let new = second.next_term().await;
    assert!(
        !term.is_valid() && stopped.load(Ordering::SeqCst),
        "two jobs"
    );
    assert!(new.fencing_token() > term.fencing_token());
    first.abort();
}

/// In Curator, an interrupt at the end of a job, or a second interrupt, ended the run or the next
/// term: CURATOR-73, 518, 671.
// Runs on one thread, so that all interrupts come before the next term.
#[tokio::test]
async fn interrupts_around_the_end_of_a_job_end_neither_the_run_nor_the_next_term() {
    let client = connected().await;
    let path = path("selector-interrupts");
    let selector = LeaderSelector::builder(&client, &path).unwrap().build();
    // No term has started yet, so this has no effect.
    selector.interrupt_leadership();
    let (began_tx, mut began_rx) = mpsc::unbounded_channel();
    let job = move |term: Leadership| {
        let (finish_tx, finish_rx) = oneshot::channel::<()>();
        began_tx.send((term, finish_tx)).unwrap();
        async move {
            let _ = finish_rx.await;
            Ok(())
        }
    };
    let (stop_tx, stop_rx) = oneshot::channel::<()>();
    let task: JoinHandle<Ended> = spawn(selector.clone(), job, stop_rx);
    let mut tokens = Vec::new();
    for interrupts in [2, 1, 0, 3] {
        let (term, finish) = soon(began_rx.recv()).await.unwrap();
        tokens.push(term.fencing_token());
        selector.interrupt_leadership();
        // The job has ended already, or is about to.
        let _ = finish.send(());
        for _ in 0..interrupts {
            selector.interrupt_leadership();
        }
        soon(term.lost()).await;
    }
    let (term, finish) = soon(began_rx.recv()).await.unwrap();
    assert!(
        tokens.is_sorted_by(|before, after| before < after),
        "{tokens:?}"
    );
    client.sync(&path).await.unwrap();
    assert!(term.is_valid() && selector.has_leadership());
    assert_eq!(children(&client, &path).await.len(), 1);
    stop_tx.send(()).unwrap();
    finish.send(()).unwrap();
    soon(task).await.unwrap().unwrap();
}

/// In Curator, an interrupt during the create left the node behind, and all other contenders waited
/// for it: CURATOR-62, 104, 202, 573.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_dropped_at_any_await_point_leaves_the_lock_free() {
    let (proxy, client) = behind_proxy().await;
    let path = path("selector-dropped");
    // Delays each reply, so that each request has an await point.
    proxy.set_delay(Duration::from_millis(2));
    for polls in 1.. {
        let selector = LeaderSelector::builder(&client, &path)
            .unwrap()
            .stop_on_failure()
            .build();
        let job = |_: Leadership| async {
            tokio::task::yield_now().await;
            Err(io::Error::other("on purpose"))
        };
        let ended: Option<Ended> = drop_after(selector.run(job, pending::<()>()), polls).await;
        free(&client, &[&path]).await;
        if let Some(ended) = ended {
            assert!(
                matches!(ended, Err(LeaderSelectorError::JobFailed { .. })),
                "{ended:?}"
            );
            assert!(polls > 2, "{polls}");
            return;
        }
    }
}

/// Curator logged errors, and left a node until its session ended: CURATOR-466, 468, 659.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_the_client_right_after_the_selector_leaves_no_node_and_no_error() {
    for is_dropped in [false, true] {
        let client = connected().await;
        let others = connected().await;
        let path = path("selector-closed");
        let leader = LeaderSelector::builder(&client, &path).unwrap().build();
        let logs = Logs::at(Level::WARN);
        let (began_tx, mut began_rx) = mpsc::unbounded_channel();
        let job = move |_: Leadership| {
            began_tx.send(()).unwrap();
            pending::<Result<(), io::Error>>()
        };
        let (stop_tx, stop_rx) = oneshot::channel::<()>();
        let task = tokio::spawn(logs.capture(async move { leader.run(job, stop_rx).await }));
        soon(began_rx.recv()).await.unwrap();
        let waiter = running(&client, &path, "waiter");
        queue_of(&others, &path, 2).await;
        if is_dropped {
            task.abort();
            waiter.task.abort();
        } else {
            stop_tx.send(()).unwrap();
            waiter.stop.send(()).unwrap();
        }
        soon(client.close()).await.unwrap();
        assert!(children(&others, &path).await.is_empty());
        for ended in [soon(task).await, soon(waiter.task).await] {
            match ended {
                Err(aborted) => assert!(is_dropped && aborted.is_cancelled(), "{aborted}"),
                Ok(ended) => ended.unwrap(),
            }
        }
        assert!(logs.all().is_empty(), "{:?}", logs.all());
    }
}
