//! Runs test programs concurrently, a limited number of them CPU-bound.

use std::{
    array,
    collections::VecDeque,
    fs::{self, File},
    io::{self, Write},
    path::Path,
    process::{Command, ExitStatus, id},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

use crate::{
    server_kind::REPORT_VARIABLE,
    tally::{Servers, Tally},
};

/// A command to run.
#[derive(Debug)]
pub(crate) struct Job {
    /// The program and the server, for messages.
    pub(crate) title: String,
    /// The row of the summary that counts its tests.
    pub(crate) row: String,
    pub(crate) command: Command,
    pub(crate) is_cpu_bound: bool,
}

/// The result of a job.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) title: String,
    pub(crate) row: String,
    /// Why the job failed, if it did.
    pub(crate) failure: Option<Failure>,
    pub(crate) tally: Tally,
    pub(crate) servers: Servers,
}

/// Why a job failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) error: String,
    /// The part of the output that shows the failed tests, or else its last lines.
    pub(crate) output: String,
}

/// The maximum number of jobs that run concurrently. CI has fewer cores, but most jobs mostly wait.
const LANES: usize = 4;

/// The maximum number of CPU-bound jobs that run concurrently. The other jobs wait for servers,
/// which need processor time too.
const CPU_BOUND_LANES: usize = 2;

/// The maximum number of lines of a failed job's output that are repeated at the end.
const REPEATED_LINES: usize = 60;

type Queue = VecDeque<(usize, Job)>;

/// How a lane takes its next job.
type Take = fn(&mut Queue) -> Option<(usize, Job)>;

/// Runs all jobs. The list must be ordered from CPU-bound jobs to jobs that mostly wait. One lane
/// takes jobs from the front of the list, the other lanes take jobs from its end; all but
/// [`CPU_BOUND_LANES`] lanes take only jobs that mostly wait. A lane ends when there is no job that
/// it can take. Prints the output of a job when the job ends; until then the output is in a file in
/// `directory`.
pub(crate) fn run(
    jobs: Vec<Job>,
    directory: &Path,
    console: impl Write + Send,
) -> Result<Vec<Outcome>, String> {
    let unwritable =
        |e: io::Error| format!("cannot write to the directory {}: {e}", directory.display());
    fs::create_dir_all(directory).map_err(unwritable)?;
    let count = jobs.len();
    let queue = Mutex::new(jobs.into_iter().enumerate().collect::<Queue>());
    let outcomes = Mutex::new(Vec::new());
    let console = Mutex::new(console);
    // The tests run even if the output cannot be written.
    let print = |text: &[u8]| drop(locked(&console).write_all(text));
    let lane = |take: Take| {
        let next = || take(&mut locked(&queue));
        while let Some((number, job)) = next() {
            let log = directory.join(format!("{}-{number}.txt", id()));
            print(
                format!(
                    "xtask: {} starts; its output is in {}\n",
                    job.title,
                    log.display()
                )
                .as_bytes(),
            );
            let (outcome, output) = job.run(&log);
            let mut outcomes = locked(&outcomes);
            let Outcome {
                title,
                tally,
                failure,
                ..
            } = &outcome;
            let failed = failure.as_ref().map_or(String::new(), |failure| {
                format!("; FAILED: {}", failure.error)
            });
            let line = format!(
                "\nxtask: {title}, {} of {count}: {tally}{failed}\n",
                outcomes.len() + 1
            );
            print(&[line.as_bytes(), &output].concat());
            outcomes.push(outcome);
        }
    };
    thread::scope(|scope| {
        for take in lanes() {
            scope.spawn(move || lane(take));
        }
    });
    Ok(outcomes
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner))
}

fn lanes() -> [Take; LANES] {
    array::from_fn(|number| match number {
        0 => VecDeque::pop_front,
        1..CPU_BOUND_LANES => VecDeque::pop_back,
        _ => pop_back_unless_cpu_bound,
    })
}

/// Takes the last job if it mostly waits.
fn pop_back_unless_cpu_bound(queue: &mut Queue) -> Option<(usize, Job)> {
    let waits = queue.back().is_some_and(|(_, job)| !job.is_cpu_bound);
    waits.then(|| queue.pop_back()).flatten()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Job {
    /// Runs the job to its end, with its output in the file `log`. Returns the outcome and the
    /// output.
    fn run(mut self, log: &Path) -> (Outcome, Vec<u8>) {
        let report = log.with_extension("servers");
        let begin = Instant::now();
        let error = match self.status(log, &report) {
            Ok(status) => (!status.success()).then(|| status.to_string()),
            Err(error) => Some(format!("it could not be started: {error}")),
        };
        let output = fs::read(log).unwrap_or_default();
        let text = String::from_utf8_lossy(&output);
        let failure = error.map(|error| Failure {
            error,
            output: failed_output(&text),
        });
        let tally = Tally {
            time: begin.elapsed(),
            ..Tally::read(&text)
        };
        let servers = Servers::read(&fs::read_to_string(&report).unwrap_or_default());
        // Only this run needs these files.
        drop((fs::remove_file(log), fs::remove_file(report)));
        (
            Outcome {
                title: self.title,
                row: self.row,
                failure,
                tally,
                servers,
            },
            output,
        )
    }

    fn status(&mut self, log: &Path, report: &Path) -> io::Result<ExitStatus> {
        // Standard output and standard error go to the same file, so that the order of their lines
        // is kept.
        let both = File::create(log)?;
        self.command
            .env(REPORT_VARIABLE, report)
            .stderr(both.try_clone()?)
            .stdout(both)
            .status()
    }
}

/// The part of a failed program's output to repeat: everything from the first failed test on, or
/// the whole output if it names no failed test; at most the last [`REPEATED_LINES`] lines. libtest
/// prints the output of the failed tests after the line `failures:`.
fn failed_output(output: &str) -> String {
    let lines: Vec<_> = output.lines().collect();
    let first = lines
        .iter()
        .position(|line| *line == "failures:")
        .unwrap_or(0);
    // The documentation tests are several programs. The output of programs that pass after the last
    // failed program is omitted.
    let last = lines
        .iter()
        .rposition(|line| line.starts_with("test result: FAILED"));
    let end = last.map_or(lines.len(), |last| last + 1);
    lines[first.max(end.saturating_sub(REPEATED_LINES)).min(end)..end].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Job {
            title: "x".to_owned(),
            row: script.to_owned(),
            command,
            is_cpu_bound: false,
        }
    }

    #[test]
    fn all_jobs_run_and_report_their_results() {
        let good = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'; echo x >&2";
        let bad = "echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored'; exit 3";
        let on_a_server = "echo embedded 1 curator-test 1200 >> $CURATOR_TEST_REPORT";
        let directory = tempfile::tempdir().unwrap();
        let missing = Job {
            command: Command::new("no-such-program"),
            ..job("missing")
        };
        let jobs = vec![job(good), job(bad), job(on_a_server), missing];
        let mut console = Vec::new();
        let outcomes = run(jobs, &directory.path().join("new"), &mut console).unwrap();
        let of = |row| outcomes.iter().find(|outcome| outcome.row == row).unwrap();
        assert_eq!((&of(good).failure, of(good).tally.passed), (&None, 2));
        let output = "test result: FAILED. 1 passed; 1 failed; 0 ignored".to_owned();
        let failure = Failure {
            error: "exit status: 3".to_owned(),
            output,
        };
        assert_eq!(
            (&of(bad).failure, of(bad).tally.failed),
            (&Some(failure), 1)
        );
        assert!(
            of("missing")
                .failure
                .as_ref()
                .unwrap()
                .error
                .starts_with("it could not be started"),
            "{outcomes:?}"
        );
        assert!(
            of(on_a_server)
                .servers
                .to_string()
                .contains("1 embedded server"),
            "{outcomes:?}"
        );
        let console = String::from_utf8(console).unwrap();
        assert!(
            console.contains("FAILED: exit status: 3\ntest result: FAILED. 1 passed; 1 failed"),
            "{console}"
        );
        assert_eq!(
            fs::read_dir(directory.path().join("new")).unwrap().count(),
            0
        );
    }

    #[test]
    fn the_repeated_output_begins_at_the_first_failed_test_and_ends_with_the_last_failed_result() {
        let failed = "failures:\n\n---- a stdout ----\nno\n\nfailures:\n    a\n\ntest result: FAILED. 1 passed";
        let passed = format!(
            "{}test result: ok. 60 passed\n",
            "test b ... ok\n".repeat(REPEATED_LINES)
        );
        assert_eq!(
            failed_output(&format!(
                "{passed}test a ... FAILED\n\n{failed}\n\n{passed}"
            )),
            failed
        );
        assert_eq!(
            failed_output("memory allocation failed\n"),
            "memory allocation failed"
        );
        let long = failed_output(&format!(
            "failures:\n{}{failed}\n",
            "x\n".repeat(REPEATED_LINES)
        ));
        assert!(
            long.lines().count() == REPEATED_LINES && long.ends_with(failed),
            "{long}"
        );
        assert_eq!(failed_output(""), "");
    }

    #[test]
    fn the_first_job_and_the_last_jobs_run_concurrently() {
        let directory = tempfile::tempdir().unwrap();
        let wait_for_all = |number: usize| {
            let wait = format!(
                "for i in $(seq 1000); do [ $(ls | wc -l) = {LANES} ] && exit; sleep 0.01; done; exit 1"
            );
            job(&format!(
                "cd '{}'; touch {number}; {wait}",
                directory.path().display()
            ))
        };
        let logs = tempfile::tempdir().unwrap();
        let mut jobs: Vec<_> = (0..LANES).map(wait_for_all).collect();
        // This job starts when one of the other jobs has ended, so all of those have created their
        // files.
        jobs.insert(
            1,
            job(&format!(
                "cd '{}'; [ $(ls | wc -l) = {LANES} ]",
                directory.path().display()
            )),
        );
        let outcomes = run(jobs, logs.path(), io::sink()).unwrap();
        assert!(
            outcomes.len() == LANES + 1 && outcomes.iter().all(|outcome| outcome.failure.is_none())
        );
    }

    #[test]
    fn two_lanes_take_cpu_bound_jobs_and_all_lanes_take_those_that_wait() {
        let taking_lanes = |is_cpu_bound| {
            let mut queue: Queue = (0..2 * LANES)
                .map(|number| {
                    (
                        number,
                        Job {
                            is_cpu_bound,
                            ..job("true")
                        },
                    )
                })
                .collect();
            lanes()
                .iter()
                .filter(|take| take(&mut queue).is_some())
                .count()
        };
        assert_eq!((taking_lanes(true), taking_lanes(false)), (2, 4));
    }
}
