//! Conducts a run: plays all cases in all places, the peers in turns.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use curator_test::ServerKind;
use tokio::time::{Instant, sleep, timeout};

use crate::about::about;
use crate::case::{Case, Kind, warm_up};
use crate::error::BenchError;
use crate::peer::{Peer, Prepared, Worker as _};
use crate::place::{Place, Wanted};
use crate::player::{Player, Purpose, SESSION_TIMEOUT};
use crate::prepare::prepare;
use crate::progress::Progress;
use crate::protocol::{Act, Lock, Play};
use curator_results::bench::{CaseResults, Counts, Document, Floor, PeerResults, PlaceResults, Round};

/// A round that takes longer is not repeated.
const ONCE: Duration = Duration::from_secs(10);
/// The same for caches, whose rounds include loading a tree.
const ONCE_CACHE: Duration = Duration::from_secs(30);
/// A new server is slow at first, which would distort the first cases only.
const SERVER_WARM_UP: Duration = Duration::from_secs(10);
/// The minimal warm-up of a client with a just-in-time compiler, on a fast server.
const COMPILER_WARM_UP: Duration = Duration::from_secs(8);
/// By how much such a client plays more rounds, in cases that consist of rounds.
const COMPILER_ROUNDS: usize = 5;
/// The warm-up where the network or the disk is the bottleneck.
const FAR_COMPILER_WARM_UP: Duration = Duration::from_secs(3);
/// By how much the limit is extended for Curator's threads that share a lock, whose two minutes should be measured, and
/// for kazoo's cache of 100,000 nodes.
const PATIENCE: u32 = 4;
const MANY_NODES: usize = 100_000;
/// How long a server may take to delete the nodes of a client that was stopped.
const LEFT_BEHIND: Duration = SESSION_TIMEOUT.saturating_add(Duration::from_secs(2));
/// How long all processes of a case may take to start. Sixty-four virtual machines on two cores need most of it.
const START: Duration = Duration::from_secs(180);

/// The options of a run.
#[derive(Debug)]
pub(crate) struct Options {
    /// This program, which is also the worker for our client.
    pub(crate) program: PathBuf,
    /// The clients, including ours.
    pub(crate) peers: Vec<Peer>,
    pub(crate) cases: Vec<Case>,
    pub(crate) places: Vec<Wanted>,
    pub(crate) kind: ServerKind,
    /// The directory for the data of ensembles.
    pub(crate) disk: PathBuf,
    pub(crate) rounds: u32,
    /// The length of a round.
    pub(crate) time: Duration,
    /// The limit of one play of one peer.
    pub(crate) limit: Duration,
    /// Whether the cases were named: then they are played in all places.
    pub(crate) is_selection: bool,
}

/// Runs everything. `saved` is called with the document after each case.
pub(crate) async fn run(
    options: &Options,
    mut saved: impl FnMut(&Document) -> Result<(), BenchError>,
) -> Result<Document, BenchError> {
    let is_real = |place: &Wanted| options.kind == ServerKind::Real || matches!(place, Wanted::Ensemble(_));
    let prepared = prepare(&options.peers, options.places.iter().any(is_real))?;
    let mut document = Document { about: about(&options.peers, &prepared), places: Vec::new() };
    let stage = Stage { options, prepared, progress: Progress::new(options.places.len() * options.cases.len()) };
    for (number, wanted) in options.places.iter().enumerate() {
        let is_first = number == 0;
        let place = match wanted.start(options.kind, &options.disk).await {
            Ok(place) => place,
            // The results of earlier places are kept.
            Err(error) if !is_first => {
                let description = format!("its servers could not be started: {error}");
                let (name, left_out, cases) = (wanted.to_string(), Vec::new(), Vec::new());
                document.places.push(PlaceResults { name, description, left_out, cases });
                continue;
            }
            Err(error) => return Err(error),
        };
        let (name, description) = (place.name.clone(), place.description.clone());
        let left_out = if is_first || options.is_selection { Vec::new() } else { left_out(options) };
        document.places.push(PlaceResults { name, description, left_out, cases: Vec::new() });
        if is_real(wanted) && options.time >= Duration::from_secs(1) {
            stage.warm_server(&place).await;
        }
        for case in &options.cases {
            let Some(results) = stage.play(case, &place, is_first).await else { continue };
            if let Some(place) = document.places.last_mut() {
                place.cases.push(results);
            }
            saved(&document)?;
        }
    }
    stage.progress.finish();
    Ok(document)
}

/// The note on a peer that plays no more. Restarts its server if necessary, which the other peers need.
async fn after(error: &BenchError, place: &Place) -> String {
    match place.revive().await {
        Ok(false) => error.to_string(),
        Ok(true) => format!("{error}; its server was gone, and was started again"),
        Err(gone) => format!("{error}; its server is gone: {gone}"),
    }
}

/// The cases that are played on the first kind of server only.
fn left_out(options: &Options) -> Vec<String> {
    let mut left_out = Vec::new();
    for case in &options.cases {
        let all = options.peers.iter().filter(|peer| case.is_for(**peer));
        let missing: Vec<_> = all.filter(|peer| !case.is_for_far(**peer)).map(ToString::to_string).collect();
        if !case.is_for_far(Peer::Ours) {
            left_out.push(case.name.clone());
        } else if !missing.is_empty() {
            left_out.push(format!("{} of {}", case.name, missing.join(" and ")));
        }
    }
    left_out
}

/// The common state of all cases.
struct Stage<'a> {
    options: &'a Options,
    prepared: Prepared,
    progress: Progress,
}

/// A peer in a case: its results, and its player until it fails.
struct Part {
    results: PeerResults,
    player: Option<Player>,
}

impl Stage<'_> {
    /// Plays one case: all peers warm up, and then take turns. `None` if no peer plays it here.
    async fn play(&self, case: &Case, place: &Place, is_first: bool) -> Option<CaseResults> {
        let mut parts = Vec::new();
        let is_played = |peer: Peer| is_first || self.options.is_selection || case.is_for_far(peer);
        for peer in self.options.peers.iter().filter(|peer| case.is_for(**peer) && is_played(**peer)) {
            self.progress.show(&place.name, &case.name, *peer, "starts");
            let mut part = Part { results: PeerResults::new(*peer), player: None };
            match self.warm(*peer, case, place, is_first).await {
                Ok(player) => part.player = Some(player),
                Err(error) => part.results.note = Some(after(&error, place).await),
            }
            parts.push(part);
        }
        if parts.is_empty() {
            self.progress.done(&place.name, &case.name);
            return None;
        }
        let play = self.timed(&case.play, &format!("/bench/{case}"));
        for round in 1..=self.options.rounds {
            for part in &mut parts {
                self.progress.show(&place.name, &case.name, part.results.peer, &format!("round {round}"));
                self.round(part, &play, place).await;
            }
        }
        for part in &mut parts {
            if let Some(player) = part.player.take() {
                player.end().await;
            }
            // The requests do not depend on the place. Hand-overs send the same in several processes, and those of a
            // reconnect are counted already.
            let is_the_same = case.processes > 1 && case.play.act == Act::Handover;
            let is_counted = is_first && !is_the_same && !case.play.act.is_reconnect();
            if is_counted && !part.results.rounds.is_empty() && !case.is_counted(part.results.peer) {
                part.results.counts_note = Some("it would take too long".to_owned());
            } else if is_counted && !part.results.rounds.is_empty() {
                self.progress.show(&place.name, &case.name, part.results.peer, "is counted");
                match self.count(part.results.peer, case, place).await {
                    Ok(counts) => part.results.counts = Some(counts),
                    Err(error) => part.results.counts_note = Some(error.to_string()),
                }
            }
        }
        self.progress.done(&place.name, &case.name);
        Some(CaseResults {
            name: case.name.clone(),
            title: case.title(),
            kind: case.kind(),
            peers: parts.into_iter().map(|part| part.results).collect(),
        })
    }

    /// Starts a peer, and lets it play once to warm up.
    async fn warm(&self, peer: Peer, case: &Case, place: &Place, is_first: bool) -> Result<Player, BenchError> {
        let mut player = self.start(peer, case, place, Purpose::Time).await?;
        let mut play = path_of(self.timed(&warm_up(&case.play), &format!("/bench/{case}")), peer);
        if peer.compiles() && self.options.time >= Duration::from_secs(1) {
            play.rounds *= COMPILER_ROUNDS;
            play.time = play.time.max(if is_first { COMPILER_WARM_UP } else { FAR_COMPILER_WARM_UP });
        }
        self.limited(peer, &play, player.play(&play)).await?;
        player.forget_memory();
        if case.kind() == Kind::Cache && peer.compiles() && self.options.time >= Duration::from_secs(1) {
            // With whole trees: of such a peer the used heap is reported, and not the memory of the process.
            let (begin, whole) = (Instant::now(), path_of(self.timed(&case.play, &format!("/bench/{case}")), peer));
            while begin.elapsed() < COMPILER_WARM_UP {
                self.limited(peer, &whole, player.play(&whole)).await?;
            }
        }
        Ok(player)
    }

    /// Warms a new server up with typical requests. Errors are ignored, as the first case would report them.
    async fn warm_server(&self, place: &Place) {
        let play = Play { tasks: 16, time: SERVER_WARM_UP, ..Play::new(Act::Distinct, Lock::Mutex, "/bench/warm-up") };
        let case = Case { name: "warm-up".to_owned(), processes: 1, play };
        self.progress.show(&place.name, &case.name, Peer::Ours, "warms the server up");
        if let Ok(mut player) = self.start(Peer::Ours, &case, place, Purpose::Time).await {
            drop(self.limited(Peer::Ours, &case.play, player.play(&case.play)).await);
            player.end().await;
        }
    }

    async fn start(&self, peer: Peer, case: &Case, place: &Place, purpose: Purpose) -> Result<Player, BenchError> {
        let worker: Command = peer.command(&self.options.program, &self.prepared)?;
        let start = Player::start(&self.options.program, &worker, case, place, purpose);
        timeout(START, start).await.unwrap_or(Err(BenchError::TooLong(START)))
    }

    /// Plays one round. A peer that fails plays no more.
    async fn round(&self, part: &mut Part, play: &Play, place: &Place) {
        let Some(mut player) = part.player.take() else { return };
        let (begin, peer) = (Instant::now(), part.results.peer);
        match self.limited(peer, play, self.turn(&mut player, peer, play)).await {
            Ok(round) => {
                part.results.rounds.push(round);
                let once = if play.lock == Lock::Cache { ONCE_CACHE } else { ONCE };
                if begin.elapsed() > once.max(self.options.time * 3) {
                    part.results.note =
                        Some(format!("a round takes {:.0} s, and is not repeated", begin.elapsed().as_secs_f64()));
                    player.end().await;
                } else {
                    part.player = Some(player);
                }
            }
            Err(error) => {
                drop(player);
                if play.waiters > 0 && matches!(error, BenchError::TooLong(_)) {
                    sleep(LEFT_BEHIND).await;
                }
                part.results.note = Some(after(&error, place).await);
            }
        }
    }

    /// Plays a lock's cycle, and then the floor over the same session, for comparison.
    async fn turn(&self, player: &mut Player, peer: Peer, play: &Play) -> Result<Round, BenchError> {
        let mut round = player.play(&path_of(play.clone(), peer)).await?;
        if play.act == Act::Cycle && play.lock != Lock::Floor && peer.has_floor() {
            let floor = Play { lock: Lock::Floor, path: format!("{}-floor", play.path), ..play.clone() };
            let Round { operations, nanoseconds, .. } = player.play(&path_of(floor, peer)).await?;
            round.floor = Some(Floor { operations, nanoseconds });
        }
        Ok(round)
    }

    async fn count(&self, peer: Peer, case: &Case, place: &Place) -> Result<Counts, BenchError> {
        let mut player = self.start(peer, case, place, Purpose::Count).await?;
        let play = path_of(self.timed(&case.play, &format!("/bench/{case}")), peer);
        let counts = self.limited(peer, &play, player.count(&play, case)).await?;
        player.end().await;
        Ok(counts)
    }

    fn timed(&self, play: &Play, path: &str) -> Play {
        Play { time: self.options.time, path: path.to_owned(), ..play.clone() }
    }

    async fn limited<T>(
        &self,
        peer: Peer,
        play: &Play,
        played: impl Future<Output = Result<T, BenchError>>,
    ) -> Result<T, BenchError> {
        let is_slow = peer == Peer::CuratorShared || peer == Peer::Kazoo && play.nodes >= MANY_NODES;
        let limit = self.options.limit * if is_slow { PATIENCE } else { 1 };
        timeout(limit, played).await.unwrap_or(Err(BenchError::TooLong(limit)))
    }
}

/// Adds the peer's name to the path, as the lock nodes of different clients are incompatible.
fn path_of(play: Play, peer: Peer) -> Play {
    Play { path: format!("{}/{peer}", play.path), ..play }
}
