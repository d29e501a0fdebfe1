//! A client in simulated time, where outages take no real time. For tests with
//! `start_paused = true`.

use std::time::Duration;

use curator_recipes::client::{CuratorClient, CuratorClientBuilder, RetryOneTime};
use curator_test::{Process, Simulation};
use tokio::time::{sleep, timeout};

use super::{LONG_SESSION, builder};

/// A simulation, and a client in a separate simulated process.
pub(crate) async fn simulated(
    settings: impl FnOnce(CuratorClientBuilder) -> CuratorClientBuilder,
) -> (Simulation, Process, CuratorClient) {
    let simulation = Simulation::new(0);
    let process = simulation.process("client");
    let client = settings(builder(&simulation.connect_string(), LONG_SESSION));
    let client = process.run(client.connect()).await.unwrap();
    (simulation, process, client)
}

/// Like [`simulated`], with a client whose operations fail after two attempts of a second each if
/// no reply arrives.
pub(crate) async fn gives_up() -> (Simulation, Process, CuratorClient) {
    let once_more = RetryOneTime::new(Duration::from_millis(10)).unwrap();
    simulated(|builder| {
        builder
            .operation_timeout(Duration::from_secs(1))
            .retry_policy(once_more)
    })
    .await
}

/// Breaks the connection and prevents new ones; returns when the client has noticed.
pub(crate) async fn unplug_process(process: &Process, client: &CuratorClient) {
    process.refuse(true);
    process.cut();
    until_simulated(async || client.try_session().is_err()).await;
}

/// Polls a condition until it is true, for at most an hour of simulated time.
pub(crate) async fn until_simulated(mut condition: impl AsyncFnMut() -> bool) {
    let until = async {
        while !condition().await {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(60 * 60), until)
        .await
        .expect("not within an hour");
}
