//! An HTTP service that keeps orders: a lock for each order, a store that rejects late writes,
//! health probes, a start without reachable servers, a singleton background job, and an orderly
//! shutdown. `docs/production.md` explains why the service is built this way.
//!
//! ```console
//! LISTEN=127.0.0.1:8080 cargo run -p curator-example-service
//! curl -d tea http://127.0.0.1:8080/orders/7
//! curl -X POST http://127.0.0.1:8080/orders/7/reservation
//! curl -X PUT -H 'Fencing-Token: ..' -d milk http://127.0.0.1:8080/orders/7
//! curl -X DELETE -H 'Fencing-Token: ..' http://127.0.0.1:8080/orders/7/reservation
//! curl http://127.0.0.1:8080/health/ready
//! curl http://127.0.0.1:8080/orders
//! curl http://127.0.0.1:8080/metrics
//! ```
//!
//! `ZOOKEEPER_CONNECT` contains your servers, and `RUST_LOG` selects what is logged; `settings.rs`
//! has the other variables.

mod job;
mod orders;
mod refusal;
mod release;
mod requests;
mod reservations;
mod routes;
mod service;
mod settings;

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use curator_examples::{Ensemble, Failure, builder};
use curator_recipes::client::RetryForever;
use curator_recipes::{HISTOGRAM_BOUNDS, describe_metrics};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use tracing_subscriber::EnvFilter;

use crate::requests::Requests;
use crate::routes::routes;
use crate::service::Service;
use crate::settings::Settings;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    // The log lines of `zookeeper-client` would repeat what this library's client logs.
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("info,zookeeper_client=off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stdout().is_terminal())
        .init();
    // Installed before the client starts, because the client records metrics from its start.
    let mut metrics = PrometheusBuilder::new();
    for (name, bounds) in HISTOGRAM_BOUNDS {
        metrics = metrics.set_buckets_for_metric(Matcher::Full((*name).to_owned()), bounds)?;
    }
    let metrics = metrics.install_recorder()?;
    describe_metrics();
    let settings = Settings::from_env()?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let ensemble = Ensemble::find().await?;
    let listener = TcpListener::bind(&settings.listen).await?;
    println!("Listening on http://{}", listener.local_addr()?);

    // Returns immediately, even if no server can be reached.
    let client = builder(ensemble.connect_string())
        .name("orders")
        .session_timeout(settings.session_timeout)
        // The job waits through any outage. Each request has a separate deadline.
        .retry_policy(RetryForever::new(Duration::from_millis(500))?)
        .start()?;
    let service = Arc::new(Service::new(client.clone(), &settings)?);
    // From here on, `main` closes the client before it returns.
    let requests = Requests::default();
    let ended = CancellationToken::new();
    let no_more_requests = CancellationToken::new();
    let no_more_work = CancellationToken::new();
    let job = spawn_part(&ended, job::run(Arc::clone(&service), no_more_work.clone()));
    let serving = spawn_part(
        &ended,
        axum::serve(
            listener,
            routes(Arc::clone(&service), requests.clone(), metrics),
        )
        .with_graceful_shutdown(no_more_requests.clone().cancelled_owned())
        .into_future(),
    );

    tokio::select! {
        _ = terminate.recv() => info!("asked to stop by SIGTERM"),
        _ = interrupt.recv() => info!("asked to stop by ctrl-c"),
        () = ended.cancelled() => error!("the server or the job has ended by itself"),
    }
    let by_itself = ended.is_cancelled();
    // Requests are still accepted, while load balancers notice the failing readiness probe.
    service.stopping.cancel();
    sleep(settings.unready_for).await;
    // From here on, no new requests are accepted. Requests in progress are completed or cut off.
    no_more_requests.cancel();
    requests.drain(serving, settings.drain).await;
    no_more_work.cancel();
    match job.await {
        Ok(Ok(())) => info!("the job has ended"),
        Ok(Err(error)) => error!(%error, "the job has failed"),
        Err(panic) => error!(%panic, "the job has failed"),
    }
    service.reservations.end_all().await;
    match client.close().await {
        Ok(()) => info!("the client is closed"),
        Err(error) => warn!(%error, "the client is closed, but the servers have not confirmed it"),
    }
    if by_itself {
        Err("the server or the job has ended by itself".into())
    } else {
        Ok(())
    }
}

/// Spawns a task that runs until the service stops. `ended` is cancelled when the task ends, even
/// by a panic.
fn spawn_part<T: Send + 'static>(
    ended: &CancellationToken,
    work: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let ended = ended.clone().drop_guard();
    tokio::spawn(async move {
        let _ended = ended;
        work.await
    })
}
