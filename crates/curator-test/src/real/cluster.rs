//! A real ensemble.

use std::time::{Duration, Instant};

use crate::{
    error::Error,
    four_letter::Mode,
    ports::Port,
    real::{Distribution, RealServer},
    real_time,
    server::{TestingServer, settings::Settings},
};

/// An election takes a fraction of a second, but many seconds on a machine that compiles on all cores.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How often the members are asked.
const POLL: Duration = Duration::from_millis(20);
/// `myid` has no such limit, but more JVMs than that on one machine would only test the machine.
const MOST: usize = 9;

/// A real ZooKeeper ensemble on the loopback interface.
///
/// Each member is a real [`TestingServer`], whatever kind the tests run on, and can be stopped, killed, paused and restarted
/// individually. Members are numbered from 0. Dropping the cluster kills them all.
#[derive(Debug)]
pub struct TestingCluster {
    members: Vec<TestingServer>,
    /// The ports that the members use among themselves, kept for restarts.
    _internal: Vec<Port>,
}

/// Settings for a [`TestingCluster`].
#[derive(Debug, Clone, Default)]
#[must_use = "call `start`"]
pub struct TestingClusterBuilder {
    settings: Settings,
}

impl TestingClusterBuilder {
    /// ZooKeeper's unit of time, in whole milliseconds. Defaults to 100 ms.
    pub fn tick_time(mut self, tick: Duration) -> Self {
        self.settings.set_tick_time(tick);
        self
    }

    /// For how many ticks a member may be silent before the others give up on it. Defaults to 20.
    pub fn sync_limit(self, ticks: u32) -> Self {
        self.property("syncLimit", ticks.to_string())
    }

    /// How many ticks a member may take to catch up with the leader. Defaults to 100.
    pub fn init_limit(self, ticks: u32) -> Self {
        self.property("initLimit", ticks.to_string())
    }

    /// A line of `zoo.cfg` for all members. The last value for a key counts.
    pub fn property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.config.insert(key.into(), value.into());
        self
    }

    /// A system property of each member's JVM.
    pub fn system_property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.system.insert(key.into(), value.into());
        self
    }

    /// Starts this many members, and waits until all of them are ready.
    ///
    /// # Errors
    ///
    /// When ZooKeeper is not installed, or when a member is not ready within 60 s.
    pub async fn start(mut self, members: usize) -> Result<TestingCluster, Error> {
        if !(1..=MOST).contains(&members) {
            return Err(Error::Members(members));
        }
        let distribution = Distribution::find()?;
        let reserve = || (0..members).map(|_| Port::reserve()).collect::<Result<Vec<_>, _>>();
        let (clients, quorum, election) = (reserve()?, reserve()?, reserve()?);
        for (i, (quorum, election)) in quorum.iter().zip(&election).enumerate() {
            let value = format!("127.0.0.1:{}:{}", quorum.number(), election.number());
            self.settings.config.insert(format!("server.{}", i + 1), value);
        }
        let prepare = |(i, port)| {
            let server = RealServer::prepare(distribution.clone(), self.settings.clone(), port, Some(i + 1))?;
            Ok(TestingServer::of_real(server))
        };
        let servers = clients.into_iter().enumerate().map(prepare).collect::<Result<Vec<_>, Error>>()?;
        let internal = quorum.into_iter().chain(election).collect();
        let cluster = TestingCluster { members: servers, _internal: internal };
        for member in &cluster.members {
            member.launch()?;
        }
        for member in &cluster.members {
            member.wait_until_serving().await?;
        }
        Ok(cluster)
    }
}

impl TestingCluster {
    /// Starts an ensemble of this many members, and waits until all of them are ready.
    ///
    /// # Errors
    ///
    /// When ZooKeeper is not installed, or when a member is not ready within 60 s.
    pub async fn new(members: usize) -> Result<Self, Error> {
        Self::builder().start(members).await
    }

    /// Configures an ensemble with other settings.
    pub fn builder() -> TestingClusterBuilder {
        TestingClusterBuilder::default()
    }

    /// The connect string of all members: `127.0.0.1:<port>,…`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.members.iter().map(TestingServer::connect_string).collect::<Vec<_>>().join(",")
    }

    /// All members, running or not.
    #[must_use]
    pub fn members(&self) -> &[TestingServer] {
        &self.members
    }

    /// One member, numbered from 0.
    ///
    /// # Panics
    ///
    /// When there is no such member.
    #[must_use]
    pub fn member(&self, index: usize) -> &TestingServer {
        &self.members[index]
    }

    /// The member that leads. Waits for the end of an election.
    ///
    /// # Errors
    ///
    /// When no leader has a quorum within 60 s.
    pub async fn leader(&self) -> Result<usize, Error> {
        let end = Instant::now() + TIMEOUT;
        while Instant::now() < end {
            if let Some(leader) = self.leader_now().await {
                return Ok(leader);
            }
            real_time::sleep(POLL).await;
        }
        Err(Error::timeout("a leader", TIMEOUT))
    }

    /// The member that a session is connected to now; `None` if no member that answers has it.
    pub async fn member_of_session(&self, session_id: i64) -> Option<usize> {
        for (index, member) in self.members.iter().enumerate() {
            let Ok(sessions) = member.sessions().await else { continue };
            if sessions.iter().any(|session| session.session_id == session_id) {
                return Some(index);
            }
        }
        None
    }

    /// The leader, if exactly one member reports that it leads and a majority takes part.
    async fn leader_now(&self) -> Option<usize> {
        let mut leaders = Vec::new();
        let mut voters = 0;
        for (index, member) in self.members.iter().enumerate() {
            match member.mode().await {
                Some(Mode::Leader | Mode::Standalone) => {
                    leaders.push(index);
                    voters += 1;
                }
                Some(Mode::Follower) => voters += 1,
                Some(Mode::Observer) | None => {}
            }
        }
        let quorum = voters > self.members.len() / 2;
        leaders.pop().filter(|_| leaders.is_empty() && quorum)
    }
}
