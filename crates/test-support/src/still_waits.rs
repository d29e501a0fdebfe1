//! Checks that a task still waits, after enough round trips.

use curator_client::CuratorClient;
use tokio::task::JoinHandle;

/// Makes 50 round trips in this session. The first delivers everything that the server has sent so
/// far, and the others take longer than any lock needs to react.
pub async fn round_trips(client: &CuratorClient) {
    for _ in 0..50 {
        client.check_exists("/").await.unwrap();
    }
}

/// Whether the task still waits after its client has had time to receive and handle the latest
/// events.
///
/// Right after an event, no task has finished yet, so an immediate check would always pass. A task
/// that wrongly continues needs one or two requests, whose replies arrive before the last round
/// trip ends.
pub async fn still_waits<T>(task: &JoinHandle<T>, client: &CuratorClient) -> bool {
    round_trips(client).await;
    !task.is_finished()
}
