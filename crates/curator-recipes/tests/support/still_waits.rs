//! Who is to wait, and when one can tell.

use curator_recipes::client::CuratorClient;
use tokio::task::JoinHandle;

/// Some round trips of this session: what the server has said so far is here with the first of them, and the others are
/// more than any lock needs to act upon it.
pub(crate) async fn round_trips(client: &CuratorClient) {
    for _ in 0..50 {
        client.check_exists("/").await.unwrap();
    }
}

/// Whether the task still waits, when its client has had the time to see what has happened and to act upon it.
///
/// Straight after an action nobody can have finished yet, whatever the code does. Answers and events come to a session in
/// one order, and whoever should not go on would need a request or two: their answers come before those of these round
/// trips.
pub(crate) async fn still_waits<T>(task: &JoinHandle<T>, client: &CuratorClient) -> bool {
    round_trips(client).await;
    !task.is_finished()
}
