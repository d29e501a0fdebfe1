//! Runs all cases in all environments, and shows the progress on standard error.

use std::path::PathBuf;
use std::time::Duration;

use curator_results::bench::{Document, EnvironmentResults};
use curator_test::ServerKind;
use indicatif::{ProgressBar, ProgressStyle};

use crate::about::about;
use crate::case::Case;
use crate::environment::EnvironmentKind;
use crate::peer::{Peer, prepare};
use crate::turns::Bench;

/// The options of a run.
#[derive(Debug)]
pub(crate) struct Options {
    /// This program, which is also the worker for our client.
    pub(crate) program: PathBuf,
    /// The clients, including ours.
    pub(crate) peers: Vec<Peer>,
    pub(crate) cases: Vec<Case>,
    pub(crate) environments: Vec<EnvironmentKind>,
    pub(crate) kind: ServerKind,
    /// The directory for the data of ensembles.
    pub(crate) disk: PathBuf,
    pub(crate) rounds: u32,
    /// The length of a peer's run in one round.
    pub(crate) time: Duration,
    /// How long a peer may take in one round.
    pub(crate) limit: Duration,
    /// Whether the cases were named on the command line. Named cases run in all environments.
    pub(crate) is_selection: bool,
}

/// Runs all cases. Calls `save` with the document after each case.
pub(crate) async fn run(
    options: &Options,
    mut save: impl FnMut(&Document) -> anyhow::Result<()>,
) -> anyhow::Result<Document> {
    let is_real = |environment: &EnvironmentKind| {
        options.kind == ServerKind::Real || matches!(environment, EnvironmentKind::Ensemble(_))
    };
    let prepared = prepare(&options.peers, options.environments.iter().any(is_real))?;
    let mut document = Document {
        about: about(&options.peers, &prepared),
        environments: Vec::new(),
    };
    let bench = Bench {
        options,
        prepared,
        progress: Progress::new(options.environments.len() * options.cases.len()),
    };
    for (number, kind) in options.environments.iter().enumerate() {
        let is_first = number == 0;
        let environment = match kind.start(options.kind, &options.disk).await {
            Ok(environment) => environment,
            // The results of earlier environments are kept.
            Err(error) if !is_first => {
                document.environments.push(EnvironmentResults {
                    name: kind.to_string(),
                    description: format!("its servers could not be started: {error:#}"),
                    left_out: Vec::new(),
                    cases: Vec::new(),
                });
                continue;
            }
            Err(error) => return Err(error),
        };
        document.environments.push(EnvironmentResults {
            name: environment.name.clone(),
            description: environment.description.clone(),
            left_out: if is_first || options.is_selection {
                Vec::new()
            } else {
                left_out(options)
            },
            cases: Vec::new(),
        });
        if is_real(kind) && options.time >= Duration::from_secs(1) {
            bench.warm_server(&environment).await;
        }
        for case in &options.cases {
            let Some(results) = bench.run(case, &environment, is_first).await else {
                continue;
            };
            if let Some(environment) = document.environments.last_mut() {
                environment.cases.push(results);
            }
            save(&document)?;
        }
    }
    bench.progress.finish();
    Ok(document)
}

/// The cases that run only in the first environment. A case that only some peers leave out
/// elsewhere is listed with the names of these peers.
fn left_out(options: &Options) -> Vec<String> {
    let mut left_out = Vec::new();
    for case in &options.cases {
        let missing: Vec<_> = options
            .peers
            .iter()
            .filter(|peer| case.is_for(**peer))
            .filter(|peer| !case.is_for_slow_round_trips(**peer))
            .map(ToString::to_string)
            .collect();
        if !case.is_for_slow_round_trips(Peer::Ours) {
            left_out.push(case.name.clone());
        } else if !missing.is_empty() {
            left_out.push(format!("{} of {}", case.name, missing.join(" and ")));
        }
    }
    left_out
}

/// A bar with a step for each case; if standard error is not a terminal, a line for each case.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(steps: usize) -> Self {
        let bar = ProgressBar::new(steps as u64);
        let style =
            ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {pos}/{len} {wide_msg}");
        // The default style is the fallback for a malformed template.
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_secs(1));
        Self(bar)
    }

    pub(crate) fn show(&self, environment: &str, case: &str, peer: Peer, what: &str) {
        self.0
            .set_message(format!("{environment}: {case}: {peer} {what}"));
    }

    pub(crate) fn done(&self, environment: &str, case: &str) {
        self.0.inc(1);
        if self.0.is_hidden() {
            eprintln!(
                "{environment}: {case} is done, {} of {}",
                self.0.position(),
                self.0.length().unwrap_or(0)
            );
        }
    }

    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
