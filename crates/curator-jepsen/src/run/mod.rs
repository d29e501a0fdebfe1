//! Conducts a run: starts all processes, runs one nemesis after the other, measures the recovery, and checks the
//! histories of the clients.

mod about;
mod directory;
mod schedule;
mod versions;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use fastrand::Rng;
use tokio::time::Instant;

pub use self::about::today;
pub use self::schedule::Choice;
pub use self::versions::{curator_version, kazoo_version, locked_version, versions};
use self::{directory::Directory, schedule::Schedule};
use crate::history::{CACHE, CounterKind, SERVICE};
use crate::nemesis::Strike;
use crate::peer::Peer;
use crate::recovery;
use crate::report::{self, Final, LeftoverCounts, Leftovers, Report};
pub use crate::scene::RunError;
use crate::scene::{Cast, End, Remains, SESSION_TIMEOUT, Scene, now};
use crate::work::{LockKind, Part, Transport, Variant};

/// The options of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program `curator-jepsen`, to start clients with.
    pub program: PathBuf,
    /// For how long nemeses strike. The run takes longer, as it also starts and ends all processes.
    pub duration: Duration,
    /// The nemeses.
    pub nemeses: Vec<Choice>,
    /// The locks.
    pub locks: Vec<LockKind>,
    /// The variants. Each client works with each lock in each variant, concurrently.
    pub variants: Vec<Variant>,
    /// Whether each client also keeps a cache of nodes that all clients write to.
    pub caches: bool,
    /// Whether each client also increments shared counters.
    pub counters: bool,
    /// Whether each client also registers an instance of a service, and watches the instances of all clients.
    pub services: bool,
    /// The number of our clients.
    pub clients: u32,
    /// Which code speaks ZooKeeper's protocol for our clients.
    pub transport: Transport,
    /// Other ZooKeeper clients that do the same work in addition to ours.
    pub peers: Vec<Peer>,
    /// Determines the random choices of the run, but not the timing of clients and servers.
    pub seed: u64,
    /// The directory for the histories: empty, or to be created. `None` means a temporary one, which is kept unless the
    /// run was clean.
    pub directory: Option<PathBuf>,
}

/// Conducts a run, and reports its progress on standard output.
///
/// Must be called on a thread that lives as long as the run, and on a runtime of that thread: the client processes are
/// killed when the thread that has started them ends.
///
/// # Errors
///
/// When the run cannot be completed. Violations are not returned as errors, but in the report.
///
/// # Cancel safety
///
/// All processes are killed when the future is dropped.
pub async fn run(options: &Options) -> Result<Report, RunError> {
    let directory = Directory::prepare(options.directory.as_deref())?;
    println!("seed {}, in {}", options.seed, directory.path().display());
    let conducted = conduct(options, directory.path()).await;
    // The files of a failed run are kept, as the histories may explain the failure.
    directory.close(conducted.as_ref().is_ok_and(Report::is_clean))?;
    conducted
}

async fn conduct(options: &Options, directory: &Path) -> Result<Report, RunError> {
    let parts = options.locks.iter().flat_map(|lock| {
        let part = |variant: &Variant| Part { lock: *lock, variant: *variant };
        options.variants.iter().map(part)
    });
    let parts: Vec<Part> = parts.collect();
    let cast = Cast {
        program: &options.program,
        directory,
        clients: options.clients,
        transport: options.transport,
        peers: &options.peers,
        parts: &parts,
        caches: options.caches,
        counters: options.counters,
        services: options.services,
        seed: options.seed,
    };
    let versions = versions(&options.peers);
    let scene = Scene::start(&cast).await?;
    let about = about::about(options, versions, &scene);
    let began = Instant::now();
    let recovery = strike(&scene, options).await?;
    scene.wait_and_check(options.duration.saturating_sub(began.elapsed())).await?;
    let End { clients, unclosed, at_rest, at_end } = scene.finish().await?;
    if options.counters {
        scene.record_counters().await?;
    }
    let counted = |remains: Remains| LeftoverCounts { nodes: remains.nodes.len(), watches: remains.watches };
    let left = Leftovers { clients, unclosed, at_rest: counted(at_rest), at_end: counted(at_end) };
    let counters = CounterKind::value_variants().iter().filter(|_| options.counters).map(|kind| kind.key().to_owned());
    let others = [options.caches.then(|| CACHE.to_owned()), options.services.then(|| SERVICE.to_owned())];
    let parts = parts.iter().map(Part::key).chain(others.into_iter().flatten()).chain(counters).collect();
    let end = Final { sets: scene.sets().await?, about, parts, recovery, left: Some(left) };
    end.write(directory).map_err(RunError::io("write the final results of the run"))?;
    scene.journal.say("checking");
    let report = report::check_directory(directory)?;
    println!("\n{}", report.text());
    Ok(report)
}

/// Runs one nemesis after the other, while there is time.
async fn strike(scene: &Scene, options: &Options) -> Result<Vec<report::Recovery>, RunError> {
    let Some(mut schedule) = Schedule::new(&options.nemeses, options.seed) else { return Ok(Vec::new()) };
    let (end, mut recovery) = (Instant::now() + options.duration, Vec::new());
    // Even the shortest run has one strike.
    while recovery.is_empty() || Instant::now() + 2 * SESSION_TIMEOUT < end {
        let (nemeses, seed) = schedule.next();
        let mut seeds = Rng::with_seed(seed);
        // The names are sorted, so that the name of a pair does not depend on the order in which it was drawn.
        let names: BTreeSet<String> = nemeses.iter().map(ToString::to_string).collect();
        let name = names.into_iter().collect::<Vec<_>>().join(" + ");
        let mut strikes = nemeses.iter().map(|nemesis| Strike::new(scene, *nemesis, seeds.u64(..)).run());
        let healed = match (strikes.next(), strikes.next()) {
            (Some(one), Some(other)) => {
                let (one, other) = tokio::join!(Box::pin(one), Box::pin(other));
                one?.max(other?)
            }
            (Some(one), None) => Box::pin(one).await?,
            // A strike has at least one nemesis.
            (None, _) => now(),
        };
        recovery.push(recovery::measure(scene, &name, healed).await?);
        scene.look().await?;
    }
    Ok(recovery)
}
