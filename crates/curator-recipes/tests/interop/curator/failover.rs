//! Java's `LeaderLatch` or `LeaderSelector` and ours, in one election: the leader fails, and the
//! other language leads.

use curator_recipes::{LeaderObserver, client::CuratorClient};
use curator_test::{Direction, FaultProxy, TestingServer, unique_path};

use super::{
    java::{JavaSession, java_alone_at, java_at},
    replica::{Recipe, Replica},
    stage::{ours, until_children, until_observed},
};
use crate::{SHORT, environment::number};

/// The id of our participant.
const OURS: &str = "ours";

/// How a leader fails.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Failure {
    /// Its process is killed.
    Kill,
    /// Its process is stopped, and resumes when the other participant leads.
    Stop,
    /// Its network is cut, while its connection looks open, until the other participant leads.
    Cut,
}

#[tokio::test]
async fn a_latch_goes_to_the_other_language_when_its_leader_is_killed_stopped_or_cut_off() {
    take_overs_after_each_failure(Recipe::Latch).await;
}

#[tokio::test]
async fn a_selector_goes_to_the_other_language_when_its_leader_is_killed_stopped_or_cut_off() {
    take_overs_after_each_failure(Recipe::Selector).await;
}

/// The environment variable `TAKE_OVERS` is the number of take-overs in each direction for each
/// failure.
async fn take_overs_after_each_failure(recipe: Recipe) {
    let take_overs = |failure| async move {
        let mut election = Election::begin(recipe, failure).await;
        for turn in 1..=number("TAKE_OVERS", 1) {
            // Shown if the test fails.
            println!("{recipe:?}, {failure:?}: take-over {turn} in each direction");
            election.java_fails().await;
            election.ours_fails().await;
        }
        election.java_leaves().await;
    };
    // Concurrent, because they mostly wait until a session expires.
    tokio::join!(
        take_overs(Failure::Kill),
        take_overs(Failure::Stop),
        take_overs(Failure::Cut)
    );
}

/// An election with a participant of each language. Between the failures, Java leads.
struct Election {
    recipe: Recipe,
    failure: Failure,
    path: String,
    client: CuratorClient,
    observer: LeaderObserver,
    javas_network: FaultProxy,
    java: JavaSession,
    our_network: FaultProxy,
    ours: Replica,
}

impl Election {
    async fn begin(recipe: Recipe, failure: Failure) -> Self {
        let server = TestingServer::shared().await;
        let client = ours().await;
        let path = unique_path("failover");
        let observer = recipe.observe(&client, &path);
        let [javas_network, our_network] =
            [(); 2].map(|()| FaultProxy::start(server.address()).unwrap());
        let mut java = java_joins(recipe, failure, &javas_network, &path).await;
        assert_eq!(java.ask("event").await, "ok leader");
        let ours = Replica::start(recipe, &our_network.connect_string(), &path, OURS);
        until_children(&client, &path, 2).await;
        Self {
            recipe,
            failure,
            path,
            client,
            observer,
            javas_network,
            java,
            our_network,
            ours,
        }
    }

    /// The Java leader fails. When ours already leads, Java may still report itself as the leader,
    /// until it is notified of the end of its session.
    async fn java_fails(&mut self) {
        let name = self.java.name().to_owned();
        self.assert_participants([&name, OURS]).await;
        match self.failure {
            Failure::Kill => self.java.kill(),
            Failure::Stop => self.java.stop(),
            Failure::Cut => self.javas_network.black_hole(Direction::Both),
        }
        self.ours.until_leads().await;
        assert!(
            self.java.had_ended().await,
            "ours leads while Java's session exists"
        );
        until_observed(&self.observer, OURS).await;
        match self.failure {
            Failure::Kill => {
                self.java =
                    java_joins(self.recipe, self.failure, &self.javas_network, &self.path).await;
            }
            Failure::Stop => self.java.resume(),
            Failure::Cut => self.javas_network.heal(),
        }
        if self.failure != Failure::Kill {
            assert_eq!(self.java.ask("event").await, "ok not-leader");
        }
        until_children(&self.client, &self.path, 2).await;
        self.java.renew().await;
    }

    /// Our leader fails. It detects the end of its term before Java leads.
    async fn ours_fails(&mut self) {
        let name = self.java.name().to_owned();
        self.assert_participants([OURS, &name]).await;
        match self.failure {
            Failure::Kill => self.ours.kill(),
            Failure::Stop => self.ours.stop(),
            Failure::Cut => self.our_network.black_hole(Direction::Both),
        }
        assert_eq!(self.java.ask("event").await, "ok leader");
        let since: u64 = self.java.tell(&format!("since {}", self.path)).await[0]
            .parse()
            .unwrap();
        until_observed(&self.observer, &name).await;
        if self.failure == Failure::Kill {
            self.ours = Replica::start(
                self.recipe,
                &self.our_network.connect_string(),
                &self.path,
                OURS,
            );
        } else {
            // A stopped process executes this before it can receive anything from the server.
            self.ours.request_work();
            self.ours.resume();
            let term = self.ours.worked().await;
            assert!(
                !term.is_valid && term.last_valid < since,
                "{term:?}, Java has led since {since}"
            );
            let dropped = self.ours.until_dropped().await;
            assert!(
                self.failure == Failure::Stop || dropped < since,
                "{dropped}, Java has led since {since}"
            );
            self.our_network.heal();
        }
        until_children(&self.client, &self.path, 2).await;
    }

    /// Java leaves for good, and ours leads.
    async fn java_leaves(mut self) {
        assert_eq!(self.java.ask(&format!("shut {}", self.path)).await, "ok");
        self.ours.until_leads().await;
        until_observed(&self.observer, OURS).await;
    }

    /// Asserts that both languages list these participants, and that the observer reports the first
    /// of them.
    async fn assert_participants(&mut self, ids: [&str; 2]) {
        assert_eq!(
            self.java
                .tell(&format!("participants-of {}", self.path))
                .await,
            ids
        );
        assert_eq!(
            self.java.tell(&format!("leader {}", self.path)).await,
            ids[..1]
        );
        assert_eq!(self.ours.participants().await, ids);
        until_observed(&self.observer, ids[0]).await;
    }
}

/// A Java participant that has joined the election, in a separate process if the test kills or
/// stops that process.
async fn java_joins(
    recipe: Recipe,
    failure: Failure,
    network: &FaultProxy,
    path: &str,
) -> JavaSession {
    let connect_string = network.connect_string();
    let mut java = match failure {
        Failure::Kill | Failure::Stop => java_alone_at(&connect_string, SHORT).await,
        Failure::Cut => java_at(&connect_string, SHORT).await,
    };
    assert_eq!(java.ask(&format!("{} {path}", recipe.verb())).await, "ok");
    java
}
