//! Plays the cases of a cache in one process: it loads a tree, follows changes, or reconnects after a cut; and those of
//! a discovery: it registers instances, or finds them.

use std::time::Duration;

use curator_test::{Direction, FaultProxy};
use tokio::time::{Instant, sleep};

use super::counts::{counts_of, difference, last_change, sent};
use super::{POLL, Player};
use crate::error::BenchError;
use crate::process::Process;
use crate::protocol::{Act, Lock, Play, Request, nanoseconds};
use crate::tree::{CHANGES, Trees, path};
use crate::usage::{Switches, Usage};
use curator_results::bench::{Cache, Counts, Round};

/// A cache that has sent nothing for so long has no more nodes to read.
const REST: Duration = Duration::from_millis(500);

/// The measurements of the case's subject, from its start to its end.
struct Part {
    operations: usize,
    time: Duration,
    processor: Duration,
    switches: Switches,
}

impl Player {
    /// Opens a cache, plays the case with it, and closes it.
    pub(super) async fn play_cache(&mut self, play: &Play, trees: &Trees) -> Result<Round, BenchError> {
        let mut play = Play { mark: trees.next_mark(), ..play.clone() };
        if play.lock == Lock::Cache {
            trees.make(play.nodes).await?;
            play.path = path(play.nodes);
        }
        let proxy = self.proxy.as_ref();
        let [process] = &mut self.processes[..] else {
            return Err(BenchError::Worker("one process plays a cache".to_owned()));
        };

        process.send_request(&Request::Run(play.clone())).await?;
        process.held().await?;
        let (before, start) = (process.usage()?, counts_of(proxy, 0));
        let resident = *self.resident.get_or_insert(before.resident);
        process.send_request(&Request::Go).await?;
        let loading = process.loaded().await?;
        let used = process.usage()?;
        let mut cache =
            Cache { loading: nanoseconds(loading), memory: used.resident.saturating_sub(resident), ..Cache::default() };
        let part = if matches!(play.act, Act::CacheLoad | Act::Register | Act::Find) {
            cache.counts = rested(proxy, play.nodes, &start).await;
            part(play.nodes, loading, used - before)
        } else {
            follow(process, proxy, &play, trees, &mut cache).await?
        };
        process.send_request(&Request::Go).await?;
        cache.heap = process.done().await?.heap;
        Ok(Round {
            operations: part.operations as u64,
            nanoseconds: nanoseconds(part.time),
            processor: nanoseconds(part.processor),
            voluntary_switches: part.switches.voluntary,
            involuntary_switches: part.switches.involuntary,
            crowd: None,
            cache: Some(cache),
            floor: None,
        })
    }
}

fn part(operations: usize, time: Duration, used: Usage) -> Part {
    Part { operations, time, processor: used.processor, switches: used.switches() }
}

/// Changes nodes, and waits until the cache contains all changes.
async fn follow(
    process: &mut Process,
    proxy: Option<&FaultProxy>,
    play: &Play,
    trees: &Trees,
    cache: &mut Cache,
) -> Result<Part, BenchError> {
    if let Some(proxy) = proxy {
        // Requests that follow the load belong to it.
        last_change(|| sent(proxy), Instant::now(), REST).await;
    }
    process.send_request(&Request::Go).await?;
    match (play.act, proxy) {
        (Act::CacheStorm, _) => storm(process, proxy, play, trees, cache).await,
        (_, Some(proxy)) => reconnect(process, proxy, play, trees, cache).await,
        (_, None) => Err(BenchError::Worker("there is no proxy to cut".to_owned())),
    }
}

async fn storm(
    process: &mut Process,
    proxy: Option<&FaultProxy>,
    play: &Play,
    trees: &Trees,
    cache: &mut Cache,
) -> Result<Part, BenchError> {
    let (before, start) = (process.usage()?, counts_of(proxy, 0));
    let begin = Instant::now();
    let written = async { trees.storm(play.nodes, play.marked, play.mark).await.map(|()| Instant::now()) };
    let (written, (events, end)) = tokio::try_join!(written, current(process))?;
    let used = process.usage()? - before;
    let operations = play.marked * CHANGES;
    cache.events = events;
    cache.lag = Some(nanoseconds(end.saturating_duration_since(written)));
    cache.counts = rested(proxy, operations, &start).await;
    Ok(part(operations, end - begin, used))
}

/// Cuts the connection, and measures until the cache has reported all changes and sends no more requests: it may report
/// the last change before it has read the last node.
async fn reconnect(
    process: &mut Process,
    proxy: &FaultProxy,
    play: &Play,
    trees: &Trees,
    cache: &mut Cache,
) -> Result<Part, BenchError> {
    let (before, start, handshakes) = (process.usage()?, counts_of(Some(proxy), 0), proxy.handshakes());
    // The events are lost, so the cache must read again to see the changes.
    proxy.black_hole(Direction::ToClient);
    trees.change(play.nodes, play.marked, play.mark).await?;
    proxy.heal();
    proxy.cut();
    let cut = Instant::now();
    let handshake = async {
        while proxy.handshakes() == handshakes {
            sleep(POLL).await;
        }
        Ok(Instant::now())
    };
    let (handshake, (events, current)) = tokio::try_join!(handshake, current(process))?;
    let used = process.usage()? - before;
    let end = last_change(|| sent(proxy), current, REST).await;
    cache.events = events;
    cache.since_handshake = Some(nanoseconds(end.saturating_duration_since(handshake)));
    let mut counts = difference(&counts_of(Some(proxy), play.nodes as u64), &start);
    counts.requests.insert("CreateSession".to_owned(), proxy.handshakes() - handshakes);
    cache.counts = Some(Counts { round_trips: None, ..counts });
    Ok(part(play.nodes, end - cut, used))
}

/// The number of changes that the cache has reported, and when it contained all of them.
async fn current(process: &mut Process) -> Result<(u64, Instant), BenchError> {
    Ok((process.current().await?, Instant::now()))
}

/// Waits until no more requests are sent. Returns the counts since the start.
async fn rested(proxy: Option<&FaultProxy>, operations: usize, start: &Counts) -> Option<Counts> {
    let proxy = proxy?;
    last_change(|| sent(proxy), Instant::now(), REST).await;
    let counts = difference(&counts_of(Some(proxy), operations as u64), start);
    Some(Counts { round_trips: None, ..counts })
}
