//! Eight shards, divided among three processes. One process is killed, one joins, and one is
//! drained. Prints who serves which shard after each change, and fails if two processes serve one
//! shard at the same time.
//!
//! The first process starts the members, and collects what they report. With `--svg`, it also draws
//! a picture: that of the page `docs/shards.md`.
//!
//! ```console
//! cargo run --example shards
//! cargo run --example shards -- --svg docs/shards.svg
//! ```

#[path = "shards/history.rs"]
mod history;
#[path = "shards/picture.rs"]
mod picture;

use std::process::Stdio;
use std::time::Duration;

use curator_examples::{Ensemble, Failure, builder};
use curator_recipes::{Leadership, ShardAssignment, Shards};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, stdin};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use self::history::History;

const PATH: &str = "/curator-examples/shards";
const SHARDS: usize = 8;
/// The first argument of a member; its id and the connect string follow.
const MEMBER: &str = "member";
/// Short, to keep the example short: a killed member is absent only after its session has expired.
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);
/// Short, too: a restarted process would have this long to return to its shards.
const RESERVE_FOR: Duration = Duration::from_secs(1);
/// The limit of each wait.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long nothing changes before the map is printed, and between two scenes.
const QUIET: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match &*arguments {
        [role, id, connect_string] if role == MEMBER => serve(id, connect_string).await,
        [] => coordinate(None).await,
        [option, file] if option == "--svg" => coordinate(Some(file)).await,
        _ => Err("the only option is `--svg FILE`".into()),
    }
}

/// A member: serves its shards until its standard input ends.
async fn serve(id: &str, connect_string: &str) -> Result<(), Failure> {
    // The kernel kills this process when the first process dies.
    #[cfg(target_os = "linux")]
    set_parent_process_death_signal(Some(Signal::KILL))?;

    let client = builder(connect_string)
        .session_timeout(SESSION_TIMEOUT)
        .start()?;
    let assignment = ShardAssignment::builder(&client, PATH, id, Shards::Count(SHARDS))?
        .reserve_for(RESERVE_FOR)
        .build();
    let shutdown = async { stdin().read_to_end(&mut Vec::new()).await };
    assignment.run(job, shutdown).await?;
    client.close().await?;
    Ok(())
}

/// The job of a shard.
async fn job(shard: String, lease: Leadership) -> Result<(), Failure> {
    report(&format!("serves {shard} {}", lease.fencing_token()));
    let _end = ReportsEndOnDrop(shard);
    // A member would work here, and use the token in each write.
    lease.shutdown_requested().await;
    Ok(())
}

/// The job's future is dropped if the lease is lost.
struct ReportsEndOnDrop(String);

impl Drop for ReportsEndOnDrop {
    fn drop(&mut self) {
        report(&format!("ends {}", self.0));
    }
}

/// Prints a line for the first process, with a timestamp of a clock that all processes share,
/// because the first process may read the lines of two processes in the wrong order.
fn report(line: &str) {
    println!("{:.9} {line}", now());
}

fn now() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// The first process: starts, kills and drains the members.
async fn coordinate(svg: Option<&str>) -> Result<(), Failure> {
    let ensemble = Ensemble::find().await?;
    let (reports, reported) = mpsc::unbounded_channel();
    let start = |id| Member::start(id, &ensemble, reports.clone());
    let mut stage = Stage::new(reported);

    println!("\na, b and c start. Each line shows who serves which shard.");
    let a = start("a")?;
    let mut b = start("b")?;
    let c = start("c")?;
    stage.until_divided(&["a", "b", "c"]).await?;

    stage
        .scene("b is killed", "Its shards stay reserved, and then move.")
        .await?;
    b.process.start_kill()?;
    stage.until_divided(&["a", "c"]).await?;

    stage.scene("d joins", "Only what it gets moves.").await?;
    let d = start("d")?;
    stage.until_divided(&["a", "c", "d"]).await?;

    stage
        .scene("c is drained", "It hands its shards over, and ends.")
        .await?;
    c.end().await?;
    stage.until_divided(&["a", "d"]).await?;

    stage.pause().await?;
    if let Some(file) = svg {
        let svg = picture::draw(&stage.history, &stage.shards, &stage.marks, now());
        std::fs::write(file, svg)?;
    }

    println!("\na and d are asked to end, too.");
    a.end().await?;
    d.end().await?;
    drop(reports);
    stage.until_all_have_ended().await?;
    stage.history.check(&stage.shards)?;
    println!("No shard was served by two members at the same time.");
    Ok(())
}

/// What a member reports: a line, or `None` when its process has ended.
type Report = (&'static str, Option<String>);

/// Follows the members.
struct Stage {
    reported: mpsc::UnboundedReceiver<Report>,
    history: History,
    shards: Vec<String>,
    started: f64,
    /// The last map that was printed.
    printed: String,
    /// When the current scene began.
    since: f64,
    /// The beginnings of the scenes, for the picture.
    marks: Vec<(f64, String)>,
}

impl Stage {
    fn new(reported: mpsc::UnboundedReceiver<Report>) -> Self {
        Self {
            reported,
            history: History::default(),
            shards: (0..SHARDS).map(|shard| shard.to_string()).collect(),
            started: now(),
            printed: String::new(),
            since: now(),
            marks: Vec::new(),
        }
    }

    async fn scene(&mut self, what: &str, explained: &str) -> Result<(), Failure> {
        self.pause().await?;
        println!("\n{what}. {explained}");
        self.since = now();
        self.marks.push((self.since, what.to_owned()));
        Ok(())
    }

    /// Waits for a time in which nothing changes, so that the picture is easy to read.
    async fn pause(&mut self) -> Result<(), Failure> {
        while let Ok(report) = tokio::time::timeout(PAUSE, self.reported.recv()).await {
            self.take(report)?;
            self.print_map(now());
        }
        Ok(())
    }

    /// Prints the map after each change, until exactly these members serve all shards, and each has
    /// its part.
    async fn until_divided(&mut self, members: &[&str]) -> Result<(), Failure> {
        loop {
            let report = tokio::time::timeout(DEFAULT_TIMEOUT, self.reported.recv()).await?;
            let mut at = self.take(report)?;
            // One change of the plan moves several shards.
            while let Ok(report) = tokio::time::timeout(QUIET, self.reported.recv()).await {
                at = self.take(report)?.max(at);
            }
            self.print_map(at);
            let map = self.history.map();
            let parts: Vec<_> = map.values().map(Vec::len).collect();
            let is_even = parts.iter().max() <= parts.iter().min().map(|part| part + 1).as_ref();
            let served: usize = parts.iter().sum();
            if map.keys().eq(members) && is_even && served == self.shards.len() {
                break;
            }
        }
        let gaps = self.history.gaps(&self.shards, self.since);
        if let Some(longest) = gaps.iter().copied().reduce(f64::max) {
            println!(
                "{} shards moved. Each was not served for at most {longest:.3} s.",
                gaps.len()
            );
        }
        Ok(())
    }

    async fn until_all_have_ended(&mut self) -> Result<(), Failure> {
        while let Some(report) = tokio::time::timeout(DEFAULT_TIMEOUT, self.reported.recv()).await?
        {
            self.take(Some(report))?;
        }
        self.print_map(now());
        Ok(())
    }

    /// Takes a report into the history. Returns its time.
    fn take(&mut self, report: Option<Report>) -> Result<f64, Failure> {
        let (member, line) = report.ok_or("no member can report any more")?;
        let Some(line) = line else {
            let at = now();
            self.history.dies(member, at);
            return Ok(at);
        };
        let mut words = line.split(' ');
        let at: f64 = words.next().ok_or("an empty line")?.parse()?;
        match (words.next(), words.next(), words.next()) {
            (Some("serves"), Some(shard), Some(token)) => {
                self.history.begins(member, shard, token.parse()?, at);
            }
            (Some("ends"), Some(shard), None) => self.history.ends(member, shard, at),
            _ => return Err(format!("{member} has printed \"{line}\"").into()),
        }
        Ok(at)
    }

    /// Prints who serves which shard, if that has changed.
    fn print_map(&mut self, at: f64) {
        let map = self.history.map();
        let members = map.iter().map(|(member, shards)| (*member, shards.clone()));
        let unserved = self.shards.iter().map(String::as_str);
        let unserved = unserved.filter(|shard| map.values().all(|shards| !shards.contains(shard)));
        let text: String = members
            .chain([("not served", unserved.collect())])
            .filter(|(_, shards)| !shards.is_empty())
            .map(|(who, shards)| format!("  {who}: {}", shards.join(" ")))
            .collect();
        if text != self.printed {
            println!("{:5.2} s{text}", at - self.started);
            self.printed = text;
        }
    }
}

/// The first process's handle to a member. Dropping it kills the member.
struct Member {
    process: Child,
}

impl Member {
    fn start(
        id: &'static str,
        ensemble: &Ensemble,
        reports: mpsc::UnboundedSender<Report>,
    ) -> Result<Self, Failure> {
        let mut process = Command::new(std::env::current_exe()?)
            .args([MEMBER, id, ensemble.connect_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = process.stdout.take().ok_or("a member has no output")?;
        let mut lines = BufReader::new(output).lines();
        tokio::spawn(async move {
            loop {
                let line = lines.next_line().await.ok().flatten();
                let is_end = line.is_none();
                if reports.send((id, line)).is_err() || is_end {
                    break;
                }
            }
        });
        Ok(Self { process })
    }

    /// Closes the member's standard input, which ends its run, and waits until it has ended.
    async fn end(mut self) -> Result<(), Failure> {
        drop(self.process.stdin.take());
        let status = tokio::time::timeout(DEFAULT_TIMEOUT, self.process.wait()).await??;
        if status.success() {
            Ok(())
        } else {
            Err(format!("a member has failed: {status}").into())
        }
    }
}
