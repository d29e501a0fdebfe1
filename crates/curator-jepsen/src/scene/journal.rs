//! What the conductor says: to its own history, and to whoever looks on.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use curator_recipes::client::ClockInstant;
use rustix::time::{ClockId, clock_gettime};

use super::{Progress, RunError};
use crate::history::{self, CONDUCTOR, Event, What};

/// The conductor's history, the time of the run, and what the clients' histories tell.
#[derive(Debug)]
pub(crate) struct Journal {
    file: Mutex<File>,
    began: u64,
    progress: Mutex<Progress>,
}

/// Nanoseconds on the clock of histories.
pub(crate) fn now() -> u64 {
    ClockInstant::now().as_nanos()
}

/// `CLOCK_BOOTTIME` minus `CLOCK_MONOTONIC`, in nanoseconds. They are read one after the other, so it is a little too great.
#[must_use]
pub fn boottime_offset() -> i64 {
    let nanos = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    };
    let (monotonic, boottime) = (nanos(ClockId::Monotonic), nanos(ClockId::Boottime));
    boottime - monotonic
}

impl Journal {
    /// The time of the run begins now.
    pub(super) fn start(directory: &Path) -> Result<Self, RunError> {
        let path = directory.join("conductor.jsonl");
        let file = OpenOptions::new().append(true).create(true).open(&path);
        let file = file.map_err(RunError::io(format!("open {}", path.display())))?;
        Ok(Self { file: Mutex::new(file), began: now(), progress: Mutex::default() })
    }

    /// When the time began.
    pub(crate) fn began(&self) -> u64 {
        self.began
    }

    /// Says a line, with the time of the run.
    pub(crate) fn say(&self, line: &str) {
        println!("[{:>13}] {line}", history::seconds(now() - self.began));
    }

    /// Writes down what has happened now.
    pub(crate) fn write(&self, what: What) -> Result<(), RunError> {
        self.write_at(now(), what)
    }

    /// Writes down what has happened at a time.
    pub(crate) fn write_at(&self, at: u64, what: What) -> Result<(), RunError> {
        let event = Event { at, worker: CONDUCTOR, life: 0, what };
        let written = serde_json::to_vec(&event).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line)
        });
        written.map_err(RunError::io("write the conductor's history"))
    }

    /// What the clients have said. Not to be held across an await.
    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
