//! Plays many cells at a time, and looks for what they leave behind on the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use curator_test::OpCode;
use futures_util::future::join_all;
use tokio::task::JoinSet;

use super::cells::{Cell, Requests};
use super::play::{Played, play};
use super::stage::{BOUND, Hall, Stage};

/// How many are played at a time in a hall. They wait for each other.
const AT_ONCE: usize = 50;
/// Four halls, and some nine descriptors for each cell.
const DESCRIPTORS: u64 = 2_048;
/// How long a server may take to remove the watches of a session that it has closed.
const A_MOMENT: Duration = Duration::from_millis(200);
/// How often a cell is played until its request is sent: one that depends on who is quicker may come later, or not at all.
const TRIES: usize = 3;

/// What came of a cell whose request was not sent, though it may be: see [`may_be_missing`].
pub(crate) const NOT_SENT: &str = "not sent";

/// What came of a cell.
#[derive(Debug, Clone)]
pub(crate) struct Result {
    pub(crate) cell: Cell,
    /// A word for the table; or what is wrong.
    pub(crate) outcome: std::result::Result<&'static str, String>,
    pub(crate) requests: Requests,
    pub(crate) took: Duration,
}

/// Permits as many descriptors as the cells need, where the system's limit is lower and may be raised.
pub(crate) fn permit_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS));
    if limit.current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit }).unwrap();
    }
}

/// Plays them, in this order as far as there is one.
pub(crate) async fn play_all(hall: &Arc<Hall>, cells: &[Cell]) -> Vec<Result> {
    let mut results = Vec::new();
    for cells in cells.chunks(AT_ONCE) {
        let mut playing = JoinSet::new();
        for cell in cells.iter().copied() {
            let hall = Arc::clone(hall);
            playing.spawn(async move { (cell, tokio::spawn(play_one(hall, cell)).await) });
        }
        let mut stages = Vec::new();
        while let Some(played) = playing.join_next().await {
            let (cell, played) = played.expect("it waits for another task only");
            let (outcome, requests, took) = match played {
                Ok(Some(Played { outcome, requests, took, stage })) => {
                    stages.push((cell, stage));
                    (Ok(outcome), requests, took)
                }
                Ok(None) if may_be_missing(&cell) => (Ok(NOT_SENT), Requests::new(), Duration::ZERO),
                Ok(None) => (Err(format!("the request was not sent, {TRIES} times")), Requests::new(), Duration::ZERO),
                Err(error) => (Err(error.to_string()), Requests::new(), Duration::ZERO),
            };
            results.push(Result { cell, outcome, requests, took });
        }
        for (cell, leaked) in close(hall, stages).await {
            let result = results.iter_mut().find(|result| result.cell == cell).expect("it was played");
            result.outcome = Err(format!("{leaked} watches are left on the server"));
        }
    }
    results
}

/// Whether it depends on who is quicker that its request is sent. What a lock does after a cut may depend on how many of its
/// requests the cut has let through; and a watch may fire before it is removed.
fn may_be_missing(cell: &Cell) -> bool {
    cell.cut.is_some() || cell.strike.is_some_and(|strike| strike.op == OpCode::RemoveWatches)
}

async fn play_one(hall: Arc<Hall>, cell: Cell) -> Option<Played> {
    for _ in 0..TRIES {
        let played = play(&hall, cell).await;
        if played.is_some() {
            return played;
        }
    }
    None
}

/// Closes the clients of these cells. Nothing of the cells should be watched before that; if something is, those whose
/// sessions watch it, and how much.
async fn close(hall: &Hall, stages: Vec<(Cell, Stage)>) -> Vec<(Cell, u64)> {
    let mut leaks = Vec::new();
    if is_left(hall, BOUND).await {
        let cells: Vec<_> = stages.iter().map(|(cell, _)| cell.to_string()).collect();
        for (cell, stage) in stages {
            let before = hall.watch_count().await;
            stage.actor.close().await.unwrap();
            // The server may remove them just after it has confirmed the close.
            let begun = Instant::now();
            let mut leaked = 0;
            while leaked == 0 && begun.elapsed() < A_MOMENT {
                leaked = before.saturating_sub(hall.watch_count().await);
            }
            leaks.extend((leaked > 0).then_some((cell, leaked)));
        }
        // Those are here for all cells to come.
        let is_left = is_left(hall, Duration::ZERO).await;
        assert!(!is_left, "neighbours have left watches on the server, in one of these:\n{}", cells.join("\n"));
        return leaks;
    }
    let closed = join_all(stages.iter().map(|(_, stage)| stage.actor.close())).await;
    closed.into_iter().for_each(|closed| closed.unwrap());
    leaks
}

/// Whether anything is watched for that long.
async fn is_left(hall: &Hall, bound: Duration) -> bool {
    let begun = Instant::now();
    while hall.watch_count().await > 0 {
        if begun.elapsed() > bound {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}
