//! A worker's process, and the resources that it uses.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::{AddAssign, Sub};
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context as _, anyhow, bail};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;

use crate::protocol::{Reply, Request, Workload};

/// How long a worker may take to close its sessions before it is killed. Sessions that stay open
/// expire.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximal number of bytes of a worker's output that an error quotes.
const SHOWN_OUTPUT: usize = 600;

/// A worker's process. It is killed when this value is dropped, and when the bench ends.
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
    /// Starts the worker through `program tied`, so that it is killed when the bench ends.
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
        self.input
            .write_all(format!("{request}\n").as_bytes())
            .await
            .map_err(|_| self.ended())
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

    /// The content of the worker's next reply. `content` must return `None` for a reply that is not
    /// `name`. Such a reply is an error.
    pub(crate) async fn expect_reply<T>(
        &mut self,
        name: &'static str,
        content: impl FnOnce(&Reply) -> Option<T>,
    ) -> anyhow::Result<T> {
        let reply = self.reply().await?;
        content(&reply).ok_or_else(|| reply.instead_of(name))
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
        let text = String::from_utf8_lossy(&output[output.len().saturating_sub(SHOWN_OUTPUT)..])
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
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

/// The usage of a process since its start, or the sum over several processes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Processor time in user mode and in the kernel. The system's resolution is a hundredth of a
    /// second.
    pub(crate) processor: Duration,
    /// The context switches of each live thread, by thread id. The kernel drops a thread's counts
    /// when the thread ends, so a worker (a client process of the bench) keeps its threads until
    /// the bench sends the next request.
    threads: BTreeMap<u32, Switches>,
    /// Resident memory at the time of the reading, in bytes.
    pub(crate) resident: u64,
}

/// Context switches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Switches {
    /// The thread waited for something.
    pub(crate) voluntary: u64,
    /// The thread was preempted.
    pub(crate) involuntary: u64,
}

impl Usage {
    /// Reads the usage of the process from `/proc`.
    pub(crate) fn of(process: u32) -> io::Result<Self> {
        let folder = format!("/proc/{process}");
        let mut usage = Self {
            processor: processor(&fs::read_to_string(format!("{folder}/stat"))?)
                .unwrap_or_default(),
            resident: 1024 * field(&fs::read_to_string(format!("{folder}/status"))?, "VmRSS"),
            ..Self::default()
        };
        for task in fs::read_dir(format!("{folder}/task"))? {
            let task = task?;
            let Some(number) = task.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // The thread may have ended.
            let Ok(status) = fs::read_to_string(task.path().join("status")) else {
                continue;
            };
            let voluntary = field(&status, "voluntary_ctxt_switches");
            let involuntary = field(&status, "nonvoluntary_ctxt_switches");
            usage.threads.insert(
                number,
                Switches {
                    voluntary,
                    involuntary,
                },
            );
        }
        Ok(usage)
    }

    /// The sum over all threads.
    pub(crate) fn switches(&self) -> Switches {
        self.threads
            .values()
            .fold(Switches::default(), |all, thread| Switches {
                voluntary: all.voluntary + thread.voluntary,
                involuntary: all.involuntary + thread.involuntary,
            })
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.processor += other.processor;
        self.threads.extend(other.threads);
        self.resident += other.resident;
    }
}

/// The usage between two readings. The switches of threads that ended between the readings are not
/// counted.
impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            processor: self.processor.saturating_sub(earlier.processor),
            threads: self
                .threads
                .into_iter()
                .map(|(number, thread)| (number, thread.since(earlier.threads.get(&number))))
                .collect(),
            resident: self.resident.saturating_sub(earlier.resident),
        }
    }
}

impl Switches {
    fn since(self, earlier: Option<&Self>) -> Self {
        let earlier = earlier.copied().unwrap_or_default();
        Self {
            voluntary: self.voluntary.saturating_sub(earlier.voluntary),
            involuntary: self.involuntary.saturating_sub(earlier.involuntary),
        }
    }
}

/// The processor time in `/proc/<pid>/stat`: `utime` and `stime`, which are fields 14 and 15. The
/// program's name, field 2, is in parentheses, and may contain any characters.
fn processor(stat: &str) -> Option<Duration> {
    let mut fields = stat
        .rsplit_once(") ")?
        .1
        .split(' ')
        // From field 3, the first one after the name, to field 14.
        .skip(11)
        .map(|ticks| ticks.parse::<u32>().ok());
    let ticks = fields.next()??.checked_add(fields.next()??)?;
    let per_second = u32::try_from(rustix::param::clock_ticks_per_second()).ok()?;
    Some(Duration::from_secs(1) * ticks / per_second.max(1))
}

/// A field of `/proc/<pid>/status`.
fn field(status: &str, name: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_after_the_program_name_in_stat() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 30 0 0 0 150 25 1 2 20 0 1 0 5 6 7";
        let per_second = f64::from(u32::try_from(rustix::param::clock_ticks_per_second()).unwrap());
        assert!((processor(stat).unwrap().as_secs_f64() - 175.0 / per_second).abs() < 1e-6);
        assert_eq!(processor("torn"), None);
    }

    fn usage(threads: &[(u32, u64)], resident: u64) -> Usage {
        Usage {
            processor: Duration::from_secs(1),
            threads: threads
                .iter()
                .map(|&(number, voluntary)| {
                    let involuntary = 2 * voluntary;
                    (
                        number,
                        Switches {
                            voluntary,
                            involuntary,
                        },
                    )
                })
                .collect(),
            resident,
        }
    }

    #[test]
    fn usages_of_several_processes_are_summed() {
        let mut both = usage(&[(1, 2)], 10);
        both += usage(&[(7, 3)], 10);
        assert_eq!(
            (both.switches().voluntary, both.switches().involuntary),
            (5, 10)
        );
        assert_eq!(
            (both.resident, both.processor),
            (20, Duration::from_secs(2))
        );
    }

    #[test]
    fn switches_of_ended_threads_are_not_subtracted_from_the_others() {
        let before = usage(&[(1, 100), (2, 50)], 10);
        let after = usage(&[(1, 103), (3, 4)], 10);
        assert_eq!((after - before).switches().voluntary, 3 + 4);
    }
}
