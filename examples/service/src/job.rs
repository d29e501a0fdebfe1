//! A job that runs in one of the processes at a time.

use std::sync::Arc;
use std::time::Duration;

use curator_examples::Failure;
use curator_recipes::fencing::StaleToken;
use curator_recipes::{LeaderSelector, Leadership};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::service::Service;

const PATH: &str = "/curator-examples/service/job";

/// Counts the items in one of the processes of this service, as long as any of them runs.
pub(crate) async fn run(service: Arc<Service>, stop: CancellationToken) -> Result<(), Failure> {
    let selector = LeaderSelector::builder(&service.client, PATH)?
        .metrics_name("job")
        .build();
    // Continues through outages of any length.
    selector
        .run(
            move |leadership| count(Arc::clone(&service), leadership),
            stop.cancelled_owned(),
        )
        .await?;
    Ok(())
}

/// Dropping this guard records that this process no longer leads.
struct Leading<'a>(&'a Service);

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.0.leading.send_replace(None);
    }
}

/// The job: counts the items repeatedly. When the term is lost, this future is dropped at its next
/// await point. At shutdown, it returns between two counts.
async fn count(service: Arc<Service>, leadership: Leadership) -> Result<(), StaleToken> {
    let token = leadership.fencing_token();
    info!(%token, "the job leads");
    service.leading.send_replace(Some(token));
    let _until = Leading(&service);
    loop {
        service
            .count
            .write(token, |count| *count = service.orders.items())?;
        tokio::select! {
            biased;
            () = leadership.shutdown_requested() => return Ok(()),
            () = sleep(Duration::from_millis(100)) => {}
        }
    }
}
