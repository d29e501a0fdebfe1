//! Many contenders of two clients take one lock, at random moments.

use std::time::UNIX_EPOCH;

use curator_recipes::{FencingToken, InterProcessMutex, client::CuratorClient};
use curator_test::{TestingServer, soon};
use tokio::task::{spawn, spawn_blocking};

use crate::{
    agent::Agent,
    ours::{await_nodes, client, rest},
};

/// Where each holder writes who it is, at the end: it reads, and writes with no look at the version. A second holder
/// beside it would be seen, as one of the two writes is lost, or as the numbers are not in order.
const LOG: &str = "/log";
/// Sessions of each of the two clients.
const SESSIONS: usize = 4;
/// Of each session.
const CYCLES: usize = 25;

/// Lets the sessions of both clients contend, and sees that nobody was beside anybody, and that each had its turn in the order
/// in which the nodes were created on the server.
///
/// An agent is told to do its cycles by `cycles`, which its log, their number and a seed are added to.
pub(crate) async fn take_turns(
    server: &TestingServer,
    start: impl Fn(&str) -> Agent,
    cycles: &str,
    mutex: impl Fn(&CuratorClient) -> InterProcessMutex,
) {
    let seed = UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    println!("seed {seed}");
    let conductor = client(server).await;
    conductor.create().for_path(LOG, b"").await.unwrap();
    // All queue behind this one, so that none is done before another has begun.
    let gate = mutex(&conductor);
    let closed = gate.acquire().await.unwrap();
    let theirs: Vec<_> = (0..SESSIONS)
        .map(|session| {
            let (mut agent, command) = (start(&format!("agent{session}")), cycles.to_owned());
            let seed = i64::from(fastrand::Rng::with_seed(seed ^ session as u64).i32(1..));
            spawn_blocking(move || {
                assert_eq!(agent.ask(&format!("{command} {LOG} {CYCLES} {seed}")), "ok");
                agent
            })
        })
        .collect();
    let mut clients = Vec::new();
    for _ in 0..SESSIONS {
        clients.push(client(server).await);
    }
    let random = |session: usize| fastrand::Rng::with_seed(seed.wrapping_add(session as u64));
    let ours: Vec<_> = (clients.iter().enumerate())
        .map(|(session, client)| spawn(our_cycles(client.clone(), mutex(client), random(session))))
        .collect();
    await_nodes(&gate, 2 * SESSIONS + 1).await;
    closed.release().await.unwrap();

    let mut our_tokens = Vec::new();
    for session in ours {
        our_tokens.extend(soon(session).await.unwrap());
    }
    for session in theirs {
        soon(session).await.unwrap().stop();
    }
    let log = String::from_utf8(conductor.get_data(LOG).await.unwrap().0).unwrap();
    let turns: Vec<FencingToken> = log.split_whitespace().map(|turn| turn.parse().unwrap()).collect();
    assert_eq!(turns.len(), 2 * SESSIONS * CYCLES, "seed {seed}: two holders wrote at once: {log}");
    assert!(turns.is_sorted(), "seed {seed}: somebody was overtaken: {log}");
    let is_ours: Vec<_> = turns.iter().map(|turn| our_tokens.contains(turn)).collect();
    assert_eq!(is_ours.iter().filter(|ours| **ours).count(), SESSIONS * CYCLES);
    let handed_over = is_ours.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(handed_over >= CYCLES, "seed {seed}: only {handed_over} times from one client to the other: {log}");
    for client in clients {
        client.close().await.unwrap();
    }
    conductor.close().await.unwrap();
}

/// What an agent does by `cycles`. Returns the tokens.
async fn our_cycles(client: CuratorClient, mutex: InterProcessMutex, mut random: fastrand::Rng) -> Vec<FencingToken> {
    let mut tokens = Vec::new();
    for _ in 0..CYCLES {
        rest(&mut random).await;
        let guard = mutex.acquire().await.unwrap();
        let before = String::from_utf8(client.get_data(LOG).await.unwrap().0).unwrap();
        client.set_data(LOG, format!("{before} {}", guard.fencing_token()), None).await.unwrap();
        tokens.push(guard.fencing_token());
        guard.release().await.unwrap();
    }
    tokens
}
