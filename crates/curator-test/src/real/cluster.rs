//! A real ensemble.

use std::time::{Duration, Instant};

use crate::{
    error::Error,
    four_letter::Mode,
    ports::Port,
    real::{Distribution, RealServer},
    server::{TestingServer, settings::Settings},
};

/// An election takes a fraction of a second; a machine that compiles on all cores may need many.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the members are asked.
const POLL: Duration = Duration::from_millis(20);
/// `myid` has no limit of that kind, but more JVMs than that on one machine test the machine.
const MOST: usize = 9;

/// A real ZooKeeper ensemble on the loopback interface.
///
/// Each member is a real [`TestingServer`], whatever kind the tests run on, and can be stopped, killed, paused and restarted by itself. Members are counted
/// from 0. Dropping the cluster kills them all.
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
    /// ZooKeeper's unit of time, in whole milliseconds; 100 ms if not set.
    pub fn tick_time(mut self, tick: Duration) -> Self {
        self.settings.set_tick_time(tick);
        self
    }

    /// For how many ticks a member may be silent before the others give it up; 20 if not set.
    pub fn sync_limit(self, ticks: u32) -> Self {
        self.property("syncLimit", ticks.to_string())
    }

    /// How many ticks a member may take to catch up with the leader; 100 if not set.
    pub fn init_limit(self, ticks: u32) -> Self {
        self.property("initLimit", ticks.to_string())
    }

    /// A line of `zoo.cfg` for all members. The last value of a key counts.
    pub fn property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.config.insert(key.into(), value.into());
        self
    }

    /// A system property of each member's JVM.
    pub fn system_property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.system.insert(key.into(), value.into());
        self
    }

    /// Starts so many members, and waits until every one of them serves.
    ///
    /// # Errors
    ///
    /// When ZooKeeper is not installed, or when a member does not serve within 60 s.
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
    /// Starts an ensemble of so many members, and waits until every one of them serves.
    ///
    /// # Errors
    ///
    /// When ZooKeeper is not installed, or when a member does not serve within 60 s.
    pub async fn new(members: usize) -> Result<Self, Error> {
        Self::builder().start(members).await
    }

    /// For an ensemble with other settings.
    pub fn builder() -> TestingClusterBuilder {
        TestingClusterBuilder::default()
    }

    /// All members' addresses, as ZooKeeper's clients want them: `127.0.0.1:<port>,…`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.members.iter().map(TestingServer::connect_string).collect::<Vec<_>>().join(",")
    }

    /// All members, running or not.
    #[must_use]
    pub fn members(&self) -> &[TestingServer] {
        &self.members
    }

    /// One member, counted from 0.
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
    /// When there is not one leader with a quorum behind it within 60 s.
    pub async fn leader(&self) -> Result<usize, Error> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(leader) = self.leader_now().await {
                return Ok(leader);
            }
            tokio::time::sleep(POLL).await;
        }
        Err(Error::timeout("a leader", PATIENCE))
    }

    /// The member that a session is connected to now; nothing when it is connected to none that answers.
    pub async fn member_of_session(&self, session_id: i64) -> Option<usize> {
        for (index, member) in self.members.iter().enumerate() {
            let Ok(sessions) = member.sessions().await else { continue };
            if sessions.iter().any(|session| session.session_id == session_id) {
                return Some(index);
            }
        }
        None
    }

    /// The leader, if exactly one member says that it leads and a majority takes part.
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
