//! The fault matrix: every lock and the leader latch, every request that it sends, every fault, at the first, middle
//! and last place in the queue.
//!
//! The cells are derived. Each [course](phase::Course) of a lock is run without a fault, and its requests are counted;
//! then it is run again for each of these requests and each [fault](fault::Fault). So a request that is added to a lock
//! is in the matrix automatically. Some requests are sent only after a fault. Therefore courses are also run with a
//! [cut](fault::Cut), and then again with each fault at each request that is sent only because of the cut.
//!
//! The required outcome of a cell, without intervention and within a [bound](stage::BOUND): the contender owns the
//! lock, or has an error that its documentation names; no contender holds the lock while another one holds it
//! exclusively; all other contenders acquire the lock in turn; no node, watch or pending work is left.
//!
//! Only this target injects every fault at every single request of a lock, also at the requests that a lock sends only
//! because of another fault.
//!
//! The outcomes are printed. `CURATOR_FAULT_CELL` selects cells by a name, as printed by a failure, or by parts of one,
//! as in `mutex / Create2 1` or `mutex / after Create2 1 cut before`: only such cells are run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test, a panic is the way to fail")]

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod batch;
mod cells;
mod fault;
mod latch;
mod neighbour;
mod operation;
mod phase;
mod plan;
mod run;
mod scene;
mod stage;
mod terms;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use self::batch::{NOT_SENT, Result, permit_descriptors, run_all};
use self::cells::{Cell, Choice};
use self::fault::Fault;
use self::plan::Sent;
use self::stage::Hall;
use self::support::say;

/// The minimum numbers of all cells, and of cells after a cut: slightly below the actual numbers.
const AT_LEAST: (usize, usize) = (4_900, 1_500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_at_any_request_ends_in_one_owner_or_an_error_and_leaves_nothing() {
    permit_descriptors();
    let (hall, other_hall) = (Arc::new(Hall::open().await), Arc::new(Hall::open().await));
    let begun = Instant::now();
    let choice = Choice::parse(&std::env::var("CURATOR_FAULT_CELL").unwrap_or_default());
    let chosen = |cells: Vec<Cell>| cells.into_iter().filter(|cell| choice.has(cell)).collect::<Vec<_>>();
    let courses = chosen(Cell::courses());
    let mut without_faults = Vec::new();
    let mut twice = async |cells: &[Cell]| {
        let (one, other) = tokio::join!(run_all(&hall, cells), run_all(&other_hall, cells));
        let sent = Sent::compare(&one, &other);
        without_faults.extend([one, other].concat());
        sent
    };
    let quiet = twice(&courses).await;
    let cut = twice(&chosen(quiet.cuts())).await.because_of_the_cut(&quiet);
    // A request that depends on a race is in a cell only if it was sent both times.
    for differing in quiet.differing.iter().chain(&cut.differing) {
        say(&format!("the requests differ between two runs: {differing}"));
    }
    let cells = chosen([quiet.strikes(), cut.strikes()].concat());
    // Slow cells sleep most of the time. The quick ones run meanwhile, on a separate server, so that all its watches
    // are theirs.
    let (slow, mut quick): (Vec<_>, Vec<_>) = cells.iter().partition(|cell| cell.is_slow());
    // Cells of one batch wait for each other, so group those that take equally long.
    quick.sort_by_key(Cell::fault);
    let halves = [&slow, &quick].map(|cells| cells.split_at(cells.len().div_ceil(2)));
    let halls = [Arc::clone(&hall), other_hall, Arc::new(Hall::open().await), Arc::new(Hall::open().await)];
    let mut running = Vec::new();
    for (cells, hall) in halves.into_iter().flat_map(|(some, others)| [some, others]).zip(halls) {
        running.push(async move { run_all(&hall, cells).await });
    }
    let with_faults = join_all(running).await.concat();

    let after_a_cut = cells.iter().filter(|cell| cell.cut.is_some()).count();
    let took = with_faults.iter().map(|result| result.took).max().unwrap_or(Duration::ZERO);
    let server = hall.server.version().map(|version| version.to_string()).unwrap_or_default();
    say(&format!(
        "Fault matrix, {} server, {server}: {} cells, {} of them after a cut, of {} courses in {:.0} s; \
         at most {:.1} s from a fault until all others had had the lock\n\n{}",
        hall.server.kind(),
        cells.len(),
        after_a_cut,
        courses.len(),
        begun.elapsed().as_secs_f64(),
        took.as_secs_f64(),
        table(&with_faults),
    ));
    let failed: Vec<_> = [without_faults, with_faults.clone()].concat().iter().filter_map(failure).collect();
    assert!(failed.is_empty(), "{} cells have failed:\n{}", failed.len(), failed.join("\n"));
    assert!(!cells.is_empty(), "no cell has this name");
    if choice.is_all() {
        assert_eq!([quiet.gaps(), cut.gaps_of_recovery()].concat(), [""; 0]);
        let not_sent = with_faults.iter().filter(|result| result.outcome == Ok(NOT_SENT)).count();
        assert!(not_sent * 50 <= after_a_cut, "{not_sent} requests were not sent");
        assert!(
            cells.len() >= AT_LEAST.0 && after_a_cut >= AT_LEAST.1,
            "{} cells, {after_a_cut} after a cut",
            cells.len()
        );
    }
}

/// The outcomes of each lock's cells, and how often each occurred, as Markdown.
fn table(results: &[Result]) -> String {
    let mut rows = BTreeMap::<_, BTreeMap<_, usize>>::new();
    for Result { cell, outcome, .. } in results {
        let outcomes = rows.entry((cell.course.subject(), cell.fault())).or_default();
        *outcomes.entry(outcome.as_ref().map_or("**FAILED**", |outcome| *outcome)).or_default() += 1;
    }
    let rows = rows.into_iter().map(|((subject, fault), outcomes)| {
        let outcomes: Vec<_> = outcomes.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
        format!("| {} | {} | {} |\n", subject, fault.map_or("-", Fault::name), outcomes.join(", "))
    });
    ["| Lock | Fault | Outcomes |\n|---|---|---|\n".to_owned()].into_iter().chain(rows).collect()
}

fn failure(result: &Result) -> Option<String> {
    result.outcome.as_ref().err().map(|why| format!("{}: {why}", result.cell))
}
