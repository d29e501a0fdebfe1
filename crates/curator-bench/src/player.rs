//! A peer that plays a case: its processes and their sessions.

mod cache;
mod counts;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use curator_test::{FaultProxy, OpCode};
use tokio::time::{Instant, sleep};

use self::counts::{by_name, counts_of, difference, last_change, minus, sent, without_probes};
use crate::case::{Case, Kind, warm_up};
use crate::error::BenchError;
use crate::place::Place;
use crate::process::Process;
use crate::protocol::{Act, Done, Play, Request, nanoseconds};
use crate::tree::Trees;
use crate::usage::Usage;
use curator_results::bench::{Counts, Crowd, Reconnect, Round};

/// Long, so that no session expires while a crowd arrives, or on a busy machine.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(20);
/// The delay of frames while round trips are counted: long enough that all requests of a pipeline are sent before the
/// first answer arrives.
const COUNTING_DELAY: Duration = Duration::from_millis(5);
/// Processes that begin together get the order this long before, plus the next duration for each of them.
const TOGETHER: Duration = Duration::from_millis(500);
const TOGETHER_EACH: Duration = Duration::from_millis(20);
/// A client that has sent nothing for so long has nothing more to send. Curator's clients pause for up to three seconds
/// before their second attempt, with the retry policy of its examples.
const QUIET: Duration = Duration::from_secs(4);
/// The same before a cut, where only requests in flight matter.
const REST: Duration = Duration::from_secs(1);
/// Time for about one operation.
const ONE: Duration = Duration::from_millis(1);
/// How often the counts of a proxy are read.
const POLL: Duration = Duration::from_millis(1);

/// The purpose of a play, which determines whether there is a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Measures time: without a proxy, unless a connection has to be cut.
    Time,
    /// Counts requests.
    Count,
}

/// See the module. Dropping it kills its processes.
#[derive(Debug)]
pub(crate) struct Player {
    processes: Vec<Process>,
    /// Between the measured sessions and the server.
    proxy: Option<FaultProxy>,
    /// The memory before the first crowd, or the first tree.
    resident: Option<u64>,
    /// `Some` for cases with a cache or a discovery.
    trees: Option<Arc<Trees>>,
}

impl Player {
    /// Starts the processes and opens the sessions.
    pub(crate) async fn start(
        program: &Path,
        worker: &Command,
        case: &Case,
        place: &Place,
        purpose: Purpose,
    ) -> Result<Self, BenchError> {
        let play = &case.play;
        let proxy = (purpose == Purpose::Count || play.act.is_reconnect()).then(|| place.proxy()).transpose()?;
        if let (Some(proxy), Purpose::Count) = (&proxy, purpose) {
            // The lease probes of our client are sent periodically.
            proxy.ignore(OpCode::Sync);
            if case.kind() == Kind::Timed && case.processes == 1 {
                proxy.set_delay(COUNTING_DELAY);
            }
        }
        let connect = proxy.as_ref().map_or_else(|| place.connect_string(), FaultProxy::connect_string);
        let mut processes = Vec::new();
        for _ in 0..case.processes {
            processes.push(Process::start(program, worker, &connect, SESSION_TIMEOUT)?);
        }
        for process in &mut processes {
            process.check(play).await?;
            process.open(play.sessions.max(1), None).await?;
            if matches!(play.act, Act::Readers | Act::Crowd | Act::Reconnect) {
                // The session of the holder is not measured.
                process.open(1, Some(place.connect_string())).await?;
            }
        }
        let trees = if case.kind() == Kind::Cache { Some(place.trees().await?) } else { None };
        Ok(Self { processes, proxy, resident: None, trees })
    }

    /// Plays it once.
    pub(crate) async fn play(&mut self, play: &Play) -> Result<Round, BenchError> {
        if let Some(trees) = self.trees.clone() {
            return self.play_cache(play, &trees).await;
        }
        let mut before = self.usage()?;
        let play = Play { start: self.start_together(), ..play.clone() };
        for process in &mut self.processes {
            process.send_request(&Request::Run(play.clone())).await?;
        }
        let mut crowd = None;
        if matches!(play.act, Act::Crowd | Act::Reconnect) {
            for process in &mut self.processes {
                process.held().await?;
            }
            // The holder's memory is not measured.
            before = self.usage()?;
            let resident = *self.resident.get_or_insert(before.resident);
            self.go().await?;
            crowd = Some(self.crowd(&play, resident).await?);
            self.go().await?;
        }
        let mut all = Done::default();
        for process in &mut self.processes {
            let done = process.done().await?;
            all.operations += done.operations;
            all.nanoseconds = all.nanoseconds.max(done.nanoseconds);
        }
        let used = self.usage()? - before;
        let switches = used.switches();
        Ok(Round {
            operations: all.operations,
            nanoseconds: all.nanoseconds,
            processor: nanoseconds(used.processor),
            voluntary_switches: switches.voluntary,
            involuntary_switches: switches.involuntary,
            crowd,
            cache: None,
            floor: None,
        })
    }

    /// Forgets the baseline of the memory, which was measured before the warm-up.
    pub(crate) fn forget_memory(&mut self) {
        self.resident = None;
    }

    /// Counts the requests of an operation at the proxy. A case that lasts for a time is played twice, and the counts
    /// are subtracted: the requests that prepare it are the same both times, as the servers of the bench keep empty
    /// directories.
    pub(crate) async fn count(&mut self, play: &Play, case: &Case) -> Result<Counts, BenchError> {
        if case.kind() == Kind::Cache {
            self.play(&warm_up(play)).await?;
            return Ok(self.play(play).await?.cache.and_then(|cache| cache.counts).unwrap_or_default());
        }
        if case.kind() == Kind::Crowd {
            self.play(&warm_up(play)).await?;
            let before = counts_of(self.proxy.as_ref(), 0);
            let Round { operations, .. } = self.play(play).await?;
            let counts = difference(&counts_of(self.proxy.as_ref(), operations), &before);
            return Ok(Counts { round_trips: None, ..counts });
        }
        self.play(&Play { time: play.time.min(ONE), rounds: play.rounds.min(1), ..play.clone() }).await?;
        let (zero, mut operations) = (counts_of(self.proxy.as_ref(), 0), 0);
        let mut counted = Vec::new();
        for play in lengths(play) {
            let before = counts_of(self.proxy.as_ref(), operations);
            operations += self.play(&play).await?.operations;
            counted.push(difference(&counts_of(self.proxy.as_ref(), operations), &before));
        }
        let counts = match &counted[..] {
            [short, long] if long.operations > short.operations => difference(long, short),
            // If the longer play has no more operations, both are counted, with their preparation.
            _ => difference(&counts_of(self.proxy.as_ref(), operations), &zero),
        };
        Ok(Counts { round_trips: counts.round_trips.filter(|_| case.processes == 1), ..counts })
    }

    pub(crate) async fn end(self) {
        for process in self.processes {
            process.end().await;
        }
    }

    fn usage(&self) -> Result<Usage, BenchError> {
        let mut all = Usage::default();
        for process in &self.processes {
            all += process.usage()?;
        }
        Ok(all)
    }

    /// When the processes should begin; `None` if there is only one.
    fn start_together(&self) -> Option<u64> {
        let number = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        let start = SystemTime::UNIX_EPOCH.elapsed().ok()? + TOGETHER + TOGETHER_EACH * number;
        (number > 1).then_some(u64::try_from(start.as_millis()).ok()?)
    }

    /// Measures from the first waiter until all tasks wait; for a reconnect, until that has ended.
    async fn crowd(&mut self, play: &Play, resident: u64) -> Result<Crowd, BenchError> {
        let mut crowd = Crowd::default();
        for process in &mut self.processes {
            crowd.queueing = nanoseconds(process.queued().await?);
        }
        crowd.memory = self.usage()?.resident.saturating_sub(resident);
        if let (Act::Reconnect, Some(proxy), Some(process)) = (play.act, &self.proxy, self.processes.first_mut()) {
            crowd.reconnect = Some(tokio::select! {
                reconnect = reconnect(proxy) => reconnect,
                // An answer here can only be an error.
                answer = process.answer() => return Err(answer.map_or_else(|error| error, |answer| answer.instead_of("nothing"))),
            });
        }
        Ok(crowd)
    }

    async fn go(&mut self) -> Result<(), BenchError> {
        for process in &mut self.processes {
            process.send_request(&Request::Go).await?;
        }
        Ok(())
    }
}

/// The same play with two times, or numbers of rounds.
fn lengths(play: &Play) -> [Play; 2] {
    let long = Play { time: play.time * 3, rounds: play.rounds * 3, ..play.clone() };
    [play.clone(), long]
}

/// Cuts the connection while no request is in flight, and waits until the client sends nothing more.
async fn reconnect(proxy: &FaultProxy) -> Reconnect {
    // All tasks have their nodes, but the last may still be reading the queue: a lost answer would be another case.
    last_change(|| sent(proxy), Instant::now(), REST).await;
    let (before, handshakes) = (by_name(proxy), proxy.handshakes());
    let cut = Instant::now();
    proxy.cut();
    // A client that does not reconnect exceeds the time limit of the case.
    while proxy.handshakes() == handshakes {
        sleep(POLL).await;
    }
    let last = last_change(|| sent(proxy), Instant::now(), QUIET).await;
    let mut requests = minus(&without_probes(by_name(proxy)), &before);
    requests.insert("CreateSession".to_owned(), proxy.handshakes() - handshakes);
    Reconnect { nanoseconds: nanoseconds(last - cut), requests }
}
