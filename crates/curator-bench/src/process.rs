//! The process of a worker.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;

use crate::error::BenchError;
use crate::protocol::{Answer, Done, Play, Request};
use crate::usage::Usage;

/// How long a worker may take to close its sessions. Any session that stays open expires.
const END: Duration = Duration::from_secs(10);
/// How many bytes of its output an error contains.
const OUTPUT: usize = 600;

/// A worker. Killed when this value is dropped, and when this process ends.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    id: u32,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// Its standard error.
    log: File,
}

impl Process {
    /// Starts it through `program tied`.
    pub(crate) fn start(
        program: &Path,
        worker: &Command,
        connect: &str,
        session_timeout: Duration,
    ) -> Result<Self, BenchError> {
        let failed = || BenchError::io(format!("start {}", worker.get_program().display()));
        let log = tempfile::tempfile().map_err(failed())?;
        let mut command = tokio::process::Command::new(program);
        command.arg("tied").arg(process::id().to_string()).arg(worker.get_program()).args(worker.get_args());
        command.args([connect, &session_timeout.as_millis().to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log.try_clone().map_err(failed())?);
        let mut child = command.kill_on_drop(true).spawn().map_err(failed())?;
        let (Some(id), Some(input), Some(output)) = (child.id(), child.stdin.take(), child.stdout.take()) else {
            return Err(BenchError::Ended { output: String::new() });
        };
        Ok(Self { child, id, input, output: BufReader::new(output).lines(), log })
    }

    pub(crate) fn usage(&self) -> Result<Usage, BenchError> {
        Usage::of(self.id).map_err(BenchError::io("read what a worker uses"))
    }

    pub(crate) async fn send_request(&mut self, request: &Request) -> Result<(), BenchError> {
        let line = format!("{request}\n");
        let told = self.input.write_all(line.as_bytes()).await;
        told.map_err(|_| self.ended())
    }

    /// Its next answer, or its error.
    pub(crate) async fn answer(&mut self) -> Result<Answer, BenchError> {
        let line = self.output.next_line().await.ok().flatten().ok_or_else(|| self.ended())?;
        match line.parse()? {
            Answer::Error(what) => Err(BenchError::Worker(what)),
            Answer::No(why) => Err(BenchError::Unsupported(why)),
            answer => Ok(answer),
        }
    }

    pub(crate) async fn done(&mut self) -> Result<Done, BenchError> {
        match self.answer().await? {
            Answer::Done(done) => Ok(done),
            other => Err(other.instead_of("done")),
        }
    }

    pub(crate) async fn held(&mut self) -> Result<(), BenchError> {
        match self.answer().await? {
            Answer::Held => Ok(()),
            other => Err(other.instead_of("held")),
        }
    }

    pub(crate) async fn queued(&mut self) -> Result<Duration, BenchError> {
        match self.answer().await? {
            Answer::Queued { nanoseconds } => Ok(Duration::from_nanos(nanoseconds)),
            other => Err(other.instead_of("queued")),
        }
    }

    pub(crate) async fn loaded(&mut self) -> Result<Duration, BenchError> {
        match self.answer().await? {
            Answer::Loaded { nanoseconds } => Ok(Duration::from_nanos(nanoseconds)),
            other => Err(other.instead_of("loaded")),
        }
    }

    pub(crate) async fn current(&mut self) -> Result<u64, BenchError> {
        match self.answer().await? {
            Answer::Current { events } => Ok(events),
            other => Err(other.instead_of("current")),
        }
    }

    pub(crate) async fn check(&mut self, play: &Play) -> Result<(), BenchError> {
        self.send_request(&Request::Supports { act: play.act, lock: play.lock }).await?;
        self.answer().await.map(drop)
    }

    pub(crate) async fn open(&mut self, sessions: usize, connect: Option<String>) -> Result<(), BenchError> {
        self.send_request(&Request::Open { sessions, connect }).await?;
        self.answer().await.map(drop)
    }

    /// Asks it to close its sessions and to exit.
    pub(crate) async fn end(self) {
        let Self { mut child, input, .. } = self;
        drop(input);
        // If it takes too long, it is killed.
        drop(timeout(END, child.wait()).await);
    }

    fn ended(&mut self) -> BenchError {
        let mut output = Vec::new();
        let read = self.log.seek(SeekFrom::Start(0)).and_then(|_| self.log.read_to_end(&mut output));
        let text = String::from_utf8_lossy(&output[output.len().saturating_sub(OUTPUT)..]);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        BenchError::Ended { output: if read.is_err() || text.is_empty() { String::new() } else { format!(": {text}") } }
    }
}

impl Answer {
    /// The error for this unexpected answer.
    pub(crate) fn instead_of(&self, expected: &'static str) -> BenchError {
        BenchError::Unexpected { answer: self.to_string(), expected }
    }
}
