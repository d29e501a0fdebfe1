//! The conductor's history, its messages on standard output, and the progress of the clients, read
//! from their growing histories.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use curator_recipes::client::ClockInstant;
use rustix::time::{ClockId, clock_gettime};

use crate::history::{
    self, CONDUCTOR, CacheSeen, CounterSeen, Event, Outcome, SHARDS, ServiceSeen, What,
};

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
    let monotonic = nanos(ClockId::Monotonic);
    let boottime = nanos(ClockId::Boottime);
    boottime - monotonic
}

impl Journal {
    /// Opens the history. The time of the run begins now.
    pub(super) fn start(directory: &Path) -> anyhow::Result<Self> {
        let path = directory.join("conductor.jsonl");
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
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
    pub(crate) fn print(&self, line: &str) {
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
        serde_json::to_vec(&event)
            .map_err(io::Error::from)
            .and_then(|mut line| {
                line.push(b'\n');
                self.file
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .write_all(&line)
            })
            .context("cannot write the conductor's history")
    }

    /// The progress of the clients. The lock must not be held across an await point.
    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows the history of each client's current life.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    followed: BTreeMap<u32, Followed>,
    /// Events before this time do not count as progress.
    mark: u64,
    /// The time of the first progress after the mark, by client and part; without a client, the
    /// progress of any client with a shard.
    since: BTreeMap<(Option<u32>, String), u64>,
    acquired: u64,
    sessions: u64,
}

/// The history of one client, in its current life.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    path: PathBuf,
    /// The number of bytes that have been read, in complete lines.
    read: u64,
    /// The latest session of each ZooKeeper client in the process: a peer's process may have
    /// several.
    sessions: BTreeMap<Option<String>, i64>,
    /// Whether the client has recorded `Resting`.
    pub(crate) rests: bool,
    /// The number of the last comparison of caches that the client has paused its writes for.
    pub(crate) quiet: Option<u32>,
    /// The number of the last comparison that the client has reported the content of its caches
    /// for.
    pub(crate) looked: Option<u32>,
    /// Why the close of the client was not confirmed.
    pub(crate) unclosed: Option<String>,
}

impl Progress {
    /// Follows the history of the client's next life from now on.
    pub(crate) fn follow(&mut self, client: u32, path: PathBuf) {
        let followed = Followed {
            path,
            ..Followed::default()
        };
        self.followed.insert(client, followed);
    }

    /// Sets the mark: only progress after this time counts. The time must not be before the last
    /// [`read`](Self::read).
    pub(crate) fn mark(&mut self, at: u64) {
        self.mark = at;
        self.since.clear();
    }

    /// Reads the new events of the clients. Skips lines that cannot be parsed: the checker rejects
    /// such lines.
    pub(crate) fn read(&mut self) {
        let mut events = Vec::new();
        for (client, followed) in &mut self.followed {
            for line in followed
                .lines()
                .lines()
                .filter(|line| may_be_relevant(line))
            {
                if let Ok(event) = serde_json::from_str::<Event>(line) {
                    events.push((*client, event));
                }
            }
        }
        for (client, Event { at, what, .. }) in events {
            let Some(followed) = self.followed.get_mut(&client) else {
                continue;
            };
            // The part that has made progress, and a time that must be after the mark.
            let mut progressed = None;
            match what {
                // Re-entries and downgrades are not progress.
                What::Acquired {
                    part,
                    reentry: false,
                    continues: None,
                    ..
                } => {
                    self.acquired += 1;
                    progressed = Some((part, at)).filter(|(part, _)| part != SHARDS);
                }
                // The leases of shards last long.
                What::Wrote {
                    part,
                    set,
                    checked,
                    outcome: Outcome::Acknowledged,
                    ..
                } if part == SHARDS => {
                    if checked > self.mark {
                        let shard = set.split('/').next().unwrap_or_default().to_owned();
                        self.since.entry((None, shard)).or_insert(at);
                    }
                    progressed = Some((part, checked));
                }
                What::Session {
                    session, client, ..
                } => {
                    self.sessions += 1;
                    followed.sessions.insert(client, session);
                }
                What::Cache {
                    part,
                    seen: CacheSeen::Snapshot { asked, look, .. },
                } => {
                    followed.looked = followed.looked.max(look);
                    progressed = Some((part, asked));
                }
                What::Counter {
                    part,
                    seen:
                        CounterSeen::Counted {
                            outcome: Outcome::Acknowledged,
                            ..
                        },
                } => {
                    progressed = Some((part, at));
                }
                What::Service {
                    part,
                    seen: ServiceSeen::Registered { before, .. },
                } => {
                    progressed = Some((part, before));
                }
                What::Cache {
                    seen: CacheSeen::Quiet { look },
                    ..
                } => followed.quiet = Some(look),
                What::Resting => followed.rests = true,
                What::Closed { error } => followed.unclosed = error,
                _ => {}
            }
            if let Some((part, _)) = progressed.filter(|(_, after)| *after > self.mark) {
                self.since.entry((Some(client), part)).or_insert(at);
            }
        }
    }

    /// When a part of a client, or without a client a shard, first made progress after the mark.
    pub(crate) fn since_mark(&self, client: Option<u32>, part: &str) -> Option<u64> {
        self.since.get(&(client, part.to_owned())).copied()
    }

    /// The number of acquires and of sessions so far.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.acquired, self.sessions)
    }

    /// The latest sessions of a client in its current life. Most clients have one session.
    pub(crate) fn sessions(&self, client: u32) -> impl Iterator<Item = i64> {
        self.followed
            .get(&client)
            .into_iter()
            .flat_map(|followed| followed.sessions.values().copied())
    }

    /// The history of a client's current life, as far as it has been read.
    pub(crate) fn followed(&self, client: u32) -> Option<&Followed> {
        self.followed.get(&client)
    }
}

impl Followed {
    /// The complete lines that have not been read yet.
    fn lines(&mut self) -> String {
        let mut text = Vec::new();
        // The file may be missing: its process creates it.
        let read = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.read))?;
            file.read_to_end(&mut text)
        });
        let whole = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        if read.is_err() || whole == 0 {
            return String::new();
        }
        self.read += whole as u64;
        text.truncate(whole);
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// Whether the line may contain a relevant event. Most lines do not, and need not be parsed.
fn may_be_relevant(line: &str) -> bool {
    [
        "acquired",
        "session",
        "resting",
        "closed",
        "snapshot",
        "quiet",
        "counted",
        "registered",
    ]
    .iter()
    .any(|what| line.contains(&format!("\"{what}\"")))
        || (line.contains("\"wrote\"") && line.contains(SHARDS))
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use super::*;

    #[test]
    fn progress_counts_only_complete_lines_after_the_mark() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("w0.0.jsonl");
        let mut progress = Progress::default();
        progress.follow(0, path.clone());
        progress.read();
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .unwrap();
        let acquired = |at: u64, part: &str| {
            format!(
                r#"{{"at":{at},"worker":0,"life":0,"what":"acquired","hold":1,"part":"{part}","owner":"o","asked":1,"session":7,"claims":[],"reentry":false}}"#
            )
        };
        progress.mark(10);
        writeln!(
            file,
            r#"{{"at":3,"worker":0,"life":0,"what":"session","session":7}}"#
        )
        .unwrap();
        writeln!(file, "{}", acquired(10, "a")).unwrap();
        let torn = acquired(12, "b");
        let rest = acquired(11, "a");
        write!(file, "{rest}\n{}", &torn[..40]).unwrap();
        progress.read();
        assert_eq!(
            (
                progress.since_mark(Some(0), "a"),
                progress.since_mark(Some(0), "b")
            ),
            (Some(11), None)
        );
        assert_eq!(
            (progress.sessions(0).collect::<Vec<_>>(), progress.totals()),
            (vec![7], (2, 1))
        );
        writeln!(file, "{}\n{}", &torn[40..], acquired(20, "a")).unwrap();
        progress.read();
        assert_eq!(
            (
                progress.since_mark(Some(0), "a"),
                progress.since_mark(Some(0), "b")
            ),
            (Some(11), Some(12))
        );
        progress.mark(20);
        progress.read();
        assert_eq!(progress.since_mark(Some(0), "a"), None);
        // Re-entries and downgrades do not count.
        let again = acquired(21, "a").replace("\"reentry\":false", "\"reentry\":true");
        let downgraded = acquired(22, "a").replace("\"reentry\"", "\"continues\":1,\"reentry\"");
        writeln!(file, "{again}\n{downgraded}").unwrap();
        progress.read();
        assert_eq!(progress.since_mark(Some(0), "a"), None);
        writeln!(file, "{}", acquired(23, "a")).unwrap();
        progress.read();
        assert_eq!(
            (
                progress.since_mark(Some(0), "a"),
                progress.followed(0).unwrap().rests
            ),
            (Some(23), false)
        );
        writeln!(file, r#"{{"at":24,"worker":0,"life":0,"what":"resting"}}"#).unwrap();
        progress.read();
        assert_eq!(
            (
                progress.followed(0).unwrap().rests,
                progress.followed(0).unwrap().unclosed.as_deref()
            ),
            (true, None)
        );
        writeln!(
            file,
            r#"{{"at":25,"worker":0,"life":0,"what":"closed","error":"unconfirmed"}}"#
        )
        .unwrap();
        progress.read();
        assert_eq!(
            progress.followed(0).unwrap().unclosed.as_deref(),
            Some("unconfirmed")
        );
        // The client's next life has no session yet.
        progress.follow(0, directory.path().join("w0.1.jsonl"));
        assert_eq!(
            (
                progress.sessions(0).count(),
                progress.followed(0).unwrap().rests
            ),
            (0, false)
        );
    }
}
