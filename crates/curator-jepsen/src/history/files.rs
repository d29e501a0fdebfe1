//! Reads the history files of a run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};

use super::Event;

/// An iterator over the events of all histories of a run, merged by time.
///
/// A process may have written two lines with about the same time in the wrong order. Their events
/// are returned in the order of the file.
#[derive(Debug)]
pub struct Histories {
    files: Vec<Lines>,
    /// The next event of each file, with the number of the file.
    next: BinaryHeap<Reverse<Next>>,
    failed: Option<anyhow::Error>,
}

impl Histories {
    /// Opens all files of a directory whose names end in `.jsonl`. Each was written by one process.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, if there are no files, or if the first line of a file is not an
    /// event. A later error is returned as an item, and ends the iteration.
    pub fn open(directory: &Path) -> anyhow::Result<Self> {
        let failed = |path: &Path| format!("{} cannot be read", path.display());
        let mut paths = Vec::new();
        for entry in fs::read_dir(directory).with_context(|| failed(directory))? {
            let path = entry.with_context(|| failed(directory))?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "jsonl")
            {
                paths.push(path);
            }
        }
        ensure!(
            !paths.is_empty(),
            "there is no history in {}",
            directory.display()
        );
        paths.sort();
        let mut histories = Self {
            files: Vec::new(),
            next: BinaryHeap::new(),
            failed: None,
        };
        for (number, path) in paths.into_iter().enumerate() {
            let file = File::open(&path).with_context(|| failed(&path))?;
            histories.files.push(Lines {
                path,
                file: BufReader::new(file),
                line: 0,
                buffer: Vec::new(),
            });
            histories.advance(number)?;
        }
        Ok(histories)
    }

    fn advance(&mut self, number: usize) -> anyhow::Result<()> {
        if let Some(event) = self.files[number].next()? {
            self.next.push(Reverse(Next { event, number }));
        }
        Ok(())
    }
}

impl Iterator for Histories {
    type Item = anyhow::Result<Event>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            self.next.clear();
            return Some(Err(error));
        }
        let Reverse(Next { event, number }) = self.next.pop()?;
        self.failed = self.advance(number).err();
        Some(Ok(event))
    }
}

/// An event, ordered by its time, and then by its file.
#[derive(Debug)]
struct Next {
    event: Event,
    number: usize,
}

impl Next {
    fn order(&self) -> (u64, usize) {
        (self.event.at, self.number)
    }
}

impl PartialEq for Next {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Next {}

impl PartialOrd for Next {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Next {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

/// The lines of one file.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    file: BufReader<File>,
    /// The number of lines that were read.
    line: u64,
    buffer: Vec<u8>,
}

impl Lines {
    fn next(&mut self) -> anyhow::Result<Option<Event>> {
        self.buffer.clear();
        let read = self.file.read_until(b'\n', &mut self.buffer);
        if read.with_context(|| format!("{} cannot be read", self.path.display()))? == 0 {
            return Ok(None);
        }
        self.line += 1;
        match serde_json::from_slice(&self.buffer) {
            Ok(event) => Ok(Some(event)),
            // The process was killed while it wrote the line.
            Err(_) if self.buffer.last() != Some(&b'\n') => Ok(None),
            Err(source) => {
                let text: String = String::from_utf8_lossy(&self.buffer)
                    .trim_end()
                    .chars()
                    .take(200)
                    .collect();
                bail!(
                    "line {} of {} is not an event: {source}: {text:?}",
                    self.line,
                    self.path.display()
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::What;

    fn line(at: u64, worker: u32) -> String {
        let what = What::Session {
            session: 7,
            client: None,
            timeout_ms: None,
        };
        serde_json::to_string(&Event {
            at,
            worker,
            life: 0,
            what,
        })
        .unwrap()
            + "\n"
    }

    fn read(files: &[(&str, String)]) -> anyhow::Result<Vec<u64>> {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(directory.path().join(name), text).unwrap();
        }
        Histories::open(directory.path())?
            .map(|event| event.map(|event| event.at))
            .collect()
    }

    #[test]
    fn the_files_of_a_run_are_merged_by_time() {
        let one = [line(1, 0), line(4, 0), line(6, 0)].concat();
        let other = [line(2, 1), line(3, 1), line(5, 1)].concat();
        let files = [
            ("a.jsonl", one),
            ("b.jsonl", other),
            ("empty.jsonl", String::new()),
            ("final.json", "?".into()),
        ];
        assert_eq!(read(&files).unwrap(), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn the_last_line_of_a_killed_process_may_be_incomplete() {
        let torn = line(2, 0);
        let torn = line(1, 0) + &torn[..torn.len() / 2];
        assert_eq!(read(&[("a.jsonl", torn)]).unwrap(), [1]);
        assert_eq!(
            read(&[("a.jsonl", line(1, 0).trim_end().to_owned())]).unwrap(),
            [1],
            "only the line's end is missing"
        );
    }

    #[test]
    fn any_other_malformed_line_is_reported_with_its_file_and_number() {
        let bad = [line(1, 0), "{\"at\":2}\n".into(), line(3, 0)].concat();
        let error = read(&[("a.jsonl", line(0, 1)), ("b.jsonl", bad)]).unwrap_err();
        let named = "b.jsonl is not an event: ";
        let text = error.to_string();
        assert!(
            text.starts_with("line 2 of ")
                && text.contains(named)
                && text.ends_with(r#""{\"at\":2}""#),
            "{text}"
        );
    }
}
