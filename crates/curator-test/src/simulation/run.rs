//! Runs of one seed, and of many.

use std::{
    any::Any,
    env,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::runtime;

use super::{Shared, Simulation, SimulationBuilder, trace::last_lines};

/// The environment variable with which [`search`] runs only one seed.
pub const SEED_VARIABLE: &str = "CURATOR_SEED";

/// How many of its last events a failing seed prints.
const LAST: usize = 40;

/// The longest run, in simulated time.
const LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Runs a test with one simulated server and the given seed, in a runtime of its own, and returns its output.
///
/// # Panics
///
/// When the test panics, or takes longer than a simulated day. The message has the seed, the last events of the trace,
/// and the command to repeat the run.
pub fn simulate<T>(seed: u64, test: impl AsyncFn(&Simulation) -> T) -> T {
    Simulation::builder().seed(seed).simulate(test)
}

/// Runs a test with one simulated server once for each seed, on all processors. See [`SimulationBuilder::search`].
///
/// ```
/// use std::time::Duration;
///
/// use curator_client::CuratorClient;
/// use curator_test::{Faults, Simulation};
///
/// curator_test::search(0..10, async |simulation| {
///     let client = CuratorClient::builder(simulation.connect_string()).connect().await.unwrap();
///     // For a minute, connections break and the server stops, by chance.
///     simulation.set_faults(Faults::of_network_and_servers());
///     tokio::time::sleep(Duration::from_secs(60)).await;
///     simulation.heal();
///     tokio::time::sleep(Duration::from_secs(30)).await;
///     assert!(client.create().for_path("/a", "data").await.is_ok());
///     client.close().await.unwrap();
/// });
/// ```
///
/// # Panics
///
/// As [`SimulationBuilder::search`].
pub fn search(seeds: Range<u64>, test: impl AsyncFn(&Simulation) + Sync) {
    Simulation::builder().search(seeds, test);
}

impl SimulationBuilder {
    /// Runs a test in a runtime of its own, and returns its output.
    ///
    /// # Panics
    ///
    /// As [`simulate`].
    pub fn simulate<T>(self, test: impl AsyncFn(&Simulation) -> T) -> T {
        let seed = self.seed_number();
        match self.run(test) {
            Ok(output) => output,
            Err(failure) => fail(seed, &failure),
        }
    }

    /// Runs a test once for each seed, each in a runtime of its own, on all processors. If the environment variable
    /// `CURATOR_SEED` is set, only with that seed.
    ///
    /// Each run has only what its closure captures in common with the others: let it start everything itself.
    ///
    /// # Panics
    ///
    /// When a run panics, or takes longer than a simulated day. The message has the lowest failing seed, the last events
    /// of its trace, and the command to repeat it.
    pub fn search(self, seeds: Range<u64>, test: impl AsyncFn(&Simulation) + Sync) {
        if let Some(seed) = env::var(SEED_VARIABLE).ok().and_then(|seed| seed.trim().parse().ok()) {
            return self.seed(seed).simulate(test);
        }
        let (next, failed) = (AtomicU64::new(seeds.start), Mutex::new(None::<(u64, Failure)>));
        let work = || {
            while failed.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end {
                    return;
                }
                if let Err(failure) = self.clone().seed(seed).run(&test) {
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    // Seeds begin in order: all lower ones have begun, and end before the report.
                    if failed.as_ref().is_none_or(|(lowest, _)| seed < *lowest) {
                        *failed = Some((seed, failure));
                    }
                }
            }
        };
        let count = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..count {
                scope.spawn(work);
            }
        });
        if let Some((seed, failure)) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            fail(seed, &failure);
        }
    }

    fn run<T>(self, test: impl AsyncFn(&Simulation) -> T) -> Result<T, Failure> {
        let world = Mutex::new(None::<Arc<Shared>>);
        let run = || {
            let runtime = runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
            let runtime = runtime.map_err(|e| format!("could not build a runtime: {e}"))?;
            runtime.block_on(async {
                let simulation = self.start();
                *world.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&simulation.shared));
                let output = tokio::time::timeout(LIMIT, test(&simulation)).await;
                output.map_err(|_| format!("the run has not ended within {LIMIT:?} of simulated time"))
            })
        };
        let message = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(output)) => return Ok(output),
            Ok(Err(message)) => message,
            Err(panic) => text_of(panic.as_ref()),
        };
        let world = world.into_inner().unwrap_or_else(PoisonError::into_inner);
        let trace = world.map(|world| world.trace()).unwrap_or_default();
        Err(Failure { message, trace })
    }
}

/// Why a run has failed.
struct Failure {
    message: String,
    trace: String,
}

#[expect(clippy::panic, reason = "the failure of a test")]
fn fail(seed: u64, failure: &Failure) -> ! {
    let Failure { message, trace } = failure;
    // With one seed, all is printed.
    let last = if env::var_os(SEED_VARIABLE).is_some() { trace } else { last_lines(trace, LAST) };
    let command = command(seed);
    panic!(
        "seed {seed} failed: {message}\n\nIts last events:\n{last}\nTo repeat it and print all events:\n  {command}\n"
    );
}

/// How to repeat a run: Cargo sets the package, and the test harness names the thread after the test.
fn command(seed: u64) -> String {
    let package = env::var("CARGO_PKG_NAME").map(|name| format!(" -p {name}")).unwrap_or_default();
    let current = thread::current();
    let test = current.name().filter(|name| *name != "main").map(|name| format!(" {name}")).unwrap_or_default();
    format!("{SEED_VARIABLE}={seed} cargo test{package}{test}")
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a text").to_owned()
}
