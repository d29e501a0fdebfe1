//! What zklock inherits from the program that starts it, and what the command inherits from zklock.

use std::path::Path;
use std::process::Stdio;

use curator_test::{TestingServer, soon, until};
use rustix::process::{Signal, geteuid};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::support::{Notes, delete_all_below, executed_by, finished, path, runs, signal, zklock};

async fn run(name: &str, prefix: &[&str], script: &str) -> Command {
    let server = TestingServer::shared().await;
    executed_by(
        prefix,
        &zklock(
            &server.connect_string(),
            &format!("run --lock {}", path(name)),
            Some(script),
        ),
    )
}

/// A process that ignores CHLD cannot wait for its child processes: zklock would release the lock
/// while the command runs.
#[tokio::test]
async fn a_parent_that_ignores_chld_does_not_make_zklock_release_the_lock_early() {
    let notes = Notes::new();
    let script = format!(
        "echo $$ > {}; read line; exit 5",
        notes.file("child").display()
    );
    let mut child = run("chld", &["env", "--ignore-signal=CHLD"], &script).await;
    let mut child = child.stdin(Stdio::piped()).spawn().unwrap();
    let process = notes.process("child").await;
    assert!(runs(process));
    drop(child.stdin.take());
    let printed = finished(child).await;
    assert_eq!((printed.code, printed.error.as_str()), (Some(5), ""));
}

#[tokio::test]
async fn a_command_has_no_blocked_signals_and_ignores_only_the_others() {
    let prefix = [
        "env",
        "--ignore-signal=CHLD,PIPE,HUP,USR1",
        "--block-signal=TERM,CHLD,USR2",
    ];
    let child = run(
        "mask",
        &prefix,
        "exec grep -E 'SigBlk|SigIgn' /proc/self/status",
    )
    .await
    .spawn()
    .unwrap();
    let printed = finished(child).await;
    let masks = printed
        .out
        .lines()
        .map(|line| u64::from_str_radix(line.split('\t').nth(1).unwrap(), 16).unwrap());
    // Signals above 31 belong to the program that runs the tests. HUP is 1, which `zklock` of
    // the tests does not ignore, and USR1 is 10.
    let masks: Vec<_> = masks.map(|mask| mask & 0x7fff_ffff).collect();
    assert_eq!(masks, [0, 1 << 9], "{printed:?}");
}

#[tokio::test]
async fn a_signal_that_the_parent_has_blocked_still_ends_the_command() {
    let notes = Notes::new();
    let script = format!(
        "echo $$ > {}; exec sleep 1000",
        notes.file("child").display()
    );
    let child = run("blocked", &["env", "--block-signal=TERM,CHLD"], &script)
        .await
        .spawn()
        .unwrap();
    notes.process("child").await;
    signal(&child, Signal::TERM);
    assert_eq!(finished(child).await.code, Some(143));
}

#[tokio::test]
async fn a_command_inherits_no_file_of_zklock() {
    let files = "exec ls /proc/self/fd";
    let with = run("files", &["env"], files).await.spawn();
    let without = executed_by(&["sh", "-c", files], &Command::new("x")).spawn();
    let with = finished(with.unwrap()).await;
    let without = finished(without.unwrap()).await;
    assert_eq!((with.code, with.out), (Some(0), without.out));
}

/// The command starts a process of another user, as `sudo` would. Only root can do so.
#[tokio::test]
async fn a_process_of_another_user_that_cannot_be_stopped_is_named() {
    if !geteuid().is_root() {
        eprintln!("not checked: this test needs root");
        return;
    }
    let notes = Notes::open_to_all();
    let server = TestingServer::shared().await;
    let program = notes.file("zklock");
    copy_zklock(&program).await;
    for is_lost in [false, true] {
        let lock = path("refusing");
        let note = notes.file(if is_lost { "lost" } else { "signalled" });
        let script = format!("echo $$ > {}; exec sleep 1000", note.display());
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--clear-groups"])
            .arg(&program)
            .args(["run", "--lock", &lock]);
        command
            .args(["--", "sh", "-c", &script])
            .env("ZOOKEEPER_CONNECT", server.connect_string())
            .env("ZKLOCK_CONFIG", "");
        let mut child = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let group = notes
            .process(note.file_name().unwrap().to_str().unwrap())
            .await;
        // A process of root joins the group, as `sudo` would.
        let mut other = Command::new("sleep")
            .arg("1000")
            .process_group(group.as_raw_pid())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        if is_lost {
            delete_all_below(&lock).await;
        } else {
            signal(&child, Signal::TERM);
        }
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let message = format!(
            "process {} (sleep) of the command runs as another user, and cannot be stopped",
            other.id().unwrap()
        );
        while !soon(lines.next_line())
            .await
            .unwrap()
            .unwrap()
            .contains(&message)
        {}
        soon(until(async || !runs(group))).await;
        other.kill().await.unwrap();
        assert_eq!(
            finished(child).await.code,
            Some(if is_lost { 122 } else { 143 })
        );
    }
}

/// Root has no limit of processes.
#[tokio::test]
async fn zklock_says_that_it_cannot_start_at_the_limit_of_processes() {
    if !geteuid().is_root() {
        eprintln!("not checked: this test needs root");
        return;
    }
    let notes = Notes::open_to_all();
    let program = notes.file("zklock");
    copy_zklock(&program).await;
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--clear-groups", "prlimit", "--nproc=1:1"])
        .arg(&program)
        .args(["ls", "/x"]);
    let output = soon(command.env("ZOOKEEPER_CONNECT", "localhost:1").output())
        .await
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (output.status.code(), error.lines().count()),
        (Some(125), 1),
        "{error}"
    );
    assert!(error.starts_with("zklock: cannot start: "), "{error}");
}

/// Copies the program to where another user can execute it.
async fn copy_zklock(to: &Path) {
    // `cp` makes the copy: if this process did, a process that another test starts meanwhile would
    // inherit the file open for writing, and the file could not be executed.
    let copied = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_zklock"))
        .arg(to)
        .status()
        .await
        .unwrap();
    assert!(copied.success());
}
