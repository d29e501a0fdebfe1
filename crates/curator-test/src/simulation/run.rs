//! Runs of one seed, and of many.

use std::{
    any::Any,
    env,
    ffi::OsStr,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::runtime::{self, Handle};

use super::{
    Shared, Simulation, SimulationBuilder,
    report::{Run, SEED_VARIABLE, TestName},
};

/// The longest run, in simulated time.
const LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Runs a test with one simulated server and the given seed, in a separate runtime, and returns
/// its output.
///
/// # Panics
///
/// When the test panics, or takes longer than a simulated day. The message has the seed, the last
/// events of the trace, and the command to repeat the run. Also when called in a runtime.
///
/// When no simulated time passes for 60 s, because a task computes or blocks forever, the same
/// report is printed, and the process ends.
#[track_caller]
pub fn simulate<T>(seed: u64, test: impl AsyncFnOnce(&Simulation) -> T) -> T {
    Simulation::builder().seed(seed).simulate(test)
}

/// Runs a test with one simulated server once for each seed, on all processors. See
/// [`SimulationBuilder::search`].
///
/// ```
/// use std::time::Duration;
///
/// use curator_client::CuratorClient;
/// use curator_test::{Faults, Simulation};
///
/// curator_test::search(0..10, async |simulation| {
///     let client = CuratorClient::builder(simulation.connect_string()).connect().await.unwrap();
///     // For a minute, connections break and the server stops, at random.
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
/// See [`SimulationBuilder::search`].
#[track_caller]
pub fn search(seeds: Range<u64>, test: impl AsyncFn(&Simulation) + Sync) {
    Simulation::builder().search(seeds, test);
}

impl SimulationBuilder {
    /// Runs a test in a separate runtime, and returns its output.
    ///
    /// # Panics
    ///
    /// See [`simulate`].
    #[track_caller]
    pub fn simulate<T>(self, test: impl AsyncFnOnce(&Simulation) -> T) -> T {
        assert_no_runtime();
        self.run(test).unwrap_or_else(|failure| fail(&failure))
    }

    /// Runs a test once for each seed, each in a separate runtime, on all processors. If the
    /// environment variable `CURATOR_SEED` is set, only with that seed.
    ///
    /// Runs share only what the closure captures, so let the closure start everything itself.
    ///
    /// # Panics
    ///
    /// When a run panics, or takes longer than a simulated day. The message has the lowest failing
    /// seed, the last events of its trace, and the command to repeat it. Also when there are no
    /// seeds, when `CURATOR_SEED` is not a number, and when called in a runtime.
    ///
    /// When no simulated time passes: see [`simulate`].
    #[track_caller]
    pub fn search(self, seeds: Range<u64>, test: impl AsyncFn(&Simulation) + Sync) {
        assert_no_runtime();
        assert!(
            !seeds.is_empty(),
            "there are no seeds to search: {seeds:?} is empty"
        );
        if let Some(seed) = env::var_os(SEED_VARIABLE) {
            return self.seed(seed_in(&seed)).simulate(test);
        }
        let next = AtomicU64::new(seeds.start);
        let failed = Mutex::new(None::<Failure>);
        let test_name = TestName::of_thread();
        let count = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..count {
                scope.spawn(|| {
                    while failed
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .is_none()
                    {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= seeds.end {
                            return;
                        }
                        let run = self.clone().seed(seed).command(test_name.command(seed));
                        if let Err(failure) = run.run(&test) {
                            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                            // Seeds begin in order, so all lower seeds have begun, and end before
                            // the report.
                            if failed.as_ref().is_none_or(|lowest| seed < lowest.run.seed) {
                                *failed = Some(failure);
                            }
                        }
                    }
                });
            }
        });
        if let Some(failure) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            fail(&failure);
        }
    }

    fn run<T>(self, test: impl AsyncFnOnce(&Simulation) -> T) -> Result<T, Failure> {
        let of_this = self.run_of_this();
        let shared = Mutex::new(None::<Arc<Shared>>);
        let run = || {
            let runtime = runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build();
            let runtime = runtime.map_err(|e| format!("could not build a runtime: {e}"))?;
            runtime.block_on(async {
                let mut simulation = self.start();
                simulation.reports = false;
                *shared.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(Arc::clone(&simulation.shared));
                let output = tokio::time::timeout(LIMIT, test(&simulation)).await;
                output.map_err(|_| {
                    format!("the run has not ended within {LIMIT:?} of simulated time")
                })
            })
        };
        let reason = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(output)) => return Ok(output),
            Ok(Err(reason)) => reason,
            Err(panic) => text_of(panic.as_ref()),
        };
        let shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        Err(Failure {
            report: of_this.report(&reason, shared.as_deref()),
            run: of_this,
        })
    }
}

/// A run that has failed.
struct Failure {
    run: Run,
    report: String,
}

#[expect(clippy::panic, reason = "the failure of a test")]
#[track_caller]
fn fail(failure: &Failure) -> ! {
    panic!("{}", failure.report);
}

#[track_caller]
fn assert_no_runtime() {
    assert!(
        Handle::try_current().is_err(),
        "`simulate` and `search` start a runtime, and cannot be called in one: call them in a `#[test]`, or use \
         `Simulation::new` in a `#[tokio::test(start_paused = true)]`"
    );
}

/// Parses the value of [`SEED_VARIABLE`].
#[track_caller]
fn seed_in(value: &OsStr) -> u64 {
    let seed = value.to_str().and_then(|value| value.trim().parse().ok());
    #[expect(
        clippy::panic,
        reason = "a run without the seed would pass for the wrong reason"
    )]
    seed.unwrap_or_else(|| {
        panic!(
            "{SEED_VARIABLE} is {value:?}, not a seed: a number from 0 to {}",
            u64::MAX
        )
    })
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a text")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_a_decimal_number() {
        assert_eq!(seed_in(OsStr::new(" 17 ")), 17);
        for value in ["abc", "0x4", "-1", "", "18446744073709551616"] {
            let text = text_of(
                catch_unwind(|| seed_in(OsStr::new(value)))
                    .unwrap_err()
                    .as_ref(),
            );
            let expected = "not a seed: a number from 0 to 18446744073709551615";
            assert_eq!(text, format!("CURATOR_SEED is {value:?}, {expected}"));
        }
    }
}
