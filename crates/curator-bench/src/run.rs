//! Conducts a run: plays all cases everywhere, the peers in turns.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use curator_test::ServerKind;
use tokio::time::{Instant, timeout};

use crate::about::about;
use crate::case::{Case, Kind, warm_up};
use crate::document::{CaseResults, Counts, Document, PeerResults, PlaceResults};
use crate::error::BenchError;
use crate::peer::{Peer, Prepared};
use crate::place::{Place, Wanted};
use crate::player::{Player, Purpose};
use crate::prepare::prepare;
use crate::progress::Progress;
use crate::protocol::{Act, Play};

/// What takes longer is not repeated.
const ONCE: Duration = Duration::from_secs(20);
/// How long all processes of a case may take to start. Sixty-four virtual machines on two cores need most of it.
const START: Duration = Duration::from_secs(180);

/// What is to be run.
#[derive(Debug)]
pub(crate) struct Options {
    /// This one, which is the worker for our client too.
    pub(crate) program: PathBuf,
    /// With ours among them.
    pub(crate) peers: Vec<Peer>,
    pub(crate) cases: Vec<Case>,
    pub(crate) places: Vec<Wanted>,
    pub(crate) kind: ServerKind,
    /// Where ensembles have their data.
    pub(crate) disk: PathBuf,
    pub(crate) rounds: u32,
    /// Of a round.
    pub(crate) time: Duration,
    /// Of one play of one peer.
    pub(crate) limit: Duration,
}

/// Runs everything. `saved` gets the document whenever a case is done.
pub(crate) async fn run(
    options: &Options,
    mut saved: impl FnMut(&Document) -> Result<(), BenchError>,
) -> Result<Document, BenchError> {
    let prepared = prepare(&options.peers, options.kind)?;
    let mut document = Document { about: about(&options.peers, &prepared), places: Vec::new() };
    let stage = Stage { options, prepared, progress: Progress::new(options.places.len() * options.cases.len()) };
    for (number, wanted) in options.places.iter().enumerate() {
        let place = wanted.start(options.kind, &options.disk).await?;
        let (name, description) = (place.name.clone(), place.description.clone());
        document.places.push(PlaceResults { name, description, cases: Vec::new() });
        for case in &options.cases {
            // What is sent does not depend on the place.
            let results = stage.play(case, &place, number == 0).await;
            if let Some(place) = document.places.last_mut() {
                place.cases.push(results);
            }
            saved(&document)?;
        }
    }
    stage.progress.finish();
    Ok(document)
}

/// What all cases need.
struct Stage<'a> {
    options: &'a Options,
    prepared: Prepared,
    progress: Progress,
}

/// A peer in a case: what is known of it, and what plays on.
struct Part {
    results: PeerResults,
    player: Option<Player>,
}

impl Stage<'_> {
    /// Plays one case: all peers warm up, and then take turns.
    async fn play(&self, case: &Case, place: &Place, counts: bool) -> CaseResults {
        let mut parts = Vec::new();
        for peer in &self.options.peers {
            self.progress.tell(&place.name, &case.name, *peer, "starts");
            let mut part = Part { results: PeerResults::new(*peer), player: None };
            match self.warm(*peer, case, place).await {
                Ok(player) => part.player = Some(player),
                Err(error) => part.results.note = Some(error.to_string()),
            }
            parts.push(part);
        }
        let play = self.timed(&case.play, &format!("/bench/{case}"));
        for round in 1..=self.options.rounds {
            for part in &mut parts {
                self.progress.tell(&place.name, &case.name, part.results.peer, &format!("round {round}"));
                self.round(part, &play).await;
            }
        }
        for part in &mut parts {
            if let Some(player) = part.player.take() {
                player.end().await;
            }
            // In several processes it is the same, and a reconnect has been counted.
            let is_counted = counts && case.processes == 1 && case.play.act != Act::Reconnect;
            if is_counted && !part.results.rounds.is_empty() {
                self.progress.tell(&place.name, &case.name, part.results.peer, "is counted");
                match self.count(part.results.peer, case, place).await {
                    Ok(counts) => part.results.counts = Some(counts),
                    Err(error) => part.results.counts_note = Some(error.to_string()),
                }
            }
        }
        self.progress.done(&place.name, &case.name);
        CaseResults {
            name: case.name.clone(),
            title: case.title(),
            is_crowd: case.kind() == Kind::Crowd,
            peers: parts.into_iter().map(|part| part.results).collect(),
        }
    }

    /// Starts a peer, and lets it play once for nothing.
    async fn warm(&self, peer: Peer, case: &Case, place: &Place) -> Result<Player, BenchError> {
        let mut player = self.start(peer, case, place, Purpose::Time).await?;
        let play = path_of(self.timed(&warm_up(&case.play), &format!("/bench/{case}-warm")), peer);
        self.limited(player.play(&play)).await?;
        player.is_warm();
        Ok(player)
    }

    async fn start(&self, peer: Peer, case: &Case, place: &Place, purpose: Purpose) -> Result<Player, BenchError> {
        let worker: Command = peer.command(&self.options.program, &self.prepared)?;
        let start = Player::start(&self.options.program, &worker, case, place, purpose);
        timeout(START, start).await.unwrap_or(Err(BenchError::TooLong(START)))
    }

    /// One turn. A peer that fails plays no more.
    async fn round(&self, part: &mut Part, play: &Play) {
        let Some(mut player) = part.player.take() else { return };
        let begin = Instant::now();
        match self.limited(player.play(&path_of(play.clone(), part.results.peer))).await {
            Ok(round) => {
                part.results.rounds.push(round);
                if begin.elapsed() > ONCE.max(self.options.time * 3) {
                    part.results.note =
                        Some(format!("a round takes {:.0} s, and is not repeated", begin.elapsed().as_secs_f64()));
                    player.end().await;
                } else {
                    part.player = Some(player);
                }
            }
            Err(error) => part.results.note = Some(error.to_string()),
        }
    }

    async fn count(&self, peer: Peer, case: &Case, place: &Place) -> Result<Counts, BenchError> {
        let mut player = self.start(peer, case, place, Purpose::Count).await?;
        let play = path_of(self.timed(&case.play, &format!("/bench/{case}")), peer);
        let counts = self.limited(player.count(&play, case)).await?;
        player.end().await;
        Ok(counts)
    }

    fn timed(&self, play: &Play, path: &str) -> Play {
        Play { time: self.options.time, path: path.to_owned(), ..play.clone() }
    }

    async fn limited<T>(&self, play: impl Future<Output = Result<T, BenchError>>) -> Result<T, BenchError> {
        timeout(self.options.limit, play).await.unwrap_or(Err(BenchError::TooLong(self.options.limit)))
    }
}

/// Locks of different clients do not share a path: their nodes mean different things.
fn path_of(play: Play, peer: Peer) -> Play {
    Play { path: format!("{}/{peer}", play.path), ..play }
}

/// Where temporary files are, which is a disk on most machines.
pub(crate) fn default_disk() -> PathBuf {
    std::env::temp_dir()
}
