//! Runs many cells: in simulated time, or on servers; on several threads.

use std::any::Any;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::cells::{Cell, Requests};
use super::run::{Finished, run};
use super::stage::BOUND;
use super::world::World;

/// The number of servers that cells run on at the same time, each cell alone on its server.
const SERVERS: usize = 4;

/// The longest time that a cell may take on its clock, including the start of the clients and the
/// turns of the neighbours.
const LIMIT: Duration = BOUND.saturating_add(Duration::from_secs(60));

/// The outcome of a cell whose request was not sent.
pub(crate) const NOT_SENT: &str = "not sent";

/// The result of a cell.
#[derive(Debug, Clone)]
pub(crate) struct Result {
    pub(crate) cell: Cell,
    /// A label for the table, or the message of the failure.
    pub(crate) outcome: std::result::Result<&'static str, String>,
    pub(crate) requests: Requests,
    pub(crate) took: Duration,
}

/// Runs the cells in simulated time, each in a simulation with this seed, on all processors.
pub(crate) fn run_simulated(cells: &[Cell], seed: u64) -> Vec<Result> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    spread(cells, threads, || {
        move |cell: &Cell| {
            let runtime = Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            caught(*cell, &runtime, async || {
                run(World::simulated(seed, *cell), *cell).await
            })
        }
    })
}

/// Runs the cells on [`SERVERS`] servers of the kind that the environment selects.
pub(crate) fn run_on_servers(cells: &[Cell]) -> Vec<Result> {
    spread(cells, SERVERS, || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let server = runtime.block_on(World::start_server());
        move |cell: &Cell| {
            caught(*cell, &runtime, async || {
                run(World::on(&server), *cell).await
            })
        }
    })
}

/// Runs a cell, and reports a panic as its failure.
fn caught(cell: Cell, runtime: &Runtime, run: impl AsyncFnOnce() -> Option<Finished>) -> Result {
    let finished = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async { timeout(LIMIT, run()).await })
    }));
    let without = |outcome| Result {
        cell,
        outcome,
        requests: Requests::new(),
        took: Duration::ZERO,
    };
    match finished {
        Ok(Ok(Some(Finished {
            outcome,
            requests,
            took,
        }))) => Result {
            cell,
            outcome: Ok(outcome),
            requests,
            took,
        },
        Ok(Ok(None)) => without(Ok(NOT_SENT)),
        Ok(Err(_)) => without(Err(format!("the cell has not ended after {LIMIT:?}"))),
        Err(panic) => without(Err(message(&*panic))),
    }
}

/// Runs all cells on this many threads. Each thread runs its cells with the closure that `open`
/// returns. The results are in the order of the cells.
fn spread<F: FnMut(&Cell) -> Result>(
    cells: &[Cell],
    threads: usize,
    open: impl Fn() -> F + Sync,
) -> Vec<Result> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut run = open();
        let mut results = Vec::new();
        while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
            results.push(run(cell));
        }
        results
    };
    let mut results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.min(cells.len()))
            .map(|_| scope.spawn(work))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("a thread runs cells"))
            .collect()
    });
    results.sort_by_key(|result| result.cell);
    results
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_default()
}
