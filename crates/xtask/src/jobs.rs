//! Runs test programs, two at a time: one that computes beside one that waits.

use std::{
    collections::VecDeque,
    fs,
    io::{self, Read as _, Write as _},
    path::Path,
    process::{Command, id},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

use crate::{report::REPORT_VARIABLE, say, servers::Servers, tally::Tally};

/// Something to run.
#[derive(Debug)]
pub(crate) struct Job {
    /// What runs, and on which server, for people.
    pub(crate) title: String,
    /// Where its tests count.
    pub(crate) row: String,
    pub(crate) command: Command,
}

/// What came of a job.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) row: String,
    pub(crate) good: bool,
    pub(crate) tally: Tally,
    pub(crate) servers: Servers,
}

type Queue = VecDeque<(usize, Job)>;

/// Runs all jobs: one after the other from the front of the list, where those stand that compute, and at the same time from
/// its end, where those stand that wait. Prints the output of each when it is over. Needs a directory for temporary files.
pub(crate) fn run(jobs: Vec<Job>, directory: &Path) -> Result<Vec<Outcome>, String> {
    let count = jobs.len();
    let numbered = jobs.into_iter().enumerate();
    let (queue, outcomes) = (Mutex::new(numbered.collect::<Queue>()), Mutex::new(Vec::new()));
    let lane = |take: fn(&mut Queue) -> Option<(usize, Job)>| -> Result<(), String> {
        let next = || take(&mut locked(&queue));
        while let Some((number, job)) = next() {
            let title = job.title.clone();
            say(&format!("{title} begins"));
            let (outcome, output) = job.run(&directory.join(format!("servers-{}-{number}.txt", id())))?;
            let mut outcomes = locked(&outcomes);
            let mut console = io::stdout().lock();
            let line = format!("\nxtask: {title}, {} of {count}: {}\n", outcomes.len() + 1, outcome.tally);
            let written = console.write_all(line.as_bytes()).and_then(|()| console.write_all(&output));
            written.map_err(|e| format!("cannot print the output of {title}: {e}"))?;
            outcomes.push(outcome);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let computing = scope.spawn(|| lane(VecDeque::pop_front));
        let waiting = lane(VecDeque::pop_back);
        computing.join().unwrap_or_else(|_| Err("a thread that runs tests panicked".to_owned())).and(waiting)
    })?;
    Ok(outcomes.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Job {
    /// Runs it to its end. Returns what it printed, too.
    fn run(mut self, report: &Path) -> Result<(Outcome, Vec<u8>), String> {
        let broken = |e: io::Error| format!("cannot run {}: {e}", self.title);
        // Left by an old run with the same id.
        drop(fs::remove_file(report));
        // One pipe, so that both outputs stay in order.
        let (mut both, input) = io::pipe().map_err(broken)?;
        self.command.env(REPORT_VARIABLE, report).stderr(input.try_clone().map_err(broken)?).stdout(input);
        let begin = Instant::now();
        let mut child = self.command.spawn().map_err(broken)?;
        // It holds our ends of the pipe, without which the pipe would never end.
        drop(self.command);
        let mut output = Vec::new();
        both.read_to_end(&mut output).map_err(broken)?;
        let good = child.wait().map_err(broken)?.success();
        let tally = Tally { time: begin.elapsed(), ..Tally::read(&String::from_utf8_lossy(&output)) };
        let servers = Servers::read(&fs::read_to_string(report).unwrap_or_default());
        // It is only a file for this run.
        drop(fs::remove_file(report));
        Ok((Outcome { row: self.row, good, tally, servers }, output))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Job { title: "x".to_owned(), row: script.to_owned(), command }
    }

    #[test]
    fn all_run_and_tell_how_they_ended() {
        let good = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'; echo x >&2";
        let bad = "echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored'; exit 3";
        let on_a_server = "echo embedded 1 curator-test 1200 >> $CURATOR_TEST_REPORT";
        let outcomes = run(vec![job(good), job(bad), job(on_a_server)], &std::env::temp_dir()).unwrap();
        let of = |row| outcomes.iter().find(|outcome| outcome.row == row).unwrap();
        assert_eq!((of(good).good, of(good).tally.passed), (true, 2));
        assert_eq!((of(bad).good, of(bad).tally.failed), (false, 1));
        assert!(of(on_a_server).good && of(on_a_server).servers.to_string().contains("1 embedded server"));
    }

    #[test]
    fn one_from_each_end_runs_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let meet = |mine: &str, other: &str| {
            let wait = format!("for i in $(seq 1000); do [ -e {other} ] && exit; sleep 0.01; done; exit 1");
            job(&format!("cd '{}'; touch {mine}; {wait}", directory.path().display()))
        };
        let outcomes = run(vec![meet("a", "b"), job("true"), meet("b", "a")], directory.path()).unwrap();
        assert!(outcomes.len() == 3 && outcomes.iter().all(|outcome| outcome.good));
    }
}
