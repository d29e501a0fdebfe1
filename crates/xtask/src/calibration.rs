//! A fixed computation, so that the times of runs on different machines can be compared.

use std::{
    fmt,
    hint::black_box,
    thread,
    time::{Duration, Instant},
};

use crate::print_line;

/// The number of steps of each thread: about half a second.
const STEPS: u32 = 50_000_000;

/// How often the computation is repeated. The shortest time counts, because other programs only
/// lengthen it.
const REPEATS: usize = 3;

/// Prints how long a run of `seconds` took, and its `budget`, both in units of the computation.
pub(crate) fn print(seconds: u64, budget: u32) {
    print_line(&Calibration::measure().report(Duration::from_secs(seconds), budget));
}

/// The time of the computation on this machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Calibration(Duration);

impl Calibration {
    /// Runs the computation on all cores at the same time, and measures its time.
    pub(crate) fn measure() -> Self {
        let threads = thread::available_parallelism().map_or(1, Into::into);
        let repeats = (0..REPEATS).map(|_| {
            let begin = Instant::now();
            thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(compute);
                }
            });
            begin.elapsed()
        });
        Self(repeats.min().unwrap_or_default())
    }

    /// Describes this calibration and a run that took `took`, in units of the computation, with its
    /// budget in the same unit.
    pub(crate) fn report(self, took: Duration, budget: u32) -> String {
        let units = took.as_secs_f64() / self.0.as_secs_f64();
        format!(
            "{self}; this run took {:.0} s, {units:.0} times as long; the budget is {budget} times",
            took.as_secs_f64()
        )
    }
}

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the calibration takes {:.3} s on this machine",
            self.0.as_secs_f64()
        )
    }
}

/// Steps of a linear congruential generator: each step needs the result of the step before.
fn compute() {
    let mut state = black_box(1_u64);
    for _ in 0..STEPS {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
    }
    black_box(state);
}
