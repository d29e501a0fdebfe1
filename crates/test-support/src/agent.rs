//! Runs programs that use another client library: one command per line, one reply per line.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use curator_test::DEFAULT_TIMEOUT;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// A session timeout so long that a session ends only when a test ends it.
pub const LONG: Duration = Duration::from_secs(30);

/// A running program. Killed on drop.
pub struct Program {
    process: Child,
    commands: ChildStdin,
}

impl Program {
    /// Starts a program. Each line that it prints is passed to `on_line`, on another thread, until
    /// the program ends or `on_line` returns false.
    pub fn start(
        mut command: Command,
        mut on_line: impl FnMut(String) -> bool + Send + 'static,
    ) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let commands = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        thread::spawn(move || output.lines().map_while(Result::ok).all(&mut on_line));
        Self { process, commands }
    }

    /// Writes a line to the program's input.
    pub fn tell(&mut self, line: &str) {
        writeln!(self.commands, "{line}").unwrap();
    }

    /// Kills the program, so that it sends nothing more to the server.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Stops the program with SIGSTOP. The program is stopped when this returns, and stays so until
    /// [`resume`](Self::resume).
    pub fn stop(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
        let (_, status) = waitpid(Some(self.pid()), WaitOptions::UNTRACED)
            .unwrap()
            .unwrap();
        assert!(status.stopped(), "{status:?}");
    }

    /// Resumes the stopped program.
    pub fn resume(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    pub fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Waits for the program, which must exit successfully.
    fn wait(&mut self) {
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails if the program has ended.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A program with one session. It prints `ok` when it has its session, and then answers each
/// command with a line that begins with `ok` or `error`.
pub struct Agent {
    /// The client library, for messages.
    client: &'static str,
    program: Program,
    answers: Receiver<String>,
}

impl Agent {
    /// Starts the program whose path is in the environment variable `variable`, and waits until the
    /// program has a session.
    pub fn start(client: &'static str, variable: &str, arguments: &[&str]) -> Self {
        let Some(program) = env::var_os(variable) else {
            panic!(
                "{variable} is not set: run `cargo xtask test -- -p curator-recipes --test interop`: it installs {client}"
            )
        };
        let mut command = Command::new(program);
        command.args(arguments).arg(LONG.as_secs_f64().to_string());
        let (sender, answers) = channel();
        let program = Program::start(command, move |line| sender.send(line).is_ok());
        let agent = Self {
            client,
            program,
            answers,
        };
        assert_eq!(agent.answer(), "ok");
        agent
    }

    /// Sends a command without waiting for its reply.
    pub fn send(&mut self, command: &str) {
        self.program.tell(command);
    }

    /// The reply to the first unanswered command. Blocks the thread.
    pub fn answer(&self) -> String {
        // The program's timeouts are shorter.
        match self.answers.recv_timeout(DEFAULT_TIMEOUT) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                panic!("{} did not answer within {DEFAULT_TIMEOUT:?}", self.client)
            }
            Err(RecvTimeoutError::Disconnected) => {
                panic!("the process of {} has ended", self.client)
            }
        }
    }

    /// Whether no reply has arrived. Call it only when a reply would have arrived by now.
    pub fn is_silent(&self) -> bool {
        self.answers.try_recv().is_err()
    }

    /// Sends a command and returns its reply. Blocks the thread.
    pub fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.answer()
    }

    /// Repeats a command until the reply is `expected`.
    pub fn ask_until(&mut self, command: &str, expected: &str) {
        let end = Instant::now() + DEFAULT_TIMEOUT;
        loop {
            let answer = self.ask(command);
            if answer == expected {
                return;
            }
            assert!(
                Instant::now() < end,
                "`{command}`: still {answer:?}, not {expected:?}"
            );
        }
    }

    /// Kills the program, so that it sends nothing more to the server.
    pub fn kill(mut self) {
        self.program.kill();
    }

    /// Closes the session and ends the program, which must exit successfully.
    pub fn stop(mut self) {
        assert_eq!(self.ask("stop"), "ok");
        self.program.wait();
    }
}
