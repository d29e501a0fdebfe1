//! Leader election among three processes. One leader is killed, one is stopped, one is cut off from
//! the servers, and one is asked to end. Shows the output of each process, the view of an observer,
//! and the time without a leader. Fails if two replicas lead at the same time.
//!
//! The example starts itself three more times, as the replicas of a service. Each replica has a
//! separate proxy between itself and the servers.
//!
//! ```console
//! cargo run --example leader
//! ```

use std::process::Stdio;
use std::time::{Duration, Instant};

use curator_examples::{Ensemble, Failure, builder};
use curator_recipes::{LeaderObserver, LeaderSelector, Leadership, ObservedLeader};
use curator_test::{Direction, FaultProxy};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, stdin};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

const PATH: &str = "/curator-examples/leader";
/// The first argument of a replica; its name and the connect string follow.
const REPLICA: &str = "replica";
/// Short, to keep the example short: a dead leader has a successor only after its session has
/// expired.
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);
/// The limit of each wait.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

const LEADS: &str = "I lead, with token ";
const ENDS: &str = "I do not lead any more";

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match &*arguments {
        [role, name, connect_string] if role == REPLICA => lead(name, connect_string).await,
        _ => coordinate().await,
    }
}

/// A replica: runs its job whenever it leads, until its standard input ends.
async fn lead(name: &str, connect_string: &str) -> Result<(), Failure> {
    // The kernel kills this process when the first process dies: a stopped process would not notice
    // closed pipes.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;

    let client = builder(connect_string)
        .session_timeout(SESSION_TIMEOUT)
        .start()?;
    let selector = LeaderSelector::builder(&client, PATH)?.id(name).build();
    let shutdown = async { stdin().read_to_end(&mut Vec::new()).await };
    selector.run(job, shutdown).await?;
    client.close().await?;
    Ok(())
}

async fn job(leadership: Leadership) -> Result<(), Failure> {
    print_line(&format!("{LEADS}{}", leadership.fencing_token()));
    let _end = PrintsEndOnDrop;
    // A leader would work here.
    leadership.shutdown_requested().await;
    Ok(())
}

/// Prints a line with a timestamp of a clock that all processes share, because the first process
/// may read the lines of two processes in the wrong order.
fn print_line(line: &str) {
    let now = clock_gettime(ClockId::Monotonic);
    println!("{}.{:09} {line}", now.tv_sec, now.tv_nsec);
}

struct PrintsEndOnDrop;

impl Drop for PrintsEndOnDrop {
    fn drop(&mut self) {
        print_line(ENDS);
    }
}

/// The first process: starts the replicas, and injects the faults.
async fn coordinate() -> Result<(), Failure> {
    let ensemble = Ensemble::find().await?;
    let client = builder(ensemble.connect_string()).connect().await?;
    let selector = LeaderSelector::builder(&client, PATH)?.build();
    let observer = LeaderObserver::observe_selector(&client, PATH)?;
    let mut observed = observer.state();
    let observing = tokio::spawn(async move {
        while observed.changed().await.is_ok() {
            let observed = observed.get_and_update();
            match observed {
                ObservedLeader::Leader(leader) => println!("observer: {} leads", leader.id()),
                ObservedLeader::NoLeader => println!("observer: no leader"),
                _ => println!("observer: leader unknown"),
            }
        }
    });
    let (lines, printed) = mpsc::unbounded_channel();
    let mut stage = Stage {
        printed,
        leader: None,
        overlap: None,
    };

    let mut replicas = Vec::new();
    for name in ["a", "b", "c"] {
        replicas.push(Replica::start(name, &ensemble, lines.clone())?);
        wait_for_participants(&selector, replicas.len()).await?;
    }
    let [a, b, c] = &mut *replicas else {
        return Err("expected three replicas".into());
    };
    stage.until("a", LEADS).await?;

    println!("\na is killed.");
    let since = Instant::now();
    a.process.start_kill()?;
    stage.leader = None;
    stage.until("b", LEADS).await?;
    println!("No leader for {:.1} s.", since.elapsed().as_secs_f64());

    println!("\nb is stopped (SIGSTOP).");
    let since = Instant::now();
    kill_process(b.pid, Signal::STOP)?;
    // The stopped process does nothing, so it does not count as a leader.
    stage.leader = None;
    stage.until("c", LEADS).await?;
    println!("No leader for {:.1} s.", since.elapsed().as_secs_f64());
    println!("b resumes.");
    kill_process(b.pid, Signal::CONT)?;
    stage.until("b", ENDS).await?;
    wait_for_participants(&selector, 2).await?;

    println!(
        "\nc is cut off: nothing gets through between it and the servers, and its connection looks open."
    );
    c.network.black_hole(Direction::Both);
    stage.until("c", ENDS).await?;
    let since = Instant::now();
    stage.until("b", LEADS).await?;
    println!(
        "c's job ended {:.1} s before b's began.",
        since.elapsed().as_secs_f64()
    );
    c.network.heal();
    wait_for_participants(&selector, 2).await?;

    println!("\nb is asked to end, as in a deployment.");
    let since = Instant::now();
    drop(b.process.stdin.take());
    stage.until("c", LEADS).await?;
    println!(
        "No leader for at most {:.3} s.",
        since.elapsed().as_secs_f64()
    );

    if let Some((leader, _)) = stage.overlap {
        stage.until(leader, ENDS).await?;
    }
    println!("\nc is asked to end, too.");
    for mut replica in replicas {
        drop(replica.process.stdin.take());
        tokio::time::timeout(DEFAULT_TIMEOUT, replica.process.wait()).await??;
    }
    let no_leader = async {
        observer
            .state()
            .wait_for(|state| *state == ObservedLeader::NoLeader)
            .await
            .map(drop)?;
        Ok::<_, Failure>(())
    };
    tokio::time::timeout(DEFAULT_TIMEOUT, no_leader).await??;
    println!("All replicas have left, and there is no leader.");
    drop(observer);
    client.close().await?;
    observing.await?;
    println!("No two replicas led at the same time.");
    Ok(())
}

/// Waits until the election has this many participants.
async fn wait_for_participants(selector: &LeaderSelector, count: usize) -> Result<(), Failure> {
    let waiting = async {
        while selector.participants().await?.len() != count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    };
    tokio::time::timeout(DEFAULT_TIMEOUT, waiting).await?
}

/// The lines of all replicas, in the order of their arrival.
struct Stage {
    printed: mpsc::UnboundedReceiver<(&'static str, String)>,
    leader: Option<&'static str>,
    /// A leader that has not reported the end of its term, and the time when the next term began.
    overlap: Option<(&'static str, f64)>,
}

impl Stage {
    /// Prints the lines of all replicas until `who` has printed a line that begins with `what`.
    /// Fails if two replicas lead at the same time.
    async fn until(&mut self, who: &str, what: &str) -> Result<(), Failure> {
        loop {
            let (name, line) = tokio::time::timeout(DEFAULT_TIMEOUT, self.printed.recv())
                .await?
                .ok_or("all replicas have ended")?;
            let (at, line) = line.split_once(' ').ok_or("a line without a time")?;
            let at: f64 = at.parse()?;
            println!("{name}: {line}");
            if line.starts_with(LEADS) {
                if let Some((leader, _)) = self.overlap {
                    return Err(format!("{leader} and others lead at the same time").into());
                }
                self.overlap = self.leader.replace(name).map(|leader| (leader, at));
            } else if line == ENDS {
                if let Some((leader, since)) = self.overlap
                    && leader == name
                {
                    if at > since {
                        return Err(format!(
                            "{leader} led until {at}, and another one from {since} on"
                        )
                        .into());
                    }
                    self.overlap = None;
                }
                if self.leader == Some(name) {
                    self.leader = None;
                }
            }
            if name == who && line.starts_with(what) {
                return Ok(());
            }
        }
    }
}

/// The first process's handle to a replica. Dropping it kills the replica, even if the replica is
/// stopped.
struct Replica {
    process: Child,
    pid: Pid,
    network: FaultProxy,
}

impl Replica {
    fn start(
        name: &'static str,
        ensemble: &Ensemble,
        lines: mpsc::UnboundedSender<(&'static str, String)>,
    ) -> Result<Self, Failure> {
        let (network, connect_string) = ensemble.proxy()?;
        let mut process = Command::new(std::env::current_exe()?)
            .args([REPLICA, name, &connect_string])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let pid = process
            .id()
            .and_then(|id| Pid::from_raw(id.try_into().ok()?))
            .ok_or("a replica has no id")?;
        let mut printed =
            BufReader::new(process.stdout.take().ok_or("a replica has no output")?).lines();
        tokio::spawn(async move {
            while let Ok(Some(line)) = printed.next_line().await {
                if lines.send((name, line)).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            process,
            pid,
            network,
        })
    }
}
