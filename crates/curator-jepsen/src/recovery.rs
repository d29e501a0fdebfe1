//! Measures how long the clients take to recover from a nemesis.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::report::Recovery;
use crate::scene::{POLL, RunError, SESSION_TIMEOUT, SLACK, Scene, now};

/// How long the clients may take; after that, the report counts them as never recovered.
const GRACE: Duration = Duration::from_secs(60);

/// Waits until every part of each of our clients has acquired its lock again, for at most a minute. Then waits until
/// the servers keep no nodes and watches of ended sessions.
///
/// These are first counted one session timeout after the call, and then repeatedly until none is left or the sessions
/// must have ended: the servers end sessions in ticks, and restart their timeouts after an election.
///
/// # Errors
///
/// When one of our clients ends unexpectedly, or the ensemble does not reply to the conductor.
///
/// # Cancel safety
///
/// Only reads: a dropped future has no effect.
pub(crate) async fn measure(scene: &Scene, nemesis: &str, healed: u64) -> Result<Recovery, RunError> {
    let begin = Instant::now();
    scene.journal.progress().mark(healed);
    let idle = loop {
        scene.check()?;
        let idle = scene.idle();
        if idle.is_empty() || begin.elapsed() > GRACE {
            break idle;
        }
        sleep(POLL).await;
    };
    let after = |at: Option<u64>| at.map(|at| Duration::from_nanos(at.saturating_sub(healed)));
    let times = {
        let progress = scene.journal.progress();
        let parts = scene.ours().flat_map(|client| client.tasks().map(|part| (client.number(), part)));
        parts.map(|(client, part)| progress.since_mark(client, &part)).collect::<Vec<_>>()
    };
    let first_acquire = after(times.iter().flatten().min().copied());
    let all_progress = if idle.is_empty() { after(times.iter().flatten().max().copied()) } else { None };
    let never: BTreeSet<u32> = idle.iter().map(|(client, _)| *client).collect();
    for (client, part) in &idle {
        scene.journal.say(&format!("w{client} has not acquired {part} for {GRACE:?}"));
    }

    scene.pass(SESSION_TIMEOUT.saturating_sub(begin.elapsed())).await?;
    // The slack starts now, even if the clients took long: a client between two sessions may not have reported the next
    // session yet.
    let end = (begin + SESSION_TIMEOUT).max(Instant::now()) + SLACK;
    let (nodes, watches) = loop {
        scene.check()?;
        let nodes = scene.lock_nodes().await?;
        // Read after the nodes: a client reports its session at about the time at which it creates nodes.
        let sessions = scene.sessions();
        let left: Vec<_> = nodes.into_iter().filter(|node| !sessions.contains(&node.session)).collect();
        let watches = scene.watches_of_others(&sessions).await;
        if (left.is_empty() && watches == Some(0)) || Instant::now() > end {
            break (left, watches);
        }
        sleep(POLL).await;
    };
    for node in &nodes {
        scene.journal.say(&format!("{} of session {:#x} is left behind", node.path, node.session));
    }
    let recovery = Recovery {
        nemesis: nemesis.to_owned(),
        first_acquire,
        all_progress,
        never: never.len(),
        nodes_left: nodes.len(),
        watches_left: watches,
    };
    log(scene, &recovery, healed);
    Ok(recovery)
}

fn log(scene: &Scene, recovery: &Recovery, healed: u64) {
    let seconds =
        |time: Option<Duration>| time.map_or("never".to_owned(), |time| format!("after {:.2} s", time.as_secs_f64()));
    let (acquired, sessions) = scene.journal.progress().totals();
    scene.journal.say(&format!(
        "first acquire {}, all clients {}; {} orphaned nodes and {} orphaned watches after {:.1} s; {acquired} acquires and {sessions} \
         sessions so far",
        seconds(recovery.first_acquire),
        seconds(recovery.all_progress),
        recovery.nodes_left,
        recovery.watches_left.map_or("?".to_owned(), |left| left.to_string()),
        Duration::from_nanos(now() - healed).as_secs_f64(),
    ));
}
