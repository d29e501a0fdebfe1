//! Kazoo, in a process of its own, one command at a time.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use curator_test::{DEFAULT_TIMEOUT, TestingServer};

/// Names a Python that can import kazoo.
const PYTHON: &str = "CURATOR_TEST_KAZOO_PYTHON";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/agent.py");

/// A kazoo client. A drop kills its process.
pub(crate) struct Agent {
    process: Child,
    commands: ChildStdin,
    answers: Receiver<String>,
}

impl Agent {
    /// Starts a client and waits until it has a session.
    pub(crate) fn start(name: &str, server: &TestingServer, session_timeout: Duration) -> Self {
        let Some(python) = env::var_os(PYTHON) else {
            panic!("{PYTHON} is not set: run `cargo xtask test -- -p curator-test --test interop`, which brings kazoo")
        };
        let mut process = Command::new(python)
            .args([SCRIPT, name, &server.connect_string(), &session_timeout.as_secs_f64().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, answers) = channel();
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let agent = Self { process, commands, answers };
        assert_eq!(agent.answer(), "ok");
        agent
    }

    /// Sends a command, whose answer may take its time.
    pub(crate) fn send(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
    }

    /// The answer to the first command that has none yet.
    pub(crate) fn answer(&self) -> String {
        // The script's own patience is shorter.
        match self.answers.recv_timeout(DEFAULT_TIMEOUT) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("kazoo did not answer within {DEFAULT_TIMEOUT:?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("kazoo's process has ended"),
        }
    }

    /// Whether no answer has come. To be asked when it is known that one would have come by now: see
    /// [`until_watched`](crate::until_watched).
    pub(crate) fn is_silent(&self) -> bool {
        self.answers.try_recv().is_err()
    }

    /// A command and its answer.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.answer()
    }

    /// Asks until this is the answer.
    pub(crate) fn ask_until(&mut self, command: &str, expected: &str) {
        let end = Instant::now() + DEFAULT_TIMEOUT;
        loop {
            let answer = self.ask(command);
            if answer == expected {
                return;
            }
            assert!(Instant::now() < end, "`{command}`: still {answer:?}, not {expected:?}");
        }
    }

    /// Kills the process: it says nothing to the server any more.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Closes the session and ends the process, which must have nothing to complain of.
    pub(crate) fn stop(mut self) {
        assert_eq!(self.ask("stop"), "ok");
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
