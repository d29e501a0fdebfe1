//! The process with the server, the proxies and the faults.

use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use curator_test::{FaultProxy, ServerKind, TestingServer};
use tokio::io::AsyncBufReadExt as _;

use super::faults::Faults;
use super::support::say;
use super::{CLIENT_COUNT, SEED, TEST};

/// The environment variable that is set in the process with the server.
const NETWORK: &str = "SOAK_NETWORK";
/// The prefix of the process's messages to the test.
const MESSAGE: &str = "soak-says ";

/// The test's handle to the process with the server. Kills the process on drop.
pub(crate) struct Network {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// The kind and version of the server.
    pub(crate) about: String,
    pub(crate) server: SocketAddr,
    /// The addresses that the clients connect to.
    pub(crate) proxies: Vec<String>,
}

impl Network {
    pub(crate) fn is_this_process() -> bool {
        env::var_os(NETWORK).is_some()
    }

    /// Starts the process, and blocks until the server is running.
    pub(crate) fn start(seed: u64) -> Self {
        let mut process = Command::new(env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .envs([(NETWORK, "1"), (SEED, &seed.to_string())])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = process.stdin.take();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        // The process's messages replace the placeholders.
        let mut network = Self {
            process,
            stdin,
            stdout,
            about: String::new(),
            server: SocketAddr::from(([0, 0, 0, 0], 0)),
            proxies: Vec::new(),
        };
        network.about = network.read_message();
        network.server = network.read_message().parse().unwrap();
        network.proxies = (0..CLIENT_COUNT).map(|_| network.read_message()).collect();
        network
    }

    /// Starts the faults.
    pub(crate) fn begin(&mut self) {
        self.next_step();
    }

    /// Ends the faults, and blocks until the last one has ended. Returns the injected faults.
    pub(crate) fn heal(&mut self) -> String {
        self.next_step();
        self.read_message()
    }

    /// Waits until the process and its server have ended.
    pub(crate) fn end(mut self) {
        drop(self.stdin.take());
        let status = self.process.wait().unwrap();
        assert!(
            status.success(),
            "the process with the server has failed: {status}"
        );
    }

    /// Lets the process continue with its next step.
    fn next_step(&mut self) {
        writeln!(self.stdin.as_mut().unwrap()).unwrap();
    }

    fn read_message(&mut self) -> String {
        let mut line = String::new();
        while line.strip_prefix(MESSAGE).is_none() {
            line.clear();
            assert!(
                self.stdout.read_line(&mut line).unwrap() > 0,
                "the process with the server has ended"
            );
        }
        line[MESSAGE.len()..].trim_end().to_owned()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The process may have ended.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The main function of the process with the server.
pub(crate) async fn run(seed: u64) {
    // The kernel kills this process when the process of the test dies.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    // The interval is short, so that the soak checks the removal of unused directories.
    let server = TestingServer::builder()
        .container_check_interval(Duration::from_secs(1))
        .start()
        .await
        .unwrap();
    let proxies: Vec<_> = (0..CLIENT_COUNT)
        .map(|_| FaultProxy::start(server.address()).unwrap())
        .collect();
    // Each message starts a new line, because the test harness may have printed a part of one.
    let send = |what: &str| say(&format!("\n{MESSAGE}{what}"));
    send(&match (server.kind(), server.version()) {
        (ServerKind::Real, Some(version)) => format!("ZooKeeper {version}"),
        (kind, _) => format!("{kind} server"),
    });
    send(&server.address().to_string());
    proxies
        .iter()
        .for_each(|proxy| send(&proxy.connect_string()));
    let mut steps = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    steps.next_line().await.unwrap();
    let mut faults = Faults::new(proxies, &server, seed);
    let healing = tokio::spawn(async move {
        steps.next_line().await.unwrap();
        steps
    });
    while !healing.is_finished() {
        faults.inject_one().await;
    }
    faults.heal();
    send(&faults.done());
    let mut steps = healing.await.unwrap();
    // Waits until the test has ended.
    steps.next_line().await.unwrap();
}
