//! Runs many cells concurrently, and checks for watches that they leave on the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use curator_test::OpCode;
use futures_util::future::join_all;
use tokio::task::JoinSet;

use super::cells::{Cell, Requests};
use super::run::{Finished, run};
use super::stage::{BOUND, Hall, Stage};

/// The number of cells that run concurrently in a hall. A batch ends with its slowest cell.
const CONCURRENT: usize = 20;
/// The limit of file descriptors that four halls need, with about nine per cell.
const DESCRIPTORS: u64 = 1_024;
/// How long a server may take to remove the watches of a closed session.
const WATCH_REMOVAL_TIME: Duration = Duration::from_millis(200);
/// Attempts per cell until its request is sent: a request that depends on a race may come later, or not at all.
const TRIES: usize = 3;

/// The outcome of a cell whose request was not sent, where that is allowed: see [`may_be_missing`].
pub(crate) const NOT_SENT: &str = "not sent";

/// The result of a cell.
#[derive(Debug, Clone)]
pub(crate) struct Result {
    pub(crate) cell: Cell,
    /// A label for the table; or the failure.
    pub(crate) outcome: std::result::Result<&'static str, String>,
    pub(crate) requests: Requests,
    pub(crate) took: Duration,
}

/// Raises the process's limit of descriptors to what the cells need, as far as the system permits.
pub(crate) fn permit_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS));
    if limit.current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit }).unwrap();
    }
}

/// Runs the cells in batches of [`CONCURRENT`], in this order.
pub(crate) async fn run_all(hall: &Arc<Hall>, cells: &[Cell]) -> Vec<Result> {
    let mut results = Vec::new();
    for cells in cells.chunks(CONCURRENT) {
        let mut running = JoinSet::new();
        for cell in cells.iter().copied() {
            let hall = Arc::clone(hall);
            running.spawn(async move { (cell, tokio::spawn(run_with_retries(hall, cell)).await) });
        }
        let mut stages = Vec::new();
        while let Some(finished) = running.join_next().await {
            let (cell, finished) = finished.expect("this task only waits for another one");
            let (outcome, requests, took) = match finished {
                Ok(Some(Finished { outcome, requests, took, stage })) => {
                    stages.push((cell, stage));
                    (Ok(outcome), requests, took)
                }
                Ok(None) if may_be_missing(&cell) => (Ok(NOT_SENT), Requests::new(), Duration::ZERO),
                Ok(None) => (Err(format!("the request was not sent, {TRIES} times")), Requests::new(), Duration::ZERO),
                Err(error) => (Err(error.to_string()), Requests::new(), Duration::ZERO),
            };
            results.push(Result { cell, outcome, requests, took });
        }
        for (cell, leak) in close(hall, stages).await {
            let result = results.iter_mut().find(|result| result.cell == cell).expect("the cell was run");
            result.outcome = Err(leak);
        }
    }
    results
}

/// Whether a race decides if the cell's request is sent. After a cut, a lock's requests may depend on how many of its
/// requests passed before the cut; and a watch may fire before it is removed.
fn may_be_missing(cell: &Cell) -> bool {
    cell.cut.is_some() || cell.strike.is_some_and(|strike| strike.op == OpCode::RemoveWatches)
}

async fn run_with_retries(hall: Arc<Hall>, cell: Cell) -> Option<Finished> {
    for _ in 0..TRIES {
        let finished = run(&hall, cell).await;
        if finished.is_some() {
            return finished;
        }
    }
    None
}

/// Closes the clients of these cells. No nodes and no watches should be left before that; if some are, returns the cells
/// whose sessions have them, and what is left.
async fn close(hall: &Hall, stages: Vec<(Cell, Stage)>) -> Vec<(Cell, String)> {
    let mut leaks = Vec::new();
    // A node that was created late would end with its session.
    for (cell, stage) in &stages {
        let nodes = stage.nodes().await;
        leaks.extend((nodes > 0).then(|| (*cell, format!("{nodes} nodes are left"))));
    }
    if has_watches_left(hall, BOUND).await {
        let cells: Vec<_> = stages.iter().map(|(cell, _)| cell.to_string()).collect();
        for (cell, stage) in stages {
            let before = hall.watch_count().await;
            stage.actor.close().await.unwrap();
            // The server may remove the watches just after it has confirmed the close.
            let begun = Instant::now();
            let mut leaked = 0;
            while leaked == 0 && begun.elapsed() < WATCH_REMOVAL_TIME {
                leaked = before.saturating_sub(hall.watch_count().await);
            }
            leaks.extend((leaked > 0).then(|| (cell, format!("{leaked} watches are left on the server"))));
        }
        // The neighbours' clients stay open for all later cells.
        let is_left = has_watches_left(hall, Duration::ZERO).await;
        assert!(!is_left, "neighbours have left watches on the server, in one of these cells:\n{}", cells.join("\n"));
        return leaks;
    }
    let closed = join_all(stages.iter().map(|(_, stage)| stage.actor.close())).await;
    closed.into_iter().for_each(|closed| closed.unwrap());
    leaks
}

/// Whether watches are left on the server after `bound`.
async fn has_watches_left(hall: &Hall, bound: Duration) -> bool {
    let begun = Instant::now();
    while hall.watch_count().await > 0 {
        if begun.elapsed() > bound {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}
