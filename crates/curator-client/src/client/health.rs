//! The state of a client, for health checks: [`ClientHealth`].

use std::fmt;
use std::time::Duration;

use super::CuratorClient;
use crate::state::ConnectionState;
use crate::time::ClockInstant;

/// The state of a client at one moment. `Display` writes it on one line.
///
/// # Readiness and liveness
///
/// - *Readiness* (should this process get work?): [`is_ready`](Self::is_ready), if all work needs
///   ZooKeeper. It is `false` before the first session, in an outage, and after a loss until there
///   is a new session.
/// - *Liveness* (should this process be restarted?): do not use the client's health for it. A
///   client recovers from any outage without a restart, and restarting all services because the
///   ensemble is down makes the outage worse.
///
/// ```
/// # fn example(client: &curator_client::CuratorClient) -> (u16, String) {
/// let health = client.health();
/// let status = if health.is_ready() { 200 } else { 503 };
/// (status, health.to_string())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientHealth {
    /// The client's name.
    pub client: String,
    /// The state of the connection.
    pub state: ConnectionState,
    /// How long the client has been in this state.
    pub state_for: Duration,
    /// The id of the current session, if there is one; its connection may be down.
    pub session_id: Option<i64>,
    /// The server of the current connection, or of the last one if there is none now. Named as in
    /// the connect string or in the ensemble's configuration. `None` without a session.
    pub server: Option<String>,
    /// The servers that the client tries at the next connect: those of the connect string, and the
    /// members of an ensemble that it [follows](crate::EnsembleTracker). Once the client has
    /// connected to a member at the address in the ensemble's configuration, this lists only the
    /// members; the other servers of the connect string are then the fallback.
    pub servers: Vec<String>,
    /// What is left of the session's lease: how long the session is certainly alive if no server
    /// answers from now on. Zero without a session. In normal operation, it stays above 0.4 of the
    /// session timeout.
    pub lease_remaining: Duration,
    /// The number of times that a session has continued over another connection, with its nodes and
    /// locks.
    pub connections_resumed: u64,
    /// The number of sessions that were opened in place of a lost one, whose nodes and locks are
    /// gone.
    pub sessions_replaced: u64,
    /// The number of pending deletes of the client's [`Janitor`](crate::Janitor).
    pub pending_deletes: usize,
    /// The number of [`Watch`](crate::Watch)es on the current connection whose event has not been
    /// read, including the client's watch on the ensemble's configuration.
    pub watches: usize,
    /// The last failure of the connection, or of an attempt to connect; `None` if there was none.
    pub last_failure: Option<ConnectionFailure>,
}

/// A failure of the connection to the ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionFailure {
    /// What failed; for an attempt to connect, each server and its failure.
    pub cause: String,
    /// The time since the failure.
    pub ago: Duration,
}

impl ClientHealth {
    /// Whether requests can be expected to be answered now: the connection is confirmed, and the
    /// session's lease is valid.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let is_connected = matches!(
            self.state,
            ConnectionState::Connected | ConnectionState::Reconnected
        );
        is_connected && !self.lease_remaining.is_zero()
    }
}

impl fmt::Display for ClientHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            client,
            state,
            state_for,
            lease_remaining,
            pending_deletes,
            watches,
            ..
        } = self;
        write!(f, "{client}: {state} for {:.1?}, ", state_for)?;
        match self.session_id {
            Some(id) => write!(f, "session {id:#x} with a lease of {lease_remaining:.1?}")?,
            None => f.write_str("no session")?,
        }
        write!(
            f,
            ", resumed {}, replaced {}",
            self.connections_resumed, self.sessions_replaced
        )?;
        write!(f, ", {pending_deletes} deletes pending, {watches} watches")?;
        match &self.last_failure {
            Some(ConnectionFailure { cause, ago }) => {
                write!(f, "; last failure {ago:.1?} ago: {cause}")
            }
            None => Ok(()),
        }
    }
}

impl CuratorClient {
    /// Returns the client's current state. Sends nothing and does not wait, so it can be called at
    /// any rate.
    #[must_use]
    pub fn health(&self) -> ClientHealth {
        let (_, since) = self.inner.states.current_since();
        let now = ClockInstant::now();
        let session = self.current_session();
        let record = self.inner.journal.record();
        let last_failure = record.last_failure.map(|(cause, failed_at)| {
            let ago = now.saturating_duration_since(failed_at);
            ConnectionFailure { cause, ago }
        });
        ClientHealth {
            client: self.name().to_owned(),
            state: self.connection_state(),
            state_for: now.saturating_duration_since(since),
            session_id: session.as_ref().map(crate::Session::id),
            server: session
                .as_ref()
                .map(crate::Session::server)
                .filter(|server| !server.is_empty()),
            servers: self
                .inner
                .ensemble
                .preferred()
                .iter()
                .map(ToString::to_string)
                .collect(),
            lease_remaining: session
                .as_ref()
                .map(|session| session.lease().remaining())
                .unwrap_or_default(),
            connections_resumed: record.resumed,
            sessions_replaced: record.replaced,
            pending_deletes: self.inner.janitor.pending(),
            watches: session.map(|session| session.watches()).unwrap_or_default(),
            last_failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_is_printed_as_one_line() {
        let mut health = ClientHealth {
            client: "orders".to_owned(),
            state: ConnectionState::Reconnected,
            state_for: Duration::from_millis(61_234),
            session_id: Some(0x10_0002),
            server: Some("zk1:2181".to_owned()),
            servers: vec!["zk1:2181".to_owned(), "zk2:2181".to_owned()],
            lease_remaining: Duration::from_millis(7_651),
            connections_resumed: 2,
            sessions_replaced: 1,
            pending_deletes: 0,
            watches: 12,
            last_failure: None,
        };
        assert_eq!(
            health.to_string(),
            "orders: reconnected for 61.2s, session 0x100002 with a lease of 7.7s, resumed 2, replaced 1, \
             0 deletes pending, 12 watches"
        );
        assert!(health.is_ready());
        health.lease_remaining = Duration::ZERO;
        assert!(!health.is_ready());
        let cause = "zk1:2181: connection refused".to_owned();
        health.last_failure = Some(ConnectionFailure {
            cause,
            ago: Duration::from_secs(3),
        });
        health.state = ConnectionState::Lost;
        health.session_id = None;
        assert!(!health.is_ready());
        let line = health.to_string();
        assert!(
            line.starts_with("orders: lost for 61.2s, no session, resumed 2"),
            "{line}"
        );
        assert!(
            line.ends_with("12 watches; last failure 3.0s ago: zk1:2181: connection refused"),
            "{line}"
        );
    }
}
