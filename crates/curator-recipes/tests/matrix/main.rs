//! The fault matrix: every lock and the leader latch, every request that it sends, every fault, at
//! the first, middle and last place in the queue.
//!
//! The cells are derived. Each [course](phase::Course) of a lock is run without a fault, and its
//! requests are counted; then it is run again for each of these requests and each
//! [fault](fault::Fault). So a request that is added to a lock is in the matrix automatically. Some
//! requests are sent only after a fault. Therefore courses are also run with a [cut](fault::Cut),
//! and then again with each fault at each request that is sent only because of the cut.
//!
//! The required outcome of a cell, without intervention and within a [bound](stage::BOUND): the
//! contender owns the lock, or has an error that its documentation names; no contender holds the
//! lock while another contender holds it exclusively; all other contenders acquire the lock one
//! after another; no node, watch or pending work is left.
//!
//! Only this target injects every fault at every single request of a lock, including the requests
//! that a lock sends only because of another fault.
//!
//! Each cell runs in a separate [simulation](curator_test::Simulation), with one server and the
//! native transport. It therefore sends the same requests in each run, and takes milliseconds. If
//! `CURATOR_FAULT_SAMPLE` is set to a number, only that many cells run: on servers, through a
//! [`FaultProxy`](curator_test::FaultProxy), with the transport of all other tests. On real servers
//! (`CURATOR_TEST_SERVER=real`), the default is 100 cells.
//!
//! The outcomes are printed. `CURATOR_FAULT_CELL` selects cells by a name, as printed by a failure,
//! or by parts of a name, as in `mutex / Create2 1` or `mutex / after Create2 1 cut before`: only
//! matching cells run. `CURATOR_FAULT_SEED` chooses the sample, and the latencies of simulations.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test, a panic is the way to fail"
)]

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod cells;
mod fault;
mod latch;
mod neighbour;
mod operation;
mod phase;
mod plan;
mod run;
mod sample;
mod scene;
mod spread;
mod stage;
mod terms;
mod world;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use curator_test::ServerKind;

use self::cells::{Cell, Choice};
use self::fault::Fault;
use self::plan::Sent;
use self::spread::{NOT_SENT, Result, run_on_servers, run_simulated};
use self::support::{new_seed, number, say};

/// The minimum numbers of all cells, and of cells after a cut: slightly below the actual numbers.
const AT_LEAST: (usize, usize) = (4_900, 1_500);

#[test]
fn a_fault_at_any_request_ends_in_one_owner_or_an_error_and_leaves_nothing() {
    let begun = Instant::now();
    let sample = sample::size();
    let seed = number(
        "CURATOR_FAULT_SEED",
        if sample.is_some() { new_seed() } else { 0 },
    );
    let choice = Choice::parse(&std::env::var("CURATOR_FAULT_CELL").unwrap_or_default());
    let chosen = |cells: Vec<Cell>| {
        cells
            .into_iter()
            .filter(|cell| choice.has(cell))
            .collect::<Vec<_>>()
    };

    let courses = run_simulated(&chosen(Cell::courses()), seed);
    let quiet = Sent::from_results(&courses);
    let cut_courses = run_simulated(&chosen(quiet.cuts()), seed);
    let cut = Sent::from_results(&cut_courses).because_of_the_cut(&quiet);
    let cells = chosen([quiet.strikes(), cut.strikes()].concat());
    let after_a_cut = cells.iter().filter(|cell| cell.cut.is_some()).count();
    let number_of_cells = cells.len();
    let (with_faults, place) = match sample {
        None => (run_simulated(&cells, seed), "in simulated time".to_owned()),
        Some(size) => {
            let kind = ServerKind::from_environment().unwrap();
            // Printed before the run, in case it is killed.
            say(&format!(
                "CURATOR_FAULT_SEED={seed} chooses the cells on {kind} servers"
            ));
            (
                run_on_servers(&sample::choose(cells, size, seed)),
                format!("on {kind} servers"),
            )
        }
    };

    let took = with_faults
        .iter()
        .map(|result| result.took)
        .max()
        .unwrap_or(Duration::ZERO);
    say(&format!(
        "Fault matrix: {} cells {place}, of {number_of_cells}, {after_a_cut} of them after a cut, of {} courses, in {:.0} s, \
         with the seed {seed}; at most {:.1} s from a fault until all others had had the lock\n\n{}",
        with_faults.len(),
        courses.len(),
        begun.elapsed().as_secs_f64(),
        took.as_secs_f64(),
        table(&with_faults),
    ));
    let failed: Vec<_> = [courses, cut_courses, with_faults.clone()]
        .concat()
        .iter()
        .filter_map(failure)
        .collect();
    assert!(
        failed.is_empty(),
        "{} cells have failed, with the seed {seed}:\n{}",
        failed.len(),
        failed.join("\n")
    );
    assert!(!with_faults.is_empty(), "no cell has this name");
    let not_sent: Vec<_> = with_faults
        .iter()
        .filter(|result| result.outcome == Ok(NOT_SENT))
        .collect();
    // On a server, a race may decide whether a request is sent, and how many before it.
    let permitted = if sample.is_some() {
        with_faults.len() / 10
    } else {
        0
    };
    assert!(
        not_sent.len() <= permitted,
        "{} requests were not sent: {not_sent:#?}",
        not_sent.len()
    );
    if choice.is_all() {
        assert_eq!([quiet.gaps(), cut.gaps_of_recovery()].concat(), [""; 0]);
        assert!(
            number_of_cells >= AT_LEAST.0 && after_a_cut >= AT_LEAST.1,
            "{number_of_cells} cells, {after_a_cut} after a cut"
        );
    }
}

/// The outcomes of each lock's cells, and how often each occurred, as Markdown.
fn table(results: &[Result]) -> String {
    let mut rows = BTreeMap::<_, BTreeMap<_, usize>>::new();
    for Result { cell, outcome, .. } in results {
        let outcomes = rows
            .entry((cell.course.subject(), cell.fault()))
            .or_default();
        *outcomes
            .entry(outcome.as_ref().map_or("**FAILED**", |outcome| *outcome))
            .or_default() += 1;
    }
    let rows = rows.into_iter().map(|((subject, fault), outcomes)| {
        let outcomes: Vec<_> = outcomes
            .iter()
            .map(|(outcome, count)| format!("{count} {outcome}"))
            .collect();
        format!(
            "| {} | {} | {} |\n",
            subject,
            fault.map_or("-", Fault::name),
            outcomes.join(", ")
        )
    });
    ["| Lock | Fault | Outcomes |\n|---|---|---|\n".to_owned()]
        .into_iter()
        .chain(rows)
        .collect()
}

fn failure(result: &Result) -> Option<String> {
    result
        .outcome
        .as_ref()
        .err()
        .map(|why| format!("{}: {why}", result.cell))
}
