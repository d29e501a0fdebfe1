//! Prints why there is no connection, and when there is one again; with `--verbose`, each change of
//! the connection.

use std::time::{Duration, Instant};

use curator_recipes::client::{ConnectionState, CuratorClient, FailureLog};

use crate::print::{step, warn};
use crate::time::text;

/// The interval of the checks.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long an outage must last to be printed. Most outages end sooner, when the client connects to
/// another server.
const MOMENT: Duration = Duration::from_secs(5);

/// Prints outages until the client is closed.
pub(crate) async fn log_outages(client: CuratorClient) {
    let mut outages = Outages::default();
    let mut checks = tokio::time::interval(INTERVAL);
    let mut states = client.connection_states();
    // The first item is the current state: the client has connected.
    let _ = states.next().await;
    loop {
        tokio::select! {
            state = states.next() => match state {
                Some(state) => print_state(state, &client),
                None => return,
            },
            _ = checks.tick() => {}
        }
        let health = client.health();
        let is_up = matches!(
            health.state,
            ConnectionState::Connected | ConnectionState::Reconnected
        );
        let failure = health
            .last_failure
            .as_ref()
            .map(|failure| (failure.cause.as_str(), failure.ago));
        if let Some(line) = outages.check(is_up, failure, Instant::now()) {
            warn(line);
        }
    }
}

fn print_state(state: ConnectionState, client: &CuratorClient) {
    match state {
        ConnectionState::Suspended => {
            // A failure before this outage has another cause.
            let failure = client
                .health()
                .last_failure
                .filter(|failure| failure.ago < INTERVAL);
            let failure = failure.map(|failure| format!(": {}", failure.cause));
            step(format_args!(
                "the connection is suspended{}",
                failure.unwrap_or_default()
            ));
        }
        ConnectionState::Lost => step("the session is lost"),
        _ => step(format_args!("connected to {}", session_text(client))),
    }
}

/// The server and the session of a client, for messages.
pub(crate) fn session_text(client: &CuratorClient) -> String {
    let server = client.health().server.unwrap_or_default();
    let session = client.current_session();
    let session = session.map(|session| {
        format!(
            "session {:#x}, session timeout {}",
            session.id(),
            text(session.timeout())
        )
    });
    format!("{server}: {}", session.as_deref().unwrap_or("no session"))
}

/// Decides what to print at each check. Reads no clock.
#[derive(Default)]
struct Outages {
    /// When the current outage was first seen.
    since: Option<Instant>,
    log: FailureLog,
}

impl Outages {
    /// `failure`: the last failure of the connection, and how long ago it was.
    ///
    /// [`FailureLog`] prints each cause once, and repeats a lasting cause at growing intervals.
    fn check(
        &mut self,
        is_up: bool,
        failure: Option<(&str, Duration)>,
        now: Instant,
    ) -> Option<String> {
        if is_up {
            self.since = None;
            let recovery = self.log.recovered(now)?;
            let lasted = Duration::from_secs((recovery.lasted + MOMENT).as_secs());
            return Some(format!("connected again after {}", text(lasted)));
        }
        let lasted = now.saturating_duration_since(*self.since.get_or_insert(now));
        if lasted < MOMENT {
            return None;
        }
        // A failure before this outage has another cause.
        let cause = failure
            .filter(|(_, ago)| *ago <= lasted + INTERVAL)
            .map_or("no server answers", |(cause, _)| cause);
        self.log
            .failed(cause, now)
            .then(|| format!("not connected: {cause}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that an outage prints, each with its second. A check runs in each second from 0.
    fn lines(
        outages: &mut Outages,
        start: Instant,
        seconds: u64,
        cause: impl Fn(u64) -> String,
    ) -> Vec<(u64, String)> {
        (0..seconds)
            .filter_map(|second| {
                let failure = cause(second);
                let failure =
                    Some((failure.as_str(), Duration::ZERO)).filter(|(cause, _)| !cause.is_empty());
                let line = outages.check(false, failure, start + Duration::from_secs(second));
                line.map(|line| (second, line))
            })
            .collect()
    }

    #[test]
    fn an_outage_of_a_moment_is_not_printed() {
        let mut outages = Outages::default();
        let start = Instant::now();
        assert_eq!(lines(&mut outages, start, 5, |_| "refused".to_owned()), []);
        assert_eq!(
            outages.check(true, None, start + Duration::from_secs(5)),
            None
        );
        // The next outage is printed anew.
        assert_eq!(
            lines(&mut outages, start + Duration::from_secs(6), 5, |_| {
                "refused".to_owned()
            }),
            []
        );
    }

    #[test]
    fn each_cause_is_printed_once_and_then_the_recovery() {
        let mut outages = Outages::default();
        let start = Instant::now();
        let line = |text: &str| format!("not connected: {text}");
        assert_eq!(
            lines(&mut outages, start, 60, |second| match second {
                0..7 => String::new(),
                // The messages differ only in a number, so the cause is the same.
                7..20 => format!("zk1:2181: no reply within {second}ms"),
                _ => "zk1:2181: its certificate is not trusted".to_owned(),
            }),
            [
                (5, line("no server answers")),
                (7, line("zk1:2181: no reply within 7ms")),
                (20, line("zk1:2181: its certificate is not trusted"))
            ]
        );
        let end = start + Duration::from_secs(60);
        assert_eq!(
            outages.check(true, None, end),
            Some("connected again after 1m".to_owned())
        );
        assert_eq!(outages.check(true, None, end + INTERVAL), None);
    }

    #[test]
    fn an_outage_of_a_day_is_printed_a_few_times_with_any_causes() {
        let mut outages = Outages::default();
        let start = Instant::now();
        let day = 24 * 60 * 60;
        let same = lines(&mut outages, start, day, |_| "refused".to_owned());
        assert!((24..40).contains(&same.len()), "{}", same.len());
        // One letter for each second: messages that differ only in numbers would count as the same.
        let differing = |second: u64| {
            second
                .to_string()
                .chars()
                .map(|c| char::from(c as u8 + 50))
                .collect()
        };
        let differing = lines(&mut Outages::default(), start, day, differing);
        assert!(differing.len() < 8 * 40, "{}", differing.len());
    }

    #[test]
    fn a_failure_before_the_outage_is_not_its_cause() {
        let mut outages = Outages::default();
        let start = Instant::now();
        let old = Some(("refused", Duration::from_secs(100)));
        assert_eq!(outages.check(false, old, start), None);
        let line = outages.check(false, old, start + MOMENT);
        assert_eq!(line.as_deref(), Some("not connected: no server answers"));
    }
}
