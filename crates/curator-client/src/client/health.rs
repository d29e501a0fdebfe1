//! How a client is doing, for health checks.

use std::fmt;
use std::time::Duration;

use super::CuratorClient;
use crate::clock::ClockInstant;
use crate::state::ConnectionState;

/// How a client is doing at one moment. `Display` writes it on one line.
///
/// # Readiness and liveness
///
/// - *Readiness* (should this process be given work?): [`is_ready`](Self::is_ready), if all work needs ZooKeeper. It is
///   `false` before the first session, in an outage, and after a loss until there is a new session.
/// - *Liveness* (should this process be restarted?): do not use it for that. A client comes back by itself from any outage;
///   to restart all services because the ensemble is down makes the outage worse.
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
    /// For how long it has been in this state.
    pub state_for: Duration,
    /// The id of the current session, if there is one; its connection may be down.
    pub session_id: Option<i64>,
    /// What is left of the session's lease: how long the session is certainly alive if no server answers from now on. Zero
    /// without a session. Undisturbed, it stays above 0.4 of the session timeout.
    pub lease_remaining: Duration,
    /// How often a session has gone on over another connection, with its nodes and locks.
    pub connections_resumed: u64,
    /// How many sessions were opened in place of a lost one, whose nodes and locks are gone.
    pub sessions_replaced: u64,
    /// How many deletes the client's [`Janitor`](crate::Janitor) still has to carry out.
    pub pending_deletes: usize,
    /// How many [`Watch`](crate::Watch)es there are on the current connection whose event nobody has seen yet.
    pub watches: usize,
    /// What went wrong last with the connection, or with an attempt to connect; `None` if nothing has.
    pub last_failure: Option<ConnectionFailure>,
}

/// What went wrong with the connection to the ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionFailure {
    /// What went wrong; if it was an attempt to connect, each server, and what was wrong with it.
    pub cause: String,
    /// How long ago that was.
    pub ago: Duration,
}

impl ClientHealth {
    /// Whether requests can be expected to be answered now: the connection is confirmed, and the session has a lease.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let is_connected = matches!(self.state, ConnectionState::Connected | ConnectionState::Reconnected);
        is_connected && !self.lease_remaining.is_zero()
    }
}

impl fmt::Display for ClientHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, state, state_for, lease_remaining, pending_deletes, watches, .. } = self;
        write!(f, "{client}: {state} for {:.1?}, ", state_for)?;
        match self.session_id {
            Some(id) => write!(f, "session {id:#x} with a lease of {lease_remaining:.1?}")?,
            None => f.write_str("no session")?,
        }
        write!(f, ", resumed {}, replaced {}", self.connections_resumed, self.sessions_replaced)?;
        write!(f, ", {pending_deletes} deletes pending, {watches} watches")?;
        match &self.last_failure {
            Some(ConnectionFailure { cause, ago }) => write!(f, "; last failure {ago:.1?} ago: {cause}"),
            None => Ok(()),
        }
    }
}

impl CuratorClient {
    /// How the client is doing now. Sends nothing and does not wait, so it can be called as often as you like.
    #[must_use]
    pub fn health(&self) -> ClientHealth {
        let (_, since) = self.inner.states.current_since();
        let now = ClockInstant::now();
        let (session, record) = (self.current_session(), self.inner.journal.record());
        let last_failure = record.last_failure.map(|(cause, at)| {
            let ago = now.saturating_duration_since(at);
            ConnectionFailure { cause, ago }
        });
        ClientHealth {
            client: self.name().to_owned(),
            state: self.connection_state(),
            state_for: now.saturating_duration_since(since),
            session_id: session.as_ref().map(crate::Session::id),
            lease_remaining: session.as_ref().map(|session| session.lease().remaining()).unwrap_or_default(),
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
    fn it_is_one_line() {
        let mut health = ClientHealth {
            client: "orders".to_owned(),
            state: ConnectionState::Reconnected,
            state_for: Duration::from_millis(61_234),
            session_id: Some(0x10_0002),
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
        health.last_failure = Some(ConnectionFailure { cause, ago: Duration::from_secs(3) });
        (health.state, health.session_id) = (ConnectionState::Lost, None);
        assert!(!health.is_ready());
        let line = health.to_string();
        assert!(line.starts_with("orders: lost for 61.2s, no session, resumed 2"), "{line}");
        assert!(line.ends_with("12 watches; last failure 3.0s ago: zk1:2181: connection refused"), "{line}");
    }
}
