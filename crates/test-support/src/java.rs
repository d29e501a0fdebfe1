//! Runs Java processes that have sessions through Curator.

use std::{
    collections::HashMap,
    env,
    process::Command,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use curator_test::{
    DEFAULT_TIMEOUT, Error, SessionCredentials, TestingServer, close_session, until, within,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::agent::{LONG, Program};

/// The environment variable with the class path of Curator and of the agent.
const CLASSPATH: &str = "CURATOR_TEST_CURATOR_CLASSPATH";

/// The channel for each thread's replies, by the thread's name.
type Answers = Arc<Mutex<HashMap<String, UnboundedSender<String>>>>;

/// Held by the thread that reads a process's replies, and dropped when the process has closed its
/// output.
struct Reader(Answers);

impl Drop for Reader {
    fn drop(&mut self) {
        // Ends the waits for replies: `recv` returns `None`.
        self.0.lock().unwrap().clear();
    }
}

/// A Java process, which may have many sessions. It ends with the test process.
#[derive(Clone)]
struct Java {
    program: Arc<Mutex<Program>>,
    answers: Answers,
}

impl Java {
    /// The process that all tests use.
    fn shared() -> Self {
        static SHARED: OnceLock<Java> = OnceLock::new();
        SHARED.get_or_init(Self::start).clone()
    }

    fn start() -> Self {
        let Some(classpath) = env::var_os(CLASSPATH) else {
            panic!(
                "{CLASSPATH} is not set: run `cargo xtask test -- -p curator-recipes --test interop`: it installs Curator"
            )
        };
        let java = env::var_os("JAVA_HOME").map_or_else(
            || "java".into(),
            |home| format!("{}/bin/java", home.display()),
        );
        let mut command = Command::new(java);
        // Options for a short-lived process.
        command
            .args([
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                "-Xshare:auto",
                "-cp",
            ])
            .arg(classpath);
        command.arg("CuratorAgent");
        let answers = Answers::default();
        let reader = Reader(answers.clone());
        let program = Program::start(command, move |line| {
            let (session, answer) = line.split_once(' ').unwrap_or((&line, ""));
            if let Some(sender) = reader.0.lock().unwrap().get(session) {
                // The test may have ended.
                drop(sender.send(answer.to_owned()));
            }
            true
        });
        Self {
            program: Arc::new(Mutex::new(program)),
            answers,
        }
    }

    /// Opens a session.
    async fn open(&self, connect_string: &str, timeout: Duration) -> JavaSession {
        static OPENED: AtomicUsize = AtomicUsize::new(0);
        let name = format!("java-{}", OPENED.fetch_add(1, Ordering::Relaxed));
        let mut thread = JavaThread::new(self, &name);
        let opened = thread
            .tell(&format!("open {connect_string} {}", timeout.as_millis()))
            .await;
        let mut beside = JavaThread::new(self, &format!("{name}-beside"));
        assert_eq!(beside.ask(&format!("share {name}")).await, "ok");
        JavaSession {
            thread,
            beside,
            credentials: credentials_of(&opened),
        }
    }
}

/// Opens a session in the shared Java process, on the shared server. The timeout is so long that
/// the session ends only if a test ends it.
pub async fn java() -> JavaSession {
    java_at(&TestingServer::shared().await.connect_string(), LONG).await
}

/// Opens a session in the shared Java process.
pub async fn java_at(connect_string: &str, timeout: Duration) -> JavaSession {
    Java::shared().open(connect_string, timeout).await
}

/// Opens a session in a separate Java process, which may be killed or stopped.
pub async fn java_alone_at(connect_string: &str, timeout: Duration) -> JavaSession {
    Java::start().open(connect_string, timeout).await
}

/// Parses the agent's reply: id and password, in hexadecimal digits.
fn credentials_of(words: &[String]) -> SessionCredentials {
    let [id, password] = words else {
        panic!("not an id and a password: {words:?}")
    };
    SessionCredentials {
        session_id: u64::from_str_radix(id, 16).unwrap().cast_signed(),
        password: (0..password.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&password[at..at + 2], 16).unwrap())
            .collect(),
    }
}

/// A thread of the Java process. It executes its commands one after another.
struct JavaThread {
    java: Java,
    name: String,
    answers: UnboundedReceiver<String>,
}

impl JavaThread {
    fn new(java: &Java, name: &str) -> Self {
        let (sender, answers) = unbounded_channel();
        java.answers.lock().unwrap().insert(name.to_owned(), sender);
        Self {
            java: java.clone(),
            name: name.to_owned(),
            answers,
        }
    }

    fn send(&self, command: &str) {
        self.java
            .program
            .lock()
            .unwrap()
            .tell(&format!("{} {command}", self.name));
    }

    async fn answer(&mut self) -> String {
        // The agent's timeouts are shorter, except for a command that waits several times.
        within(2 * DEFAULT_TIMEOUT, self.answers.recv())
            .await
            .expect("the Java process has ended")
    }

    async fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.answer().await
    }

    async fn tell(&mut self, command: &str) -> Vec<String> {
        let answer = self.ask(command).await;
        let words = answer
            .strip_prefix("ok")
            .unwrap_or_else(|| panic!("`{command}`: {answer}"));
        words.split_whitespace().map(str::to_owned).collect()
    }
}

/// A session of Curator. Its commands are executed one after another, on a separate thread.
pub struct JavaSession {
    thread: JavaThread,
    /// Another thread with the same session.
    beside: JavaThread,
    /// The credentials of the client's first session, or of its session at the latest
    /// [`renew`](Self::renew).
    credentials: SessionCredentials,
}

impl JavaSession {
    /// The session's name, which is in the data of its nodes.
    pub fn name(&self) -> &str {
        &self.thread.name
    }

    /// The session's id on the server.
    pub fn id(&self) -> i64 {
        self.credentials.session_id
    }

    /// Sends a command without waiting for its reply.
    pub fn send(&self, command: &str) {
        self.thread.send(command);
    }

    /// The reply to the first unanswered command.
    pub async fn answer(&mut self) -> String {
        self.thread.answer().await
    }

    /// Sends a command and returns its reply.
    pub async fn ask(&mut self, command: &str) -> String {
        self.thread.ask(command).await
    }

    /// Sends a command that must succeed. Returns the words of the reply.
    pub async fn tell(&mut self, command: &str) -> Vec<String> {
        self.thread.tell(command).await
    }

    /// Repeats a command until the reply is `expected`.
    pub async fn ask_until(&mut self, command: &str, expected: &str) {
        until(async || self.ask(command).await == expected).await;
    }

    /// Whether the command is still unanswered after 50 round trips, which give the session time to
    /// react to earlier events. See [`still_waits`](crate::still_waits::still_waits).
    pub async fn still_waits(&mut self) -> bool {
        assert_eq!(self.beside.ask("round-trips 50").await, "ok");
        self.thread.answers.try_recv().is_err()
    }

    /// Like [`ask`](Self::ask), on another thread with the same session: for a command that must not
    /// wait for the earlier ones.
    pub async fn ask_beside(&mut self, command: &str) -> String {
        self.beside.ask(command).await
    }

    /// Ends the session on the server, without notice to the client.
    pub async fn end(&self) {
        close_session(TestingServer::shared().await.address(), &self.credentials)
            .await
            .unwrap();
    }

    /// Ends the session on the server. Returns whether it had already ended.
    pub async fn had_ended(&self) -> bool {
        let closed =
            close_session(TestingServer::shared().await.address(), &self.credentials).await;
        matches!(closed, Err(Error::NoSession(_)))
    }

    /// Records the credentials of the client's current session.
    pub async fn renew(&mut self) {
        self.credentials = credentials_of(&self.thread.tell("session").await);
    }

    /// Kills the session's process.
    pub fn kill(&self) {
        self.thread.java.program.lock().unwrap().kill();
    }

    /// Stops the session's process.
    pub fn stop(&self) {
        self.thread.java.program.lock().unwrap().stop();
    }

    /// Resumes the session's process.
    pub fn resume(&self) {
        self.thread.java.program.lock().unwrap().resume();
    }
}

impl Drop for JavaSession {
    fn drop(&mut self) {
        // A command to an ended process would panic.
        if !std::thread::panicking() && !self.thread.java.program.lock().unwrap().has_ended() {
            self.thread.send("close");
            self.beside.send("close");
        }
    }
}
