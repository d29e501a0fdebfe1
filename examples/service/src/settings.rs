//! The settings of the service, from environment variables.

use std::env::var;
use std::time::Duration;

use curator_examples::Failure;

/// All times in the environment are in seconds.
pub(crate) struct Settings {
    /// `LISTEN`: an address and a port.
    pub(crate) listen: String,
    /// `SESSION_TIMEOUT`: how long locks stay held after the process dies.
    pub(crate) session_timeout: Duration,
    /// `RESERVED_FOR`: how long an order stays reserved unless it is given back.
    pub(crate) reserved_for: Duration,
    /// `UNREADY_FOR`: how long the service still accepts requests at shutdown, while its readiness
    /// probe fails. In production, set it to the time that load balancers need to notice the
    /// failing probe.
    pub(crate) unready_for: Duration,
    /// `DRAIN`: how long the requests in progress may take after `UNREADY_FOR`.
    pub(crate) drain: Duration,
    /// `LOCK_TIMEOUT`: how long a request waits for the lock of its order.
    pub(crate) lock_timeout: Duration,
}

impl Settings {
    pub(crate) fn from_env() -> Result<Self, Failure> {
        Ok(Self {
            listen: var("LISTEN").unwrap_or_else(|_| "127.0.0.1:0".to_owned()),
            session_timeout: seconds("SESSION_TIMEOUT", 15.0)?,
            reserved_for: seconds("RESERVED_FOR", 60.0)?,
            unready_for: seconds("UNREADY_FOR", 1.0)?,
            drain: seconds("DRAIN", 10.0)?,
            lock_timeout: seconds("LOCK_TIMEOUT", 1.0)?,
        })
    }
}

fn seconds(name: &str, default: f64) -> Result<Duration, Failure> {
    let seconds = var(name)
        .map_or(Ok(default), |seconds| seconds.parse())
        .map_err(|error| format!("{name}: {error}"))?;
    Ok(Duration::try_from_secs_f64(seconds).map_err(|error| format!("{name}: {error}"))?)
}
