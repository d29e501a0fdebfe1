//! Compares the first part of a soak with the last.

use std::fmt::Write as _;

use super::CLIENT_COUNT;
use super::sample::{COUNTS, LEVELS, Sample};

/// The limit of a level in the last part: a factor of the level in the first part, plus a constant
/// of one per task, because levels vary with the tasks and the faults. Levels at rest are compared
/// exactly.
const MORE: (f64, f64) = (1.5, 200.0);
/// Like [`MORE`], for levels that are constant except while connections are replaced.
const MORE_FIXED: (f64, f64) = (1.0, 12.0);
/// Like [`MORE`], for memory, in KiB. Freed memory returns to the system late, and only in part.
const MORE_MEMORY: (f64, f64) = (1.10, 4.0 * 1024.0);
/// The maximum length of the warm-up, which is not compared, in seconds.
const WARM_UP: usize = 30;
/// The maximum length of the first and of the last part, in seconds.
const PART: usize = 60;

/// All measurements.
#[derive(Debug, Default)]
pub(crate) struct Record {
    seconds: u64,
    seed: u64,
    pub(crate) server: String,
    pub(crate) faults: String,
    /// Before the work.
    pub(crate) idle: Sample,
    /// One per second.
    pub(crate) samples: Vec<Sample>,
    /// After all tasks have ended and the clean-up is done.
    pub(crate) at_rest: Sample,
    /// After the clients are closed.
    pub(crate) closed: Sample,
}

impl Record {
    pub(crate) fn new(seconds: u64, seed: u64, server: &str) -> Self {
        Self {
            seconds,
            seed,
            server: server.to_owned(),
            ..Self::default()
        }
    }

    /// The levels that are higher at rest than before the work.
    pub(crate) fn left_at(&self, rest: &Sample) -> Vec<String> {
        let levels = LEVELS.into_iter().filter(|level| !is_kept(level));
        let levels = levels
            .map(|level| (level, self.idle.get(level), rest.get(level)))
            .filter(|(_, idle, rest)| rest > idle);
        levels
            .map(|(level, idle, rest)| format!("{level}: {idle} before the work, {rest} after it"))
            .collect()
    }

    /// The levels that are higher after the clients are closed than without clients.
    pub(crate) fn not_released(&self, closed: &Sample) -> Vec<String> {
        let is_left = |level: &&str| {
            self.without_clients(level)
                .is_some_and(|without_clients| closed.get(level) > without_clients)
        };
        let left = LEVELS.into_iter().filter(is_left);
        left.map(|level| format!("{level}: {} when the clients are closed", closed.get(level)))
            .collect()
    }

    /// The levels that have grown or were not released, and the counts that are 0.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for level in LEVELS {
            let [first, last] = self.parts(level).map(|(mean, _)| mean);
            let limit = limit(level, first);
            if last > limit {
                problems
                    .push(format!("{level}: {first:.1} in the first part, {last:.1} in the last (at most {limit:.1})"));
            }
        }
        problems.extend([self.left_at(&self.at_rest), self.not_released(&self.closed)].concat());
        for count in COUNTS {
            // Otherwise the soak would not test anything.
            if self.closed.get(count) == 0 {
                problems.push(format!("{count}: 0 in the whole soak"));
            }
        }
        problems
    }

    /// The level without clients, if known.
    fn without_clients(&self, level: &str) -> Option<u64> {
        match level {
            "tasks" | "pending deletes" | "ephemeral nodes" => Some(0),
            "watches, of the clients" | "watches, of the server" => Some(0),
            // Each client has one connection. A real server also counts the connection that queries
            // it.
            "sockets" | "descriptors" | "connections of the server" => {
                Some(self.idle.get(level) - CLIENT_COUNT as u64)
            }
            _ => None,
        }
    }

    /// The mean and the maximum of a level, in the first and in the last part.
    fn parts(&self, level: &str) -> [(f64, u64); 2] {
        self.windows().map(|samples| {
            let values: Vec<_> = samples.iter().map(|sample| sample.get(level)).collect();
            (
                values.iter().sum::<u64>() as f64 / values.len() as f64,
                values.iter().copied().max().unwrap_or(0),
            )
        })
    }

    /// The rate per second in the first and in the last part.
    fn rates(&self, count: &str) -> [f64; 2] {
        self.windows().map(|samples| match samples {
            [first, .., last] => {
                (last.get(count) - first.get(count)) as f64 / (samples.len() - 1) as f64
            }
            _ => 0.0,
        })
    }

    fn windows(&self) -> [&[Sample]; 2] {
        let all = self.samples.len();
        let warm_up = (all / 6).min(WARM_UP);
        let part = (all / 4).clamp(2, PART);
        [
            &self.samples[warm_up..warm_up + part],
            &self.samples[all - part..],
        ]
    }

    /// The table, in Markdown.
    pub(crate) fn table(&self) -> String {
        let Self {
            seconds,
            seed,
            server,
            faults,
            ..
        } = self;
        let [part, _] = self.windows().map(<[Sample]>::len);
        let mut text = format!(
            "{seconds} seconds on {server}, seed {seed}: 200 tasks, 20 locks, 4 clients. Faults: {faults}.\n\
             Each part is {part} seconds: mean (highest).\n\n\
             | Level | before | first part | last part | at most | at rest | closed |\n|---|--:|--:|--:|--:|--:|--:|\n"
        );
        for level in LEVELS {
            let [(first, first_high), (last, last_high)] = self.parts(level);
            let limit = limit(level, first);
            let [idle, rest, closed] =
                [&self.idle, &self.at_rest, &self.closed].map(|sample| sample.get(level));
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "| {level} | {idle} | {first:.1} ({first_high}) | {last:.1} ({last_high}) | {limit:.1} | {rest} | {closed} |"
            );
        }
        text.push_str("\n| In a second | first part | last part | in all |\n|---|--:|--:|--:|\n");
        for count in COUNTS {
            let [first, last] = self.rates(count);
            let all = self.closed.get(count);
            let _ = writeln!(text, "| {count} | {first:.1} | {last:.1} | {all} |");
        }
        text
    }
}

/// The highest permitted level in the last part.
fn limit(level: &str, first: f64) -> f64 {
    let (factor, constant) = match level {
        "memory (KiB)" => MORE_MEMORY,
        "threads" | "descriptors" | "sockets" | "connections of the server" => MORE_FIXED,
        _ => MORE,
    };
    first * factor + constant
}

/// Whether the level may stay high at rest: the process may keep freed memory, and idle threads
/// for blocking work.
fn is_kept(level: &str) -> bool {
    level.starts_with("memory") || level == "threads"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample in which all levels start at 20 and each count grows by ten per second.
    fn sample(second: u64, change: impl Fn(&str) -> u64) -> Sample {
        let levels = LEVELS.map(|level| (level, 20 + change(level))).into_iter();
        Sample(
            levels
                .chain(COUNTS.map(|count| (count, 10 * second)))
                .collect(),
        )
    }

    fn record(change: impl Fn(u64, &str) -> u64) -> Record {
        let mut record = Record::new(100, 1, "no server");
        record.idle = sample(0, |_| 0);
        record.samples = (0..100)
            .map(|second| sample(second, |level| change(second, level)))
            .collect();
        record.at_rest = sample(100, |level| change(100, level));
        let levels = LEVELS.map(|level| (level, record.without_clients(level).unwrap_or(0)));
        record.closed = Sample(
            levels
                .into_iter()
                .chain(COUNTS.map(|count| (count, 1000)))
                .collect(),
        );
        record
    }

    #[test]
    fn only_a_growing_level_is_reported() {
        let steady = record(|_, _| 0);
        assert_eq!(steady.problems(), [""; 0]);
        let row = "| tasks | 20 | 20.0 (20) | 20.0 (20) | 230.0 | 20 | 0 |";
        assert!(steady.table().contains(row), "{}", steady.table());
        for (grows, each) in [
            ("memory (KiB)", 100),
            ("descriptors", 1),
            ("watches, of the server", 5),
            ("nodes", 5),
        ] {
            let problems =
                record(|second, level| if level == grows { second * each } else { 0 }).problems();
            assert!(
                problems.iter().all(|problem| problem.starts_with(grows)) && !problems.is_empty(),
                "{problems:?}"
            );
        }
        let mut idle = steady;
        idle.closed.0.insert("failed", 0);
        assert_eq!(idle.problems(), ["failed: 0 in the whole soak"]);
    }
}
