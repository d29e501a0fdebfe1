//! Writes the history of a worker.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use curator_recipes::client::ClockInstant;

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

    /// Records the session and its timeout, if it differs from the previous session.
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
