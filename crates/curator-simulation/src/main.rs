//! The program `curator-simulation`: see `cargo xtask simulate --help`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use curator_simulation::search::{Found, Report, Search, seed_of_commit};
use curator_simulation::{planted, simulated, workload};
use rustix::time::{ClockId, clock_gettime};

/// How many of the last events are printed with a failure.
const LAST_EVENTS: usize = 40;
/// How many failures are printed with their events.
const REPORTED: usize = 5;

/// Searches over schedules in simulated time: three processes use a recipe while servers, network
/// and processes fail.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask simulate", version)]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 500)]
    seeds: u64,
    /// The first seed: a number, or `commit` for a number that changes with the commit.
    #[arg(long, default_value = "0")]
    from: String,
    /// The workload; by default, each seed takes the next.
    #[arg(long)]
    workload: Option<String>,
    /// Runs one seed only.
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// Prints all events and the trace of the servers, with `--seed`.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// How many threads; by default, as many as there are cores.
    #[arg(long)]
    threads: Option<usize>,
    /// Stops at the first failure.
    #[arg(long)]
    first: bool,
    /// Plants each known defect into a copy of the workspace, and prints how many seeds find it.
    #[arg(long)]
    planted: bool,
    /// Plants the defects with this text in their names only.
    #[arg(long, requires = "planted")]
    only: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("simulate: {message}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether all schedules passed, or all planted defects were found.
fn run(arguments: &Arguments) -> Result<bool, String> {
    if arguments.planted {
        return planted::run(arguments.only.as_deref());
    }
    let workloads = match &arguments.workload {
        None => workload::names().collect(),
        Some(name) => vec![
            workload::names()
                .find(|known| known == name)
                .ok_or_else(|| {
                    format!(
                        "no workload {name}; there are {}",
                        workload::names().collect::<Vec<_>>().join(", ")
                    )
                })?,
        ],
    };
    let threads = match arguments.threads {
        Some(threads) => threads.max(1),
        None => std::thread::available_parallelism().map_or(1, Into::into),
    };
    let (from, seeds) = match arguments.seed {
        Some(seed) => (seed, 1),
        None => (first_seed(&arguments.from)?, arguments.seeds),
    };
    let search = Search {
        from,
        seeds,
        workloads,
        threads,
        stops: arguments.first,
    };
    if arguments.trace {
        return Ok(trace(from, search.workload(from)));
    }
    println!("{seeds} seeds from {from}, {threads} threads");
    let reported = std::sync::atomic::AtomicUsize::new(0);
    let before = processor_time();
    let report = search.run(
        |seed, workload| simulated::run(seed, workload, false).0,
        |found| {
            if reported.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < REPORTED {
                print_failure(found);
            } else {
                println!(
                    "FAILURE of {} with seed {}: {}",
                    found.workload, found.seed, found.failure.what
                );
            }
        },
    );
    print_report(&report, processor_time().saturating_sub(before));
    Ok(report.found.is_empty())
}

/// The seed in the arguments.
fn first_seed(from: &str) -> Result<u64, String> {
    if from != "commit" {
        return from
            .parse()
            .map_err(|_| format!("--from: \"{from}\" is neither a number nor `commit`"));
    }
    seed_of_commit()
}

/// Prints all events of one schedule. Returns whether it passes.
fn trace(seed: u64, workload: &'static str) -> bool {
    let (verdict, trace) = simulated::run(seed, workload, true);
    println!("The servers:\n{trace}\nThe processes:");
    verdict.events.iter().for_each(|event| println!("{event}"));
    match &verdict.failure {
        None => println!("\n{workload} passes with seed {seed}"),
        Some(failure) => println!(
            "\nFAILURE after {:.3} s: {}",
            failure.at.as_secs_f64(),
            failure.what
        ),
    }
    verdict.failure.is_none()
}

/// Runs the schedule again, and prints its last events.
fn print_failure(found: &Found) {
    let Found {
        seed,
        workload,
        failure,
    } = found;
    let (again, _) = simulated::run(*seed, workload, true);
    let mut text = format!(
        "FAILURE of {workload} with seed {seed} after {:.3} s: {}\n",
        failure.at.as_secs_f64(),
        failure.what
    );
    if again.failure.as_ref() != Some(failure) {
        text += &format!(
            "  It does not repeat: the second time, the failure is {:?}.\n",
            again.failure
        );
    }
    let skipped = again.events.len().saturating_sub(LAST_EVENTS);
    again
        .events
        .iter()
        .skip(skipped)
        .for_each(|event| text += &format!("  {event}\n"));
    println!("{text}  Repeat it: cargo xtask simulate --workload {workload} --seed {seed} --trace");
}

fn print_report(report: &Report, processor: Duration) {
    let Report {
        schedules,
        simulated,
        took,
        found,
        hash,
    } = report;
    let seconds = took.as_secs_f64();
    let count = u32::try_from(*schedules).unwrap_or(u32::MAX);
    println!(
        "{schedules} schedules in {seconds:.1} s: {:.1} per second; {:.1} simulated seconds and {:.1} ms of processor time each",
        f64::from(count) / seconds,
        simulated.as_secs_f64() / f64::from(count),
        processor.as_secs_f64() * 1000.0 / f64::from(count),
    );
    println!("hash of all traces: {hash:016x}");
    match found.first() {
        None => println!("no failures"),
        Some(first) => println!(
            "{} failures, the first with seed {}",
            found.len(),
            first.seed
        ),
    }
}

/// The processor time of this process.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}
