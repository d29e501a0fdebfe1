//! The requests of Java's `LeaderLatch`, for the comparison in `docs/leader-latch.md`.

use std::{collections::BTreeMap, time::Duration};

use curator_test::{FaultProxy, OpCode, TestingServer, unique_path, until};

use super::{
    java::{JavaSession, java_at},
    stage::ours,
};

/// Long enough that a machine's pause ends no session, and short enough to wait for Java's pings.
const SESSION: Duration = Duration::from_secs(9);

/// A session of Java, behind a proxy that counts.
async fn counted() -> (FaultProxy, JavaSession) {
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    // So that no reply arrives between two requests that were sent together.
    proxy.set_delay(Duration::from_millis(5));
    // Curator reads this node after it has connected.
    proxy.exempt_path("/zookeeper/config");
    let java = java_at(&proxy.connect_string(), SESSION).await;
    assert_eq!(proxy.requests(), BTreeMap::new());
    (proxy, java)
}

/// Waits until each session has sent these requests, in turn, and asserts that only pings follow.
async fn assert_sent(sessions: [(&FaultProxy, &[(OpCode, u64)]); 2]) {
    let sent = |proxy: &FaultProxy| (proxy.requests(), proxy.round_trips());
    let wanted = |requests: &[(OpCode, u64)]| {
        let round_trips = requests.iter().map(|(_, count)| count).sum();
        (BTreeMap::from_iter(requests.iter().copied()), round_trips)
    };
    for (proxy, requests) in sessions {
        until(async || proxy.round_trips() >= wanted(requests).1).await;
    }
    // A ping is sent after a third of the timeout without a request.
    let pings = sessions.map(|(proxy, _)| proxy.pings());
    until(async || sessions.iter().zip(pings).all(|((proxy, _), before)| proxy.pings() >= before + 2)).await;
    for (proxy, requests) in sessions {
        assert_eq!(sent(proxy), wanted(requests));
        proxy.reset_counts();
    }
}

#[tokio::test]
async fn javas_latch_joins_with_three_requests_takes_over_with_two_and_sends_nothing_else() {
    let (client, path) = (ours().await, unique_path("latch-cost"));
    client.create().for_path(&path, "").await.unwrap();
    let ((firsts, mut first), (seconds, mut second)) = (counted().await, counted().await);

    assert_eq!(first.ask(&format!("latch {path}")).await, "ok");
    assert_eq!(first.ask("event").await, "ok leader");
    assert_eq!(second.ask(&format!("latch {path}")).await, "ok");
    let joining = [(OpCode::Create2, 1), (OpCode::GetChildren2, 1), (OpCode::GetData, 1)];
    assert_sent([(&firsts, &joining), (&seconds, &joining)]).await;

    assert_eq!(first.ask(&format!("shut {path}")).await, "ok");
    assert_eq!(second.ask("event").await, "ok leader");
    let taking_over = [(OpCode::GetChildren2, 1), (OpCode::GetData, 1)];
    assert_sent([(&firsts, &[(OpCode::Delete, 1)]), (&seconds, &taking_over)]).await;
}
