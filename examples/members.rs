//! A group of processes that know each other. One process is killed and restarted, one is cut off
//! from the servers, and one changes its data. Fails if a process joins before the session of its
//! previous run has ended, or considers itself a member after other processes have seen it leave.
//!
//! The first process starts the members, and watches the group without being a member. Each member
//! has a separate proxy between itself and the servers.
//!
//! ```console
//! cargo run --example members
//! ```

use std::process::Stdio;
use std::time::{Duration, Instant};

use curator_examples::{Ensemble, Failure, builder};
use curator_recipes::{CacheEvent, CachedNode, CuratorCache, GroupMember, PersistentNodeState};
use curator_test::{Direction, FaultProxy};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, stdin};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

const PATH: &str = "/curator-examples/members";
/// The first argument of a member; its id, its data, and the connect string follow.
const MEMBER: &str = "member";
/// Short, to keep the example short: a dead process stays a member until its session expires.
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);
/// The limit of each wait.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

const BELONGS: &str = "I belong to the group";
const TAKEN: &str = "my id is taken by session ";
const UNKNOWN: &str = "I do not know whether I belong to the group";

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match &*arguments {
        [role, id, data, connect_string] if role == MEMBER => {
            belong(id, data, connect_string).await
        }
        _ => watch().await,
    }
}

/// Runs a member of the group until its standard input ends. Each line of the input becomes the
/// member's data.
async fn belong(id: &str, data: &str, connect_string: &str) -> Result<(), Failure> {
    // The kernel kills this process when the first process dies.
    #[cfg(target_os = "linux")]
    set_parent_process_death_signal(Some(Signal::KILL))?;

    let client = builder(connect_string)
        .session_timeout(SESSION_TIMEOUT)
        .start()?;
    let member = GroupMember::builder(&client, PATH, id)?.data(data).start();
    let mut state = member.node().state();
    let mut events = member.members().events();
    let mut input = BufReader::new(stdin()).lines();
    loop {
        tokio::select! {
            changed = state.changed() => {
                changed?;
                match state.get_and_update() {
                    PersistentNodeState::Present { .. } => print_line(BELONGS),
                    PersistentNodeState::Foreign { owner, .. } => print_line(&format!("{TAKEN}{owner:#x}")),
                    PersistentNodeState::Unknown => print_line(UNKNOWN),
                    _ => {}
                }
            }
            event = events.next() => match event.ok_or("the group member has ended")? {
                CacheEvent::Created(other) => print_line(&format!("{} joined: {}", id_of(&other), text(other.data()))),
                CacheEvent::Changed { new, .. } => print_line(&format!("{} is now {}", id_of(&new), text(new.data()))),
                CacheEvent::Deleted(other) => print_line(&format!("{} left", id_of(&other))),
                _ => {}
            },
            line = input.next_line() => match line? {
                Some(data) => member.node().set_data(data).await?,
                None => break,
            },
        }
    }
    member.close().await?;
    client.close().await?;
    Ok(())
}

fn id_of(member: &CachedNode) -> &str {
    member.path().name()
}

fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

/// Prints a line with a timestamp of a clock that all processes share, because the first process
/// may read the lines of two processes in the wrong order.
fn print_line(line: &str) {
    let now = clock_gettime(ClockId::Monotonic);
    println!("{}.{:09} {line}", now.tv_sec, now.tv_nsec);
}

/// The first process: starts the members, and injects the faults.
async fn watch() -> Result<(), Failure> {
    let ensemble = Ensemble::find().await?;
    let client = builder(ensemble.connect_string()).connect().await?;
    // A cache watches the group without joining it, unlike a `GroupMember`.
    let group = CuratorCache::builder(&client, PATH)?
        .children_only()
        .start()?;
    let (lines, printed) = mpsc::unbounded_channel();
    let mut stage = Stage {
        printed,
        heard: Vec::new(),
    };

    let mut a = Process::start("a", "first run", &ensemble, lines.clone())?;
    stage.until("a", BELONGS).await?;
    let b = Process::start("b", "10.0.0.2", &ensemble, lines.clone())?;
    let mut c = Process::start("c", "10.0.0.3", &ensemble, lines.clone())?;
    stage.until("c", BELONGS).await?;
    for member in ["a", "b", "c"] {
        stage.until(member, "c joined").await?;
    }
    stage.show();
    wait_for_members(&group, &["a", "b", "c"]).await?;

    stage.scene("a is killed, and started again at once, with the same id.");
    let since = Instant::now();
    a.process.start_kill()?;
    a = Process::start("a", "second run", &ensemble, lines.clone())?;
    stage.until("a", TAKEN).await?;
    stage.until("a", BELONGS).await?;
    let ended_after = since.elapsed().as_secs_f64();
    for member in ["a", "b", "c"] {
        stage.until(member, "a joined: second run").await?;
    }
    stage.show();
    println!("The session of its first run had ended after {ended_after:.1} s.");

    stage.scene("c changes its data.");
    c.send("draining").await?;
    for member in ["a", "b", "c"] {
        stage.until(member, "c is now draining").await?;
    }
    stage.show();

    stage.scene("b is cut off: nothing gets through between it and the servers, and its connection looks open.");
    let mut events = group.events();
    b.network.black_hole(Direction::Both);
    let unknown_at = stage.until("b", UNKNOWN).await?;
    while !matches!(next(&mut events).await?, CacheEvent::Deleted(member) if id_of(&member) == "b")
    {
    }
    let left_at = stage.until("c", "b left").await?;
    if unknown_at > left_at {
        return Err(format!(
            "b considered itself a member until {unknown_at}, and others saw it leave at {left_at}"
        )
        .into());
    }
    b.network.heal();
    stage.until("b", BELONGS).await?;
    for member in ["a", "c"] {
        stage.until(member, "b joined").await?;
    }
    stage.show();
    println!(
        "b reported an unknown membership {:.1} s before the others saw it leave.",
        left_at - unknown_at
    );
    wait_for_members(&group, &["a", "b", "c"]).await?;

    stage.scene("All are asked to end.");
    for mut process in [a, b, c] {
        drop(process.process.stdin.take());
        tokio::time::timeout(DEFAULT_TIMEOUT, process.process.wait()).await??;
    }
    wait_for_members(&group, &[]).await?;
    println!("The group is empty.");
    group.close().await?;
    client.close().await?;
    println!("No process considered itself a member after others had seen it leave.");
    Ok(())
}

/// Waits until the group has exactly these members.
async fn wait_for_members(group: &CuratorCache, wanted: &[&str]) -> Result<(), Failure> {
    let mut state = group.state();
    let waiting = async {
        loop {
            let members = group.caught_up().await?;
            let ids: Vec<_> = members.iter().map(id_of).collect();
            if ids == wanted {
                println!("The group: {ids:?}");
                return Ok(());
            }
            // Changes may still arrive, so the members are read again soon.
            drop(tokio::time::timeout(Duration::from_millis(20), state.changed()).await);
        }
    };
    tokio::time::timeout(DEFAULT_TIMEOUT, waiting).await?
}

async fn next(events: &mut curator_recipes::CacheEvents) -> Result<CacheEvent, Failure> {
    let event = tokio::time::timeout(DEFAULT_TIMEOUT, events.next()).await?;
    Ok(event.ok_or("the cache has ended")?)
}

/// The lines of all members in the current scene, in the order of their arrival.
struct Stage {
    printed: mpsc::UnboundedReceiver<(&'static str, String)>,
    heard: Vec<(&'static str, String)>,
}

impl Stage {
    fn scene(&mut self, what: &str) {
        println!("\n{what}");
        self.heard.clear();
    }

    /// Reads the lines of all members until `who` has printed a line that begins with `what` in
    /// this scene. Returns the timestamp of this line.
    async fn until(&mut self, who: &str, what: &str) -> Result<f64, Failure> {
        loop {
            for (id, line) in &self.heard {
                let (at, line) = line.split_once(' ').ok_or("a line without a time")?;
                if *id == who && line.starts_with(what) {
                    return Ok(at.parse()?);
                }
            }
            let Ok(line) = tokio::time::timeout(DEFAULT_TIMEOUT, self.printed.recv()).await else {
                self.show();
                return Err(format!("{who} has not printed \"{what}\"").into());
            };
            self.heard.push(line.ok_or("all members have ended")?);
        }
    }

    /// Prints the lines of this scene: first a's, then b's, then c's.
    fn show(&mut self) {
        // The sort is stable, so the lines of each member stay in their order.
        self.heard.sort_by_key(|(id, _)| *id);
        for (id, line) in self.heard.drain(..) {
            println!(
                "{id}: {}",
                line.split_once(' ').map_or(&*line, |(_, line)| line)
            );
        }
    }
}

/// The first process's handle to a member. Dropping it kills the member.
struct Process {
    process: Child,
    network: FaultProxy,
}

impl Process {
    fn start(
        id: &'static str,
        data: &str,
        ensemble: &Ensemble,
        lines: mpsc::UnboundedSender<(&'static str, String)>,
    ) -> Result<Self, Failure> {
        let (network, connect_string) = ensemble.proxy()?;
        let mut process = Command::new(std::env::current_exe()?)
            .args([MEMBER, id, data, &connect_string])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut printed =
            BufReader::new(process.stdout.take().ok_or("a member has no output")?).lines();
        tokio::spawn(async move {
            while let Ok(Some(line)) = printed.next_line().await {
                if lines.send((id, line)).is_err() {
                    break;
                }
            }
        });
        Ok(Self { process, network })
    }

    /// Sends a line to the process.
    async fn send(&mut self, line: &str) -> Result<(), Failure> {
        let input = self.process.stdin.as_mut().ok_or("a member has no input")?;
        Ok(input.write_all(format!("{line}\n").as_bytes()).await?)
    }
}
