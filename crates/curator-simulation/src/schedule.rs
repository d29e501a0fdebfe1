//! Runs one schedule, which its seed determines.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use curator_recipes::client::{CuratorClient, RetryForever, RetryNTimes};
use curator_test::OpCode;
use tokio::time::{Instant, sleep, timeout};

use crate::checks::Checks;
use crate::life::Life;
use crate::servers::Servers;
use crate::workload::Workload;
use crate::world::{Failure, Phase, World};

/// The number of processes that use the recipe.
const PROCESSES: usize = 3;
/// The lengths of the parts of a schedule.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// From the start until faults end.
    pub faults: Duration,
    /// From the end of faults until all calls must have ended.
    pub healing: Duration,
    /// How long the servers may take to remove what crashed processes have left.
    pub settling: Duration,
    /// The time at rest during which requests are counted.
    pub idle: Duration,
    /// From the end of the time at rest until everything must be closed.
    pub closing: Duration,
}

impl Default for Times {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            faults: seconds(38),
            healing: seconds(60),
            settling: seconds(10),
            idle: seconds(6),
            closing: seconds(30),
        }
    }
}

/// When a client reads the ensemble's configuration again after a failure.
const REREAD: Duration = Duration::from_secs(60);

/// The session timeouts that clients request.
const SESSION_TIMEOUTS: [u64; 3] = [3, 5, 8];

/// The result of a schedule.
#[derive(Debug)]
pub struct Verdict {
    /// The property that did not hold.
    pub failure: Option<Failure>,
    /// The events, if they were recorded.
    pub events: Vec<String>,
    /// The simulated time.
    pub time: Duration,
    /// A hash of all events on the servers, and between the servers and the clients.
    pub trace_hash: u64,
}

/// Runs a workload on these servers, inside their simulation.
pub async fn run(
    servers: Arc<Servers>,
    workload: Arc<dyn Workload>,
    times: Times,
    traces: bool,
) -> Verdict {
    let mut random = fastrand::Rng::with_seed(fastrand::u64(..));
    let world = World::new(servers, traces);
    let tasks = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    tokio::select! {
        biased;
        () = world.failed() => {}
        () = conduct(&world, &workload, &mut random, times, tasks) => {}
    }
    let trace_hash = world.servers().trace_hash();
    Verdict {
        failure: world.failure(),
        events: world.events(),
        time: world.elapsed(),
        trace_hash,
    }
}

async fn conduct(
    world: &Arc<World>,
    workload: &Arc<dyn Workload>,
    random: &mut fastrand::Rng,
    times: Times,
    tasks: usize,
) {
    prepare(world, workload).await;
    let shortest = world.servers().begin_faults(workload.faults());
    let end = Instant::now() + times.faults;
    let checks = Arc::new(Checks::default());
    let mut processes = tokio::task::JoinSet::new();
    for number in 0..PROCESSES {
        let process = Process {
            world: Arc::clone(world),
            checks: Arc::clone(&checks),
            workload: Arc::clone(workload),
            name: format!("p{number}"),
        };
        let name = process.name.clone();
        let random = random.fork();
        let future = Box::pin(async move { process.live_until(end, random).await });
        processes.spawn(world.servers().in_process(&name, future));
    }
    sleep(times.faults).await;
    world.servers().heal();
    world.begin(Phase::Healed);
    within(world, "complete its last step", times.healing, || {
        world.all_wait_for(Phase::Rest)
    })
    .await;
    sleep(times.settling).await;
    world.begin(Phase::Rest);
    within(world, "do its work at rest", times.healing, || {
        world.all_wait_for(Phase::Close)
    })
    .await;
    count_idle_requests(world, workload, times.idle, shortest).await;
    world.begin(Phase::Close);
    let closed = timeout(times.closing, async {
        while let Some(ended) = processes.join_next().await {
            if let Err(error) = ended {
                world.fail(format!("a process ended with {error}"));
            }
        }
    });
    if closed.await.is_err() {
        world.fail(format!(
            "not closed within {:?}; open calls: {:?}",
            times.closing,
            world.open_calls()
        ));
    }
    sleep(times.settling).await;
    check_left(world, workload, tasks);
}

/// Creates the nodes that the processes share.
async fn prepare(world: &Arc<World>, workload: &Arc<dyn Workload>) {
    let shared = Arc::clone(world);
    let workload = Arc::clone(workload);
    let future = Box::pin(async move {
        let prepared = async {
            let client = CuratorClient::builder(shared.servers().connect_string())
                .name("prepare")
                .connect()
                .await?;
            workload.prepare(&client).await?;
            client.close().await
        };
        if let Err(error) = prepared.await {
            shared.fail(format!("preparing the nodes: {error}"));
        }
    });
    world.servers().in_process("prepare", future).await;
}

/// Waits until `holds` returns `true`. Fails if this takes longer than `most`.
async fn within(world: &World, what: &str, most: Duration, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + most;
    while !holds() {
        if Instant::now() >= deadline {
            let mut text = format!(
                "a process does not {what} within {most:?} after the faults; its open calls:"
            );
            for (call, since) in world.open_calls() {
                let _ = write!(text, " {call}, for {:.1} s;", since.as_secs_f64());
            }
            return world.fail(text);
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Checks that clients at rest send nothing but probes.
async fn count_idle_requests(
    world: &World,
    workload: &Arc<dyn Workload>,
    time: Duration,
    shortest: Option<Duration>,
) {
    // Nodes of locks that were just released are deleted in the background.
    sleep(Duration::from_secs(2)).await;
    let before = world.servers().requests();
    sleep(time).await;
    if !workload.is_idle_at_rest() {
        return;
    }
    let shortest = shortest.unwrap_or(Duration::from_secs(SESSION_TIMEOUTS[0]));
    // Each client has up to two sessions, and the next probe of each may be due immediately.
    let probes =
        u64::try_from(2 * (6 * time.as_millis() / shortest.as_millis() + 2)).unwrap_or(u64::MAX);
    // A client whose read of the ensemble's configuration has failed reads it again a minute later.
    let rereads = u64::from(world.elapsed() > REREAD);
    for (process, operations) in &world.servers().requests() {
        for (operation, requests) in operations {
            let sent = requests
                - before
                    .get(process)
                    .and_then(|before| before.get(operation))
                    .unwrap_or(&0);
            let most = match operation {
                OpCode::Sync => probes,
                OpCode::GetData => rereads,
                _ => 0,
            };
            world.check(sent <= most, || {
                format!("{process} sends {sent} requests {operation:?} in {time:?} at rest, more than {most}")
            });
        }
    }
}

/// Checks that neither nodes nor tasks are left when everything is closed.
fn check_left(world: &World, workload: &Arc<dyn Workload>, tasks_before: usize) {
    let nodes = world.servers().nodes();
    for (path, node) in &nodes {
        let may_be_left =
            node.owner.is_none() && (node.data.is_empty() || workload.may_leave(path));
        world.check(may_be_left, || format!("{path} is left: {node:?}"));
    }
    workload.check_end(world, &nodes);
    let tasks = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    world.check(tasks <= tasks_before, || {
        format!("{tasks} tasks are left of {tasks_before} before")
    });
}

/// A process, which runs one client after another.
struct Process {
    world: Arc<World>,
    checks: Arc<Checks>,
    workload: Arc<dyn Workload>,
    name: String,
}

impl Process {
    async fn live_until(self, end: Instant, mut random: fastrand::Rng) {
        let mut number = 0;
        loop {
            number += 1;
            let length = Duration::from_secs(random.u64(3..60));
            let ends = (Instant::now() + length).min(end);
            // No further client is started if its lifetime would be too short.
            let is_last = end.saturating_duration_since(ends) < Duration::from_secs(3);
            let ends = if is_last { end } else { ends };
            let client = match start(&self.world, &self.name, &mut random) {
                Ok(client) => client,
                Err(error) => {
                    return self
                        .world
                        .fail(format!("{}: cannot start a client: {error}", self.name));
                }
            };
            self.world
                .note(&self.name, || format!("starts client {number}"));
            let life = Life::new(
                &self.world,
                &self.checks,
                &client,
                self.name.clone(),
                &mut random,
                (ends, is_last),
            );
            self.workload.live(&life).await;
            drop(life);
            self.end(client, &mut random).await;
            if is_last {
                return;
            }
        }
    }

    /// Closes the client, or drops it.
    async fn end(&self, client: CuratorClient, random: &mut fastrand::Rng) {
        if random.u32(0..3) == 0 {
            self.world
                .note(&self.name, || "drops the client".to_owned());
            return;
        }
        let _open = self.world.call(format!("{}: close the client", self.name));
        let closed = client.close().await;
        self.world
            .note(&self.name, || format!("has closed the client: {closed:?}"));
    }
}

/// Starts a client with random options.
fn start(
    world: &World,
    name: &str,
    random: &mut fastrand::Rng,
) -> Result<CuratorClient, curator_recipes::client::Error> {
    let session_timeout =
        Duration::from_secs(SESSION_TIMEOUTS[random.usize(0..SESSION_TIMEOUTS.len())]);
    let builder = CuratorClient::builder(world.servers().connect_string())
        .name(name)
        .session_timeout(session_timeout)
        .connection_timeout(Duration::from_millis(random.u64(500..4000)));
    match random.u32(0..4) {
        0 => builder.retry_policy(RetryForever::new(Duration::from_millis(
            random.u64(20..1000),
        ))?),
        1 => builder.retry_policy(RetryNTimes::new(0, Duration::from_millis(1))?),
        _ => builder,
    }
    .start()
}
