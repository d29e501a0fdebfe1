//! The pause of a participant that cannot take part, for example because a permission is missing.

use std::future::pending;

use curator_client::{ConnectionState, CuratorClient, RecipeSupport as _, Result, Retrier};

/// The pauses since this participant was last in the queue.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// `None` while there is no failure.
    retrier: Option<Retrier>,
}

impl Pauses {
    /// Whether the last attempt to take part has failed.
    pub(super) fn is_failing(&self) -> bool {
        self.retrier.is_some()
    }

    /// An attempt has failed.
    pub(super) fn begin(&mut self, client: &CuratorClient) -> &mut Retrier {
        self.retrier.get_or_insert_with(|| client.patient_retrier())
    }

    /// This participant is in the queue, or leads, or stands aside: the next pause is the first one
    /// again. Returns whether the last attempt failed.
    pub(super) fn end(&mut self) -> bool {
        self.retrier.take().is_some()
    }

    /// Pauses after a failure.
    pub(super) async fn pause(&mut self, client: &CuratorClient) -> Result<()> {
        pause(client, self.begin(client)).await
    }
}

/// Pauses before the next attempt. Ends early when the client is connected again, because the
/// failure may have been that of the connection or the session.
async fn pause(client: &CuratorClient, retrier: &mut Retrier) -> Result<()> {
    let mut states = client.connection_states();
    let connected_again = async {
        // The first item is the present state.
        states.next().await;
        while let Some(state) = states.next().await {
            if matches!(
                state,
                ConnectionState::Connected | ConnectionState::Reconnected
            ) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A participant may fail a few times in each of many outages.
    #[tokio::test]
    async fn the_place_in_the_queue_makes_the_next_pause_the_first_one_again() {
        let client = CuratorClient::builder("127.0.0.1:1").start().unwrap();
        let mut pauses = Pauses::default();
        assert!(!pauses.is_failing() && !pauses.end());
        for outages in 1..=3 {
            pauses.pause(&client).await.unwrap();
            assert!(pauses.is_failing());
            assert_eq!(pauses.begin(&client).failures(), 1, "in outage {outages}");
            assert!(pauses.end());
        }
    }
}
