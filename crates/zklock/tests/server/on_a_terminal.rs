//! The program on a terminal: as a shell's job, and as the leader of a session, as with `ssh -t
//! host zklock run ..`.

use std::process::Stdio;

use curator_test::{TestingServer, soon, until};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::pseudo_terminal::{CTRL_C, CTRL_Z, PseudoTerminal};
use crate::support::{Notes, executed_by, finished, path, reading, runs, state, zklock};

/// A command that asks for a line on its terminal, as for a password.
const ASKS: &str = "read answer </dev/tty; echo got=$answer";

async fn run(name: &str, script: &str) -> Command {
    let server = TestingServer::shared().await;
    zklock(
        &server.connect_string(),
        &format!("run --lock {}", path(name)),
        Some(script),
    )
}

async fn on(terminal: &PseudoTerminal, name: &str, script: &str) -> Child {
    terminal.spawn(&run(name, script).await)
}

/// Runs the script under a lock, by these words of a shell.
async fn on_by(terminal: &PseudoTerminal, words: &str, name: &str, script: &str) -> Child {
    terminal.spawn(&executed_by(&["sh", "-c", words], &run(name, script).await))
}

fn id(child: &Child) -> Option<Pid> {
    Pid::from_raw(child.id().unwrap().try_into().unwrap())
}

/// Waits until the command has the terminal.
async fn until_given(terminal: &PseudoTerminal, before: Option<Pid>) {
    soon(until(async || {
        terminal.owner().is_some() && terminal.owner() != before
    }))
    .await;
}

#[tokio::test]
async fn a_command_that_reads_from_its_terminal_gets_it_and_gives_it_back() {
    let terminal = PseudoTerminal::new();
    // A script without job control. After the command, the script itself reads from the terminal.
    let child = on_by(
        &terminal,
        r#""$0" "$@"; read line </dev/tty; echo then=$line"#,
        "asks",
        ASKS,
    )
    .await;
    terminal.type_text("secret\n");
    terminal.shows("got=secret").await;
    terminal.type_text("more\n");
    terminal.shows("then=more").await;
    assert_eq!(finished(child).await.code, Some(0));
}

/// An interactive shell gives the terminal to its own jobs.
#[tokio::test]
async fn the_terminal_of_a_killed_shell_is_taken_back() {
    let terminal = PseudoTerminal::new();
    let notes = Notes::new();
    let server = TestingServer::shared().await;
    let mut run = zklock(
        &server.connect_string(),
        &format!("run --lock {}", path("killed-shell")),
        None,
    );
    run.args(["--", "bash", "--norc", "--noprofile", "-i"]);
    let child = terminal.spawn(&executed_by(
        &[
            "sh",
            "-c",
            r#""$0" "$@"; read line </dev/tty; echo then=$line"#,
        ],
        &run,
    ));
    terminal.type_text(&format!(
        "sh -c 'echo $$ > {}; exec sleep 1000'\n",
        notes.file("job").display()
    ));
    let job = notes.process("job").await;
    soon(until(async || terminal.owner() == Some(job))).await;
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", job.as_raw_pid())).unwrap();
    let shell = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    kill_process(Pid::from_raw(shell).unwrap(), Signal::KILL).unwrap();
    terminal.type_text("more\n");
    terminal.shows("then=more").await;
    kill_process(job, Signal::KILL).unwrap();
    assert_eq!(finished(child).await.code, Some(0));
}

/// `top` handles TTOU, and then sends itself STOP.
#[tokio::test]
async fn a_command_that_stops_itself_when_it_needs_the_terminal_gets_it() {
    if Command::new("top")
        .arg("-V")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .await
        .is_err()
    {
        eprintln!("not checked: this test needs top");
        return;
    }
    let terminal = PseudoTerminal::new();
    let child = on(&terminal, "top", "TERM=vt100 exec top").await;
    terminal.shows("load average").await;
    terminal.type_text("q");
    assert_eq!(finished(child).await.code, Some(0));
}

/// Ctrl-C is for the whole job, even if only the command has the terminal, and even if the command
/// is a zklock.
#[tokio::test]
async fn ctrl_c_ends_the_script_that_runs_the_command() {
    let server = TestingServer::shared().await;
    for shell in ["sh", "bash"] {
        for (name, asks) in [("needs", "stty -echo </dev/tty; "), ("other", "")] {
            for nested in [false, true] {
                let terminal = PseudoTerminal::new();
                let notes = Notes::new();
                let script = format!(
                    "{asks}echo $$ > {}; exec sleep 1000",
                    notes.file("child").display()
                );
                let mut run = zklock(
                    &server.connect_string(),
                    &format!("run --lock {}", path(name)),
                    None,
                );
                if nested {
                    run.args([
                        env!("CARGO_BIN_EXE_zklock"),
                        "run",
                        "--lock",
                        &path("inner"),
                    ]);
                }
                run.args(["sh", "-c", &script]);
                let child = terminal.spawn(&executed_by(
                    &[shell, "-c", r#""$0" "$@"; echo "next" step"#],
                    &run,
                ));
                let command = notes.process("child").await;
                soon(until(async || {
                    asks.is_empty() || terminal.owner() == Some(command)
                }))
                .await;
                terminal.type_text(CTRL_C);
                let code = finished(child).await.code;
                let shown = terminal.shown();
                assert_eq!(
                    (code, shown.contains("next step")),
                    (Some(130), false),
                    "{shell} {name} {nested}: {shown}"
                );
            }
        }
    }
}

#[tokio::test]
async fn ctrl_c_ends_a_leader() {
    let terminal = PseudoTerminal::new();
    let notes = Notes::new();
    let server = TestingServer::shared().await;
    let script = format!(
        "echo $$ > {}; exec sleep 1000",
        notes.file("child").display()
    );
    let lead = zklock(
        &server.connect_string(),
        &format!("run --leader --lock {}", path("leader")),
        Some(&script),
    );
    let child = terminal.spawn(&lead);
    notes.process("child").await;
    terminal.type_text(CTRL_C);
    assert_eq!(
        finished(child).await.code,
        Some(130),
        "{}",
        terminal.shown()
    );
}

/// A script may ignore the signal in this way while it cleans up.
#[tokio::test]
async fn a_command_that_dies_of_a_signal_that_zklock_ignores_does_not_leave_the_lock_held() {
    let terminal = PseudoTerminal::new();
    let server = TestingServer::shared().await;
    let mut run = Command::new(env!("CARGO_BIN_EXE_zklock"));
    run.args([
        "run",
        "--lock",
        &path("ignores"),
        "env",
        "--default-signal=QUIT",
        "sh",
        "-c",
        "kill -QUIT $$",
    ]);
    run.env("ZOOKEEPER_CONNECT", server.connect_string())
        .env("ZKLOCK_CONFIG", "");
    let child = terminal.spawn(&executed_by(
        &["sh", "-c", r#"trap '' QUIT; exec "$0" "$@""#],
        &run,
    ));
    assert_eq!(
        finished(child).await.code,
        Some(131),
        "{}",
        terminal.shown()
    );
}

/// The signal comes from `kill`: it was not typed.
#[tokio::test]
async fn a_signal_to_zklock_does_not_reach_the_script_that_runs_it() {
    let terminal = PseudoTerminal::new();
    let notes = Notes::new();
    let script = format!(
        "stty -echo </dev/tty; echo $PPID > {}; exec sleep 1000",
        notes.file("zklock").display()
    );
    let child = on_by(
        &terminal,
        r#"trap 'echo trapped' INT; "$0" "$@"; echo status=$?"#,
        "not-typed",
        &script,
    )
    .await;
    kill_process(notes.process("zklock").await, Signal::INT).unwrap();
    terminal.shows("status=130").await;
    assert_eq!(finished(child).await.code, Some(0));
    assert!(
        !terminal.shown().contains("trapped"),
        "{}",
        terminal.shown()
    );
}

#[tokio::test]
async fn the_terminal_of_a_killed_zklock_returns_to_its_script() {
    let terminal = PseudoTerminal::new();
    let notes = Notes::new();
    let script = format!(
        "stty -echo </dev/tty; echo $PPID > {}; exec sleep 1000",
        notes.file("zklock").display()
    );
    let words = r#""$0" "$@"; until read line </dev/tty; do sleep 0.1; done; echo then=$line"#;
    let child = on_by(&terminal, words, "killed-zklock", &script).await;
    kill_process(notes.process("zklock").await, Signal::KILL).unwrap();
    soon(until(async || terminal.owner() == id(&child))).await;
    terminal.type_text("more\n");
    terminal.shows("then=more").await;
    assert_eq!(finished(child).await.code, Some(0));
}

/// In a script without job control, both zklocks are in one process group.
#[tokio::test]
async fn a_command_waits_for_the_terminal_while_the_command_of_another_zklock_has_it() {
    let terminal = PseudoTerminal::new();
    let notes = Notes::new();
    let server = TestingServer::shared().await;
    let given = notes.file("given");
    let given = given.display();
    let script = format!(
        r#"run() {{ "$0" run --lock "$1" sh -c "$2"; }}
        run {} 'stty -echo </dev/tty; touch {given}; {ASKS}' &
        until [ -e {given} ]; do sleep 0.1; done
        run {} '{ASKS}'
        wait"#,
        path("one"),
        path("two"),
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_zklock")]);
    command
        .env("ZOOKEEPER_CONNECT", server.connect_string())
        .env("ZKLOCK_CONFIG", "");
    let child = terminal.spawn(&command);
    terminal
        .shows(
            "zklock: the command waits for the terminal, which the command of another zklock has",
        )
        .await;
    terminal.type_text("first\n");
    terminal.shows("got=first").await;
    terminal.type_text("second\n");
    terminal.shows("got=second").await;
    assert_eq!(finished(child).await.code, Some(0));
}

/// `stty tostop` sets the terminal to do so.
#[tokio::test]
async fn a_command_may_print_on_a_terminal_that_stops_background_programs() {
    let terminal = PseudoTerminal::new();
    let child = on_by(
        &terminal,
        r#"stty tostop; exec "$0" "$@""#,
        "tostop",
        "echo a line",
    )
    .await;
    terminal.shows("a line").await;
    assert_eq!(finished(child).await.code, Some(0));
}

/// No shell could continue zklock, so a stopped zklock would hold the lock for as long as the
/// machine runs.
#[tokio::test]
async fn ctrl_z_without_a_shell_stops_neither_the_command_nor_zklock() {
    let terminal = PseudoTerminal::new();
    let notes = Notes::new();
    let child = on(
        &terminal,
        "ctrl-z-sleep",
        &format!(
            "echo $$ > {}; exec sleep 1000",
            notes.file("child").display()
        ),
    )
    .await;
    notes.process("child").await;
    terminal.type_text(CTRL_Z);
    terminal.type_text(CTRL_C);
    assert_eq!(
        finished(child).await.code,
        Some(130),
        "{}",
        terminal.shown()
    );

    let terminal = PseudoTerminal::new();
    let child = on(&terminal, "ctrl-z-asks", ASKS).await;
    until_given(&terminal, id(&child)).await;
    terminal.type_text(CTRL_Z);
    terminal.type_text("secret\n");
    terminal.shows("got=secret").await;
    assert_eq!(finished(child).await.code, Some(0));
}

/// An interactive shell, with `z` as a command that runs a script under a lock.
async fn shell(terminal: &PseudoTerminal, name: &str) -> Child {
    let server = TestingServer::shared().await;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "--noediting", "-i"])
        .env("PS1", "ready> ")
        .env("HISTFILE", "/dev/null");
    bash.env("ZOOKEEPER_CONNECT", server.connect_string())
        .env("ZKLOCK_CONFIG", "");
    let child = terminal.spawn(&bash);
    terminal.shows("ready> ").await;
    let run = format!(
        "{} run --session-timeout 60s --lock {}",
        env!("CARGO_BIN_EXE_zklock"),
        path(name)
    );
    terminal.type_text(&format!("z() {{ {run} -- sh -c \"$1\"; }}\n"));
    child
}

#[tokio::test]
async fn a_shell_suspends_and_continues_a_command_that_has_the_terminal() {
    let terminal = PseudoTerminal::new();
    let notes = Notes::new();
    let _shell = shell(&terminal, "suspended").await;
    let before = terminal.owner();
    terminal.type_text(&format!(
        "z 'echo $$ > {}; {ASKS}' | cat\n",
        notes.file("child").display()
    ));
    let command = notes.process("child").await;
    soon(until(async || {
        terminal.owner() == Some(command) && state(command) != Some('T')
    }))
    .await;
    for _ in 0..2 {
        let shown = terminal.shown().len();
        terminal.type_text(CTRL_Z);
        soon(until(async || {
            terminal.shown()[shown..].contains("Stopped")
        }))
        .await;
        soon(until(async || terminal.owner() == before)).await;
        terminal.type_text("fg\n");
        // The key has no effect before the command continues.
        soon(until(async || {
            terminal.owner() == Some(command) && state(command) != Some('T')
        }))
        .await;
    }
    terminal.type_text("secret\n");
    terminal.shows("got=secret").await;
}

/// The command of the first zklock is another zklock.
#[tokio::test]
async fn a_shell_suspends_and_continues_a_lock_within_a_lock() {
    let terminal = PseudoTerminal::new();
    let notes = Notes::new();
    let _shell = shell(&terminal, "outer").await;
    let before = terminal.owner();
    let inner = format!(
        "{} run --session-timeout 60s --lock {}",
        env!("CARGO_BIN_EXE_zklock"),
        path("inner")
    );
    let script = format!("echo $$ > {}; {ASKS}", notes.file("child").display());
    terminal.type_text(&format!(
        "z \"exec {inner} -- sh -c '{}'\"\n",
        script.replace('$', "\\$")
    ));
    let command = notes.process("child").await;
    soon(until(async || terminal.owner() == Some(command))).await;
    terminal.type_text(CTRL_Z);
    terminal.shows("Stopped").await;
    soon(until(async || terminal.owner() == before)).await;
    terminal.type_text("fg\n");
    soon(until(async || terminal.owner() == Some(command))).await;
    terminal.type_text("secret\n");
    terminal.shows("got=secret").await;
}

#[tokio::test]
async fn a_shell_suspends_a_command_that_has_not_used_the_terminal_and_continues_it_in_the_background()
 {
    let terminal = PseudoTerminal::new();
    let notes = Notes::new();
    let _shell = shell(&terminal, "background").await;
    let child = notes.file("child");
    let fifo = notes.fifo("go").await;
    let script = format!(
        r#"echo $$ > {}; read line < {}; echo "end"ed"#,
        child.display(),
        fifo.display()
    );
    terminal.type_text(&format!("z '{script}'\n"));
    let process = notes.process("child").await;
    terminal.type_text(CTRL_Z);
    terminal.shows("Stopped").await;
    soon(until(async || state(process) == Some('T'))).await;
    terminal.type_text("bg\n");
    soon(until(async || state(process) != Some('T'))).await;
    std::fs::write(fifo, "go\n").unwrap();
    terminal.shows("ended").await;
}

/// The terminal belongs to the shell again when the command ends.
#[tokio::test]
async fn the_terminal_is_not_taken_from_a_shell_at_the_end_of_a_command_in_the_background() {
    let terminal = PseudoTerminal::new();
    let notes = Notes::new();
    let _shell = shell(&terminal, "not-taken").await;
    let before = terminal.owner();
    let fifo = notes.fifo("go").await;
    let script = format!(
        "echo $PPID > {}; read line < {}",
        notes.file("zklock").display(),
        fifo.display()
    );
    terminal.type_text(&format!("z '{script}'\n"));
    let zklock = notes.process("zklock").await;
    kill_process(zklock, Signal::STOP).unwrap();
    terminal.shows("Stopped").await;
    terminal.type_text("bg\n");
    soon(until(async || state(zklock) != Some('T'))).await;
    std::fs::write(fifo, "go\n").unwrap();
    soon(until(async || !runs(zklock))).await;
    assert_eq!(terminal.owner(), before);
    terminal.type_text("echo st''ill\n");
    terminal.shows("\nstill").await;
}

#[tokio::test]
async fn a_shell_suspends_and_continues_two_locks_in_a_pipeline() {
    let terminal = PseudoTerminal::new();
    let notes = Notes::new();
    let _shell = shell(&terminal, "first").await;
    let script = |name: &str| format!("echo $$ > {}; exec sleep 1000", notes.file(name).display());
    let second = format!(
        "{} run --session-timeout 60s --lock {}",
        env!("CARGO_BIN_EXE_zklock"),
        path("second")
    );
    terminal.type_text(&format!(
        "z '{}' | {second} sh -c '{}'\n",
        script("first"),
        script("second")
    ));
    let commands = [notes.process("first").await, notes.process("second").await];
    for _ in 0..3 {
        let shown = terminal.shown().len();
        terminal.type_text(CTRL_Z);
        soon(until(async || {
            terminal.shown()[shown..].contains("Stopped")
        }))
        .await;
        terminal.type_text("fg\n");
        soon(until(async || {
            commands.iter().all(|command| state(*command) != Some('T'))
        }))
        .await;
    }
    terminal.type_text(CTRL_C);
    soon(until(async || !commands.into_iter().any(runs))).await;
}

#[tokio::test]
async fn a_shell_suspends_a_command_that_is_already_stopped() {
    let terminal = PseudoTerminal::new();
    let notes = Notes::new();
    let _shell = shell(&terminal, "stopped-before").await;
    terminal.type_text(&format!(
        "z 'echo $$ > {}; exec sleep 1000' | cat\n",
        notes.file("child").display()
    ));
    let command = notes.process("child").await;
    kill_process(command, Signal::STOP).unwrap();
    terminal
        .shows("the command is stopped, and the lock is held")
        .await;
    terminal.type_text(CTRL_Z);
    terminal.shows("Stopped").await;
}

#[tokio::test]
async fn a_background_job_that_reads_from_the_terminal_is_stopped_with_a_word_and_gets_it_in_the_foreground()
 {
    let terminal = PseudoTerminal::new();
    let notes = Notes::new();
    let _shell = shell(&terminal, "job").await;
    terminal.type_text(&format!(
        "z 'echo $PPID > {}; {ASKS}' &\n",
        notes.file("zklock").display()
    ));
    let zklock = notes.process("zklock").await;
    soon(until(async || state(zklock) == Some('T'))).await;
    terminal
        .shows("zklock: the command is stopped: it uses the terminal in the background")
        .await;
    // `fg` continues only a job that the shell knows to be stopped.
    let jobs = async || {
        terminal.type_text("jobs\n");
        terminal.shown().contains("Stopped")
    };
    soon(until(jobs)).await;
    terminal.type_text("fg\n");
    terminal.type_text("secret\n");
    terminal.shows("got=secret").await;
}

#[tokio::test]
async fn a_shell_suspends_and_continues_a_waiter() {
    let terminal = PseudoTerminal::new();
    let server = TestingServer::shared().await;
    let lock = path("suspended-waiter");
    let (mut holder, _) = reading(&server.connect_string(), &format!("run --lock {lock}"), 0).await;
    let _shell = shell(&terminal, "other").await;
    terminal.type_text(&format!(
        "{} run --session-timeout 60s --lock {lock} -- echo entered\n",
        env!("CARGO_BIN_EXE_zklock")
    ));
    terminal.shows(&format!("waiting for {lock}")).await;
    terminal.type_text(CTRL_Z);
    terminal.shows("Stopped").await;
    terminal.type_text("fg\n");
    drop(holder.stdin.take());
    finished(holder).await;
    terminal.shows("\nentered").await;
}

/// In `zklock run .. | less`, for example, `less` needs the terminal.
#[tokio::test]
async fn the_terminal_stays_with_the_job_as_long_as_the_command_does_not_need_it() {
    let terminal = PseudoTerminal::new();
    let notes = Notes::new();
    let _shell = shell(&terminal, "pager").await;
    let go = notes.file("go");
    let go = go.display();
    terminal.type_text(&format!(
        "z 'echo one; until [ -e {go} ]; do sleep 0.1; done; echo two' | sh -c 'read x </dev/tty; touch {go}; echo key=$x; cat'\n"
    ));
    terminal.type_text("q\n");
    terminal.shows("key=q").await;
    terminal.shows("one\r\ntwo").await;
}

/// The kernel likewise sends HUP to the stopped processes of a session when no shell is left to
/// continue them.
#[tokio::test]
async fn a_command_that_reads_from_the_terminal_where_no_shell_can_continue_it_is_hung_up() {
    let terminal = PseudoTerminal::new();
    let notes = Notes::new();
    let asks = run(
        "orphaned",
        &format!("echo $$ > {}; {ASKS}", notes.file("child").display()),
    )
    .await;
    let _leader = terminal.spawn(&executed_by(
        &["sh", "-m", "-c", r#"("$0" "$@" &); exec sleep 1000"#],
        &asks,
    ));
    let process = notes.process("child").await;
    terminal
        .shows("where no shell can continue it: sending HUP")
        .await;
    soon(until(async || !runs(process))).await;
}
