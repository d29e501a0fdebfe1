//! gRPC servers that are discovered and balanced through ZooKeeper. One server is drained and
//! restarted, and another is killed. Fails if a request fails after the drain, or after the client
//! has noticed that the killed server is gone.
//!
//! The first process is the client. It starts, drains and kills the servers. The servers implement
//! the health service, which is part of `tonic-health`, so that neither this example nor its users
//! need `protoc`.
//!
//! ```console
//! cargo run -p curator-example-discovery
//! ```

mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::{Duration, Instant};

use curator_discovery::{Change as Found, ServiceCache, ServiceDiscovery};
use curator_examples::{Ensemble, Failure, builder};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::transport::channel::{Change, Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// The path below which the servers are registered.
const SERVICES: &str = "/curator-examples/services";
const SERVICE: &str = "greeter";
/// Short, to keep the example short: a dead server stays registered until its session expires.
const SESSION_TIMEOUT: Duration = Duration::from_secs(2);
/// The limit of each wait.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// The number of requests that show the distribution.
const MANY: usize = 100;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match &*arguments {
        [role, id, connect_string] if role == server::ROLE => server::run(id, connect_string).await,
        _ => client().await,
    }
}

async fn client() -> Result<(), Failure> {
    let ensemble = Ensemble::find().await?;
    let zookeeper = builder(ensemble.connect_string()).connect().await?;
    let services = ServiceDiscovery::new(&zookeeper, SERVICES)?.start_cache(SERVICE)?;
    let (channel, mut servers) = balanced(&services);

    let mut a = Server::start("a", &ensemble)?;
    a.wait_for(server::READY).await?;
    let mut b = Server::start("b", &ensemble)?;
    b.wait_for(server::READY).await?;
    until(&mut servers, &["a", "b"]).await?;
    all_are_answered(&channel, "Two servers").await?;

    // Drains `a`, as a rolling update would.
    a.send("drain").await?;
    a.wait_for(server::DRAINED).await?;
    until(&mut servers, &["b"]).await?;
    all_are_answered(&channel, "a is drained").await?;
    a.end().await?;
    all_are_answered(&channel, "a has ended").await?;
    a = Server::start("a", &ensemble)?;
    a.wait_for(server::READY).await?;
    until(&mut servers, &["a", "b"]).await?;
    all_are_answered(&channel, "a is there again").await?;

    b.process.start_kill()?;
    b.process.wait().await?;
    let killed = Instant::now();
    let mut failed = 0;
    let mut gone = std::pin::pin!(until(&mut servers, &["a"]));
    loop {
        // Requests may fail until the channel no longer uses `b`; a real client would repeat them.
        tokio::select! {
            known = &mut gone => break known?,
            answer = ask(&channel) => failed += usize::from(answer.is_err()),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!(
        "b was killed: it was gone after {:.1} s; {failed} requests have failed.",
        killed.elapsed().as_secs_f64()
    );
    all_are_answered(&channel, "b is gone").await?;

    a.send("drain").await?;
    a.end().await?;
    zookeeper.close().await?;
    Ok(())
}

/// Returns a channel and the ids of the servers that it uses. The channel follows the changes of
/// `services`, so it always uses the servers that are registered and not drained.
fn balanced(services: &ServiceCache) -> (Channel, watch::Receiver<BTreeSet<String>>) {
    // An idle channel takes no changes from its queue, which therefore needs room for a rolling
    // update.
    let (channel, endpoints) = Channel::balance_channel(1024);
    let (servers, known) = watch::channel(BTreeSet::new());
    let mut changes = services.discover(|instance| {
        let address = instance.address.as_ref()?;
        let port = instance.port?;
        Endpoint::from_shared(format!("http://{address}:{port}")).ok()
    });
    // The task ends with the cache, or when the channel is dropped.
    tokio::spawn(async move {
        while let Some(Ok(change)) = changes.next().await {
            let (id, is_there, change) = match change {
                Found::Insert(id, endpoint) => (id.clone(), true, Change::Insert(id, endpoint)),
                Found::Remove(id) => (id.clone(), false, Change::Remove(id)),
            };
            if endpoints.send(change).await.is_err() {
                break;
            }
            servers.send_modify(|servers| {
                let _ = if is_there {
                    servers.insert(id)
                } else {
                    servers.remove(&id)
                };
            });
        }
    });
    (channel, known)
}

/// Sends a request, and returns the name of the server that has answered.
async fn ask(channel: &Channel) -> Result<String, Failure> {
    let request = HealthCheckRequest {
        service: SERVICE.to_owned(),
    };
    let response = timeout(
        DEFAULT_TIMEOUT,
        HealthClient::new(channel.clone()).check(request),
    )
    .await??;
    let server = response
        .metadata()
        .get(server::NAME)
        .ok_or("an answer without the name of its server")?;
    Ok(server.to_str()?.to_owned())
}

/// Sends many requests, and prints how many each server has answered. Fails if a request fails.
async fn all_are_answered(channel: &Channel, title: &str) -> Result<(), Failure> {
    let mut answers = BTreeMap::new();
    for _ in 0..MANY {
        *answers.entry(ask(channel).await?).or_insert(0) += 1;
    }
    let answers: Vec<_> = answers
        .iter()
        .map(|(server, number)| format!("{number} by {server}"))
        .collect();
    println!(
        "{title}: {MANY} requests, answered {}.",
        answers.join(" and ")
    );
    Ok(())
}

/// Waits until the channel uses exactly these servers.
async fn until(
    servers: &mut watch::Receiver<BTreeSet<String>>,
    wanted: &[&str],
) -> Result<(), Failure> {
    timeout(
        DEFAULT_TIMEOUT,
        servers.wait_for(|servers| servers.iter().eq(wanted)),
    )
    .await??;
    Ok(())
}

/// A server in another process.
struct Server {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Server {
    fn start(id: &str, ensemble: &Ensemble) -> Result<Self, Failure> {
        let mut process = Command::new(std::env::current_exe()?)
            .args([server::ROLE, id, ensemble.connect_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let lines = BufReader::new(process.stdout.take().ok_or("a server without output")?).lines();
        Ok(Self { process, lines })
    }

    /// Waits until the server prints this line.
    async fn wait_for(&mut self, line: &str) -> Result<(), Failure> {
        timeout(DEFAULT_TIMEOUT, async {
            while self.lines.next_line().await?.ok_or("a server has ended")? != line {}
            Ok(())
        })
        .await?
    }

    /// Sends a line to the server's standard input.
    async fn send(&mut self, line: &str) -> Result<(), Failure> {
        let input = self
            .process
            .stdin
            .as_mut()
            .ok_or("a server without input")?;
        Ok(input.write_all(format!("{line}\n").as_bytes()).await?)
    }

    /// Closes the server's standard input, which ends the server, and waits until it has ended.
    async fn end(&mut self) -> Result<(), Failure> {
        drop(self.process.stdin.take());
        let status = timeout(DEFAULT_TIMEOUT, self.process.wait()).await??;
        if status.success() {
            Ok(())
        } else {
            Err(format!("a server has failed: {status}").into())
        }
    }
}
