//! The proxy delays one reply: for a time, or until it is released.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Waker},
    time::{Duration, Instant},
};

use curator_test::{FaultProxy, OpCode, TestingServer};

use crate::support::client;

/// Whether a future is ready now.
fn is_ready(future: &mut (impl Future + Unpin)) -> bool {
    pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[tokio::test]
async fn a_delayed_reply_also_delays_the_replies_behind_it() {
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    let client = client(proxy.address()).await;
    let delay = Duration::from_millis(100);
    proxy.delay_nth_reply(OpCode::GetData, 2, delay);
    let begin = Instant::now();
    let mut reads: Vec<_> = (0..3).map(|_| Box::pin(client.get_data("/"))).collect();
    (&mut reads[0]).await.unwrap();
    proxy.wait_for_reply(OpCode::GetData, 3).await.unwrap();
    proxy.wait_for_faults().await.unwrap();
    (&mut reads[2]).await.unwrap();
    assert!(begin.elapsed() >= delay);
    // The delayed reply arrived before the third: replies keep their order.
    assert!(is_ready(&mut reads[1]));
}

#[tokio::test]
async fn a_held_reply_holds_the_replies_behind_it_and_not_those_before_it() {
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    let client = client(proxy.address()).await;
    proxy.hold_nth_reply(OpCode::GetData, 2);
    let (one, mut two) = (client.get_data("/"), Box::pin(client.get_data("/")));
    let mut three = Box::pin(client.check_stat("/"));
    one.await.unwrap();
    proxy.wait_for_faults().await.unwrap();
    proxy.wait_for_reply(OpCode::Exists, 1).await.unwrap();
    // Replies on another connection pass, so there was time for these two.
    let other = crate::support::client(proxy.address()).await;
    for _ in 0..20 {
        other.get_data("/").await.unwrap();
    }
    assert!(!is_ready(&mut two) && !is_ready(&mut three));
    proxy.release_held();
    two.await.unwrap();
    three.await.unwrap();
    // Nothing is held any more.
    client.get_data("/").await.unwrap();
}

#[tokio::test]
async fn wait_for_faults_returns_when_the_requests_have_arrived() {
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    let client = client(proxy.address()).await;
    proxy.cut_before_nth_request(OpCode::GetData, 2);
    let mut arrived = Box::pin(proxy.wait_for_faults());
    client.get_data("/").await.unwrap();
    assert!(!is_ready(&mut arrived));
    assert!(client.get_data("/").await.is_err());
    arrived.await.unwrap();
}
