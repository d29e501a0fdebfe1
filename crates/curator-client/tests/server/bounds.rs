//! The limit on requests in flight.

use std::time::Duration;

use curator_client::{Error, Outcome, ZPath};
use curator_test::OpCode;
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::support::{behind_proxy_with, simulated, soon, until};

const LIMIT: usize = 16;

#[tokio::test]
async fn a_request_beyond_the_limit_is_refused_until_a_reply_arrives_even_to_an_unpolled_request() {
    let (proxy, client) = behind_proxy_with(|client| client.max_requests_in_flight(LIMIT)).await;
    let session = client.session().await.unwrap();
    let requests = || {
        (0..LIMIT)
            .map(|_| session.exists(&ZPath::root()))
            .collect::<Vec<_>>()
    };
    proxy.hold_replies(OpCode::Exists);
    let unpolled = requests();
    let error = soon(session.exists(&ZPath::root())).await.unwrap_err();
    assert!(
        matches!(error, Error::TooManyRequests { limit: LIMIT, .. }),
        "{error}"
    );
    assert_eq!(
        (error.outcome(), error.is_retryable()),
        (Outcome::NotApplied, true)
    );
    proxy.release_held();
    until(async || session.exists(&ZPath::root()).await.is_ok()).await;
    for request in requests().into_iter().chain(unpolled) {
        soon(request).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_at_its_request_limit_keeps_its_session() {
    let (simulation, client) = simulated(|client| client.max_requests_in_flight(LIMIT)).await;
    let session = client.session().await.unwrap();
    simulation.set_latency(Duration::from_millis(100)..=Duration::from_millis(100));
    let began = Instant::now();
    // Long enough for many probes.
    while began.elapsed() < 2 * session.timeout() {
        let requests = join_all((0..LIMIT).map(|_| session.exists(&ZPath::root())));
        assert!(matches!(
            session.exists(&ZPath::root()).await,
            Err(Error::TooManyRequests { .. })
        ));
        requests.await;
        assert!(
            session.is_valid(),
            "the session was lost: {:?}",
            session.end()
        );
    }
}
