//! Where a worker writes what it sees.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use curator_recipes::client::ClockInstant;

use crate::history::{Event, HoldId, What};

/// A history that is being written, by all tasks of a worker.
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
    /// Appends to a file, which is made if it is not there.
    pub(super) fn append(path: &Path, worker: u32, life: u32) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        let written = Mutex::new(Written { file, session: None });
        Ok(Self { worker, life, written, holds: AtomicU64::new(0), elements: AtomicU64::new(0) })
    }

    /// A number for the next hold.
    pub(super) fn next_hold(&self) -> HoldId {
        self.holds.fetch_add(1, Ordering::Relaxed)
    }

    /// An element that no one else ever writes.
    pub(super) fn next_element(&self) -> String {
        format!("w{}.{}.{}", self.worker, self.life, self.elements.fetch_add(1, Ordering::Relaxed))
    }

    /// The name that an owner of this process has in the whole run.
    pub(super) fn owner(&self, owner: &impl ToString) -> String {
        format!("w{}.{} {}", self.worker, self.life, owner.to_string())
    }

    /// Writes an event down, with the time.
    pub(super) fn write(&self, what: What) {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).write(self, what);
    }

    /// Writes down which session there is, and its timeout, if it is another one than before.
    pub(super) fn session(&self, session: i64, timeout: Duration) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.session.replace(session) != Some(session) {
            let timeout_ms = Some(timeout.as_millis().try_into().unwrap_or(u64::MAX));
            written.write(self, What::Session { session, client: None, timeout_ms });
        }
    }
}

impl Written {
    /// One `write` of the whole line, so that a killed process leaves all that it has seen. The clock is read under the
    /// mutex: the lines are in the order of their times.
    fn write(&mut self, history: &HistoryFile, what: What) {
        let event = Event { at: now(), worker: history.worker, life: history.life, what };
        let line = serde_json::to_vec(&event).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            self.file.write_all(&line)
        });
        if let Err(error) = line {
            // What happens from here on would be missing, and the rest be judged without it.
            eprintln!("curator-jepsen worker: cannot write the history: {error}");
            process::exit(1);
        }
    }
}
