//! The service as a process, and connections to it.

use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use curator_test::{soon, until};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// The process, its address, and its output so far.
pub(crate) struct Service {
    process: Child,
    pub(crate) address: String,
    printed: Arc<Mutex<Vec<String>>>,
}

impl Service {
    /// Starts the program with these settings, and waits until it listens.
    pub(crate) async fn start(connect_string: String, settings: &[(&str, &str)]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_service"))
            .env("ZOOKEEPER_CONNECT", connect_string)
            .env_remove("ZOOKEEPER_NAMESPACE")
            .env_remove("LISTEN")
            .env("UNREADY_FOR", "0")
            // The default is too short for a new server that shares two cores with other tests.
            .env("LOCK_TIMEOUT", "5")
            .envs(settings.iter().copied())
            .env("RUST_LOG", "info,zookeeper_client=off")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let printed = Arc::new(Mutex::new(Vec::new()));
        tokio::spawn({
            let printed = Arc::clone(&printed);
            async move {
                while let Ok(Some(line)) = lines.next_line().await {
                    printed.lock().unwrap().push(line);
                }
            }
        });
        let mut address = None;
        until(async || {
            let printed = printed.lock().unwrap();
            address = printed
                .iter()
                .find_map(|line| line.strip_prefix("Listening on http://").map(str::to_owned));
            address.is_some()
        })
        .await;
        Self {
            process,
            address: address.unwrap(),
            printed,
        }
    }

    /// Sends a request on a new connection. Returns the status and the body of the response.
    pub(crate) async fn ask(&self, request: &str, body: &str) -> (u16, String) {
        Connection::to(&self.address).await.ask(request, body).await
    }

    /// Repeats a request until the response has this status and its body begins with `beginning`.
    /// Returns the rest of the body.
    pub(crate) async fn wait_for_answer(
        &self,
        request: &str,
        status: u16,
        beginning: &str,
    ) -> String {
        let mut rest = String::new();
        until(async || {
            let (answered, body) = self.ask(request, "").await;
            let found = body.strip_prefix(beginning).filter(|_| answered == status);
            rest = found.unwrap_or_default().trim().to_owned();
            found.is_some()
        })
        .await;
        rest
    }

    /// Waits until the job of this process has its lock, and returns the token.
    pub(crate) async fn wait_for_term(&self) -> i64 {
        let leads = self
            .wait_for_answer("GET /job", 200, "leads with token ")
            .await;
        leads
            .split_once(':')
            .and_then(|(token, _)| token.parse().ok())
            .unwrap_or_else(|| panic!("{leads}"))
    }

    /// Sends SIGTERM, as a container runtime does.
    pub(crate) fn terminate(&self) {
        let process = i32::try_from(self.process.id().expect("it runs")).unwrap();
        kill_process(Pid::from_raw(process).unwrap(), Signal::TERM).unwrap();
    }

    /// Waits until the process has ended. Returns its status and its output.
    pub(crate) async fn end(mut self) -> (ExitStatus, Vec<String>) {
        let status = soon(self.process.wait()).await.unwrap();
        // The process can end before its output is read to the end.
        until(async || Arc::strong_count(&self.printed) == 1).await;
        let printed = self.printed.lock().unwrap().clone();
        (status, printed)
    }
}

/// A keep-alive connection.
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(crate) async fn to(address: &str) -> Self {
        Self(BufReader::new(
            soon(TcpStream::connect(address)).await.unwrap(),
        ))
    }

    /// Sends a request, and returns the status and the body of the response. `request` is a method,
    /// a path, and any headers, as in `PUT /orders/7\r\nFencing-Token: 12`.
    pub(crate) async fn ask(&mut self, request: &str, body: &str) -> (u16, String) {
        self.send(&head(request, body.len(), "User-Agent: test"))
            .await;
        self.send(body).await;
        self.answer().await
    }

    /// Sends the head of a request, and waits until the handler requests the body.
    pub(crate) async fn begin(&mut self, request: &str, length: usize) {
        self.send(&head(request, length, "Expect: 100-continue"))
            .await;
        assert_eq!(self.answer().await, (100, String::new()), "{request}");
    }

    pub(crate) async fn send(&mut self, text: &str) {
        soon(self.0.write_all(text.as_bytes())).await.unwrap();
    }

    pub(crate) async fn answer(&mut self) -> (u16, String) {
        soon(self.read_answer()).await.unwrap()
    }

    async fn read_answer(&mut self) -> std::io::Result<(u16, String)> {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).await?;
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_ascii_lowercase()),
            }
        }
        let status = head
            .first()
            .and_then(|line| line.split(' ').nth(1))
            .expect("an answer")
            .parse()
            .unwrap();
        let length = head
            .iter()
            .find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.0.read_exact(&mut body).await?;
        Ok((status, String::from_utf8(body).unwrap()))
    }
}

fn head(request: &str, length: usize, header: &str) -> String {
    let (line, headers) = request
        .split_once("\r\n")
        .unwrap_or((request, "Accept: */*"));
    format!(
        "{line} HTTP/1.1\r\nHost: service\r\nContent-Length: {length}\r\n{header}\r\n{headers}\r\n\r\n"
    )
}
