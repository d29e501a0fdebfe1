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

/// Whether the task still waits after its client has had the time to see what has happened and to
/// act upon it.
///
/// Right after an action, no task has finished yet, so an immediate check could not fail. A task
/// that wrongly continues needs a request or two, whose replies arrive before the reply to the last
/// round trip.
pub async fn still_waits<T>(task: &JoinHandle<T>, client: &CuratorClient) -> bool {
    round_trips(client).await;
    !task.is_finished()
}
