//! A real ensemble.

use std::{
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use super::TestingServer;
use crate::{
    distribution::Distribution,
    error::Error,
    four_letter::Mode,
    ports::Port,
    real::{InternalPorts, Network, RealServer},
    reconfig::{Answer, Change, reconfig},
    settings::Settings,
    wait,
};

/// An election takes a fraction of a second, but many seconds while all cores compile.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The interval between two queries of the members.
const POLL: Duration = Duration::from_millis(20);
/// ZooKeeper allows more, but more JVMs on one machine make tests slow.
const MAX_MEMBERS: usize = 9;
/// Errors of a change of the members that may succeed later: the new member has not caught up yet,
/// another change is in progress, or the ensemble elects a leader.
const RETRYABLE: [i32; 3] = [-13, -14, -4];

/// A real ZooKeeper ensemble on the loopback interface.
///
/// Each member is a real [`TestingServer`], whatever the value of `CURATOR_TEST_SERVER`, and can be
/// stopped, killed, paused and restarted. Members are numbered from 0. Dropping the cluster kills
/// them all.
#[derive(Debug)]
pub struct TestingCluster {
    members: Vec<TestingServer>,
    /// The places of the members in the ensemble, in the same order.
    places: Vec<Place>,
    /// The places of members that were removed. Their servers may still run, or start again, so their
    /// ports stay reserved.
    left: Vec<Place>,
    /// The proxies between the members, if the cluster is partitionable.
    network: Option<Network>,
    distribution: Distribution,
    /// The settings of new members.
    settings: Settings,
    /// The id of the next member. Ids are not used again.
    next_id: usize,
    reconfigurable: bool,
}

/// The place of a member in its ensemble.
#[derive(Debug)]
struct Place {
    id: usize,
    /// The ports for the other members, reserved for restarts.
    internal: InternalPorts,
    client: SocketAddr,
}

impl Place {
    /// The value of `server.<id>`. Only a dynamic configuration names the port for clients.
    fn server(&self, is_dynamic: bool) -> String {
        let server = self.internal.server();
        if is_dynamic {
            format!("{server}:participant;{}", self.client)
        } else {
            server
        }
    }
}

/// Settings for a [`TestingCluster`].
#[derive(Debug, Clone, Default)]
#[must_use = "call `start`"]
pub struct TestingClusterBuilder {
    settings: Settings,
    partitionable: bool,
    reconfigurable: bool,
}

impl TestingClusterBuilder {
    /// ZooKeeper's unit of time, in whole milliseconds. Defaults to 100 ms.
    pub fn tick_time(mut self, tick: Duration) -> Self {
        self.settings.set_tick_time(tick);
        self
    }

    /// After how many ticks without a message the other members drop a member. Defaults to
    /// 20.
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

    /// Adds an option of each member's JVM, such as `-Xmx1g`. It overrides the default options.
    pub fn java_option(mut self, option: impl Into<String>) -> Self {
        self.settings.java.push(option.into());
        self
    }

    /// The parent directory of the members' data: an existing directory, for example in a file
    /// system in memory. Defaults to the system's directory for temporary files.
    pub fn data_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.settings.data = Some(directory.into());
        self
    }

    /// Connects the members through proxies, so that [`isolate`](TestingCluster::isolate) and
    /// [`disconnect`](TestingCluster::disconnect) can cut a member off from the others. Clients
    /// connect directly.
    pub fn partitionable(mut self) -> Self {
        self.partitionable = true;
        self
    }

    /// Starts the members with a dynamic configuration, which
    /// [`add_member`](TestingCluster::add_member) and
    /// [`remove_member`](TestingCluster::remove_member) change (`reconfigEnabled`). The
    /// configuration, at `/zookeeper/config`, names the members' addresses for clients. The members
    /// check no ACLs (`skipACL`), because only a super user could change the configuration
    /// otherwise.
    ///
    /// Cannot be combined with [`partitionable`](Self::partitionable), because all members share one
    /// configuration.
    pub fn reconfigurable(mut self) -> Self {
        self.reconfigurable = true;
        self.property("reconfigEnabled", "true")
            .property("standaloneEnabled", "false")
            .system_property("zookeeper.skipACL", "yes")
    }

    /// Starts this many members, and waits until all of them are ready.
    ///
    /// # Errors
    ///
    /// When `members` is not from 1 to 9, ZooKeeper is not installed, or a member is not ready
    /// within 60 s. [`Error::NotReconfigurable`] when the cluster is partitionable as well.
    pub async fn start(self, members: usize) -> Result<TestingCluster, Error> {
        if self.partitionable && self.reconfigurable {
            return Err(Error::NotReconfigurable);
        }
        if !(1..=MAX_MEMBERS).contains(&members) {
            return Err(Error::Members(members));
        }
        let distribution = Distribution::find()?;
        let clients = (0..members)
            .map(|_| Port::reserve())
            .collect::<Result<Vec<_>, _>>()?;
        let internal = (0..members)
            .map(|_| InternalPorts::reserve())
            .collect::<Result<Vec<_>, _>>()?;
        let network = self
            .partitionable
            .then(|| Network::start(&internal))
            .transpose()?;
        let places: Vec<_> = clients
            .iter()
            .zip(internal)
            .enumerate()
            .map(|(index, (client, internal))| Place {
                id: index + 1,
                internal,
                client: client.address(),
            })
            .collect();
        let servers = clients
            .into_iter()
            .enumerate()
            .map(|(from, port)| {
                let mut settings = self.settings.clone();
                for (to, place) in places.iter().enumerate() {
                    let through = network
                        .as_ref()
                        .and_then(|network| network.server(from, to));
                    settings.config.insert(
                        format!("server.{}", place.id),
                        through.unwrap_or_else(|| place.server(self.reconfigurable)),
                    );
                }
                let server =
                    RealServer::prepare(distribution.clone(), settings, port, Some(from + 1))?;
                Ok(TestingServer::of_real(server))
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let cluster = TestingCluster {
            members: servers,
            places,
            left: Vec::new(),
            network,
            distribution,
            settings: self.settings,
            next_id: members + 1,
            reconfigurable: self.reconfigurable,
        };
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
    /// When `members` is not from 1 to 9, ZooKeeper is not installed, or a member is not ready
    /// within 60 s.
    pub async fn new(members: usize) -> Result<Self, Error> {
        Self::builder().start(members).await
    }

    /// Configures an ensemble.
    pub fn builder() -> TestingClusterBuilder {
        TestingClusterBuilder::default()
    }

    /// The connect string of all members: `127.0.0.1:<port>,…`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.members
            .iter()
            .map(TestingServer::connect_string)
            .collect::<Vec<_>>()
            .join(",")
    }

    /// All members, running or stopped.
    #[must_use]
    pub fn members(&self) -> &[TestingServer] {
        &self.members
    }

    /// A member, by its number from 0.
    ///
    /// # Panics
    ///
    /// When there is no such member.
    #[must_use]
    pub fn member(&self, index: usize) -> &TestingServer {
        &self.members[index]
    }

    /// The number of the member that leads. Waits for the end of an election.
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
            wait::sleep(POLL).await;
        }
        Err(Error::timeout("a leader", TIMEOUT))
    }

    /// The number of the member that a session is connected to; `None` if no member that replies
    /// has the session.
    pub async fn member_of_session(&self, session_id: i64) -> Option<usize> {
        for (index, member) in self.members.iter().enumerate() {
            let Ok(sessions) = member.sessions().await else {
                continue;
            };
            if sessions
                .iter()
                .any(|session| session.session_id == session_id)
            {
                return Some(index);
            }
        }
        None
    }

    /// Starts a new member without data, and adds it to the ensemble as a voting member. Returns its
    /// number when it is ready.
    ///
    /// # Errors
    ///
    /// [`Error::NotReconfigurable`] when the cluster was not started as
    /// [`reconfigurable`](TestingClusterBuilder::reconfigurable); [`Error::Members`] when it has
    /// nine members. [`Error::Reconfig`] when the ensemble refuses the change. When the member is
    /// not ready, or the ensemble has not applied the change, within 60 s.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the new member is killed; the ensemble may contain it.
    pub async fn add_member(&mut self) -> Result<usize, Error> {
        self.assert_reconfigurable()?;
        if self.members.len() >= MAX_MEMBERS {
            return Err(Error::Members(self.members.len() + 1));
        }
        let port = Port::reserve()?;
        let place = Place {
            id: self.next_id,
            internal: InternalPorts::reserve()?,
            client: port.address(),
        };
        self.next_id += 1;
        let mut settings = self.settings.clone();
        for place in self.places.iter().chain([&place]) {
            settings
                .config
                .insert(format!("server.{}", place.id), place.server(true));
        }
        let server =
            RealServer::prepare(self.distribution.clone(), settings, port, Some(place.id))?;
        let server = TestingServer::of_real(server);
        server.launch()?;
        // Until it is a member, it follows the leader without a vote.
        server.wait_until_serving().await?;
        let join = Change::Join(format!("server.{}={}", place.id, place.server(true)));
        self.change(&join, None).await?;
        server.wait_until_serving().await?;
        self.members.push(server);
        self.places.push(place);
        Ok(self.members.len() - 1)
    }

    /// Removes a member from the ensemble. Returns the server, which may continue to serve its
    /// clients for a while; dropping it kills it. The members after it are numbered anew.
    ///
    /// # Errors
    ///
    /// See [`add_member`](Self::add_member). Without a majority of the remaining members, the
    /// ensemble does not apply the change.
    ///
    /// # Panics
    ///
    /// When there is no such member.
    pub async fn remove_member(&mut self, index: usize) -> Result<TestingServer, Error> {
        self.assert_reconfigurable()?;
        self.assert_member(index);
        self.change(&Change::Leave(self.places[index].id), Some(index))
            .await?;
        self.left.push(self.places.remove(index));
        Ok(self.members.remove(index))
    }

    /// Has the members apply a change, and repeats it while it may succeed later: a repeated change
    /// has no effect. Sends it to all members in turn except `leaving`.
    async fn change(&self, change: &Change, leaving: Option<usize>) -> Result<(), Error> {
        let end = Instant::now() + TIMEOUT;
        let others = self
            .members
            .iter()
            .enumerate()
            .filter(|(index, _)| Some(*index) != leaving)
            .map(|(_, member)| member);
        for member in others.cycle() {
            match reconfig(member.address(), change).await {
                Ok(Answer::Done) => return Ok(()),
                Ok(Answer::Refused(code)) if !RETRYABLE.contains(&code) => {
                    let change = format!("{change:?}");
                    return Err(Error::Reconfig { change, code });
                }
                // A member that is stopped, or has lost its leader.
                Ok(Answer::Refused(_)) | Err(_) => {}
            }
            if Instant::now() >= end {
                break;
            }
            wait::sleep(POLL).await;
        }
        Err(Error::timeout(
            format!("the ensemble to apply {change:?}"),
            TIMEOUT,
        ))
    }

    fn assert_reconfigurable(&self) -> Result<(), Error> {
        if self.reconfigurable {
            Ok(())
        } else {
            Err(Error::NotReconfigurable)
        }
    }

    /// Cuts a member off from all other members, in both directions, until [`heal`](Self::heal).
    /// Clients can still reach it.
    ///
    /// Data is lost without an error, as on a network that drops packets: the members notice only
    /// after [`sync_limit`](TestingClusterBuilder::sync_limit). Then a majority continues without
    /// this member, which refuses its clients. Cuts accumulate.
    ///
    /// # Errors
    ///
    /// [`Error::NotPartitionable`] when the cluster was not started as
    /// [`partitionable`](TestingClusterBuilder::partitionable).
    ///
    /// # Panics
    ///
    /// When there is no such member.
    pub fn isolate(&self, index: usize) -> Result<(), Error> {
        self.assert_member(index);
        self.network()?.cut(|from, to| from == index || to == index);
        Ok(())
    }

    /// Cuts two members off from each other, in both directions, until [`heal`](Self::heal). Both
    /// still reach all others. Otherwise like [`isolate`](Self::isolate).
    ///
    /// # Errors
    ///
    /// See [`isolate`](Self::isolate).
    ///
    /// # Panics
    ///
    /// When there is no such member.
    pub fn disconnect(&self, one: usize, other: usize) -> Result<(), Error> {
        self.assert_member(one);
        self.assert_member(other);
        self.network()?
            .cut(|from, to| (from, to) == (one, other) || (from, to) == (other, one));
        Ok(())
    }

    /// Ends all cuts between members. Connections that existed before or during a cut are closed,
    /// and the members open new ones.
    ///
    /// # Errors
    ///
    /// See [`isolate`](Self::isolate).
    pub fn heal(&self) -> Result<(), Error> {
        self.network()?.restore();
        Ok(())
    }

    fn network(&self) -> Result<&Network, Error> {
        self.network.as_ref().ok_or(Error::NotPartitionable)
    }

    fn assert_member(&self, index: usize) {
        let count = self.members.len();
        assert!(
            index < count,
            "there is no member {index}, as there are {count}, numbered from 0"
        );
    }

    /// The leader, if exactly one member reports that it leads, and a majority takes part.
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
