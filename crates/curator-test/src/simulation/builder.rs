//! Settings of a simulation.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    Faults, Run, Simulation, millis,
    world::{Config, START},
};
use crate::{
    Dialect,
    embedded::{Millis, Settings},
};

/// Settings for a [`Simulation`].
#[derive(Debug, Clone)]
#[must_use = "call `start`"]
pub struct SimulationBuilder {
    config: Config,
    /// The command that repeats the run. By default, it runs the test of this thread.
    command: Option<String>,
}

impl Default for SimulationBuilder {
    fn default() -> Self {
        Self {
            config: Config {
                seed: 0,
                start: START,
                servers: 1,
                settings: Settings::default(),
                latency: (1, 3),
                server_latency: (1, 2),
                lag: (0, 5),
                election: (100, 500),
                sync_limit: 5,
                trace_limit: usize::MAX,
                faults: Faults::default(),
                heal_after: None,
            },
            command: None,
        }
    }
}

impl SimulationBuilder {
    /// The seed of everything random. Defaults to 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = seed;
        self
    }

    /// The command that repeats the run, for the report of a failure. For the tests and tools of
    /// this repository only.
    #[doc(hidden)]
    pub fn command(mut self, command: String) -> Self {
        self.command = Some(command);
        self
    }

    pub(super) fn run_of_this(&self) -> Run {
        Run::new(self.config.seed, self.command.clone())
    }

    /// How many servers there are: 1, 3 or 5. Defaults to 1. Other numbers are rounded up to one of
    /// these; more than 5 become 5.
    pub fn servers(mut self, servers: usize) -> Self {
        self.config.servers = match servers {
            0..=1 => 1,
            2..=3 => 3,
            _ => 5,
        };
        self
    }

    /// The servers to reproduce, with their bounds of session timeouts. Defaults to
    /// [`Dialect::ZooKeeper3_9`]. Later calls of the other methods change single settings.
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.config.settings.set_dialect(dialect);
        self
    }

    /// The id of the first session; later ones count from it. Defaults to the ids of the dialect: on
    /// ZooKeeper, they contain the number of the server; on the others, they count from 1. A
    /// ClickHouse Keeper with the data of a ZooKeeper (`clickhouse-keeper-converter`) continues the
    /// ids of that ZooKeeper.
    pub fn first_session_id(mut self, id: i64) -> Self {
        self.config.settings.first_session = Some(id);
        self
    }

    /// ZooKeeper's unit of time, in whole milliseconds. Defaults to 100 ms.
    pub fn tick_time(mut self, tick: Duration) -> Self {
        self.config.settings.set_tick(tick);
        self
    }

    /// The shortest and the longest session timeout that the servers grant. Defaults to two ticks
    /// and 60 s. If the shortest is longer than the longest, the longest counts.
    pub fn session_timeouts(mut self, min: Duration, max: Duration) -> Self {
        self.config.settings.session_timeouts = (Some(min), max);
        self
    }

    /// How often the leader removes empty containers and expired TTL nodes. Defaults to one minute.
    pub fn container_check_interval(mut self, interval: Duration) -> Self {
        self.config.settings.set_container_check(interval);
        self
    }

    /// How long a frame takes from a client to a server, or back. The time is random, by default 1
    /// to 3 ms.
    pub fn latency(mut self, latency: RangeInclusive<Duration>) -> Self {
        self.config.latency = bounds(&latency);
        self
    }

    /// How much later than the leader a follower applies a change, in addition to the 1 to 2 ms of
    /// a message between servers. Until then it serves the older data. The time is random, by
    /// default 0 to 5 ms.
    pub fn lag(mut self, lag: RangeInclusive<Duration>) -> Self {
        self.config.lag = bounds(&lag);
        self
    }

    /// How long a server without a leader waits before it elects one. The time is random, by
    /// default 100 to 500 ms.
    pub fn election(mut self, time: RangeInclusive<Duration>) -> Self {
        self.config.election = bounds(&time);
        self
    }

    /// After how many ticks followers leave a silent leader, and a leader steps down without a
    /// majority. A random time of up to one tick is added. The default is 5 ticks.
    pub fn sync_limit(mut self, ticks: u32) -> Self {
        self.config.sync_limit = u64::from(ticks);
        self
    }

    /// How many of the last lines of the trace are kept. By default, all.
    pub fn trace_lines(mut self, lines: usize) -> Self {
        self.config.trace_limit = lines;
        self
    }

    /// The random faults, from the start. Defaults to none.
    pub fn faults(mut self, faults: Faults) -> Self {
        self.config.faults = faults;
        self
    }

    /// How long after the start all faults [end](Simulation::heal). By default, they do not end by
    /// themselves.
    pub fn heal_after(mut self, time: Duration) -> Self {
        self.config.heal_after = Some(millis(time));
        self
    }

    /// The configuration of a simulation whose servers have these `settings`. `start` is in
    /// milliseconds since 1970.
    pub(super) fn into_config(self, settings: Settings, start: i64) -> Config {
        Config {
            settings,
            start,
            ..self.config
        }
    }

    /// Starts the simulation. The servers are ready when this returns.
    ///
    /// # Panics
    ///
    /// When called outside a tokio runtime, or in a multi-threaded one: tokio's clock cannot be
    /// paused there.
    #[must_use = "the simulation ends when this is dropped"]
    pub fn start(self) -> Simulation {
        let run = self.run_of_this();
        Simulation::begin(self.config, run)
    }
}

pub(super) fn bounds(range: &RangeInclusive<Duration>) -> (Millis, Millis) {
    let least = millis(*range.start());
    let most = millis(*range.end());
    (least, most.max(least))
}
