//! Another client's lock and our mutex in one queue. Each session of the other client runs in a
//! separate process.

use std::sync::Arc;

use curator_recipes::{InterProcessLock, InterProcessMutex, client::CuratorClient};
use curator_test::{FaultProxy, TestingServer, close_session, soon, unique_path};
use tokio::task::{spawn, spawn_blocking};

use crate::{
    agent::Agent,
    ours::{CrashableClient, await_nodes, client, until_another_watches, wait_in_queue},
    still_waits::still_waits,
    turns::{self, cycles},
};

/// Another client library.
pub(crate) struct Peer {
    /// Starts a program with this name and a session on these servers. The name is the data of its
    /// nodes.
    pub(crate) start: fn(&str, &str) -> Agent,
    /// The acquire command, to which the path is added, and the prefix of its reply.
    pub(crate) acquire: (&'static str, &'static str),
    /// The release command, to which the path is added, and its reply.
    pub(crate) release: (&'static str, &'static str),
    /// The command that acquires and releases many times.
    pub(crate) cycles: &'static str,
    /// Our mutex for its paths.
    pub(crate) mutex: fn(&CuratorClient, &str) -> InterProcessMutex,
}

impl Peer {
    pub(crate) fn start(&self, name: &str, server: &TestingServer) -> Agent {
        (self.start)(name, &server.connect_string())
    }

    /// Sends the command, without waiting for the lock.
    fn begin_to_acquire(&self, agent: &mut Agent, path: &str) {
        agent.send(&format!("{} {path}", self.acquire.0));
    }

    fn assert_acquired(&self, agent: &Agent) {
        let answer = agent.answer();
        assert!(answer.starts_with(self.acquire.1), "{answer}");
    }

    fn acquire(&self, agent: &mut Agent, path: &str) {
        self.begin_to_acquire(agent, path);
        self.assert_acquired(agent);
    }

    fn release(&self, agent: &mut Agent, path: &str) {
        assert_eq!(
            agent.ask(&format!("{} {path}", self.release.0)),
            self.release.1
        );
    }
}

/// Sessions of both clients take turns with a lock, in the order in which the server has created
/// their nodes.
pub(crate) async fn take_turns(peer: &'static Peer) {
    const CYCLES: usize = 25;
    let server = TestingServer::shared().await;
    let path = unique_path("lock");
    let lock = |client: &CuratorClient, path: &str| -> Arc<dyn InterProcessLock> {
        Arc::new((peer.mutex)(client, path))
    };
    turns::take_turns(
        lock,
        &path,
        |number, log, seed| {
            let mut agent = peer.start(&format!("agent{number}"), server);
            let command = format!("{} {path} {log} {CYCLES} {seed}", peer.cycles);
            spawn_blocking(move || {
                assert_eq!(agent.ask(&command), "ok");
                agent.stop();
                CYCLES
            })
        },
        |client, log, numbers| {
            let lock = lock(&client, &path);
            spawn(cycles(CYCLES, client, lock, log, numbers))
        },
    )
    .await;
}

/// Two programs of the peer and two acquires of one of our clients share a queue, and each waits
/// for its predecessor.
pub(crate) async fn stand_in_one_queue(peer: &Peer) {
    let server = TestingServer::shared().await;
    let path = unique_path("lock");
    let mut a = peer.start("a", server);
    let mut b = peer.start("b", server);
    let client = client(server).await;
    let mutex = (peer.mutex)(&client, &path);

    peer.acquire(&mut a, &path);
    assert!(mutex.try_acquire().await.unwrap().is_none());
    let second = wait_in_queue(&mutex, 2).await;
    peer.begin_to_acquire(&mut b, &path);
    await_nodes(&mutex, 3).await;
    let fourth = wait_in_queue(&mutex, 4).await;

    let participants = mutex.participants().await.unwrap();
    assert_eq!([&participants[0].data, &participants[2].data], [b"a", b"b"]);
    assert_eq!(
        participants
            .iter()
            .map(|participant| participant.owns)
            .collect::<Vec<_>>(),
        [true, false, false, false]
    );
    assert!(still_waits(&second, &client).await);
    peer.release(&mut a, &path);
    let guard = soon(second).await.unwrap();
    until_another_watches(server, &guard).await;
    assert!(b.is_silent() && still_waits(&fourth, &client).await);
    guard.release().await.unwrap();
    peer.assert_acquired(&b);
    assert!(still_waits(&fourth, &client).await);
    peer.release(&mut b, &path);
    soon(fourth).await.unwrap().release().await.unwrap();
    assert_eq!(a.ask(&format!("children {path}")), "ok");
}

/// The lock of a killed program passes to our mutex when the program's session ends, and a killed
/// waiter is skipped.
pub(crate) async fn killed_programs_give_way(peer: &Peer) {
    let server = TestingServer::shared().await;
    let path = unique_path("lock");
    let proxy = FaultProxy::start(server.address()).unwrap();
    let [mut holder, mut waiter] =
        ["holder", "waiter"].map(|name| (peer.start)(name, &proxy.connect_string()));
    let client = client(server).await;
    let mutex = (peer.mutex)(&client, &path);

    peer.acquire(&mut holder, &path);
    peer.begin_to_acquire(&mut waiter, &path);
    await_nodes(&mutex, 2).await;
    let third = wait_in_queue(&mutex, 3).await;
    waiter.kill();
    holder.kill();
    assert!(still_waits(&third, &client).await);
    // The test ends the sessions now; otherwise the server would end them at their timeout.
    for session in proxy.sessions() {
        close_session(server.address(), &session).await.unwrap();
    }
    let guard = soon(third).await.unwrap();
    assert_eq!(mutex.participants().await.unwrap().len(), 1);
    guard.release().await.unwrap();
}

/// Like [`killed_programs_give_way`], with the roles exchanged.
pub(crate) async fn lost_sessions_of_ours_give_way(peer: &'static Peer) {
    let server = TestingServer::shared().await;
    let path = unique_path("lock");
    let mut agent = peer.start("agent", server);
    let holder = CrashableClient::connect(server).await;
    let waiter = CrashableClient::connect(server).await;
    let [held, waited_for] = [&holder, &waiter].map(|session| (peer.mutex)(&session.client, &path));

    let guard = held.acquire().await.unwrap();
    let second = wait_in_queue(&waited_for, 2).await;
    peer.begin_to_acquire(&mut agent, &path);
    await_nodes(&waited_for, 3).await;
    assert!(still_waits(&second, &waiter.client).await && agent.is_silent());
    waiter.end_session(server).await;
    holder.end_session(server).await;
    // Another thread waits for the reply, because blocking this thread would end our sessions.
    let answered = spawn_blocking(move || {
        peer.assert_acquired(&agent);
        agent
    });
    let mut agent = soon(answered).await.unwrap();
    soon(guard.lost()).await;
    peer.release(&mut agent, &path);
    // Our waiter has continued in a new session.
    soon(second).await.unwrap().release().await.unwrap();
}
