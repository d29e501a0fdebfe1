//! Many contenders of two clients take one lock, at random moments.

use curator_recipes::{FencingToken, InterProcessMutex, client::CuratorClient};
use curator_test::{TestingServer, soon, unique_path};
use tokio::task::{spawn, spawn_blocking};

use crate::{
    numbers::Numbers,
    ours::{await_nodes, client, rest},
    seed,
    sharing::Peer,
};

/// Sessions of each of the two clients.
const SESSIONS: usize = 4;
/// Of each session.
const CYCLES: usize = 25;

/// Lets the sessions of both clients contend for a lock, and sees that nobody was beside anybody, and that each had its
/// turn in the order in which the nodes were created on the server.
///
/// There is a log, at whose end each holder writes when its node was created: it reads, and writes with no look at the version. A
/// second holder would be seen, as one of the two writes is lost, and whoever overtakes, as the numbers are not in order.
///
/// An agent is told to do its cycles by a command to which the path, the log's, their number and a seed are added.
pub(crate) async fn take_turns(peer: &Peer) {
    let (server, path, mut seeds) = (TestingServer::shared().await, unique_path("lock"), seed());
    let conductor = client(server).await;
    let log = format!("{path}-log");
    conductor.create().for_path(&log, b"").await.unwrap();
    // All queue behind this one, so that none is done before another has begun.
    let gate = (peer.mutex)(&conductor, &path);
    let closed = gate.acquire().await.unwrap();
    let theirs: Vec<_> = (0..SESSIONS)
        .map(|session| {
            let mut agent = peer.start(&format!("agent{session}"), server);
            // Go's numbers have a sign.
            let command = format!("{} {path} {log} {CYCLES} {}", peer.cycles, seeds.next() >> 1);
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
    let ours: Vec<_> = (clients.iter())
        .map(|client| {
            let mutex = (peer.mutex)(client, &path);
            spawn(our_cycles(client.clone(), mutex, log.clone(), Numbers(seeds.next())))
        })
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
    assert_eq!(turns.len(), 2 * SESSIONS * CYCLES, "two holders wrote at once: {written}");
    assert!(turns.is_sorted(), "somebody was overtaken: {written}");
    let is_ours: Vec<_> = turns.iter().map(|turn| our_tokens.contains(turn)).collect();
    assert_eq!(is_ours.iter().filter(|ours| **ours).count(), SESSIONS * CYCLES);
    // All of both stood in one queue before anybody held. How they mix later is up to the machine.
    assert_eq!(is_ours[..2 * SESSIONS].iter().filter(|ours| **ours).count(), SESSIONS, "{written}");
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
