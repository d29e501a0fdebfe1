//! Runs a schedule on simulated servers.

use std::sync::Arc;
use std::time::Duration;

use curator_test::{SEED_VARIABLE, Simulation};

use crate::memory;
use crate::schedule::{self, Times, Verdict};
use crate::servers::{SHORTEST_TIMEOUT, Servers};
use crate::workload::{self, Workload};
use crate::world::Failure;

/// How many lines of the trace are kept for the report of a schedule in which time stands still, if
/// no trace is requested.
const TRACE: usize = 40;

/// How often a schedule is repeated if memory is still allocated after it.
const REPEATS: usize = 3;

/// Runs the schedule of a seed, and checks that no memory is still allocated after it. Also returns
/// the trace of the servers, if `traces` is set.
#[must_use]
pub fn run(seed: u64, workload: &str, traces: bool) -> (Verdict, String) {
    let ((mut verdict, trace), left) = measured(seed, workload, traces);
    if verdict.failure.is_none() && left > 0 {
        // A repetition does not allocate again what a thread or a process allocates only once.
        let left = (0..REPEATS)
            .map(|_| measured(seed, workload, traces).1)
            .min()
            .unwrap_or_default();
        if left > 0 {
            let what = format!("{left} bytes are left in memory");
            verdict.failure = Some(Failure {
                at: verdict.time,
                what,
            });
        }
    }
    (verdict, trace)
}

/// Runs a schedule. Also returns how many more bytes are allocated after the schedule than before,
/// not counting its result.
fn measured(seed: u64, workload: &str, traces: bool) -> ((Verdict, String), isize) {
    let before = memory::live();
    let (verdict, trace) = match workload::make(workload) {
        Some(made) => {
            // With the variable, this command also prints all events of a schedule in which time
            // stands still.
            let command =
                format!("cargo xtask simulate --workload {workload} --seed {seed} --trace");
            run_made(
                seed,
                made,
                traces,
                Some(format!("{SEED_VARIABLE}={seed} {command}")),
            )
        }
        None => failed(format!("there is no workload {workload}")),
    };
    let events = verdict.events.capacity() * size_of::<String>();
    let result =
        trace.capacity() + events + verdict.events.iter().map(String::capacity).sum::<usize>();
    let left = memory::live() - before - result.cast_signed();
    ((verdict, trace), left)
}

/// Like [`run`], but runs the given workload, and does not check the memory.
#[must_use]
pub fn run_workload(seed: u64, workload: Arc<dyn Workload>, traces: bool) -> (Verdict, String) {
    run_made(seed, workload, traces, None)
}

fn run_made(
    seed: u64,
    workload: Arc<dyn Workload>,
    traces: bool,
    command: Option<String>,
) -> (Verdict, String) {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return failed(format!("no runtime: {error}")),
    };
    runtime.block_on(async {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut simulation = Simulation::builder()
            .seed(seed)
            .servers([1, 3, 3, 5][random.usize(0..4)])
            .session_timeouts(SHORTEST_TIMEOUT, Duration::from_secs(60))
            .container_check_interval(Duration::from_secs(5));
        if !traces {
            simulation = simulation.trace_lines(TRACE);
        }
        if let Some(command) = command {
            simulation = simulation.command(command);
        }
        let servers = Arc::new(Servers::new(simulation.start()));
        let verdict = schedule::run(Arc::clone(&servers), workload, Times::default(), traces).await;
        let trace = if traces {
            servers.trace()
        } else {
            String::new()
        };
        (verdict, trace)
    })
}

fn failed(what: String) -> (Verdict, String) {
    let failure = Failure {
        at: Duration::ZERO,
        what,
    };
    (
        Verdict {
            failure: Some(failure),
            events: Vec::new(),
            time: Duration::ZERO,
            trace_hash: 0,
        },
        String::new(),
    )
}
