//! Prints why there is no connection, and when there is one again.

use std::time::{Duration, Instant};

use curator_recipes::client::{ClientHealth, ConnectionState, CuratorClient, FailureLog};

use crate::clock::text;
use crate::print::print_message;

/// The interval of the checks.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long an outage lasts before it is printed. Most end sooner, by a connection to another server.
const MOMENT: Duration = Duration::from_secs(5);

/// Prints outages until the client is closed: each cause once, and a lasting outage again at growing intervals.
pub(crate) async fn log_outages(client: CuratorClient) {
    let mut outages = Outages::default();
    loop {
        tokio::select! {
            _ = client.closing() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        if let Some(line) = outages.check(&client.health(), Instant::now()) {
            print_message(line);
        }
    }
}

/// Decides what to print at each check.
#[derive(Default)]
struct Outages {
    /// When the present outage was first seen.
    since: Option<Instant>,
    log: FailureLog,
}

impl Outages {
    fn check(&mut self, health: &ClientHealth, now: Instant) -> Option<String> {
        if matches!(health.state, ConnectionState::Connected | ConnectionState::Reconnected) {
            self.since = None;
            return self.log.recovered(now).map(|outage| format!("connected again after {}", text(outage.lasted)));
        }
        let since = *self.since.get_or_insert(now);
        let lasted = now.saturating_duration_since(since);
        if lasted < MOMENT {
            return None;
        }
        let failure = health.last_failure.as_ref().filter(|failure| failure.ago <= lasted + INTERVAL);
        let cause = failure.map_or("no server answers", |failure| &failure.cause);
        self.log.failed(cause, now).then(|| format!("not connected: {cause}"))
    }
}
