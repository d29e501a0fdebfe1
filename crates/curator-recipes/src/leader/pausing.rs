//! The pause of a participant that cannot take part, for example because a permission is missing.

use std::future::pending;

use curator_client::{ConnectionState, CuratorClient, Result, Retrier};

/// Pauses before the next attempt. Ends early when the client is connected again, because the failure may have been that
/// of the connection or the session.
pub(super) async fn pause(client: &CuratorClient, retrier: &mut Retrier) -> Result<()> {
    let mut states = client.connection_states();
    let connected_again = async {
        // The first item is the present state.
        states.next().await;
        while let Some(state) = states.next().await {
            if matches!(state, ConnectionState::Connected | ConnectionState::Reconnected) {
                return;
            }
        }
        // The client is closing, which ends the pause.
        pending::<()>().await;
    };
    tokio::select! {
        biased;
        paused = retrier.again() => paused.map(drop),
        () = connected_again => Ok(()),
    }
}
