//! The fault matrix: every lock, every request that it sends, every fault, first and in the middle and last in the queue.
//!
//! Nobody wrote the cells down. Each [course](phase::Course) of a lock is played without a fault, and what it sends is
//! counted; then it is played again for each of these requests and each [fault](fault::Fault). So a request that is added
//! to a lock is in the matrix by itself.
//!
//! What has to come of a cell, with nobody's help and within a [bound](stage::BOUND): the contender owns the lock, or has an
//! error that its documentation names; nobody ever holds beside one that should be alone; all others get the lock in turn;
//! there is no node left, no watch, and no work.
//!
//! The table is printed. `CURATOR_FAULT_MATRIX` names a file that it is appended to. `CURATOR_FAULT_CELL` is the name of a cell, as a
//! failure says it, or parts of one, as in `mutex / Create2 1`: only such cells are played.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failure here is the test's failure")]

mod batch;
mod cells;
mod fault;
mod neighbour;
mod operation;
mod phase;
mod play;
mod scene;
mod stage;
mod subjects;
#[path = "../support/mod.rs"]
mod support;
mod table;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::batch::{Result, play_all};
use self::cells::{Cell, Choice};
use self::stage::Hall;
use self::table::Table;

/// Fewer than there are, and far more than there would be if courses sent nothing.
const AT_LEAST: usize = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_request_is_struck_there_is_one_owner_or_an_error_and_nothing_is_left() {
    let (hall, begun) = (Arc::new(Hall::open().await), Instant::now());
    let choice = Choice::parse(&std::env::var("CURATOR_FAULT_CELL").unwrap_or_default());
    let courses: Vec<_> = Cell::courses().into_iter().filter(|course| choice.has(course)).collect();
    // On a busy machine a request may come too late to be counted, so this is done twice.
    let without_faults = [play_all(&hall, &courses).await, play_all(&hall, &courses).await].concat();
    let mut sent = BTreeMap::<_, BTreeMap<_, u64>>::new();
    for (result, (op, count)) in without_faults.iter().flat_map(|r| r.requests.iter().map(move |counted| (r, counted)))
    {
        let most = sent.entry(result.cell.course).or_default().entry(*op).or_default();
        *most = (*count).max(*most);
    }
    let with_faults = sent.iter().flat_map(|(course, requests)| Cell::with_faults(*course, requests));
    let cells: Vec<_> = with_faults.filter(|cell| choice.has(cell)).collect();
    // Some sleep most of the time. Others can work meanwhile, on a server of their own, where all watches are theirs.
    let (slow, quick): (Vec<_>, Vec<_>) = cells.iter().partition(|cell| cell.is_slow());
    let other_hall = Arc::new(Hall::open().await);
    let (slow, quick) = tokio::join!(play_all(&other_hall, &slow), play_all(&hall, &quick));
    let with_faults = [slow, quick].concat();

    let took = with_faults.iter().map(|result| result.took).max().unwrap_or(Duration::ZERO);
    let server = hall.server.version().map(|version| version.to_string()).unwrap_or_default();
    let text = format!(
        "Fault matrix, {} server, {server}: {} cells of {} courses in {:.0} s; at most {:.1} s from a fault until all others \
         had had the lock\n\n{}",
        hall.server.kind(),
        cells.len(),
        courses.len(),
        begun.elapsed().as_secs_f64(),
        took.as_secs_f64(),
        Table::of(&with_faults).markdown(),
    );
    // Not by `println`, which nobody sees when the test passes.
    writeln!(std::io::stdout(), "{text}").expect("a place to print to");
    if let Some(file) = std::env::var_os("CURATOR_FAULT_MATRIX") {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file).unwrap();
        writeln!(file, "{text}").unwrap();
    }
    let failed: Vec<_> = [without_faults, with_faults].concat().iter().filter_map(failure).collect();
    assert!(failed.is_empty(), "{} cells have failed:\n{}", failed.len(), failed.join("\n"));
    assert!(!cells.is_empty() && (cells.len() >= AT_LEAST || !choice.is_all()), "only {} cells", cells.len());
}

fn failure(result: &Result) -> Option<String> {
    result.outcome.as_ref().err().map(|why| format!("{}: {why}", result.cell))
}
