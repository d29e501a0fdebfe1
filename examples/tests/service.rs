//! The service, driven over HTTP as its users would, with a network that fails and a signal that ends it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failure here is the test's failure")]

use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use curator_recipes::InterProcessMutex;
use curator_recipes::client::CuratorClient;
use curator_test::{Direction, FaultProxy, TestingServer, soon, until};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// The built program, its address, and what it has printed so far.
struct Service {
    process: Child,
    address: String,
    printed: Arc<Mutex<Vec<String>>>,
}

impl Service {
    /// Starts it, and waits until it listens. The session timeout is in seconds.
    async fn start(connect_string: String, session_timeout: u32) -> Self {
        let this_test = std::env::current_exe().unwrap();
        let profile = this_test.parent().and_then(|deps| deps.parent()).expect("tests are built into `deps`");
        let mut process = Command::new(profile.join("examples/service"))
            .env("ZOOKEEPER_CONNECT", connect_string)
            .env("SESSION_TIMEOUT", session_timeout.to_string())
            .env_remove("ZOOKEEPER_NAMESPACE")
            .env_remove("LISTEN")
            .env("RUST_LOG", "info,zookeeper_client=off")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("cargo builds the examples");
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
            address = printed.iter().find_map(|line| line.strip_prefix("Listening on http://").map(str::to_owned));
            address.is_some()
        })
        .await;
        Self { process, address: address.unwrap(), printed }
    }

    /// A request on a connection of its own.
    async fn answers(&self, request: &str, body: &str) -> (u16, String) {
        Connection::to(&self.address).await.answers(request, body).await
    }

    /// Repeats a request until it is answered in this way. Returns the rest of the answer.
    async fn says(&self, request: &str, status: u16, beginning: &str) -> String {
        let mut rest = String::new();
        until(async || {
            let (answered, body) = self.answers(request, "").await;
            let found = body.strip_prefix(beginning).filter(|_| answered == status);
            rest = found.unwrap_or_default().trim().to_owned();
            found.is_some()
        })
        .await;
        rest
    }

    /// Waits until the job of this process has its lock, and returns the token.
    async fn leads(&self) -> i64 {
        let leads = self.says("GET /job", 200, "leads with token ").await;
        leads.split_once(':').and_then(|(token, _)| token.parse().ok()).unwrap_or_else(|| panic!("{leads}"))
    }

    /// As a container's runtime asks it to stop.
    fn terminate(&self) {
        let process = i32::try_from(self.process.id().expect("it runs")).unwrap();
        kill_process(Pid::from_raw(process).unwrap(), Signal::TERM).unwrap();
    }

    async fn end(mut self) -> (ExitStatus, Vec<String>) {
        let status = soon(self.process.wait()).await.unwrap();
        // Its output ends with it; the last lines may still be on their way.
        until(async || Arc::strong_count(&self.printed) == 1).await;
        let printed = self.printed.lock().unwrap().clone();
        (status, printed)
    }
}

/// A connection that is kept alive from request to request.
struct Connection(BufReader<TcpStream>);

impl Connection {
    async fn to(address: &str) -> Self {
        Self(BufReader::new(soon(TcpStream::connect(address)).await.unwrap()))
    }

    /// `request` is a method, a path, and any headers, as in `PUT /orders/7\r\nFencing-Token: 12`.
    async fn answers(&mut self, request: &str, body: &str) -> (u16, String) {
        soon(self.exchange(request, body)).await.unwrap()
    }

    async fn exchange(&mut self, request: &str, body: &str) -> std::io::Result<(u16, String)> {
        let (line, headers) = request.split_once("\r\n").unwrap_or((request, "Accept: */*"));
        let length = body.len();
        let request =
            format!("{line} HTTP/1.1\r\nHost: service\r\nContent-Length: {length}\r\n{headers}\r\n\r\n{body}");
        self.0.write_all(request.as_bytes()).await?;
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).await?;
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_ascii_lowercase()),
            }
        }
        let status = head.first().and_then(|line| line.split(' ').nth(1)).expect("an answer").parse().unwrap();
        let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.0.read_exact(&mut body).await?;
        Ok((status, String::from_utf8(body).unwrap()))
    }
}

#[tokio::test]
async fn requests_exclude_each_other_on_one_connection_too() {
    let server = TestingServer::start().await.unwrap();
    let service = Service::start(server.connect_string(), 20).await;
    service.says("GET /health/ready", 200, "").await;

    let mut connection = Connection::to(&service.address).await;
    let (status, token) = connection.answers("POST /orders/7/reservation", "").await;
    assert_eq!(status, 201, "{token}");
    assert_eq!(connection.answers("POST /orders/7/reservation", "").await.0, 409);
    assert_eq!(connection.answers("POST /orders/7", "tea").await.0, 409);
    assert_eq!(service.answers("POST /orders/7/reservation", "").await.0, 409);
    assert_eq!(connection.answers("POST /orders/8", "tea").await, (200, "tea\n".to_owned()));
    let with_token = format!("PUT /orders/7\r\nFencing-Token: {}", token.trim());
    assert_eq!(connection.answers(&with_token, "milk").await.0, 204);
    assert_eq!(connection.answers("DELETE /orders/7/reservation", "").await.0, 204);
    assert_eq!(connection.answers("POST /orders/7", "sugar").await, (200, "milk\nsugar\n".to_owned()));
    // Somebody else has had the order since.
    let (status, reason) = connection.answers(&with_token, "water").await;
    assert!(status == 409 && reason.contains("is stale"), "{status} {reason}");
    assert_eq!(connection.answers("GET /orders/7", "").await, (200, "milk\nsugar\n".to_owned()));
    for wrong in ["POST /orders/a%2Fb", "POST /orders/..", "PUT /orders/7\r\nFencing-Token: x", "PUT /orders/7"] {
        assert_eq!(connection.answers(wrong, "").await.0, 400, "{wrong}");
    }
}

#[tokio::test]
async fn it_starts_without_its_servers_and_is_ready_when_they_are_there() {
    let server = TestingServer::start().await.unwrap();
    let network = FaultProxy::start(server.address()).unwrap();
    network.refuse(true).unwrap();
    let service = Service::start(network.connect_string(), 20).await;
    assert_eq!(service.answers("GET /health/live", "").await.0, 200);
    assert_eq!(service.answers("GET /health/ready", "").await.0, 503);
    assert_eq!(service.answers("POST /orders/7", "tea").await.0, 503);
    assert_eq!(service.answers("POST /orders/7/reservation", "").await.0, 503);
    assert_eq!(service.answers("GET /job", "").await, (200, "does not lead\n".to_owned()));

    network.refuse(false).unwrap();
    service.says("GET /health/ready", 200, "").await;
    service.leads().await;
    assert_eq!(service.answers("POST /orders/7", "tea").await, (200, "tea\n".to_owned()));
}

#[tokio::test]
async fn after_an_outage_the_job_has_a_new_lock_and_late_writes_are_refused() {
    let server = TestingServer::start().await.unwrap();
    let network = FaultProxy::start(server.address()).unwrap();
    // Short, as its end is waited for; long enough for a machine that is busy.
    let service = Service::start(network.connect_string(), 6).await;
    let before = service.leads().await;
    let late = service.says("POST /orders/7/reservation", 201, "").await;

    network.black_hole(Direction::Both);
    service.says("GET /health/ready", 503, "").await;
    service.says("GET /job", 200, "does not lead").await;
    assert_eq!(service.answers("GET /health/live", "").await.0, 200);
    assert_eq!(service.answers("POST /orders/8", "tea").await.0, 503);

    network.heal();
    service.says("GET /health/ready", 200, "").await;
    assert!(service.leads().await > before);
    assert_eq!(service.answers("POST /orders/7", "milk").await, (200, "milk\n".to_owned()));
    let late = format!("PUT /orders/7\r\nFencing-Token: {late}");
    assert_eq!(service.answers(&late, "water").await.0, 409);
    assert_eq!(service.answers("GET /orders/7", "").await.1, "milk\n");
}

#[tokio::test]
async fn asked_to_stop_it_answers_gives_back_its_locks_and_closes_in_this_order() {
    let server = TestingServer::start().await.unwrap();
    let other = CuratorClient::builder(server.connect_string()).connect().await.unwrap();
    let job = InterProcessMutex::new(&other, "/curator-examples/service/job").unwrap();
    let order = InterProcessMutex::new(&other, "/curator-examples/service/orders/7").unwrap();
    // So long that none of its nodes can go by itself while this test runs.
    let service = Service::start(server.connect_string(), 40).await;
    service.leads().await;
    assert_eq!(service.answers("POST /orders/7/reservation", "").await.0, 201);
    let wait = || {
        let address = service.address.clone();
        tokio::spawn(async move { Connection::to(&address).await.answers("POST /orders/7", "tea").await })
    };
    let mut waiting = wait();
    until(async || {
        // It waits for a second, which can be over before anyone has looked.
        if waiting.is_finished() {
            waiting = wait();
        }
        order.participants().await.unwrap().len() == 2
    })
    .await;

    service.terminate();
    let (status, _) = waiting.await.unwrap();
    assert_eq!(status, 409, "a request that is under way is answered");
    let (status, printed) = service.end().await;
    assert!(status.success(), "{status}: {printed:#?}");
    for lock in [&job, &order] {
        assert!(lock.participants().await.unwrap().is_empty());
        lock.try_acquire().await.unwrap().expect("the lock is free").release().await.unwrap();
    }
    let mut lines = printed.iter();
    for expected in [
        "the job has its lock",
        "asked to stop by SIGTERM",
        "all requests are answered",
        "the job has ended",
        "all reservations are given back",
        "the client is closed",
    ] {
        assert!(lines.any(|line| line.contains(expected)), "no {expected:?} in its place in: {printed:#?}");
    }
    other.close().await.unwrap();
}
