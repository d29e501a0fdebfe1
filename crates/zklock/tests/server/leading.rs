//! `--leader`: commands that run while their zklock leads.

use curator_test::{TestingServer, soon, until, within};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::support::{
    Notes, PATIENCE, SHORT, finished, path, printed, proxy, runs, signal, zklock,
};

/// A script that appends a line to a file at each start. It starts no process: a TERM that arrives
/// while a shell starts one can miss that process, for which zklock would then wait.
fn counted(notes: &Notes, name: &str) -> String {
    format!("echo $$ >> {}; exec sleep 1000", notes.file(name).display())
}

fn starts(notes: &Notes, name: &str) -> usize {
    std::fs::read_to_string(notes.file(name))
        .unwrap_or_default()
        .lines()
        .count()
}

#[tokio::test]
async fn a_cut_off_leader_is_replaced_and_leads_again_later() {
    let leaders = path("leaders");
    let notes = Notes::new();
    let proxy = proxy().await;
    let options = format!("run --lock {leaders} --leader --grace 500ms");
    let first = zklock(
        &proxy.connect_string(),
        &format!("{options} --session-timeout {SHORT}"),
        Some(&counted(&notes, "first")),
    )
    .spawn()
    .unwrap();
    let process = notes.process("first").await;
    let server = TestingServer::shared().await;
    let second = zklock(
        &server.connect_string(),
        &options,
        Some(&counted(&notes, "second")),
    )
    .spawn()
    .unwrap();
    proxy.refuse(true).unwrap();
    proxy.cut();
    within(PATIENCE, async { notes.process("second").await }).await;
    assert!(!runs(process));
    let before = starts(&notes, "first");
    proxy.refuse(false).unwrap();
    // The first zklock leads again when the second zklock has ended.
    signal(&second, Signal::TERM);
    assert_eq!(finished(second).await.code, Some(143));
    within(PATIENCE, until(async || starts(&notes, "first") > before)).await;
    signal(&first, Signal::TERM);
    let printed = within(PATIENCE, finished(first)).await;
    // On a busy machine, the short session of the first zklock may expire again.
    assert!(matches!(printed.code, Some(143 | 122)), "{printed:?}");
}

#[tokio::test]
async fn a_command_that_ends_is_run_again_after_a_pause() {
    let leaders = path("leaders-again");
    let notes = Notes::new();
    let server = TestingServer::shared().await;
    let script = format!(
        "echo $ZKLOCK_TOKEN >> {}; exit 3",
        notes.file("tokens").display()
    );
    let options = format!("run --lock {leaders} --leader");
    let mut child = zklock(&server.connect_string(), &options, Some(&script))
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    for pause in ["1s", "2s"] {
        let pauses = format!("zklock: joining the election again in {pause}");
        while soon(lines.next_line()).await.unwrap().unwrap() != pauses {}
    }
    signal(&child, Signal::INT);
    assert_eq!(finished(child).await.code, Some(130));
    let tokens = std::fs::read_to_string(notes.file("tokens")).unwrap();
    let tokens: Vec<i64> = tokens.lines().map(|line| line.parse().unwrap()).collect();
    assert!(tokens.is_sorted() && tokens[0] != tokens[1], "{tokens:?}");
}

/// A shell that cannot execute a command in its script exits with the same codes.
#[tokio::test]
async fn a_command_that_cannot_be_run_ends_the_leader() {
    let leaders = path("leaders-none");
    for (command, code) in [
        ("/no/such/command", 127),
        ("/dev/null", 126),
        ("sh -c /no/such/command", 127),
    ] {
        let printed = printed(&format!("run --lock {leaders} --leader -- {command}"), None).await;
        assert_eq!(printed.code, Some(code), "{command}: {printed:?}");
        assert!(
            !printed.error.contains("joining the election again"),
            "{printed:?}"
        );
    }
}
