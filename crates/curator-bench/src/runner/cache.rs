//! Runs the cases of a cache, which loads a tree, follows changes, or reconnects after its
//! connection was cut; the cases of a discovery, which registers instances or finds them; and the
//! case of shards, whose last member joins. Each runs in one process.

use std::time::Duration;

use anyhow::bail;
use curator_test::{Direction, FaultProxy};
use tokio::time::{Instant, sleep};

use super::counts::{counts_of, difference, last_change, sent};
use super::{POLL, Runner};
use crate::process::{Process, Switches, Usage};
use crate::protocol::{Lock, Operation, Reply, Request, Workload, nanoseconds};
use crate::tree::{CHANGES, Trees, path};
use curator_results::bench::{Cache, Counts, Round};

/// A load is complete when the cache has sent no request for this long.
const REST: Duration = Duration::from_millis(500);

/// The measurements of the part of a run that the case measures: the load, the storm or the
/// reconnect.
struct Part {
    operations: usize,
    time: Duration,
    processor: Duration,
    switches: Switches,
}

impl Runner {
    /// Opens a cache, runs the case with it, and closes it.
    pub(super) async fn run_cache(
        &mut self,
        workload: &Workload,
        trees: &Trees,
    ) -> anyhow::Result<Round> {
        let mut workload = Workload {
            mark: trees.next_mark(),
            ..workload.clone()
        };
        if workload.lock == Lock::Cache {
            trees.create(workload.nodes).await?;
            workload.path = path(workload.nodes);
        }
        let proxy = self.proxy.as_ref();
        let [process] = &mut self.processes[..] else {
            bail!("a cache case has one process");
        };

        process
            .send_request(&Request::Run(workload.clone()))
            .await?;
        process
            .expect_reply("held", |reply| matches!(reply, Reply::Held).then_some(()))
            .await?;
        let before = process.usage()?;
        let start = counts_of(proxy, 0);
        let resident = *self.resident.get_or_insert(before.resident);
        process.send_request(&Request::Go).await?;
        let loading = process
            .expect_reply("loaded", |reply| match reply {
                Reply::Loaded { nanoseconds } => Some(*nanoseconds),
                _ => None,
            })
            .await?;
        let used = process.usage()?;
        let mut cache = Cache {
            loading,
            memory: used.resident.saturating_sub(resident),
            ..Cache::default()
        };
        let part = if matches!(
            workload.operation,
            Operation::CacheLoad | Operation::Register | Operation::Find | Operation::Shards
        ) {
            cache.counts = counts_at_rest(proxy, workload.nodes, &start).await;
            let time = Duration::from_nanos(loading);
            part(workload.nodes, time, used - before)
        } else {
            follow(process, proxy, &workload, trees, &mut cache).await?
        };
        process.send_request(&Request::Go).await?;
        cache.heap = process
            .expect_reply("done", |reply| match reply {
                Reply::Done(done) => Some(done.heap),
                _ => None,
            })
            .await?;
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
    Part {
        operations,
        time,
        processor: used.processor,
        switches: used.switches(),
    }
}

/// Changes nodes, and waits until the cache contains all changes.
async fn follow(
    process: &mut Process,
    proxy: Option<&FaultProxy>,
    workload: &Workload,
    trees: &Trees,
    cache: &mut Cache,
) -> anyhow::Result<Part> {
    if let Some(proxy) = proxy {
        // The cache may send further requests of the load after `loaded`.
        last_change(|| sent(proxy), Instant::now(), REST).await;
    }
    process.send_request(&Request::Go).await?;
    match (workload.operation, proxy) {
        (Operation::CacheStorm, _) => storm(process, proxy, workload, trees, cache).await,
        (_, Some(proxy)) => reconnect(process, proxy, workload, trees, cache).await,
        (_, None) => bail!("there is no proxy that could cut the connection"),
    }
}

async fn storm(
    process: &mut Process,
    proxy: Option<&FaultProxy>,
    workload: &Workload,
    trees: &Trees,
    cache: &mut Cache,
) -> anyhow::Result<Part> {
    let before = process.usage()?;
    let start = counts_of(proxy, 0);
    let begin = Instant::now();
    let written = async {
        trees
            .storm(workload.nodes, workload.marked, workload.mark)
            .await
            .map(|()| Instant::now())
    };
    let (written, (events, end)) = tokio::try_join!(written, current(process))?;
    let used = process.usage()? - before;
    let operations = workload.marked * CHANGES;
    cache.events = events;
    cache.lag = Some(nanoseconds(end.saturating_duration_since(written)));
    cache.counts = counts_at_rest(proxy, operations, &start).await;
    Ok(part(operations, end - begin, used))
}

/// Cuts the connection, and measures until the cache has reported all changes and sends no more
/// requests: it may report the last change before it has read the last node.
async fn reconnect(
    process: &mut Process,
    proxy: &FaultProxy,
    workload: &Workload,
    trees: &Trees,
    cache: &mut Cache,
) -> anyhow::Result<Part> {
    let before = process.usage()?;
    let start = counts_of(Some(proxy), 0);
    let handshakes = proxy.handshakes();
    // The events of the changes are lost, so the cache must read the nodes again.
    proxy.black_hole(Direction::ToClient);
    trees
        .change(workload.nodes, workload.marked, workload.mark)
        .await?;
    proxy.heal();
    proxy.cut();
    let cut = Instant::now();
    let handshake = async {
        while proxy.handshakes() == handshakes {
            sleep(POLL).await;
        }
        anyhow::Ok(Instant::now())
    };
    let (handshake, (events, current)) = tokio::try_join!(handshake, current(process))?;
    let used = process.usage()? - before;
    let end = last_change(|| sent(proxy), current, REST).await;
    cache.events = events;
    cache.since_handshake = Some(nanoseconds(end.saturating_duration_since(handshake)));
    let mut counts = difference(&counts_of(Some(proxy), workload.nodes as u64), &start);
    counts
        .requests
        .insert("CreateSession".to_owned(), proxy.handshakes() - handshakes);
    cache.counts = Some(Counts {
        round_trips: None,
        ..counts
    });
    Ok(part(workload.nodes, end - cut, used))
}

/// The number of events that the cache has reported, and when it contained all changes.
async fn current(process: &mut Process) -> anyhow::Result<(u64, Instant)> {
    let events = process
        .expect_reply("current", |reply| match reply {
            Reply::Current { events } => Some(*events),
            _ => None,
        })
        .await?;
    Ok((events, Instant::now()))
}

/// Waits until the client sends no more requests. Returns the counts since `start`.
async fn counts_at_rest(
    proxy: Option<&FaultProxy>,
    operations: usize,
    start: &Counts,
) -> Option<Counts> {
    let proxy = proxy?;
    last_change(|| sent(proxy), Instant::now(), REST).await;
    let counts = difference(&counts_of(Some(proxy), operations as u64), start);
    Some(Counts {
        round_trips: None,
        ..counts
    })
}
