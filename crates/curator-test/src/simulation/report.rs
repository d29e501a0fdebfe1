//! What is printed about a run that fails, and the end of one whose time stands still.
//!
//! A task that computes forever, or that blocks its thread forever, cannot be interrupted, and no
//! limit in simulated time ends it. Therefore a separate thread watches whether time passes in each
//! simulation.

use std::{
    env,
    io::{self, Write},
    panic::catch_unwind,
    process,
    sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError, Weak},
    thread,
    time::Duration,
};

use super::{Shared, trace::last_lines};
use crate::embedded::Millis;

/// The environment variable with a seed: [`search`](crate::search) runs only this seed, and a
/// failing run prints all events.
pub const SEED_VARIABLE: &str = "CURATOR_SEED";

/// How many of its last events a failing seed prints.
const LAST: usize = 40;

/// A run, and how to repeat it.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) seed: u64,
    command: String,
}

impl Run {
    /// The default command repeats the test that this thread runs.
    pub(super) fn new(seed: u64, command: Option<String>) -> Self {
        Self {
            seed,
            command: command.unwrap_or_else(|| TestName::of_thread().command(seed)),
        }
    }

    /// The reason, the last events, and the command.
    pub(super) fn report(&self, reason: &str, shared: Option<&Shared>) -> String {
        let Self { seed, command } = self;
        let trace = shared.map(|shared| {
            shared
                .trace()
                .unwrap_or_else(|| "(the simulation does not return)\n".to_owned())
        });
        let trace = trace.unwrap_or_default();
        // If the variable selects one seed, all events are printed.
        let last = if env::var_os(SEED_VARIABLE).is_some() {
            &trace
        } else {
            last_lines(&trace, LAST)
        };
        format!(
            "seed {seed} failed: {reason}\n\nIts last events:\n{last}\nTo repeat it and print all events:\n  {command}\n"
        )
    }

    /// Prints the report of a run that has panicked. The panic's message is already printed. Does
    /// not panic.
    pub(super) fn print(&self, shared: &Shared) {
        let report = self.report("its test has panicked, see above", Some(shared));
        let _ = catch_unwind(|| eprintln!("\n{report}"));
    }
}

/// The name of the test that a thread runs. The test harness gives the thread the same name.
pub(super) struct TestName(Option<String>);

impl TestName {
    pub(super) fn of_thread() -> Self {
        Self(
            thread::current()
                .name()
                .filter(|name| *name != "main")
                .map(str::to_owned),
        )
    }

    /// How to repeat a run of the test. Cargo sets the package.
    pub(super) fn command(&self, seed: u64) -> String {
        let package = env::var("CARGO_PKG_NAME")
            .map(|name| format!(" -p {name}"))
            .unwrap_or_default();
        // Without `--exact`, all tests whose names contain this one would run.
        let test = self
            .0
            .as_ref()
            .map(|name| format!(" {name} -- --exact"))
            .unwrap_or_default();
        format!("{SEED_VARIABLE}={seed} cargo test{package}{test}")
    }
}

/// The interval between two checks by the thread.
const PERIOD: Duration = Duration::from_secs(1);

/// After how many checks without progress a simulation is reported. Checks are counted, and no
/// clock is read, so that time for which the whole process is stopped, as by a debugger, does not
/// count.
const STILL: u32 = 60;

/// The exit status of a test harness whose tests fail.
const FAILED: i32 = 101;

static WATCHED: Mutex<Vec<Simulated>> = Mutex::new(Vec::new());

/// Is notified when there is a simulation to watch.
static BEGUN: Condvar = Condvar::new();

/// The initial capacity of the list of simulations. A test may measure the memory that a run leaves
/// behind, and growth of the list must not count as such.
const ROOM: usize = 64;

struct Simulated {
    run: Run,
    shared: Weak<Shared>,
    /// The simulated time at the last check, and the number of checks without progress.
    time: Millis,
    still: u32,
}

/// Watches a simulation, until it is [forgotten](forget).
pub(super) fn watch(shared: &Arc<Shared>, run: Run) {
    static THREAD: Once = Once::new();
    THREAD.call_once(|| {
        lock().reserve(ROOM);
        // Without a thread, nothing is watched.
        drop(
            thread::Builder::new()
                .name("simulations".to_owned())
                .spawn(watch_all),
        );
    });
    lock().push(Simulated::new(shared, run));
    BEGUN.notify_one();
}

pub(super) fn forget(shared: &Arc<Shared>) {
    lock().retain(|simulated| simulated.shared.as_ptr() != Arc::as_ptr(shared));
}

/// Checks all simulations, forever. Blocks while there is none.
fn watch_all() {
    loop {
        drop(BEGUN.wait_while(lock(), |simulations| simulations.is_empty()));
        thread::sleep(PERIOD);
        if let Some(report) = lock().iter_mut().find_map(Simulated::look) {
            // Not with `eprintln`, whose output a test harness captures.
            let _ = writeln!(io::stderr(), "\n{report}");
            process::exit(FAILED);
        }
    }
}

impl Simulated {
    fn new(shared: &Arc<Shared>, run: Run) -> Self {
        Self {
            run,
            shared: Arc::downgrade(shared),
            time: shared.latest(),
            still: 0,
        }
    }

    /// Checks for progress. Returns a report if no time has passed in the last `STILL` checks.
    fn look(&mut self) -> Option<String> {
        let shared = self.shared.upgrade()?;
        let time = shared.latest();
        self.still = if time == self.time { self.still + 1 } else { 0 };
        self.time = time;
        (self.still >= STILL).then(|| self.run.report(&reason(), Some(&shared)))
    }
}

fn reason() -> String {
    format!(
        "no simulated time has passed for {:?}. A task computes for ever, blocks the thread (a `std::sync::Mutex` that \
         it has locked already, a `blocking_*` method), or waits for such a blocking task. The process ends.",
        PERIOD * STILL
    )
}

fn lock() -> MutexGuard<'static, Vec<Simulated>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Simulation;

    /// Checks a simulation up to `looks` times, until there is a report.
    fn look_until(simulation: &Simulated, looks: u32) -> Option<String> {
        let mut simulated = Simulated {
            run: simulation.run.clone(),
            shared: simulation.shared.clone(),
            ..*simulation
        };
        (0..looks).find_map(|_| simulated.look())
    }

    #[tokio::test(start_paused = true)]
    async fn a_simulation_whose_time_stands_still_is_reported_with_its_seed_and_events() {
        let simulation = Simulation::new(7);
        Simulation::note("the last event");
        let mut simulated = Simulated::new(&simulation.shared, simulation.run.clone());
        assert_eq!(look_until(&simulated, STILL - 1), None);
        let report = look_until(&simulated, STILL).unwrap();
        assert!(
            report.starts_with("seed 7 failed: no simulated time has passed for 60s"),
            "{report}"
        );
        assert!(report.contains("the last event"), "{report}");
        assert!(
            report.contains(
                "CURATOR_SEED=7 cargo test -p curator-test simulation::report::tests::a_simu"
            ),
            "{report}"
        );
        for _ in 0..2 * STILL {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(simulated.look(), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn time_passes_also_when_nothing_happens_in_the_world() {
        let simulation = Simulation::new(7);
        simulation.stop(1);
        let mut simulated = Simulated::new(&simulation.shared, simulation.run.clone());
        for _ in 0..2 * STILL {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(simulated.look(), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_that_blocks_within_the_world_is_reported_too() {
        let simulation = Simulation::new(7);
        let simulated = Simulated::new(&simulation.shared, simulation.run.clone());
        let report = simulation.shared.update(|_| look_until(&simulated, STILL));
        assert!(
            report
                .unwrap()
                .contains("Its last events:\n(the simulation does not return)")
        );
    }

    #[test]
    fn each_simulation_is_watched_until_it_is_dropped() {
        let is_watched = |shared: &Weak<Shared>| {
            lock()
                .iter()
                .any(|simulated| simulated.shared.ptr_eq(shared))
        };
        let shared = crate::simulate(3, async |simulation| {
            let shared = Arc::downgrade(&simulation.shared);
            assert!(is_watched(&shared));
            shared
        });
        assert!(!is_watched(&shared));
    }
}
