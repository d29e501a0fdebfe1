//! The process with the clients, as the test has it.

use std::process::Stdio;
use std::time::Duration;

use curator_test::within;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::sample::{SAYS, Sample};
use super::{CLIENTS, SEED, TEST};

/// It says something every second.
const PATIENCE: Duration = Duration::from_secs(60);

/// Killed when this is dropped.
pub(crate) struct Clients {
    process: Child,
    stdin: ChildStdin,
    said: mpsc::UnboundedReceiver<String>,
    _reader: JoinSet<()>,
}

impl Clients {
    pub(crate) fn start(addresses: &str, seed: u64) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .env(CLIENTS, addresses)
            .env(SEED, seed.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (stdin, stdout) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let (sender, said) = mpsc::unbounded_channel();
        let mut reader = JoinSet::new();
        reader.spawn(read(BufReader::new(stdout).lines(), sender));
        Self { process, stdin, said, _reader: reader }
    }

    /// The next sample of this kind.
    pub(crate) async fn says(&mut self, kind: &str) -> Sample {
        let said = async {
            loop {
                let line = self.said.recv().await.expect("the clients have ended too early");
                if let Some(sample) = Sample::read(&line, kind) {
                    return sample;
                }
            }
        };
        within(PATIENCE, said).await
    }

    /// The next sample of this kind, if there is one.
    pub(crate) fn has_said(&mut self, kind: &str) -> Option<Sample> {
        loop {
            match self.said.try_recv() {
                Ok(line) => {
                    if let Some(sample) = Sample::read(&line, kind) {
                        return Some(sample);
                    }
                }
                Err(mpsc::error::TryRecvError::Empty) => return None,
                Err(mpsc::error::TryRecvError::Disconnected) => panic!("the clients have ended too early"),
            }
        }
    }

    pub(crate) async fn tell(&mut self, what: &str) {
        self.stdin.write_all(format!("{what}\n").as_bytes()).await.unwrap();
    }

    /// Waits for its end, and its test's.
    pub(crate) async fn finish(mut self) {
        let status = within(PATIENCE, self.process.wait()).await.unwrap();
        assert!(status.success(), "the clients have failed: {status}");
    }
}

async fn read(mut lines: Lines<BufReader<ChildStdout>>, sender: mpsc::UnboundedSender<String>) {
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(said) = line.strip_prefix(SAYS)
            && sender.send(said.to_owned()).is_err()
        {
            return;
        }
    }
}
