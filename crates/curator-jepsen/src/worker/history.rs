//! Records the history of a worker: the file, the holds of a part, and samples of their validity.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::pin::pin;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use curator_recipes::Error;
use curator_recipes::client::ClockInstant;
use tokio::time::{MissedTickBehavior, interval};

use super::held::Held;
use super::lock::Grant;
use crate::history::{Event, HoldId, What};

/// An open history, shared by all tasks of a worker.
#[derive(Debug)]
pub(super) struct HistoryFile {
    worker: u32,
    life: u32,
    written: Mutex<Written>,
    holds: AtomicU64,
    elements: AtomicU64,
}

#[derive(Debug)]
struct Written {
    file: File,
    session: Option<i64>,
}

/// Nanoseconds on the clock of histories.
pub(super) fn now() -> u64 {
    ClockInstant::now().as_nanos()
}

impl HistoryFile {
    /// Opens a file for appending, and creates it if it is missing.
    pub(super) fn append(path: &Path, worker: u32, life: u32) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        let written = Mutex::new(Written {
            file,
            session: None,
        });
        Ok(Self {
            worker,
            life,
            written,
            holds: AtomicU64::new(0),
            elements: AtomicU64::new(0),
        })
    }

    /// The number of the next hold.
    pub(super) fn next_hold(&self) -> HoldId {
        self.holds.fetch_add(1, Ordering::Relaxed)
    }

    /// An element that no other write uses.
    pub(super) fn next_element(&self) -> String {
        format!(
            "w{}.{}.{}",
            self.worker,
            self.life,
            self.elements.fetch_add(1, Ordering::Relaxed)
        )
    }

    /// The name of an owner of this process, which is unique in the run.
    pub(super) fn owner(&self, owner: &impl ToString) -> String {
        format!("w{}.{} {}", self.worker, self.life, owner.to_string())
    }

    /// Records an event with the current time.
    pub(super) fn write(&self, what: What) {
        self.written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .write(self, what);
    }

    /// Records the session and its timeout, if the session differs from the previous one.
    pub(super) fn session(&self, session: i64, timeout: Duration) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.session.replace(session) != Some(session) {
            let timeout_ms = Some(timeout.as_millis().try_into().unwrap_or(u64::MAX));
            written.write(
                self,
                What::Session {
                    session,
                    client: None,
                    timeout_ms,
                },
            );
        }
    }
}

impl Written {
    /// Writes the whole line with one `write`, so that a killed process loses no recorded event.
    /// The clock is read under the mutex, so the lines are in the order of their times.
    fn write(&mut self, history: &HistoryFile, what: What) {
        let event = Event {
            at: now(),
            worker: history.worker,
            life: history.life,
            what,
        };
        let line = serde_json::to_vec(&event)
            .map_err(io::Error::from)
            .and_then(|mut line| {
                line.push(b'\n');
                self.file.write_all(&line)
            });
        if let Err(error) = line {
            // Later events would be missing, so the checker could report wrong violations.
            eprintln!("curator-jepsen worker: cannot write the history: {error}");
            process::exit(1);
        }
    }
}

/// Writes the events of one part to the history.
#[derive(Debug)]
pub(super) struct PartHistory {
    /// The key of the part.
    part: String,
    file: Arc<HistoryFile>,
}

impl PartHistory {
    pub(super) fn new(part: impl Into<String>, file: &Arc<HistoryFile>) -> Self {
        Self {
            part: part.into(),
            file: Arc::clone(file),
        }
    }

    pub(super) fn file(&self) -> &HistoryFile {
        &self.file
    }

    /// Records the start of a hold that was requested at `asked`.
    pub(super) fn begin(&self, grant: &Grant, asked: u64, continues: Option<HoldId>) -> HoldId {
        let hold = self.file.next_hold();
        let held = &grant.held;
        self.file.write(What::Acquired {
            hold,
            part: self.part.clone(),
            owner: self.file.owner(&held.owner()),
            asked,
            session: held.session(),
            claims: grant.claims.clone(),
            reentry: held.is_reentry(),
            continues,
        });
        hold
    }

    /// Records that an acquire returned no guard.
    pub(super) fn not_acquired(&self, asked: u64, error: Option<impl ToString>) {
        let error = error.map(|error| error.to_string());
        self.file.write(What::NotAcquired {
            part: self.part.clone(),
            asked,
            error,
        });
    }

    /// Releases a hold, and records the release.
    pub(super) async fn end(&self, hold: HoldId, held: Held) {
        self.releasing(hold);
        self.released(hold, held.release().await.err().as_ref());
    }

    pub(super) fn releasing(&self, hold: HoldId) {
        self.file.write(What::Releasing { hold });
    }

    pub(super) fn released(&self, hold: HoldId, error: Option<&Error>) {
        self.file.write(What::Released {
            hold,
            error: error.map(ToString::to_string),
        });
    }
}

/// The interval between two samples.
const PERIOD: Duration = Duration::from_millis(20);

/// Records the validity of a hold, even after a loss, because a lost hold must never be valid
/// again.
pub(super) struct Sampler<'a, F> {
    history: &'a HistoryFile,
    hold: HoldId,
    /// Reads the end of the hold's promise, on the clock of histories, and then whether the hold is
    /// valid.
    state: F,
    lost: bool,
}

impl<'a, F: Fn() -> (u64, bool)> Sampler<'a, F> {
    pub(super) fn new(history: &'a HistoryFile, hold: HoldId, state: F) -> Self {
        Self {
            history,
            hold,
            state,
            lost: false,
        }
    }

    /// Takes one sample. Records every valid sample, and the first invalid one.
    pub(super) fn sample(&mut self) {
        let hold = self.hold;
        let before = now();
        let (until, is_valid) = (self.state)();
        if is_valid {
            self.history.write(What::Valid {
                hold,
                before,
                until,
            });
        } else if !self.lost {
            self.lost = true;
            self.history.write(What::Invalid { hold });
        }
    }

    /// Samples before some work under the hold, periodically during it, and after it. Runs in the
    /// task of the work, so that there is no second task to end.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.sample();
        let mut work = pin!(work);
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Skips the first tick, which is immediate.
        ticks.reset();
        let done = loop {
            tokio::select! {
                done = &mut work => break done,
                _ = ticks.tick() => self.sample(),
            }
        };
        self.sample();
        done
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;
    use crate::history::{Event, Histories};

    #[tokio::test]
    async fn a_guard_that_becomes_valid_again_is_recorded_in_the_history() {
        let directory = tempfile::tempdir().unwrap();
        let history = HistoryFile::append(&directory.path().join("w0.0.jsonl"), 0, 0).unwrap();
        // A hold that is invalid only at the second and the third sample.
        let samples = Cell::new(0_u32);
        let mut sampler = Sampler::new(&history, 4, || {
            samples.set(samples.get() + 1);
            (9, !(2..=3).contains(&samples.get()))
        });
        // The work is polled again at each tick.
        let work = poll_fn(|_| {
            if samples.get() == 5 {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        sampler.during(work).await;
        let events: Result<Vec<Event>, _> = Histories::open(directory.path()).unwrap().collect();
        let recorded: Vec<_> = events
            .unwrap()
            .into_iter()
            .map(|event| match event.what {
                What::Valid {
                    hold: 4,
                    before,
                    until: 9,
                } => (true, before <= event.at),
                What::Invalid { hold: 4 } => (false, true),
                what => panic!("{what:?}"),
            })
            .collect();
        // One sample before the work, four during it, and one after it. The second invalid sample
        // is not recorded.
        assert_eq!(
            recorded,
            [true, false, true, true, true].map(|valid| (valid, true))
        );
    }
}
