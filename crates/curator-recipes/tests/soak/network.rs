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

/// Set in that process.
const NETWORK: &str = "SOAK_NETWORK";
/// The prefix of the process's messages to the test.
const SAYS: &str = "soak-says ";

/// Handle of that process in the test. Killed on drop.
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

    /// Blocks until the server runs.
    pub(crate) fn start(seed: u64) -> Self {
        let mut process = Command::new(env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .envs([(NETWORK, "1"), (SEED, &seed.to_string())])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (process.stdin.take(), BufReader::new(process.stdout.take().unwrap()));
        let (about, server, proxies) = (String::new(), SocketAddr::from(([0, 0, 0, 0], 0)), Vec::new());
        let mut network = Self { process, stdin, stdout, about, server, proxies };
        network.about = network.says();
        network.server = network.says().parse().unwrap();
        network.proxies = (0..CLIENT_COUNT).map(|_| network.says()).collect();
        network
    }

    /// Starts the faults.
    pub(crate) fn begin(&mut self) {
        self.order();
    }

    /// Ends the faults. Blocks until they have ended, and returns what they were.
    pub(crate) fn heal(&mut self) -> String {
        self.order();
        self.says()
    }

    /// Waits until the process and its server have ended.
    pub(crate) fn end(mut self) {
        drop(self.stdin.take());
        let status = self.process.wait().unwrap();
        assert!(status.success(), "the process with the server has failed: {status}");
    }

    /// Lets the process continue with its next step.
    fn order(&mut self) {
        writeln!(self.stdin.as_mut().unwrap()).unwrap();
    }

    fn says(&mut self) -> String {
        let mut line = String::new();
        while line.strip_prefix(SAYS).is_none() {
            line.clear();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the process with the server has ended");
        }
        line[SAYS.len()..].trim_end().to_owned()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The process may have ended.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The main function of that process.
pub(crate) async fn run(seed: u64) {
    // Also if the test is killed.
    let death = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(death).unwrap();
    // The soak has to see that unused directories are removed.
    let server = TestingServer::builder().container_check_interval(Duration::from_secs(1)).start().await.unwrap();
    let proxies: Vec<_> = (0..CLIENT_COUNT).map(|_| FaultProxy::start(server.address()).unwrap()).collect();
    // On separate lines, whatever the test harness has begun to print.
    let tell = |what: &str| say(&format!("\n{SAYS}{what}"));
    tell(&match (server.kind(), server.version()) {
        (ServerKind::Real, Some(version)) => format!("ZooKeeper {version}"),
        (kind, _) => format!("{kind} server"),
    });
    tell(&server.address().to_string());
    proxies.iter().for_each(|proxy| tell(&proxy.connect_string()));
    let mut orders = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    orders.next_line().await.unwrap();
    let mut faults = Faults::new(proxies, &server, seed);
    let healing = tokio::spawn(async move { (orders.next_line().await.unwrap(), orders) });
    while !healing.is_finished() {
        faults.do_some().await;
    }
    faults.heal();
    tell(&faults.done());
    let (_, mut orders) = healing.await.unwrap();
    // Until the test has ended.
    orders.next_line().await.unwrap();
}
