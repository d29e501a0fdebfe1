//! Tracks the requests in progress, and ends them at shutdown.

use std::io;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::refusal::Refusal;

/// How long the server may take to send the responses to requests that were cut off.
const LAST_RESPONSES: Duration = Duration::from_secs(1);

/// Handlers that can be cut off. Aborting the server is not enough: each of its connections has a
/// separate task, which outlives the server's task.
#[derive(Clone, Default)]
pub(crate) struct Requests {
    running: TaskTracker,
    cut_off: CancellationToken,
}

impl Requests {
    /// The layer around each handler. Includes the time in which the request's body is read.
    pub(crate) async fn track(
        State(requests): State<Self>,
        request: Request,
        next: Next,
    ) -> Response {
        let answer = requests.cut_off.run_until_cancelled(next.run(request));
        requests
            .running
            .track_future(answer)
            .await
            .unwrap_or_else(|| {
                Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the service stops").into_response()
            })
    }

    /// Waits until the server, which accepts no new connections, has answered all requests. Cuts
    /// off requests that take longer than `patience`. No handler runs after this returns.
    pub(crate) async fn drain(&self, mut serving: JoinHandle<io::Result<()>>, patience: Duration) {
        match timeout(patience, &mut serving).await {
            Ok(Ok(Ok(()))) => info!("all requests are answered"),
            Ok(Ok(Err(error))) => error!(%error, "the server has failed"),
            Ok(Err(error)) => error!(%error, "the server has failed"),
            Err(_) => warn!(
                requests = self.running.len(),
                "connections are cut off after {patience:?}"
            ),
        }
        self.cut_off.cancel();
        self.running.close();
        self.running.wait().await;
        if !serving.is_finished() && timeout(LAST_RESPONSES, &mut serving).await.is_err() {
            serving.abort();
        }
    }
}
