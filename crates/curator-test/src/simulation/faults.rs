//! Faults that are left to chance.

use std::time::Duration;

/// A fault that lasts: how likely it is to begin, and how long it lasts at most.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct Fault {
    /// Between 0, never, and 1, always.
    pub probability: f64,
    /// The longest duration, in whole milliseconds. The duration is random.
    pub bound: Duration,
}

impl Fault {
    /// A fault that begins with a probability between 0 and 1, and lasts at most for the time
    /// `bound`.
    #[must_use]
    pub fn new(probability: f64, bound: Duration) -> Self {
        Self { probability, bound }
    }
}

/// Which faults happen at random, until [`heal`](crate::Simulation::heal). By default, none.
///
/// Each field has the probability of one fault, for each request, each reply, each second, and so
/// on. All randomness comes from the simulation's seed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct Faults {
    /// For each request: the connection is cut before the request is applied.
    pub cut_before_request: f64,
    /// For each reply: the connection is cut instead, after the request was applied.
    pub cut_before_reply: f64,
    /// For each request: the server's queue is full, so it refuses the request with the error -127.
    pub throttle: f64,
    /// For each frame: it arrives late, and so do later frames on its connection.
    pub delay: Fault,
    /// For each request: the network lets nothing more through on its connection.
    pub silence: Fault,
    /// For each message of the leader to a follower: it arrives late, and so do later messages.
    /// Until then, the follower serves older data.
    pub lag: Fault,
    /// For each time that sessions expire: the leader is late.
    pub slow_tick: Fault,
    /// In each second: a server stops. The bound limits how long it is down.
    pub crash: Fault,
    /// In each second: a server stops, and starts without its disk.
    pub lose_disk: Fault,
    /// In each second: a server pauses.
    pub pause_server: Fault,
    /// In each second: some servers are cut off from the others.
    pub partition_servers: Fault,
    /// In each second: a process is cut off from one server, or from all.
    pub partition: Fault,
    /// In each second: a process pauses.
    pub pause_process: Fault,
    /// In each second: the servers grant shorter timeouts to sessions that connect.
    pub shorter_timeouts: Fault,
    /// In each second: no client has access to a node.
    pub take_access: Fault,
    /// In each second: an operator deletes a node and all its descendants.
    pub delete: f64,
    /// In each second: the servers are restored to an earlier state. The bound limits how old that
    /// state is. This does not happen with one server, which would refuse clients that have seen
    /// later changes.
    pub restore: Fault,
    /// For each reconnect of a session: it is answered with a new session, as `ClickHouse` Keeper
    /// may do. The session itself gets no further requests.
    pub other_session: f64,
}

impl Faults {
    /// Faults of processes, servers and the network, which an ensemble promises to survive. No
    /// access is taken, nothing is deleted by an operator, no write is lost, and no reconnect is
    /// answered with another session.
    #[must_use]
    pub fn of_network_and_servers() -> Self {
        let seconds = |probability, seconds| Fault::new(probability, Duration::from_secs(seconds));
        Self {
            cut_before_request: 0.005,
            cut_before_reply: 0.005,
            throttle: 0.002,
            delay: Fault::new(0.02, Duration::from_millis(500)),
            silence: seconds(0.002, 20),
            lag: Fault::new(0.02, Duration::from_millis(300)),
            slow_tick: seconds(0.1, 1),
            crash: seconds(0.05, 10),
            lose_disk: seconds(0.01, 5),
            pause_server: seconds(0.03, 10),
            partition_servers: seconds(0.03, 10),
            partition: seconds(0.03, 15),
            pause_process: seconds(0.03, 15),
            shorter_timeouts: seconds(0.02, 20),
            ..Self::default()
        }
    }

    /// All faults.
    #[must_use]
    pub fn all() -> Self {
        let seconds = |probability, seconds| Fault::new(probability, Duration::from_secs(seconds));
        Self {
            take_access: seconds(0.03, 10),
            delete: 0.03,
            restore: seconds(0.005, 3),
            other_session: 0.05,
            ..Self::of_network_and_servers()
        }
    }

    /// A random selection of these faults: the seed decides whether each is kept, with probability
    /// one half. A run with few kinds of faults reaches states that a run with all kinds does not.
    #[must_use]
    pub fn some(mut self, seed: u64) -> Self {
        // The simulation itself uses `seed`; the numbers here must differ.
        let mut rng = fastrand::Rng::with_seed(!seed);
        for probability in self.probabilities() {
            if rng.bool() {
                *probability = 0.0;
            }
        }
        self
    }

    /// Whether any of the faults has a probability for each second.
    pub(crate) fn are_timed(&self) -> bool {
        let mut timed = *self;
        (
            timed.cut_before_request,
            timed.cut_before_reply,
            timed.throttle,
        ) = (0.0, 0.0, 0.0);
        (timed.delay, timed.silence) = (Fault::default(), Fault::default());
        (timed.lag, timed.slow_tick) = (Fault::default(), Fault::default());
        timed.other_session = 0.0;
        timed
            .probabilities()
            .iter()
            .any(|probability| **probability > 0.0)
    }

    fn probabilities(&mut self) -> [&mut f64; 18] {
        [
            &mut self.cut_before_request,
            &mut self.cut_before_reply,
            &mut self.throttle,
            &mut self.delay.probability,
            &mut self.silence.probability,
            &mut self.lag.probability,
            &mut self.slow_tick.probability,
            &mut self.crash.probability,
            &mut self.lose_disk.probability,
            &mut self.pause_server.probability,
            &mut self.partition_servers.probability,
            &mut self.partition.probability,
            &mut self.pause_process.probability,
            &mut self.shorter_timeouts.probability,
            &mut self.take_access.probability,
            &mut self.delete,
            &mut self.restore.probability,
            &mut self.other_session,
        ]
    }
}
