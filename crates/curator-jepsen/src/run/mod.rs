//! Conducts a run: starts all processes, runs one nemesis after the other, measures the recovery,
//! and checks the histories of the clients.

mod about;
mod recovery;
mod schedule;

pub use self::about::{curator_version, kazoo_version, locked_version, today, versions};
pub use self::schedule::Choice;
pub use crate::scene::Cast;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum;
use fastrand::Rng;
use tempfile::TempDir;
use tokio::time::Instant;

use self::schedule::Schedule;
use crate::history::{CACHE, CounterKind, SERVICE, SHARDS};
use crate::nemesis::{Nemesis, Strike};
use crate::peer::Peer;
use crate::report::{self, Final, Report};
use crate::scene::{SESSION_TIMEOUT, Scene, now};
use crate::work::Part;

/// The options of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The participants.
    pub cast: Cast,
    /// For how long faults are injected. The run takes longer, as it also starts and ends all
    /// processes.
    pub duration: Duration,
    /// The nemeses.
    pub nemeses: Vec<Choice>,
    /// The directory for the histories: empty, or to be created. `None` means a temporary one,
    /// which is kept unless the run was clean.
    pub directory: Option<PathBuf>,
}

/// Conducts a run, and reports its progress on standard output.
///
/// Must be called on a thread that lives as long as the run, and on a runtime of that thread: the
/// client processes are killed when the thread that has started them ends.
///
/// # Errors
///
/// When the run cannot be completed. Violations are not returned as errors, but in the report.
///
/// # Cancel safety
///
/// All processes are killed when the future is dropped.
pub async fn run(options: &Options) -> anyhow::Result<Report> {
    let directory = Directory::prepare(options.directory.as_deref())?;
    println!(
        "seed {}, in {}",
        options.cast.seed,
        directory.path().display()
    );
    let conducted = conduct(options, directory.path()).await;
    // The files of a failed run are kept, as the histories may explain the failure.
    directory.close(conducted.as_ref().is_ok_and(Report::is_clean))?;
    conducted
}

async fn conduct(options: &Options, directory: &Path) -> anyhow::Result<Report> {
    let cast = &options.cast;
    let versions = versions(&cast.peers);
    let replaces_servers = options.nemeses.contains(&Choice::One(Nemesis::Reconfig));
    check_combination(&options.nemeses, &cast.peers)?;
    let scene = Scene::start(cast, directory, replaces_servers).await?;
    let about = about::about(options, versions, &scene).await;
    let began = Instant::now();
    let recovery = strike(&scene, options).await?;
    scene
        .wait_and_check(options.duration.saturating_sub(began.elapsed()))
        .await?;
    let left = scene.finish().await?;
    if cast.counters {
        scene.record_counters().await?;
    }
    let counters = CounterKind::value_variants()
        .iter()
        .filter(|_| cast.counters)
        .map(|kind| kind.key().to_owned());
    let caches = cast.caches.then(|| CACHE.to_owned());
    let services = cast.services.then(|| SERVICE.to_owned());
    let shards = cast.shards.then(|| SHARDS.to_owned());
    let end = Final {
        sets: scene.sets().await?,
        about,
        parts: cast
            .parts
            .iter()
            .map(Part::key)
            .chain(caches)
            .chain(services)
            .chain(shards)
            .chain(counters)
            .collect(),
        recovery,
        left: Some(left),
    };
    end.write(directory)
        .context("cannot write the final results of the run")?;
    scene.journal.print("checking");
    let report = report::check_directory(directory)?;
    println!("\n{}", report.text());
    Ok(report)
}

/// Refuses what cannot work beside a nemesis that replaces the servers.
fn check_combination(nemeses: &[Choice], peers: &[Peer]) -> anyhow::Result<()> {
    if !nemeses.contains(&Choice::One(Nemesis::Reconfig)) {
        return Ok(());
    }
    for choice in nemeses {
        let problem = match choice {
            Choice::All => "its nemeses cut servers off from each other, and start clients again",
            Choice::One(nemesis) if nemesis.isolates_servers() => {
                "it cuts servers off from each other, which is not possible in such an ensemble"
            }
            Choice::One(Nemesis::KillClient | Nemesis::ClockRate) => {
                "it starts clients again, which then know only the first members"
            }
            Choice::One(_) | Choice::Mixed | Choice::None => continue,
        };
        bail!("reconfig cannot be combined with {choice}: {problem}");
    }
    let unable = peers
        .iter()
        .find(|peer| matches!(peer, Peer::Kazoo | Peer::KazooCaches | Peer::KazooCounters));
    ensure!(
        unable.is_none(),
        "reconfig cannot be combined with the peer kazoo, which does not follow the ensemble"
    );
    Ok(())
}

/// Runs one nemesis after the other, until the duration of the run has elapsed.
async fn strike(scene: &Scene, options: &Options) -> anyhow::Result<Vec<report::Recovery>> {
    let Some(mut schedule) = Schedule::new(&options.nemeses, options.cast.seed) else {
        return Ok(Vec::new());
    };
    let end = Instant::now() + options.duration;
    let mut recovery = Vec::new();
    // Even the shortest run has one strike.
    while recovery.is_empty() || Instant::now() + 2 * SESSION_TIMEOUT < end {
        let (nemeses, seed) = schedule.next();
        let mut seeds = Rng::with_seed(seed);
        // The names are sorted, so that a pair has the same name in either order.
        let names: BTreeSet<String> = nemeses.iter().map(ToString::to_string).collect();
        let name = names.into_iter().collect::<Vec<_>>().join(" + ");
        let mut strikes = nemeses
            .iter()
            .map(|nemesis| Strike::new(scene, *nemesis, seeds.u64(..)).run());
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

/// The directory of a run, which is empty at first.
#[derive(Debug)]
enum Directory {
    /// The directory that the user has chosen.
    Given(PathBuf),
    /// A temporary directory. Dropping this value deletes it.
    Temporary(TempDir),
}

impl Directory {
    /// Creates the directory if it is missing.
    fn prepare(given: Option<&Path>) -> anyhow::Result<Self> {
        let Some(directory) = given else {
            return Ok(Self::Temporary(
                tempfile::Builder::new()
                    .prefix("curator-jepsen-")
                    .tempdir()?,
            ));
        };
        let failed = || format!("cannot use the directory {}", directory.display());
        fs::create_dir_all(directory).with_context(failed)?;
        // Existing files would be checked together with the run.
        let is_empty = fs::read_dir(directory)
            .with_context(failed)?
            .next()
            .is_none();
        ensure!(is_empty, "{} is not empty", directory.display());
        // The path is absolute, because other processes may have another working directory.
        Ok(Self::Given(directory.canonicalize().with_context(failed)?))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Temporary(directory) => directory.path(),
        }
    }

    /// Deletes a temporary directory after a clean run; otherwise prints its path.
    fn close(self, is_clean: bool) -> anyhow::Result<()> {
        let kept = match self {
            Self::Temporary(directory) if is_clean => return Ok(directory.close()?),
            Self::Temporary(directory) => directory.keep(),
            Self::Given(path) => path,
        };
        println!("the files of the run are in {}", kept.display());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_beside_reconfig_is_refused() {
        let reconfig = Choice::One(Nemesis::Reconfig);
        let refused =
            |choice: Choice, peers: &[Peer]| check_combination(&[reconfig, choice], peers).is_err();
        for nemesis in Nemesis::value_variants() {
            let is_refused = nemesis.isolates_servers()
                || matches!(nemesis, Nemesis::KillClient | Nemesis::ClockRate);
            let choice = Choice::One(*nemesis);
            assert_eq!(refused(choice, &[]), is_refused, "{nemesis}");
            let alone = check_combination(&[choice, Choice::Mixed], &[Peer::Kazoo]);
            assert_eq!(alone.is_err(), *nemesis == Nemesis::Reconfig, "{nemesis}");
        }
        assert!(refused(Choice::All, &[]));
        assert!(!refused(Choice::Mixed, &[Peer::Curator]));
    }
}
