//! Certificate authorities that are rotated while zklock runs.

use std::process::Stdio;

use curator_test::{TestingCa, until, within};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

use crate::support::{Notes, PATIENCE, SHORT, finished, path, runs, signal, zklock};
use crate::tls_server::TlsServer;

/// A server with a certificate of an authority, and a configuration file of a client that trusts
/// this authority.
struct Setup {
    server: TlsServer,
    directory: tempfile::TempDir,
}

impl Setup {
    async fn new() -> Self {
        let ca = TestingCa::new("old").unwrap();
        let setup = Self {
            server: TlsServer::start(&ca).await,
            directory: tempfile::tempdir().unwrap(),
        };
        setup.trust(&ca);
        setup.server.write_config(setup.directory.path());
        setup
    }

    /// Replaces the client's file of trusted authorities.
    fn trust(&self, ca: &TestingCa) {
        std::fs::write(self.directory.path().join("ca.pem"), ca.pem()).unwrap();
    }

    fn spawn(&self, options: &str, script: &str) -> (Child, Lines<BufReader<ChildStderr>>) {
        let mut command = zklock("", options, Some(script));
        let config = self.directory.path().join("config.toml");
        let mut child = command
            .env("ZKLOCK_CONFIG", config)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        (child, lines)
    }
}

/// Reads lines until one contains the text. Returns all of them.
async fn read_until(lines: &mut Lines<BufReader<ChildStderr>>, text: &str) -> Vec<String> {
    let mut all = Vec::new();
    within(PATIENCE, async {
        while !all.last().is_some_and(|line: &String| line.contains(text)) {
            all.push(
                lines
                    .next_line()
                    .await
                    .unwrap()
                    .unwrap_or_else(|| panic!("no {text:?}: {all:?}")),
            );
        }
    })
    .await;
    all
}

#[tokio::test]
async fn a_leader_says_why_it_is_not_connected_and_leads_again_when_its_authorities_are_replaced() {
    let setup = Setup::new().await;
    let notes = Notes::new();
    let new = TestingCa::new("new").unwrap();
    let script = format!(
        "echo $$ >> {}; exec sleep 1000",
        notes.file("leads").display()
    );
    let options = format!(
        "run --lock {} --leader --session-timeout {SHORT} --grace 500ms",
        path("rotated")
    );
    let (child, mut lines) = setup.spawn(&options, &script);
    let process = notes.process("leads").await;
    setup.server.rotate(&new);
    let cause = "its certificate is not issued by a certificate authority that this client trusts";
    read_until(&mut lines, cause).await;
    within(PATIENCE, until(async || !runs(process))).await;
    setup.trust(&new);
    // Printed by two tasks, in either order.
    let mut expected = vec!["zklock: connected again after ", "zklock: leading "];
    while !expected.is_empty() {
        let line = within(PATIENCE, lines.next_line()).await.unwrap().unwrap();
        expected.retain(|beginning| !line.starts_with(beginning));
    }
    let starts = || {
        std::fs::read_to_string(notes.file("leads"))
            .unwrap()
            .lines()
            .count()
    };
    within(PATIENCE, until(async || starts() > 1)).await;
    signal(&child, Signal::TERM);
    assert_eq!(within(PATIENCE, finished(child)).await.code, Some(143));
}

#[tokio::test]
async fn a_command_runs_on_when_both_sides_change_the_authority() {
    let setup = Setup::new().await;
    let notes = Notes::new();
    let new = TestingCa::new("new").unwrap();
    let script = format!(
        "echo $$ > {}; read line; exit 4",
        notes.file("runs").display()
    );
    let (mut child, mut lines) =
        setup.spawn(&format!("run --lock {} -v", path("renewed")), &script);
    let process = notes.process("runs").await;
    setup.trust(&new);
    read_until(
        &mut lines,
        "the TLS files have changed: the next connection uses the new ones",
    )
    .await;
    let before = setup.server.accepted();
    setup.server.rotate(&new);
    within(PATIENCE, until(async || setup.server.accepted() > before)).await;
    read_until(&mut lines, "the connection is suspended").await;
    let again = read_until(&mut lines, "connected to ").await;
    assert!(
        again.last().unwrap().contains("Z connected to 127.0.0.1:"),
        "{again:?}"
    );
    assert!(runs(process));
    drop(child.stdin.take());
    read_until(&mut lines, "released").await;
    assert_eq!(within(PATIENCE, finished(child)).await.code, Some(4));
}

#[tokio::test]
async fn files_that_cannot_be_used_are_reported_and_the_previous_ones_stay_in_use() {
    let setup = Setup::new().await;
    let notes = Notes::new();
    let script = format!(
        "echo $$ > {}; read line; exit 4",
        notes.file("runs").display()
    );
    let (mut child, mut lines) = setup.spawn(&format!("run --lock {}", path("unusable")), &script);
    notes.process("runs").await;
    std::fs::write(setup.directory.path().join("ca.pem"), "").unwrap();
    let reported = "the TLS files have changed, and the previous ones stay in use, because: ";
    assert_eq!(read_until(&mut lines, reported).await.len(), 1);
    drop(child.stdin.take());
    assert_eq!(within(PATIENCE, finished(child)).await.code, Some(4));
}

#[tokio::test]
async fn a_fifo_in_place_of_a_file_is_reported_and_a_file_that_follows_is_used() {
    let setup = Setup::new().await;
    let notes = Notes::new();
    let script = format!(
        "echo $$ > {}; read line; exit 4",
        notes.file("runs").display()
    );
    let (mut child, mut lines) = setup.spawn(&format!("run --lock {} -v", path("fifo")), &script);
    notes.process("runs").await;
    let file = setup.directory.path().join("ca.pem");
    std::fs::remove_file(&file).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(&file)
            .status()
            .await
            .unwrap()
            .success()
    );
    let reported = read_until(&mut lines, "the previous ones stay in use, because: ").await;
    assert!(
        reported
            .last()
            .unwrap()
            .ends_with("ca.pem: it is not a regular file"),
        "{reported:?}"
    );
    std::fs::remove_file(&file).unwrap();
    setup.trust(&TestingCa::new("new").unwrap());
    read_until(
        &mut lines,
        "the TLS files have changed: the next connection uses the new ones",
    )
    .await;
    drop(child.stdin.take());
    assert_eq!(within(PATIENCE, finished(child)).await.code, Some(4));
}
