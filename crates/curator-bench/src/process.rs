//! A worker's process.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;

use crate::protocol::{Done, Reply, Request, Workload};
use crate::usage::Usage;

/// How long a worker may take to close its sessions before it is killed. Sessions that stay open
/// expire.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of bytes of a worker's output in an error.
const SHOWN_OUTPUT: usize = 600;

/// A worker's process. It is killed when this value is dropped, and when this process ends.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    id: u32,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// The worker's standard error.
    log: File,
}

impl Process {
    /// Starts the worker through `program tied`, so that it is killed with this process.
    pub(crate) fn start(
        program: &Path,
        worker: &Command,
        connect: &str,
        session_timeout: Duration,
    ) -> anyhow::Result<Self> {
        let failed = || format!("cannot start {}", worker.get_program().display());
        let log = tempfile::tempfile().with_context(failed)?;
        let mut command = tokio::process::Command::new(program);
        command
            .arg("tied")
            .arg(process::id().to_string())
            .arg(worker.get_program())
            .args(worker.get_args());
        command.args([connect, &session_timeout.as_millis().to_string()]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.try_clone().with_context(failed)?);
        let mut child = command.kill_on_drop(true).spawn().with_context(failed)?;
        let (Some(id), Some(input), Some(output)) =
            (child.id(), child.stdin.take(), child.stdout.take())
        else {
            bail!("the worker process has no id, or no standard input and output");
        };
        Ok(Self {
            child,
            id,
            input,
            output: BufReader::new(output).lines(),
            log,
        })
    }

    pub(crate) fn usage(&self) -> anyhow::Result<Usage> {
        Usage::of(self.id).context("cannot read the resource usage of a worker")
    }

    pub(crate) async fn send_request(&mut self, request: &Request) -> anyhow::Result<()> {
        let line = format!("{request}\n");
        let sent = self.input.write_all(line.as_bytes()).await;
        sent.map_err(|_| self.ended())
    }

    /// The worker's next reply. `error` and `no` are returned as errors.
    pub(crate) async fn reply(&mut self) -> anyhow::Result<Reply> {
        let line = self
            .output
            .next_line()
            .await
            .ok()
            .flatten()
            .ok_or_else(|| self.ended())?;
        match line.parse()? {
            Reply::Error(what) => bail!(what),
            Reply::No(why) => bail!("not supported: {why}"),
            reply => Ok(reply),
        }
    }

    pub(crate) async fn done(&mut self) -> anyhow::Result<Done> {
        match self.reply().await? {
            Reply::Done(done) => Ok(done),
            other => Err(other.instead_of("done")),
        }
    }

    pub(crate) async fn held(&mut self) -> anyhow::Result<()> {
        match self.reply().await? {
            Reply::Held => Ok(()),
            other => Err(other.instead_of("held")),
        }
    }

    pub(crate) async fn queued(&mut self) -> anyhow::Result<Duration> {
        match self.reply().await? {
            Reply::Queued { nanoseconds } => Ok(Duration::from_nanos(nanoseconds)),
            other => Err(other.instead_of("queued")),
        }
    }

    pub(crate) async fn loaded(&mut self) -> anyhow::Result<Duration> {
        match self.reply().await? {
            Reply::Loaded { nanoseconds } => Ok(Duration::from_nanos(nanoseconds)),
            other => Err(other.instead_of("loaded")),
        }
    }

    pub(crate) async fn current(&mut self) -> anyhow::Result<u64> {
        match self.reply().await? {
            Reply::Current { events } => Ok(events),
            other => Err(other.instead_of("current")),
        }
    }

    /// Fails if the worker does not support the workload.
    pub(crate) async fn check(&mut self, workload: &Workload) -> anyhow::Result<()> {
        self.send_request(&Request::Supports {
            operation: workload.operation,
            lock: workload.lock,
        })
        .await?;
        self.reply().await.map(drop)
    }

    pub(crate) async fn open(
        &mut self,
        sessions: usize,
        connect: Option<String>,
    ) -> anyhow::Result<()> {
        self.send_request(&Request::Open { sessions, connect })
            .await?;
        self.reply().await.map(drop)
    }

    /// Closes the worker's standard input, so that it closes its sessions and exits.
    pub(crate) async fn end(self) {
        let Self {
            mut child, input, ..
        } = self;
        drop(input);
        // Dropping the child kills a worker that takes too long.
        drop(timeout(END_TIMEOUT, child.wait()).await);
    }

    fn ended(&mut self) -> anyhow::Error {
        let mut output = Vec::new();
        let read = self
            .log
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.log.read_to_end(&mut output));
        let text = String::from_utf8_lossy(&output[output.len().saturating_sub(SHOWN_OUTPUT)..]);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let output = if read.is_err() || text.is_empty() {
            String::new()
        } else {
            format!(": {text}")
        };
        anyhow!("the worker process has ended{output}")
    }
}

impl Reply {
    /// The error for this unexpected reply.
    pub(crate) fn instead_of(&self, expected: &'static str) -> anyhow::Error {
        anyhow!(
            "the worker replied {:?}; expected {expected}",
            self.to_string()
        )
    }
}
