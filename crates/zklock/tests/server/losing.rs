//! Commands whose lock is lost, or whose zklock is killed: they are stopped before another client
//! has the lock.

use std::time::Duration;

use curator_test::{Direction, FaultProxy, TestingServer, soon, until, within};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr};

use crate::support::{
    LOOP, Notes, PATIENCE, SHORT, delete_all_below, finished, path, printed, proxy, reading, runs,
    signal, started,
};

/// A zklock behind a proxy. Its command ignores TERM, and has started a child process that ignores
/// TERM too.
struct Running {
    lock: String,
    proxy: FaultProxy,
    child: Child,
    processes: [Pid; 2],
}

impl Running {
    async fn start(name: &str, session_timeout: &str, grace: &str) -> Self {
        let lock = path(name);
        let notes = Notes::new();
        let proxy = proxy().await;
        let options =
            format!("run --lock {lock} --session-timeout {session_timeout} --grace {grace}");
        let script = format!(
            "sleep 1000 & echo $! > {}; wait; sleep 1000",
            notes.file("other").display()
        );
        let (child, process) =
            started(&proxy.connect_string(), &options, "trap '' TERM", &script).await;
        let processes = [process, notes.process("other").await];
        Self {
            lock,
            proxy,
            child,
            processes,
        }
    }

    /// Runs zklock as the next holder, and checks that none of the processes runs when its command
    /// starts.
    async fn are_stopped_before_the_next(&self) {
        let [child, grandchild] = self.processes.map(Pid::as_raw_nonzero);
        // Reads each state once: a zombie can be reaped at any time.
        let script = format!(
            r#"for p in {child} {grandchild}; do case "$(cat /proc/$p/stat 2>/dev/null)" in "" | *") "[ZX]" "*) ;; *) exit 9; esac; done"#
        );
        assert_eq!(
            within(
                PATIENCE,
                printed(&format!("run --lock {}", self.lock), Some(&script))
            )
            .await
            .code,
            Some(0)
        );
    }

    async fn revoke(&self) {
        assert_eq!(
            printed(&format!("revoke {}", self.lock), None).await.code,
            Some(0)
        );
    }

    /// Waits until zklock exits because of a loss. Returns its messages.
    async fn exits_as_lost(self) -> String {
        let printed = within(PATIENCE, finished(self.child)).await;
        assert_eq!(printed.code, Some(122), "{printed:?}");
        printed.error
    }
}

#[tokio::test]
async fn a_lost_session_stops_grandchildren_before_the_next_holder_runs() {
    let run = Running::start("lost", SHORT, "500ms").await;
    // The command ignores TERM, and is killed only when its lease ends.
    signal(&run.child, Signal::TERM);
    run.proxy.black_hole(Direction::Both);
    run.are_stopped_before_the_next().await;
    run.exits_as_lost().await;
}

#[tokio::test]
async fn a_killed_zklock_leaves_neither_a_command_nor_a_lock() {
    let run = Running::start("killed", SHORT, "500ms").await;
    signal(&run.child, Signal::KILL);
    run.are_stopped_before_the_next().await;
}

#[tokio::test]
async fn a_stopped_zklock_does_not_keep_its_command_running() {
    let run = Running::start("stopped", SHORT, "500ms").await;
    signal(&run.child, Signal::STOP);
    run.are_stopped_before_the_next().await;
    signal(&run.child, Signal::CONT);
    run.exits_as_lost().await;
}

#[tokio::test]
async fn a_deleted_node_stops_the_command_immediately() {
    let lock = path("deleted");
    let notes = Notes::new();
    let server = TestingServer::shared().await;
    let trap = format!(
        "trap 'echo stopped > {}; exit 0' TERM",
        notes.file("stopped").display()
    );
    let (child, _) = started(
        &server.connect_string(),
        &format!("run --lock {lock}"),
        &trap,
        LOOP,
    )
    .await;
    delete_all_below(&lock).await;
    let printed = finished(child).await;
    assert_eq!(printed.code, Some(122), "{printed:?}");
    assert!(
        printed.error.contains("its node no longer exists"),
        "{printed:?}"
    );
    assert_eq!(notes.line("stopped").await, "stopped");
}

#[tokio::test]
async fn a_revocation_request_stops_the_command_and_releases_the_lock() {
    let run = Running::start("revoked", SHORT, "500ms").await;
    run.revoke().await;
    run.are_stopped_before_the_next().await;
    let messages = run.exits_as_lost().await;
    assert!(
        messages.contains("another client has requested"),
        "{messages}"
    );
}

#[tokio::test]
async fn a_command_goes_on_through_an_outage_that_is_shorter_than_its_lease() {
    let proxy = proxy().await;
    let (mut child, process) = reading(
        &proxy.connect_string(),
        &format!("run --lock {}", path("outage")),
        4,
    )
    .await;
    proxy.cut();
    proxy.wait_for_connections(1).await.unwrap();
    assert!(runs(process));
    drop(child.stdin.take());
    assert_eq!(finished(child).await.code, Some(4));
}

#[tokio::test]
async fn a_command_stopped_while_disconnected_exits_as_lost_even_if_the_session_survives() {
    let notes = Notes::new();
    let proxy = proxy().await;
    let trap = format!(
        "trap 'echo stopped > {}; read line; exit 0' TERM",
        notes.file("stopped").display()
    );
    let options = format!(
        "run --lock {} --session-timeout 20s --grace 3s",
        path("doubt")
    );
    let (child, _) = started(&proxy.connect_string(), &options, &trap, LOOP).await;
    proxy.black_hole(Direction::Both);
    notes.line("stopped").await;
    proxy.heal();
    let printed = within(PATIENCE, finished(child)).await;
    assert_eq!(printed.code, Some(122), "{printed:?}");
    assert!(
        printed
            .error
            .contains("the servers do not answer: the command is stopped in "),
        "{printed:?}"
    );
    assert!(
        printed.error.contains("the session was in doubt"),
        "{printed:?}"
    );
}

#[tokio::test]
async fn a_command_with_a_stopped_guardian_is_killed_before_the_lease_ends() {
    // With this timeout, the command is killed a second before the lease ends.
    let run = Running::start("stopped-guardian", "10s", "500ms").await;
    kill_process(guardian_of(&run.child).await, Signal::STOP).unwrap();
    run.proxy.black_hole(Direction::Both);
    run.are_stopped_before_the_next().await;
    // zklock prints this when the lease ends while the command runs.
    let messages = run.exits_as_lost().await;
    assert!(!messages.contains("is lost: "), "{messages}");
}

#[tokio::test]
async fn a_command_is_killed_although_its_guardian_was_killed_after_the_order_to_stop() {
    let mut run = Running::start("late-guardian", "40s", "5s").await;
    let guardian = guardian_of(&run.child).await;
    let mut stderr = BufReader::new(run.child.stderr.take().unwrap()).lines();
    run.revoke().await;
    assert!(
        soon(stderr.next_line())
            .await
            .unwrap()
            .unwrap()
            .contains("stopping the command")
    );
    kill_process(guardian, Signal::KILL).unwrap();
    // The lease lasts longer than these 10 s, so zklock has not waited for its end.
    assert_eq!(
        within(Duration::from_secs(10), finished(run.child))
            .await
            .code,
        Some(122)
    );
    assert!(!run.processes.into_iter().any(runs));
}

#[tokio::test]
async fn on_lost_ignore_keeps_the_exit_code_of_a_command_whose_guardian_was_killed() {
    let server = TestingServer::shared().await;
    let options = format!("run --lock {} --on-lost ignore", path("ignored-guardian"));
    let (mut child, _) = reading(&server.connect_string(), &options, 5).await;
    kill_process(guardian_of(&child).await, Signal::KILL).unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = soon(stderr.next_line()).await.unwrap().unwrap();
    assert!(
        line.ends_with("the command continues, because of --on-lost ignore"),
        "{line}"
    );
    drop(child.stdin.take());
    assert_eq!(finished(child).await.code, Some(5));
}

#[tokio::test]
async fn a_command_ends_without_its_guardian_and_after_a_deletion_although_the_guardian_is_stopped()
{
    for (sent, is_deleted) in [(Signal::KILL, false), (Signal::STOP, true)] {
        let run = Running::start("guardian", SHORT, "500ms").await;
        kill_process(guardian_of(&run.child).await, sent).unwrap();
        if is_deleted {
            delete_all_below(&run.lock).await;
        }
        let processes = run.processes;
        run.exits_as_lost().await;
        until(async || !processes.into_iter().any(runs)).await;
    }
}

/// The command ends after the lock was lost, but before zklock detects the loss.
#[tokio::test]
async fn a_loss_detected_at_the_release_exits_with_the_code_of_a_loss() {
    let lock = path("noticed-late");
    let proxy = proxy().await;
    let (mut child, process) =
        reading(&proxy.connect_string(), &format!("run --lock {lock}"), 0).await;
    signal(&child, Signal::STOP);
    delete_all_below(&lock).await;
    drop(child.stdin.take());
    until(async || !runs(process)).await;
    signal(&child, Signal::CONT);
    assert_eq!(finished(child).await.code, Some(122));
}

/// A zklock whose command has ended with 5 while no server answers, so that the lock cannot be
/// released.
async fn ended_while_cut_off(
    name: &str,
    proxy: &FaultProxy,
) -> (Child, Lines<BufReader<ChildStderr>>) {
    let options = format!("run -v --lock {}", path(name));
    let (mut child, _) = reading(&proxy.connect_string(), &options, 5).await;
    proxy.black_hole(Direction::Both);
    drop(child.stdin.take());
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    while !soon(stderr.next_line())
        .await
        .unwrap()
        .unwrap()
        .contains("the command has ended")
    {}
    (child, stderr)
}

/// `docker stop` sends such a signal, here during an outage.
#[tokio::test]
async fn a_signal_ends_the_wait_for_the_release() {
    let proxy = proxy().await;
    let (mut child, mut stderr) = ended_while_cut_off("release", &proxy).await;
    let process = Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
    // The first signal ends the release, and the second signal ends the close of the session.
    soon(until(async || {
        kill_process(process, Signal::TERM).is_err() || child.try_wait().unwrap().is_some()
    }))
    .await;
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
    let said = async {
        while !stderr
            .next_line()
            .await
            .unwrap()
            .unwrap()
            .contains("is lost after the command has ended")
        {}
    };
    soon(said).await;
}

/// systemd sends such a signal when it stops a service.
#[tokio::test]
async fn a_signal_to_all_processes_lets_the_command_finish() {
    let notes = Notes::new();
    let server = TestingServer::shared().await;
    let trap = format!(
        "trap 'echo $$ > {}; read line; exit 6' TERM",
        notes.file("asked").display()
    );
    let options = format!("run --lock {}", path("all"));
    let (mut child, process) = started(&server.connect_string(), &options, &trap, LOOP).await;
    kill_process(guardian_of(&child).await, Signal::TERM).unwrap();
    signal(&child, Signal::TERM);
    assert_eq!(notes.process("asked").await, process);
    drop(child.stdin.take());
    assert_eq!(finished(child).await.code, Some(6));
}

/// `kill` sends no TERM, and `ignore` sends no signal. In both cases the lock was lost, so zklock
/// exits with 122.
#[tokio::test]
async fn on_lost_kill_kills_the_command_and_on_lost_ignore_leaves_it_running() {
    let server = TestingServer::shared().await;
    for (on_lost, is_left) in [("kill", false), ("ignore", true)] {
        let lock = path(on_lost);
        let notes = Notes::new();
        let asked = notes.file("asked");
        let ended = notes.file("ended");
        let trap = format!("trap 'echo asked > {}' TERM", asked.display());
        let script = format!("read line; echo ended > {}", ended.display());
        let options = format!("run --lock {lock} --on-lost {on_lost}");
        let (mut child, process) =
            started(&server.connect_string(), &options, &trap, &script).await;
        let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        delete_all_below(&lock).await;
        assert!(
            soon(stderr.next_line())
                .await
                .unwrap()
                .unwrap()
                .contains("is lost: "),
            "{on_lost}"
        );
        let mut stdin = child.stdin.take();
        if is_left {
            assert!(runs(process));
            stdin = None;
        }
        assert_eq!(finished(child).await.code, Some(122), "{on_lost}");
        assert_eq!(
            (ended.exists(), asked.exists()),
            (is_left, false),
            "{on_lost}"
        );
        // The input stays open until here, because a command that is not killed ends at the end of
        // its input.
        drop(stdin);
    }
}

/// Waits until zklock has started its guardian, and returns the guardian's process id.
async fn guardian_of(child: &Child) -> Pid {
    let id = child.id().unwrap();
    let children =
        || std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    let find = || {
        let all: Vec<i32> = children()
            .split_whitespace()
            .map(|id| id.parse().unwrap())
            .collect();
        all.into_iter().find(|id| {
            std::fs::read(format!("/proc/{id}/cmdline"))
                .is_ok_and(|line| line.starts_with(b"lock-guardian"))
        })
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
