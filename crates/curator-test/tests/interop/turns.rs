//! Many contenders of two clients take one lock, at random moments.

use curator_recipes::{FencingToken, InterProcessMutex, client::CuratorClient};
use curator_test::{TestingServer, soon};
use tokio::task::{spawn, spawn_blocking};

use crate::{
    agent::Agent,
    environment::new_seed,
    numbers::Numbers,
    ours::{await_nodes, client, rest},
};

/// Sessions of each of the two clients.
const SESSIONS: usize = 4;
/// Of each session.
const CYCLES: usize = 25;

/// Lets the sessions of both clients contend for the lock at `path`, and sees that nobody was beside anybody, and that each had its
/// turn in the order in which the nodes were created on the server.
///
/// There is a log, at whose end each holder writes when its node was created: it reads, and writes with no look at the version. A
/// second holder would be seen, as one of the two writes is lost, and whoever overtakes, as the numbers are not in order.
///
/// An agent is told to do its cycles by the words `cycles`, to which the path, the log's, their number and a seed are added.
pub(crate) async fn take_turns(
    server: &TestingServer,
    path: &str,
    start: impl Fn(&str) -> Agent,
    cycles: &str,
    mutex: impl Fn(&CuratorClient, &str) -> InterProcessMutex,
) {
    let seed = new_seed();
    println!("seed {seed}");
    let conductor = client(server).await;
    let log = format!("{path}-log");
    conductor.create().for_path(&log, b"").await.unwrap();
    // All queue behind this one, so that none is done before another has begun.
    let gate = mutex(&conductor, path);
    let closed = gate.acquire().await.unwrap();
    let theirs: Vec<_> = (0..SESSIONS)
        .map(|session| {
            let mut agent = start(&format!("agent{session}"));
            let seed = Numbers(seed + session as u64).below(1 << 30);
            let command = format!("{cycles} {path} {log} {CYCLES} {seed}");
            spawn_blocking(move || {
                assert_eq!(agent.ask(&command), "ok");
                agent
            })
        })
        .collect();
    let mut clients = Vec::new();
    for _ in 0..SESSIONS {
        clients.push(client(server).await);
    }
    let numbers = |session: usize| Numbers(seed + (SESSIONS + session) as u64);
    let ours: Vec<_> = (clients.iter().enumerate())
        .map(|(session, client)| spawn(our_cycles(client.clone(), mutex(client, path), log.clone(), numbers(session))))
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
    let written = String::from_utf8(conductor.get_data(&log).await.unwrap().0).unwrap();
    let turns: Vec<FencingToken> = written.split_whitespace().map(|turn| turn.parse().unwrap()).collect();
    assert_eq!(turns.len(), 2 * SESSIONS * CYCLES, "seed {seed}: two holders wrote at once: {written}");
    assert!(turns.is_sorted(), "seed {seed}: somebody was overtaken: {written}");
    let is_ours: Vec<_> = turns.iter().map(|turn| our_tokens.contains(turn)).collect();
    assert_eq!(is_ours.iter().filter(|ours| **ours).count(), SESSIONS * CYCLES);
    let handed_over = is_ours.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(handed_over >= CYCLES, "seed {seed}: only {handed_over} times from one client to the other: {written}");
    for client in clients {
        client.close().await.unwrap();
    }
    conductor.close().await.unwrap();
}

/// What an agent does by `cycles`. Returns the tokens.
async fn our_cycles(
    client: CuratorClient,
    mutex: InterProcessMutex,
    log: String,
    mut numbers: Numbers,
) -> Vec<FencingToken> {
    let mut tokens = Vec::new();
    for _ in 0..CYCLES {
        rest(&mut numbers).await;
        let guard = mutex.acquire().await.unwrap();
        let before = String::from_utf8(client.get_data(&log).await.unwrap().0).unwrap();
        client.set_data(&log, format!("{before} {}", guard.fencing_token()), None).await.unwrap();
        tokens.push(guard.fencing_token());
        guard.release().await.unwrap();
    }
    tokens
}
