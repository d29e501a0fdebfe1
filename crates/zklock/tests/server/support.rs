//! Starts the program, and inspects the processes that it has started.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use curator_recipes::client::{CreateMode, CuratorClient};
use curator_test::{FaultProxy, TestingServer, soon, unique_path, until};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use tokio::process::{Child, Command};

pub(crate) use crate::pseudo_terminal::executed_by;

/// The session timeout of a run that loses its session.
pub(crate) const SHORT: &str = "8s";

pub(crate) fn path(name: &str) -> String {
    unique_path(&format!("zklock-{name}"))
}

/// Splits a line into words, as a shell does.
pub(crate) fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// `zklock` with these options, and with `sh -c SCRIPT` as its command, if there is a script.
pub(crate) fn zklock(connect: &str, options: &str, script: Option<&str>) -> Command {
    // If a shell runs the tests in the background, or under `nohup`, they ignore INT or HUP, which
    // zklock would inherit.
    let mut command = Command::new("env");
    command.args([
        "--default-signal=HUP,INT,QUIT,TERM",
        env!("CARGO_BIN_EXE_zklock"),
    ]);
    command
        .args(words(options))
        .env("ZOOKEEPER_CONNECT", connect);
    // Reads no configuration file, not even that of the user who runs the tests.
    command.env("ZKLOCK_CONFIG", "");
    if let Some(script) = script {
        command.args(["--", "sh", "-c", script]);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// The output and the exit code of a run.
#[derive(Debug)]
pub(crate) struct Printed {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) error: String,
}

pub(crate) async fn finished(child: Child) -> Printed {
    let output = soon(child.wait_with_output()).await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    // The code that a shell reports: 128 plus the signal, if a signal ended zklock.
    let code = output
        .status
        .code()
        .or_else(|| output.status.signal().map(|signal| 128 + signal));
    Printed {
        code,
        out: text(output.stdout),
        error: text(output.stderr),
    }
}

/// Runs zklock on the shared server.
pub(crate) async fn printed(options: &str, script: Option<&str>) -> Printed {
    let server = TestingServer::shared().await;
    finished(
        zklock(&server.connect_string(), options, script)
            .spawn()
            .unwrap(),
    )
    .await
}

/// A client of the test.
pub(crate) async fn client() -> CuratorClient {
    CuratorClient::builder(TestingServer::shared().await.connect_string())
        .connect()
        .await
        .unwrap()
}

pub(crate) async fn proxy() -> FaultProxy {
    FaultProxy::start(TestingServer::shared().await.address()).unwrap()
}

/// A directory where commands write files, from which the test reads what they have done.
pub(crate) struct Notes(tempfile::TempDir);

impl Notes {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A directory where every user can create files.
    pub(crate) fn open_to_all() -> Self {
        let notes = Self::new();
        std::fs::set_permissions(
            notes.0.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o777),
        )
        .unwrap();
        notes
    }

    /// A file that a command reads until a test has written to it.
    pub(crate) async fn fifo(&self, name: &str) -> PathBuf {
        let fifo = self.file(name);
        assert!(
            Command::new("mkfifo")
                .arg(&fifo)
                .status()
                .await
                .unwrap()
                .success()
        );
        fifo
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Waits until a file has a whole line, and returns the line.
    pub(crate) async fn line(&self, name: &str) -> String {
        let file = self.file(name);
        let read = || std::fs::read_to_string(&file).unwrap_or_default();
        until(async || read().contains('\n')).await;
        read().trim().to_owned()
    }

    /// Waits for a process id in a file.
    pub(crate) async fn process(&self, name: &str) -> Pid {
        Pid::from_raw(self.line(name).await.parse().unwrap()).unwrap()
    }
}

/// A script that runs until a signal ends it.
pub(crate) const LOOP: &str = "while :; do sleep 0.1; done";

/// Starts zklock with a command that exits with `code` at the end of its input. Returns when the
/// command runs, with the command's process.
pub(crate) async fn reading(connect: &str, options: &str, code: i32) -> (Child, Pid) {
    started(connect, options, ":", &format!("read line; exit {code}")).await
}

/// Starts zklock with a script, whose input is a pipe. Returns when the script has executed
/// `first`, with its process.
pub(crate) async fn started(
    connect: &str,
    options: &str,
    first: &str,
    script: &str,
) -> (Child, Pid) {
    let notes = Notes::new();
    let script = format!(
        "{first}; echo $$ > {}; {script}",
        notes.file("child").display()
    );
    let child = zklock(connect, options, Some(&script))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    (child, notes.process("child").await)
}

/// Whether a process runs. A zombie does not count.
pub(crate) fn runs(process: Pid) -> bool {
    test_kill_process(process).is_ok() && state(process) != Some('Z')
}

/// The state of a process, as the kernel shows it.
pub(crate) fn state(process: Pid) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    let process = Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(process, signal).unwrap();
}

/// Creates a contender's node with the name prefix of some client library. Returns the node's name.
pub(crate) async fn contend(
    client: &CuratorClient,
    directory: &str,
    name: &str,
    data: &str,
) -> String {
    let mode = CreateMode::EphemeralSequential;
    let create = client.create().with_mode(mode).creating_parent_containers();
    create
        .for_path(format!("{directory}/{name}"), data)
        .await
        .unwrap()
        .name()
        .to_owned()
}

/// The start of a node name of Curator in Java.
pub(crate) const JAVA: &str = "_c_0e3f3c2a-57a5-4b53-9b66-b5b8e8a5b3a3";
/// The id in a node name of kazoo or go-zookeeper.
pub(crate) const HEX: &str = "8f2bb1a1f2f94c6c9f1f1b6f5a0e6a6b";

/// The locks at a path, as `ls --json` prints them.
pub(crate) async fn listed(lock: &str) -> Vec<Value> {
    let printed = printed(&format!("ls {lock} --json"), None).await;
    assert_eq!(
        (printed.code, printed.error.as_str()),
        (Some(0), ""),
        "{printed:?}"
    );
    printed
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The limit for waits that last until a session expires or a grace period ends.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The name of this machine, as nodes show it.
pub(crate) fn host() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

pub(crate) async fn delete_all_below(lock: &str) {
    let client = client().await;
    for node in client.get_children(lock).await.unwrap() {
        client
            .delete()
            .for_path(format!("{lock}/{node}"))
            .await
            .unwrap();
    }
}
