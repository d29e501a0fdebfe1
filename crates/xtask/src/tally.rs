//! Adds up the results of test programs.

use std::{fmt, time::Duration};

/// The numbers of tests that passed, failed or were ignored, and how long they took.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    /// The run time of the programs, without compilation.
    pub(crate) time: Duration,
}

impl Tally {
    /// The sum of the results in a program's output: documentation tests print several results. A
    /// result is a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; …; finished in
    /// 0.05s`.
    pub(crate) fn read(output: &str) -> Self {
        let results = output
            .lines()
            .filter_map(|line| line.strip_prefix("test result: ")?.split_once(". "));
        let mut tally = Self::default();
        for part in results.flat_map(|(_, numbers)| numbers.split("; ")) {
            match part
                .split_once(' ')
                .map(|(number, what)| (number.parse::<u64>(), what))
            {
                Some((Ok(number), "passed")) => tally.passed += number,
                Some((Ok(number), "failed")) => tally.failed += number,
                Some((Ok(number), "ignored")) => tally.ignored += number,
                _ => {}
            }
        }
        tally
    }

    /// Adds the numbers of another tally.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.time += other.time;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            ignored,
            time,
        } = self;
        write!(
            f,
            "{passed} tests passed, {failed} failed, {ignored} ignored, in {:.1} s",
            time.as_secs_f64()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_add_up() {
        let output = "
running 4 tests
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.25s
the output contains test result: ok. 5 passed; 0 failed
test result: FAILED. 2 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s
test result: unknown
";
        let expected = Tally {
            passed: 5,
            failed: 4,
            ignored: 1,
            time: Duration::ZERO,
        };
        assert_eq!(Tally::read(output), expected);
        assert_eq!(
            expected.to_string(),
            "5 tests passed, 4 failed, 1 ignored, in 0.0 s"
        );
    }
}
