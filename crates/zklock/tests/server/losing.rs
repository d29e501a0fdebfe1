//! Commands whose lock is lost, or whose zklock is killed: they are stopped before another client has the lock.

use std::time::Duration;

use curator_test::{Direction, FaultProxy, TestingServer, soon, until, within};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr};

use crate::support::{Notes, PATIENCE, SHORT, delete_all_below, finished, path, printed, proxy, runs, signal, zklock};

/// A command that ignores TERM, and starts a child process that ignores TERM too.
fn stubborn(notes: &Notes) -> String {
    let file = |name| notes.file(name).display().to_string();
    format!(
        "trap '' TERM; sleep 1000 & echo $! > {}; echo $$ > {}; wait; sleep 1000",
        file("grandchild"),
        file("child")
    )
}

/// Starts zklock with a stubborn command. Returns zklock's process and the two processes of the command.
async fn started(connect: &str, lock: &str, notes: &Notes) -> (Child, [Pid; 2]) {
    started_with(connect, &format!("run --lock {lock} --session-timeout {SHORT} --grace 500ms"), notes).await
}

async fn started_with(connect: &str, options: &str, notes: &Notes) -> (Child, [Pid; 2]) {
    let child = zklock(connect, options, Some(&stubborn(notes))).spawn().unwrap();
    (child, [notes.process("child").await, notes.process("grandchild").await])
}

/// Runs zklock as the next holder. Returns its exit code: 9 if one of the previous holder's processes still runs when
/// the command of the next holder starts, and else 0.
async fn next(lock: &str, before: [Pid; 2]) -> Option<i32> {
    let [child, grandchild] = before.map(Pid::as_raw_nonzero);
    // Reads each state once: a zombie can be reaped at any time.
    let script = format!(
        r#"for p in {child} {grandchild}; do case "$(cat /proc/$p/stat 2>/dev/null)" in "" | *") "[ZX]" "*) ;; *) exit 9; esac; done"#
    );
    let server = TestingServer::shared().await;
    let next = zklock(&server.connect_string(), &format!("run --lock {lock}"), Some(&script)).spawn().unwrap();
    within(PATIENCE, finished(next)).await.code
}

#[tokio::test]
async fn a_lost_session_stops_grandchildren_before_the_next_holder_runs() {
    let (lock, notes, proxy) = (path("lost"), Notes::new(), proxy().await);
    let (child, processes) = started(&proxy.connect_string(), &lock, &notes).await;
    // The command ignores TERM, and is killed only when its lease ends.
    signal(&child, Signal::TERM);
    proxy.black_hole(Direction::Both);
    assert_eq!(next(&lock, processes).await, Some(0));
    let printed = within(PATIENCE, finished(child)).await;
    assert_eq!(printed.code, Some(122), "{printed:?}");
}

#[tokio::test]
async fn a_killed_zklock_leaves_neither_a_command_nor_a_lock() {
    let (lock, notes, server) = (path("killed"), Notes::new(), TestingServer::shared().await);
    let (child, processes) = started(&server.connect_string(), &lock, &notes).await;
    signal(&child, Signal::KILL);
    assert_eq!(next(&lock, processes).await, Some(0));
    drop(child);
}

#[tokio::test]
async fn a_stopped_zklock_does_not_keep_its_command_running() {
    let (lock, notes, server) = (path("stopped"), Notes::new(), TestingServer::shared().await);
    let (child, processes) = started(&server.connect_string(), &lock, &notes).await;
    signal(&child, Signal::STOP);
    assert_eq!(next(&lock, processes).await, Some(0));
    signal(&child, Signal::CONT);
    let printed = within(PATIENCE, finished(child)).await;
    assert_eq!(printed.code, Some(122), "{printed:?}");
}

#[tokio::test]
async fn a_deleted_node_stops_the_command_immediately() {
    let (lock, notes, server) = (path("deleted"), Notes::new(), TestingServer::shared().await);
    let script = format!(
        "trap 'echo stopped > {}; exit 0' TERM; echo $$ > {}; while :; do sleep 0.1; done",
        notes.file("stopped").display(),
        notes.file("child").display()
    );
    let child = zklock(&server.connect_string(), &format!("run --lock {lock}"), Some(&script)).spawn().unwrap();
    notes.process("child").await;
    delete_all_below(&lock).await;
    let printed = finished(child).await;
    assert_eq!(printed.code, Some(122), "{printed:?}");
    assert!(printed.error.contains("its node no longer exists"), "{printed:?}");
    assert_eq!(notes.line("stopped").await, "stopped");
}

#[tokio::test]
async fn a_revocation_request_stops_the_command_and_releases_the_lock() {
    let (lock, notes, server) = (path("revoked"), Notes::new(), TestingServer::shared().await);
    let (child, processes) = started(&server.connect_string(), &lock, &notes).await;
    let asked = printed(&format!("revoke {lock}"), None).await;
    assert_eq!(asked.code, Some(0), "{asked:?}");
    assert_eq!(next(&lock, processes).await, Some(0));
    let printed = finished(child).await;
    assert_eq!(printed.code, Some(122), "{printed:?}");
    assert!(printed.error.contains("another client has requested"), "{printed:?}");
}

#[tokio::test]
async fn a_command_goes_on_through_an_outage_that_is_shorter_than_its_lease() {
    let (lock, notes, proxy) = (path("outage"), Notes::new(), proxy().await);
    let script = format!("echo $$ > {}; read line; exit 4", notes.file("child").display());
    let mut command = zklock(&proxy.connect_string(), &format!("run --lock {lock}"), Some(&script));
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let process = notes.process("child").await;
    proxy.cut();
    proxy.wait_for_connections(1).await.unwrap();
    assert!(runs(process));
    drop(child.stdin.take());
    assert_eq!(finished(child).await.code, Some(4));
}

#[tokio::test]
async fn a_command_stopped_while_disconnected_exits_as_lost_even_if_the_session_survives() {
    let (lock, notes, proxy) = (path("doubt"), Notes::new(), proxy().await);
    let file = |name| notes.file(name).display().to_string();
    let script = format!(
        "trap 'echo stopped > {}; read line; exit 0' TERM; echo $$ > {}; while :; do sleep 0.1; done",
        file("stopped"),
        file("child")
    );
    let options = format!("run --lock {lock} --session-timeout 20s --grace 3s");
    let child = zklock(&proxy.connect_string(), &options, Some(&script)).spawn().unwrap();
    notes.process("child").await;
    proxy.black_hole(Direction::Both);
    notes.line("stopped").await;
    proxy.heal();
    let printed = within(PATIENCE, finished(child)).await;
    assert_eq!(printed.code, Some(122), "{printed:?}");
    assert!(printed.error.contains("the servers do not answer: the command is stopped in "), "{printed:?}");
    assert!(printed.error.contains("the session was in doubt"), "{printed:?}");
}

#[tokio::test]
async fn a_command_with_a_stopped_guardian_is_killed_before_the_lease_ends() {
    let (lock, notes, proxy) = (path("stopped-guardian"), Notes::new(), proxy().await);
    // With this timeout, the command is killed a second before the lease ends.
    let options = format!("run --lock {lock} --session-timeout 10s --grace 500ms");
    let (child, processes) = started_with(&proxy.connect_string(), &options, &notes).await;
    kill_process(guardian_of(&child).await, Signal::STOP).unwrap();
    proxy.black_hole(Direction::Both);
    assert_eq!(next(&lock, processes).await, Some(0));
    let printed = within(PATIENCE, finished(child)).await;
    assert_eq!(printed.code, Some(122), "{printed:?}");
    // zklock prints this when the lease ends while the command runs.
    assert!(!printed.error.contains("is lost: "), "{printed:?}");
}

#[tokio::test]
async fn a_command_is_killed_although_its_guardian_was_killed_after_the_order_to_stop() {
    let (lock, notes, server) = (path("late-guardian"), Notes::new(), TestingServer::shared().await);
    let options = format!("run --lock {lock} --session-timeout 40s --grace 5s");
    let (mut child, processes) = started_with(&server.connect_string(), &options, &notes).await;
    let guardian = guardian_of(&child).await;
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    assert_eq!(printed(&format!("revoke {lock}"), None).await.code, Some(0));
    assert!(soon(stderr.next_line()).await.unwrap().unwrap().contains("stopping the command"));
    kill_process(guardian, Signal::KILL).unwrap();
    // The lease lasts longer than these 10 s, so zklock has not waited for its end.
    assert_eq!(within(Duration::from_secs(10), finished(child)).await.code, Some(122));
    assert!(!processes.into_iter().any(runs));
}

#[tokio::test]
async fn on_lost_ignore_keeps_the_exit_code_of_a_command_whose_guardian_was_killed() {
    let (lock, notes, server) = (path("ignored-guardian"), Notes::new(), TestingServer::shared().await);
    let script = format!("echo $$ > {}; read line; exit 5", notes.file("child").display());
    let options = format!("run --lock {lock} --on-lost ignore");
    let mut command = zklock(&server.connect_string(), &options, Some(&script));
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    notes.process("child").await;
    kill_process(guardian_of(&child).await, Signal::KILL).unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = soon(stderr.next_line()).await.unwrap().unwrap();
    assert!(line.ends_with("the command continues, because of --on-lost ignore"), "{line}");
    drop(child.stdin.take());
    assert_eq!(finished(child).await.code, Some(5));
}

#[tokio::test]
async fn killing_the_guardian_ends_the_command() {
    let (lock, notes, server) = (path("guardian"), Notes::new(), TestingServer::shared().await);
    let (child, processes) = started(&server.connect_string(), &lock, &notes).await;
    let guardian = guardian_of(&child).await;
    kill_process(guardian, Signal::KILL).unwrap();
    let printed = finished(child).await;
    assert_eq!(printed.code, Some(122), "{printed:?}");
    until(async || !processes.into_iter().any(runs)).await;
}

#[tokio::test]
async fn a_command_is_killed_after_a_deletion_although_its_guardian_is_stopped() {
    let (lock, notes, server) = (path("stopped-deleted"), Notes::new(), TestingServer::shared().await);
    let (child, processes) = started(&server.connect_string(), &lock, &notes).await;
    let guardian = guardian_of(&child).await;
    kill_process(guardian, Signal::STOP).unwrap();
    delete_all_below(&lock).await;
    assert_eq!(finished(child).await.code, Some(122));
    until(async || !processes.into_iter().any(runs)).await;
}

/// The command ends before zklock detects the deletion.
#[tokio::test]
async fn a_loss_detected_at_the_release_exits_with_the_code_of_a_loss() {
    let (lock, notes, proxy) = (path("noticed-late"), Notes::new(), proxy().await);
    let script = format!("echo $$ > {}; read line; exit 0", notes.file("child").display());
    let mut command = zklock(&proxy.connect_string(), &format!("run --lock {lock}"), Some(&script));
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let process = notes.process("child").await;
    signal(&child, Signal::STOP);
    delete_all_below(&lock).await;
    drop(child.stdin.take());
    until(async || !runs(process)).await;
    signal(&child, Signal::CONT);
    let printed = finished(child).await;
    assert_eq!(printed.code, Some(122), "{printed:?}");
}

/// A zklock whose command has ended with 5 while no server answers, so that the lock cannot be released.
async fn ended_while_cut_off(name: &str, proxy: &FaultProxy) -> (Child, Lines<BufReader<ChildStderr>>) {
    let (lock, notes) = (path(name), Notes::new());
    let script = format!("echo $$ > {}; read line; exit 5", notes.file("child").display());
    let mut command = zklock(&proxy.connect_string(), &format!("run -v --lock {lock}"), Some(&script));
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    notes.process("child").await;
    proxy.black_hole(Direction::Both);
    drop(child.stdin.take());
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    while !soon(stderr.next_line()).await.unwrap().unwrap().contains("the command has ended") {}
    (child, stderr)
}

/// As with `docker stop` during an outage.
#[tokio::test]
async fn a_signal_ends_the_wait_for_the_release() {
    let proxy = proxy().await;
    let (mut child, mut stderr) = ended_while_cut_off("release", &proxy).await;
    let process = Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
    // The first one ends the release, and the second one the close of the session.
    soon(until(async || kill_process(process, Signal::TERM).is_err() || child.try_wait().unwrap().is_some())).await;
    assert_eq!(child.wait().await.unwrap().code(), Some(5));
    while let Some(line) = stderr.next_line().await.unwrap() {
        assert!(!line.contains("is lost"), "{line}");
    }
}

#[tokio::test]
async fn a_session_lost_after_the_command_has_ended_does_not_change_the_exit_code() {
    let proxy = proxy().await;
    let (child, mut stderr) = ended_while_cut_off("lost-after", &proxy).await;
    proxy.replace_sessions(true);
    proxy.cut();
    proxy.heal();
    assert_eq!(within(PATIENCE, finished(child)).await.code, Some(5));
    let said =
        async { while !stderr.next_line().await.unwrap().unwrap().contains("is lost after the command has ended") {} };
    soon(said).await;
}

/// systemd sends such a signal when it stops a service.
#[tokio::test]
async fn a_signal_to_all_processes_lets_the_command_finish() {
    let (lock, notes, server) = (path("all"), Notes::new(), TestingServer::shared().await);
    let file = |name| notes.file(name).display().to_string();
    let script = format!(
        "trap 'echo $$ > {}; read line; exit 6' TERM; echo $$ > {}; while :; do sleep 0.1; done",
        file("asked"),
        file("child")
    );
    let mut command = zklock(&server.connect_string(), &format!("run --lock {lock}"), Some(&script));
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let process = notes.process("child").await;
    kill_process(guardian_of(&child).await, Signal::TERM).unwrap();
    signal(&child, Signal::TERM);
    assert_eq!(notes.process("asked").await, process);
    drop(child.stdin.take());
    let printed = finished(child).await;
    assert_eq!(printed.code, Some(6), "{printed:?}");
}

/// `kill` sends no TERM, and `ignore` sends no signal. In both cases the lock was lost, so zklock exits with 122.
#[tokio::test]
async fn on_lost_kill_kills_the_command_and_on_lost_ignore_leaves_it_running() {
    let server = TestingServer::shared().await;
    for (on_lost, is_left) in [("kill", false), ("ignore", true)] {
        let (lock, notes) = (path(on_lost), Notes::new());
        let file = |name| notes.file(name).display().to_string();
        let script = format!(
            "trap 'echo asked > {}' TERM; echo $$ > {}; read line; echo ended > {}",
            file("asked"),
            file("child"),
            file("ended")
        );
        let options = format!("run --lock {lock} --on-lost {on_lost}");
        let mut command = zklock(&server.connect_string(), &options, Some(&script));
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let process = notes.process("child").await;
        let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        delete_all_below(&lock).await;
        assert!(soon(stderr.next_line()).await.unwrap().unwrap().contains("is lost: "), "{on_lost}");
        let mut stdin = child.stdin.take();
        if is_left {
            assert!(runs(process));
            stdin = None;
        }
        assert_eq!(finished(child).await.code, Some(122), "{on_lost}");
        assert_eq!(notes.file("ended").exists(), is_left, "{on_lost}");
        assert!(!notes.file("asked").exists(), "{on_lost}");
        // Open until here, because a command that is not killed ends at the end of its input.
        drop(stdin);
    }
}

/// Waits until zklock has started its guardian, and returns the guardian's process id.
async fn guardian_of(child: &Child) -> Pid {
    let id = child.id().unwrap();
    let children = || std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    let find = || {
        let all: Vec<i32> = children().split_whitespace().map(|id| id.parse().unwrap()).collect();
        let is_guardian = |id: &i32| {
            std::fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|line| line.starts_with(b"lock-guardian"))
        };
        all.into_iter().find(is_guardian)
    };
    let mut found = None;
    soon(async {
        while found.is_none() {
            found = find();
            tokio::task::yield_now().await;
        }
    })
    .await;
    Pid::from_raw(found.unwrap()).unwrap()
}
