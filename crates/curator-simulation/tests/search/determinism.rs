//! The same seed and program give the same schedule, on any thread.

use std::collections::BTreeMap;
use std::sync::Mutex;

use curator_simulation::search::Search;
use curator_simulation::{simulated, workload};

#[test]
fn a_schedule_of_each_workload_has_the_same_trace_again_and_on_two_threads() {
    let seeds = workload::names().count() as u64;
    // The hashes of the traces of all schedules, by their seeds and workloads.
    let hashes = |threads| {
        let search = Search {
            from: 0,
            seeds,
            workloads: workload::names().collect(),
            threads,
            stops: false,
        };
        let hashes = Mutex::new(BTreeMap::new());
        let run = |seed, workload| {
            let (verdict, _) = simulated::run(seed, workload, false);
            hashes
                .lock()
                .unwrap()
                .insert((seed, workload), verdict.trace_hash);
            verdict
        };
        search.run(run, |_| {});
        hashes.into_inner().unwrap()
    };
    let first = hashes(1);
    let second = hashes(2);
    assert_eq!(first.len() as u64, seeds);
    let different: Vec<_> = first
        .into_iter()
        .filter(|(schedule, hash)| second.get(schedule) != Some(hash))
        .map(|(schedule, _)| schedule)
        .collect();
    assert_eq!(different, []);
}
