//! Writes the conductor's history, and prints its messages to standard output.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use curator_recipes::client::ClockInstant;
use rustix::time::{ClockId, clock_gettime};

use super::Progress;
use crate::history::{self, CONDUCTOR, Event, What};

/// The conductor's history, the start of the run, and the progress in the clients' histories.
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

/// `CLOCK_BOOTTIME` minus `CLOCK_MONOTONIC`, in nanoseconds. Slightly too great, as the clocks are
/// read one after the other.
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
    /// Opens the history. The time of the run begins now.
    pub(super) fn start(directory: &Path) -> anyhow::Result<Self> {
        let path = directory.join("conductor.jsonl");
        let file = OpenOptions::new().append(true).create(true).open(&path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        Ok(Self {
            file: Mutex::new(file),
            began: now(),
            progress: Mutex::default(),
        })
    }

    /// The start of the run.
    pub(crate) fn began(&self) -> u64 {
        self.began
    }

    /// Prints a line, with the time since the start of the run.
    pub(crate) fn say(&self, line: &str) {
        println!("[{:>13}] {line}", history::seconds(now() - self.began));
    }

    /// Records an event with the current time.
    pub(crate) fn write(&self, what: What) -> anyhow::Result<()> {
        self.write_at(now(), what)
    }

    /// Records an event with a given time.
    pub(crate) fn write_at(&self, at: u64, what: What) -> anyhow::Result<()> {
        let event = Event {
            at,
            worker: CONDUCTOR,
            life: 0,
            what,
        };
        let written = serde_json::to_vec(&event)
            .map_err(io::Error::from)
            .and_then(|mut line| {
                line.push(b'\n');
                self.file
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .write_all(&line)
            });
        written.context("cannot write the conductor's history")
    }

    /// The progress of the clients. The lock must not be held across an await point.
    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
