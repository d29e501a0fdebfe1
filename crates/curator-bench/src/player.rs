//! One peer, ready to play one case: its processes and their sessions.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use curator_test::{FaultProxy, OpCode};
use tokio::time::{Instant, sleep};

use crate::case::{Case, Kind, warm_up};
use crate::document::{Counts, Crowd, Reconnect, Round};
use crate::error::BenchError;
use crate::place::Place;
use crate::process::Process;
use crate::protocol::{Act, Done, Play, Request, nanoseconds};
use crate::usage::Usage;

/// No session may end while a crowd comes, or while a machine is busy.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(20);
/// What a frame takes while round trips are counted: long enough that all requests of a pipeline come before the first answer.
const COUNTING_DELAY: Duration = Duration::from_millis(5);
/// Processes that are to begin together get the order so long before, and this for each of them.
const TOGETHER: Duration = Duration::from_millis(500);
const TOGETHER_EACH: Duration = Duration::from_millis(20);
/// A client that has sent nothing for so long has nothing more to send.
/// Curator's clients pause for up to three seconds before their second attempt, with the retry policy of its examples.
const QUIET: Duration = Duration::from_secs(4);
/// Before a cut it is enough that no request is under way.
const REST: Duration = Duration::from_secs(1);
/// Time for one operation and hardly more.
const ONE: Duration = Duration::from_millis(1);
/// How often one looks whether it has.
const POLL: Duration = Duration::from_millis(1);

/// Whether there is a proxy, and what for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Time: none is in the way, unless a connection has to be cut.
    Time,
    /// What is sent.
    Count,
}

/// See the module. Its processes are killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Player {
    processes: Vec<Process>,
    /// Between the sessions that are measured and the server.
    proxy: Option<FaultProxy>,
    /// The memory before the first crowd.
    resident: Option<u64>,
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
        let proxy = (purpose == Purpose::Count || play.act == Act::Reconnect).then(|| place.proxy()).transpose()?;
        if let (Some(proxy), Purpose::Count) = (&proxy, purpose) {
            // Its probes come at their own times.
            proxy.ignore(OpCode::Sync);
            if case.kind() == Kind::Timed {
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
                // Whoever is waited for is not measured.
                process.open(1, Some(place.connect_string())).await?;
            }
        }
        Ok(Self { processes, proxy, resident: None })
    }

    /// Plays it once.
    pub(crate) async fn play(&mut self, play: &Play) -> Result<Round, BenchError> {
        let mut before = self.usage()?;
        let play = Play { start: self.start_together(), ..play.clone() };
        for process in &mut self.processes {
            process.tell(&Request::Run(play.clone())).await?;
        }
        let mut crowd = None;
        if matches!(play.act, Act::Crowd | Act::Reconnect) {
            for process in &mut self.processes {
                process.held().await?;
            }
            // Whoever holds the locks is not measured.
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
            floor: None,
        })
    }

    /// Forgets the memory that it has now: what it was warmed up for is over.
    pub(crate) fn forget_memory(&mut self) {
        self.resident = None;
    }

    /// Counts what each operation costs at the proxy. A case that lasts for a time is played twice: what is sent to
    /// prepare it is the same both times, as the servers of the bench keep directories that are empty.
    pub(crate) async fn count(&mut self, play: &Play, case: &Case) -> Result<Counts, BenchError> {
        if case.kind() == Kind::Crowd {
            self.play(&warm_up(play)).await?;
            let before = self.counts(0);
            let Round { operations, .. } = self.play(play).await?;
            let counts = difference(&self.counts(operations), &before);
            return Ok(Counts { round_trips: None, ..counts });
        }
        self.play(&Play { time: play.time.min(ONE), rounds: play.rounds.min(1), ..play.clone() }).await?;
        let (zero, mut operations) = (self.counts(0), 0);
        let mut counted = Vec::new();
        for play in lengths(play) {
            let before = self.counts(operations);
            operations += self.play(&play).await?.operations;
            counted.push(difference(&self.counts(operations), &before));
        }
        Ok(match &counted[..] {
            [short, long] if long.operations > short.operations => difference(long, short),
            // Not even twice as long brings more: all that there is.
            _ => difference(&self.counts(operations), &zero),
        })
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

    /// When several processes are to begin.
    fn start_together(&self) -> Option<u64> {
        let number = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        let start = SystemTime::UNIX_EPOCH.elapsed().ok()? + TOGETHER + TOGETHER_EACH * number;
        (number > 1).then_some(u64::try_from(start.as_millis()).ok()?)
    }

    /// From the first waiter until all wait; and if that is the case, through a reconnect.
    async fn crowd(&mut self, play: &Play, resident: u64) -> Result<Crowd, BenchError> {
        let mut crowd = Crowd::default();
        for process in &mut self.processes {
            crowd.queueing = nanoseconds(process.queued().await?);
        }
        crowd.memory = self.usage()?.resident.saturating_sub(resident);
        if let (Act::Reconnect, Some(proxy), Some(process)) = (play.act, &self.proxy, self.processes.first_mut()) {
            crowd.reconnect = Some(tokio::select! {
                reconnect = reconnect(proxy) => reconnect,
                // It has nothing to say now but that it gives up.
                answer = process.answer() => return Err(answer.map_or_else(|error| error, |answer| answer.instead_of("nothing"))),
            });
        }
        Ok(crowd)
    }

    async fn go(&mut self) -> Result<(), BenchError> {
        for process in &mut self.processes {
            process.tell(&Request::Go).await?;
        }
        Ok(())
    }

    /// What the proxy has counted until now.
    fn counts(&self, operations: u64) -> Counts {
        let Some(proxy) = &self.proxy else { return Counts::default() };
        Counts {
            operations,
            requests: by_name(proxy),
            round_trips: Some(proxy.round_trips()),
            notifications: proxy.notifications(),
            bytes_sent: proxy.bytes_sent(),
            bytes_received: proxy.bytes_received(),
        }
    }
}

/// The same for a short and for a longer time, or number of rounds.
fn lengths(play: &Play) -> [Play; 2] {
    let long = Play { time: play.time * 3, rounds: play.rounds * 3, ..play.clone() };
    [play.clone(), long]
}

/// Cuts the connection when nothing is under way, and waits until nothing follows from that any more.
async fn reconnect(proxy: &FaultProxy) -> Reconnect {
    let sent = || without_probes(by_name(proxy)).values().sum::<u64>() + proxy.handshakes();
    // All have their nodes, but the last may still be looking who is before them: an answer that is lost is another case.
    last_change(sent, Instant::now(), REST).await;
    let (before, handshakes) = (by_name(proxy), proxy.handshakes());
    let cut = Instant::now();
    proxy.cut();
    // A client that does not come back at all is found by the limit of the case.
    while proxy.handshakes() == handshakes {
        sleep(POLL).await;
    }
    let last = last_change(sent, Instant::now(), QUIET).await;
    let mut requests = minus(&without_probes(by_name(proxy)), &before);
    requests.insert("CreateSession".to_owned(), proxy.handshakes() - handshakes);
    Reconnect { nanoseconds: nanoseconds(last - cut), requests }
}

/// Waits until a number stays the same, and returns when it last changed, or `begin` if it never did.
async fn last_change(number: impl Fn() -> u64, begin: Instant, rest: Duration) -> Instant {
    let (mut before, mut last) = (number(), begin);
    while last.elapsed() < rest {
        sleep(POLL).await;
        let now = number();
        if now != before {
            (before, last) = (now, Instant::now());
        }
    }
    last
}

fn without_probes(mut requests: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    requests.remove("Sync");
    requests
}

fn by_name(proxy: &FaultProxy) -> BTreeMap<String, u64> {
    proxy.requests().into_iter().map(|(op, count)| (format!("{op:?}"), count)).collect()
}

fn difference(later: &Counts, earlier: &Counts) -> Counts {
    let round_trips = later.round_trips.zip(earlier.round_trips).map(|(later, earlier)| later.saturating_sub(earlier));
    Counts {
        operations: later.operations.saturating_sub(earlier.operations),
        requests: minus(&later.requests, &earlier.requests),
        round_trips,
        notifications: later.notifications.saturating_sub(earlier.notifications),
        bytes_sent: later.bytes_sent.saturating_sub(earlier.bytes_sent),
        bytes_received: later.bytes_received.saturating_sub(earlier.bytes_received),
    }
}

fn minus(later: &BTreeMap<String, u64>, earlier: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let less = |(op, count): (&String, &u64)| (op.clone(), count.saturating_sub(earlier.get(op).copied().unwrap_or(0)));
    later.iter().map(less).filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(operations: u64, creates: u64, round_trips: u64) -> Counts {
        let requests = [("Create2".to_owned(), creates), ("Auth".to_owned(), 1)].into();
        Counts { operations, requests, round_trips: Some(round_trips), ..Counts::default() }
    }

    #[test]
    fn what_is_sent_once_is_not_part_of_an_operation() {
        let cost = difference(&counts(110, 112, 222), &counts(10, 12, 22));
        assert_eq!(
            (cost.operations, cost.requests, cost.round_trips),
            (100, [("Create2".to_owned(), 100)].into(), Some(200))
        );
    }

    #[test]
    fn probes_do_not_prolong_a_reconnect() {
        let requests = [("Sync".to_owned(), 2), ("SetWatches".to_owned(), 1)].into();
        assert_eq!(without_probes(requests), [("SetWatches".to_owned(), 1)].into());
    }
}
