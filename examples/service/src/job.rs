//! A job that one of the processes does.

use std::sync::Arc;
use std::time::Duration;

use curator_examples::Failure;
use curator_recipes::InterProcessMutex;
use curator_recipes::fencing::StaleToken;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::release::release;
use crate::service::Service;

const LOCK: &str = "/curator-examples/service/job";

/// Counts the items, in one of the processes that run this service, for as long as any of them runs.
pub(crate) async fn run(service: Arc<Service>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        if let Err(error) = one_term(&service, &stop).await {
            warn!(%error, "the job starts over");
            // An error that comes at once, such as a missing permission, is no reason to try without pause.
            tokio::select! {
                () = sleep(Duration::from_secs(1)) => {}
                () = stop.cancelled() => {}
            }
        }
    }
}

/// From the acquire to the loss of the lock, or until the service stops.
async fn one_term(service: &Service, stop: &CancellationToken) -> Result<(), Failure> {
    let leadership = InterProcessMutex::non_reentrant(&service.client, LOCK)?;
    let guard = tokio::select! {
        guard = leadership.acquire() => guard?,
        () = stop.cancelled() => return Ok(()),
    };
    let token = guard.fencing_token();
    info!(%token, "the job has its lock");
    service.leading.send_replace(Some(token));
    let counting = async {
        loop {
            service.count.write(token, |count| *count = service.orders.items())?;
            sleep(Duration::from_millis(100)).await;
        }
    };
    let ended = tokio::select! {
        // Dropped at its next await when the lock is lost.
        ended = guard.run(counting) => ended.map_err(Failure::from).and_then(|stale: Result<(), StaleToken>| Ok(stale?)),
        () = stop.cancelled() => Ok(()),
    };
    service.leading.send_replace(None);
    if ended.is_ok() {
        release(guard).await;
    }
    ended
}
