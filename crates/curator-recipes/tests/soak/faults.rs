//! Injects faults into the connections.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use curator_test::{Direction, FaultProxy, OpCode, TestingServer, close_session};
use tokio::time::sleep;

use super::SESSION_TIMEOUT;
use super::support::{Fault, Numbers};

/// Requests whose replies get lost.
const OPS: [OpCode; 7] = [
    OpCode::Create2,
    OpCode::Delete,
    OpCode::GetChildren,
    OpCode::GetData,
    OpCode::Multi,
    OpCode::MultiRead,
    OpCode::CreateSession,
];

/// Faults that take effect immediately.
const STRIKES: [(&str, Fault); 6] = [
    ("cut", |proxy, _| proxy.cut()),
    ("reset", |proxy, _| proxy.reset()),
    ("answer lost", FaultProxy::swallow_next_reply),
    ("cut before a request", FaultProxy::cut_before_request),
    ("cut before an answer", FaultProxy::cut_before_reply),
    // The next connection is accepted; the client closes it after a second without a reply to its
    // probe.
    ("cut, and the next one silent", |proxy, _| {
        (0..3).for_each(|_| proxy.swallow_next_reply(OpCode::Sync));
        proxy.cut();
    }),
];

/// The number of kinds of faults, including those in `inject_one`.
const KINDS: usize = STRIKES.len() + 5;

/// The faults of a soak, in rounds: each round has every kind once, in random order.
pub(crate) struct Faults {
    proxies: Vec<FaultProxy>,
    server: SocketAddr,
    numbers: Numbers,
    /// The remaining faults of the current round.
    bag: Vec<usize>,
    done: BTreeMap<&'static str, u64>,
}

impl Faults {
    pub(crate) fn new(proxies: Vec<FaultProxy>, server: &TestingServer, seed: u64) -> Self {
        Self {
            proxies,
            server: server.address(),
            numbers: Numbers(seed),
            bag: Vec::new(),
            done: BTreeMap::new(),
        }
    }

    /// The faults so far, and how often each was injected.
    pub(crate) fn done(&self) -> String {
        let done: Vec<_> = self
            .done
            .iter()
            .map(|(what, count)| format!("{count} × {what}"))
            .collect();
        done.join(", ")
    }

    /// Injects one fault, then pauses. Takes about a second; rarely longer.
    pub(crate) async fn inject_one(&mut self) {
        if self.bag.is_empty() {
            self.bag = (0..KINDS).collect();
        }
        let fault = self.bag.swap_remove(self.numbers.below(self.bag.len()));
        let which = self.numbers.below(self.proxies.len());
        let proxy = &self.proxies[which];
        let op = OPS[self.numbers.below(OPS.len())];
        let what = match fault.checked_sub(STRIKES.len()) {
            None => {
                let (what, strike) = STRIKES[fault];
                strike(proxy, op);
                what
            }
            Some(0) => {
                proxy.refuse(true).unwrap();
                proxy.cut();
                self.pause(500).await;
                self.proxies[which].refuse(false).unwrap();
                "refused for a while"
            }
            Some(1) => {
                let direction = [Direction::ToServer, Direction::ToClient, Direction::Both]
                    [self.numbers.below(3)];
                self.proxies[which].black_hole(direction);
                self.pause(1_500).await;
                self.proxies[which].heal();
                "black hole"
            }
            Some(2) => {
                proxy.set_delay(Duration::from_millis(20));
                self.pause(1_000).await;
                self.proxies[which].set_delay(Duration::ZERO);
                "slow for a while"
            }
            Some(3) => {
                // Longer than the lease: the session is lost, and its close cannot be confirmed.
                proxy.black_hole(Direction::Both);
                sleep(SESSION_TIMEOUT).await;
                proxy.heal();
                "black hole for a session timeout"
            }
            _ => {
                if let Some(session) = proxy.sessions().pop() {
                    // The session may have ended already.
                    let _closed = close_session(self.server, &session).await;
                }
                "session ended"
            }
        };
        *self.done.entry(what).or_default() += 1;
        self.pause(700).await;
    }

    /// Ends all faults, so that the network works from now on.
    pub(crate) fn heal(&self) {
        self.proxies.iter().for_each(FaultProxy::heal);
    }

    async fn pause(&mut self, longest: usize) {
        sleep(Duration::from_millis(self.numbers.below(longest) as u64)).await;
    }
}
