//! Java's `LeaderLatch` and ours elect one leader together.

use std::collections::VecDeque;

use curator_recipes::{LeaderLatch, LeaderObserver, Leadership, client::CuratorClient};
use curator_test::{soon, unique_path};

use super::{
    java::{JavaSession, java},
    stage::{ours, until_children, until_observed},
};

/// The number of participants of each language.
const EACH: usize = 2;
const TAKE_OVERS: usize = 20;

/// A participant with a separate session.
enum Participant {
    Java(JavaSession),
    Ours {
        client: CuratorClient,
        latch: LeaderLatch,
        id: String,
    },
}

impl Participant {
    fn id(&self) -> &str {
        match self {
            Self::Java(session) => session.name(),
            Self::Ours { id, .. } => id,
        }
    }

    async fn join(&mut self, path: &str) {
        match self {
            Self::Java(session) => assert_eq!(session.ask(&format!("latch {path}")).await, "ok"),
            Self::Ours { client, latch, id } => {
                *latch = LeaderLatch::builder(client, path).unwrap().id(&*id).start();
            }
        }
    }

    /// Waits until this participant leads; returns the term if it is ours.
    async fn until_leads(&mut self) -> Option<Leadership> {
        match self {
            Self::Java(session) => {
                assert_eq!(session.ask("event").await, "ok leader");
                None
            }
            Self::Ours { latch, .. } => Some(soon(latch.leadership()).await.unwrap()),
        }
    }

    async fn leave(&mut self, path: &str) {
        match self {
            // `LeaderLatch.close` notifies no listeners.
            Self::Java(session) => assert_eq!(session.ask(&format!("shut {path}")).await, "ok"),
            Self::Ours { latch, .. } => soon(latch.close()).await.unwrap(),
        }
    }

    /// The id of the leader that this participant reports.
    async fn leader(&mut self, path: &str) -> String {
        match self {
            Self::Java(session) => session
                .ask(&format!("leader {path}"))
                .await
                .strip_prefix("ok ")
                .unwrap()
                .to_owned(),
            Self::Ours { latch, .. } => {
                let participants = latch.participants().await.unwrap();
                String::from_utf8(participants[0].data.clone()).unwrap()
            }
        }
    }
}

/// Each leader leaves, and rejoins at the end of the queue.
#[tokio::test]
async fn java_and_we_lead_in_the_order_of_arrival_and_agree_on_the_leader() {
    let path = unique_path("latch-turns");
    let client = ours().await;
    let observer = LeaderObserver::observe_latch(&client, &path).unwrap();
    let mut queue = VecDeque::new();
    for number in 0..EACH {
        let session = java().await;
        queue.push_back(Participant::Java(session));
        let client = ours().await;
        let id = format!("ours-{number}");
        let latch = LeaderLatch::builder(&client, unique_path("unused"))
            .unwrap()
            .start();
        queue.push_back(Participant::Ours { client, latch, id });
    }
    for (number, participant) in queue.iter_mut().enumerate() {
        participant.join(&path).await;
        until_children(&client, &path, number + 1).await;
    }
    let mut latest = None;
    for _ in 0..TAKE_OVERS {
        let mut leader = queue.pop_front().unwrap();
        let term = leader.until_leads().await;
        if let Some(term) = &term {
            assert!(term.is_valid() && latest.is_none_or(|token| token < term.fencing_token()));
            latest = Some(term.fencing_token());
        }
        for other in &mut queue {
            assert_eq!(other.leader(&path).await, leader.id());
            assert!(!matches!(other, Participant::Ours { latch, .. } if latch.has_leadership()));
        }
        until_observed(&observer, leader.id()).await;
        leader.leave(&path).await;
        assert!(term.is_none_or(|term| !term.is_valid()));
        until_children(&client, &path, 2 * EACH - 1).await;
        leader.join(&path).await;
        until_children(&client, &path, 2 * EACH).await;
        queue.push_back(leader);
    }
}

#[tokio::test]
async fn the_other_language_leads_after_the_session_of_the_leader_is_lost() {
    let path = unique_path("latch-lost");
    let client = ours().await;
    let mut java = java().await;
    assert_eq!(java.ask(&format!("latch {path}")).await, "ok");
    assert_eq!(java.ask("event").await, "ok leader");
    let latch = LeaderLatch::builder(&client, &path)
        .unwrap()
        .id("ours")
        .start();
    until_children(&client, &path, 2).await;
    java.end().await;
    assert_eq!(java.ask("event").await, "ok not-leader");
    let leadership = soon(latch.leadership()).await.unwrap();
    // Java's participant rejoins behind ours.
    until_children(&client, &path, 2).await;
    assert_eq!(java.ask(&format!("leader {path}")).await, "ok ours");
    // Closing the client ends its session, and so deletes the node.
    client.close().await.unwrap();
    assert!(!leadership.is_valid());
    assert_eq!(java.ask("event").await, "ok leader");
    let name = java.name().to_owned();
    java.ask_until(&format!("leader {path}"), &format!("ok {name}"))
        .await;
}
