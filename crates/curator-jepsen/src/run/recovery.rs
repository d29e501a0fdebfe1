//! Measures how long the clients take to recover from a nemesis.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::report::Recovery;
use crate::scene::{POLL, SESSION_TIMEOUT, SLACK, Scene, now};

/// How long the clients may take to recover; after that, the report counts them as not recovered.
/// The servers may take as long to remove the nodes and watches of ended sessions.
const GRACE: Duration = Duration::from_secs(60);
/// How long a session may be unowned: within this time, the servers have ended the session of an
/// ended process, and a running client has reported its session.
const UNOWNED: Duration = SESSION_TIMEOUT.saturating_add(SLACK);

/// Waits until every part of each of our clients has acquired its lock again, for at most a minute.
/// Then waits until the servers keep no nodes and watches of sessions that no running client has
/// reported.
///
/// The nodes and watches are first counted one session timeout after the call, and then repeatedly
/// until none is left or one of the sessions is orphaned: no running client reports it for a
/// session timeout and a little more. One count proves nothing: a killed client may only just have
/// started again, and reports its session only after it has created the session. Under load, a
/// single count takes seconds.
///
/// # Errors
///
/// When one of our clients ends unexpectedly, or the ensemble does not reply to the conductor.
///
/// # Cancel safety
///
/// Only reads: a dropped future has no effect.
pub(super) async fn measure(scene: &Scene, nemesis: &str, healed: u64) -> anyhow::Result<Recovery> {
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
        scene
            .tasks()
            .map(|(client, part)| progress.since_mark(client, &part))
            .collect::<Vec<_>>()
    };
    let first_acquire = after(times.iter().flatten().min().copied());
    let all_progress = if idle.is_empty() {
        after(times.iter().flatten().max().copied())
    } else {
        None
    };
    let not_recovered: BTreeSet<Option<u32>> = idle.iter().map(|(client, _)| *client).collect();
    for (client, part) in &idle {
        let who = client.map_or("nobody".to_owned(), |client| format!("w{client}"));
        scene
            .journal
            .print(&format!("{who} has not acquired {part} for {GRACE:?}"));
    }

    scene
        .wait_and_check(SESSION_TIMEOUT.saturating_sub(begin.elapsed()))
        .await?;
    let mut unowned = Unowned::default();
    let limit = Instant::now() + GRACE;
    let (nodes, watches) = loop {
        scene.check()?;
        let began = Instant::now();
        let mut nodes = scene.lock_nodes().await?;
        let mut watches = scene.node_watches().await;
        // Read last: a client reports its session at about the time when it creates nodes and
        // watches.
        let owned = scene.sessions();
        nodes.retain(|node| !owned.contains(&node.session));
        watches
            .iter_mut()
            .for_each(|watches| watches.retain(|(_, session)| !owned.contains(session)));
        let of_watches = watches.iter().flatten().map(|(_, session)| *session);
        let left = nodes
            .iter()
            .map(|node| node.session)
            .chain(of_watches)
            .collect();
        let ended = Instant::now();
        let orphaned = unowned.count(&left, &owned, began, ended);
        if (left.is_empty() && watches.is_some()) || ended > limit {
            break (nodes, watches);
        }
        if !orphaned.is_empty() {
            nodes.retain(|node| orphaned.contains(&node.session));
            watches
                .iter_mut()
                .for_each(|watches| watches.retain(|(_, session)| orphaned.contains(session)));
            break (nodes, watches);
        }
        sleep(POLL).await;
    };
    for node in &nodes {
        scene.journal.print(&format!(
            "{} of session {:#x} is left behind",
            node.path, node.session
        ));
    }
    for (path, session) in watches.iter().flatten() {
        scene.journal.print(&format!(
            "a watch on {path} of session {session:#x} is left behind"
        ));
    }
    let recovery = Recovery {
        nemesis: nemesis.to_owned(),
        first_acquire,
        all_progress,
        not_recovered: not_recovered.len(),
        nodes_left: nodes.len(),
        watches_left: watches.map(|watches| watches.len()),
    };
    log(scene, &recovery, healed);
    Ok(recovery)
}

/// The sessions that had nodes or watches, and that no running client has reported since, each with
/// the end of the first such count.
#[derive(Debug, Default)]
struct Unowned(BTreeMap<i64, Instant>);

impl Unowned {
    /// Records the next count: `left` are the sessions that have nodes or watches, `owned` the
    /// sessions that running clients have reported. Returns the orphaned sessions, which are in
    /// `left` and have been unowned for too long.
    fn count(
        &mut self,
        left: &BTreeSet<i64>,
        owned: &BTreeSet<i64>,
        began: Instant,
        ended: Instant,
    ) -> BTreeSet<i64> {
        // A session without nodes and watches may get some again, so it is removed only when it is
        // owned.
        self.0.retain(|session, _| !owned.contains(session));
        left.iter()
            .copied()
            .filter(|session| {
                let since = *self.0.entry(*session).or_insert(ended);
                // A count may find nodes and watches that have been deleted since it began.
                began > since + UNOWNED
            })
            .collect()
    }
}

fn log(scene: &Scene, recovery: &Recovery, healed: u64) {
    let seconds = |time: Option<Duration>| {
        time.map_or("never".to_owned(), |time| {
            format!("after {:.2} s", time.as_secs_f64())
        })
    };
    let (acquired, sessions) = scene.journal.progress().totals();
    scene.journal.print(&format!(
        "first acquire {}, all clients {}; {} orphaned nodes and {} orphaned watches after {:.1} s; {acquired} acquires and {sessions} \
         sessions so far",
        seconds(recovery.first_acquire),
        seconds(recovery.all_progress),
        recovery.nodes_left,
        recovery.watches_left.map_or("?".to_owned(), |left| left.to_string()),
        Duration::from_nanos(now() - healed).as_secs_f64(),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [i64; 0] = [];

    /// Performs a count that lasts from the first to the second time, in milliseconds.
    fn count(
        unowned: &mut Unowned,
        zero: Instant,
        times: [u64; 2],
        left: &[i64],
        owned: &[i64],
    ) -> Vec<i64> {
        let [began, ended] = times.map(|at| zero + Duration::from_millis(at));
        let [left, owned] = [left, owned].map(|sessions| sessions.iter().copied().collect());
        unowned
            .count(&left, &owned, began, ended)
            .into_iter()
            .collect()
    }

    #[test]
    fn a_session_that_stays_unowned_is_orphaned() {
        let mut unowned = Unowned::default();
        let zero = Instant::now();
        assert_eq!(count(&mut unowned, zero, [0, 100], &[7], &[1]), NONE);
        // Session 7 has no nodes and watches for a moment.
        assert_eq!(count(&mut unowned, zero, [150, 250], &[], &[1]), NONE);
        assert_eq!(
            count(&mut unowned, zero, [6_100, 6_200], &[7, 8], &[1]),
            NONE
        );
        assert_eq!(
            count(&mut unowned, zero, [6_101, 6_201], &[7, 8], &[1]),
            [7]
        );
    }

    #[test]
    fn a_session_that_a_late_count_finds_first_is_not_orphaned() {
        let mut unowned = Unowned::default();
        let zero = Instant::now();
        // The counts take longer than a session may be unowned, as on a loaded machine.
        assert_eq!(count(&mut unowned, zero, [0, 7_000], &[7], &[]), NONE);
        // The client of session 7 has reported the session; the client of session 8 has only just
        // started.
        assert_eq!(count(&mut unowned, zero, [7_050, 20_000], &[8], &[7]), NONE);
        assert_eq!(
            count(&mut unowned, zero, [20_050, 20_100], &[], &[7, 8]),
            NONE
        );
        // Both clients have been killed since.
        assert_eq!(
            count(&mut unowned, zero, [20_150, 20_200], &[7, 8], &[]),
            NONE
        );
    }
}
