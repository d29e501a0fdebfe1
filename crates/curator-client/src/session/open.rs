//! Opens a session, and proves with a first probe that it can be relied on.

use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::Session;
use crate::connect_string::HostPort;
use crate::diagnosis::Diagnosis;
use crate::error::Error;
use crate::link::Link;
use crate::options::SessionOptions;
use crate::runtime::{self, Panicked};
use crate::server_operations::ServerOperation;
use crate::time::{ClockInstant, Deadline, Timer};
use crate::tls::TlsFailure;
use crate::transport::{ConnectFailure, RequestError, Unauthenticated};

/// Why a session was not opened, or not resumed.
#[derive(Debug, Clone)]
pub(crate) struct OpenFailure {
    /// Each server and its failure.
    pub(crate) cause: String,
    /// Whether a server refuses this client.
    pub(crate) is_refusal: bool,
    /// The TLS failure of each server, if TLS has failed with all of them.
    pub(crate) tls: Vec<TlsFailure>,
}

impl From<ConnectFailure> for OpenFailure {
    fn from(failure: ConnectFailure) -> Self {
        Self {
            cause: failure.to_string(),
            is_refusal: failure.is_refusal(),
            tls: failure.into_tls(),
        }
    }
}

impl From<Panicked> for OpenFailure {
    fn from(Panicked { message }: Panicked) -> Self {
        Self::other(format!("the attempt has panicked: {message}"))
    }
}

impl OpenFailure {
    fn new(server: &HostPort, problem: impl Display) -> Self {
        Self::other(format!("{server}: connected, but {problem}"))
    }

    /// A failure that is neither a refusal of this client nor a TLS failure of all servers.
    fn other(cause: String) -> Self {
        Self {
            cause,
            is_refusal: false,
            tls: Vec::new(),
        }
    }

    /// The process cannot open the descriptors that the event loop of its connections needs.
    fn no_descriptors(error: io::Error) -> Self {
        Self::other(format!(
            "this process has too few file descriptors left to connect: {error}"
        ))
    }

    /// The server has accepted a client that authenticates as anonymous.
    pub(crate) fn unauthenticated(server: &impl Display) -> Self {
        let cause = format!("{server}: {}", Unauthenticated::Client);
        Self {
            cause,
            is_refusal: true,
            tls: Vec::new(),
        }
    }

    /// The server has accepted the session, and is being asked which operations it lacks.
    pub(crate) fn asking(server: &HostPort) -> Self {
        Self::new(
            server,
            "it is not a server of ZooKeeper, and the replies that show which operations it lacks have not arrived yet",
        )
    }

    /// The server's reply does not show whether it lacks `operation`.
    pub(crate) fn unanswered_question(
        server: &HostPort,
        operation: ServerOperation,
        error: &RequestError,
    ) -> Self {
        Self::new(
            server,
            format_args!("it is not known whether it implements {operation}: {error}"),
        )
    }

    /// A connection has ended in place of the reply that shows whether the server lacks
    /// `operation`, and so has one without such a question.
    pub(crate) fn unreliable(server: &HostPort, operation: ServerOperation) -> Self {
        Self::new(
            server,
            format_args!(
                "it is not known whether it implements {operation}: connections end without that request, too"
            ),
        )
    }

    /// The server lacks an operation without which `zookeeper-client` cannot use it. `is_last`
    /// means that no server is left that the client may be able to use.
    pub(crate) fn unusable(server: &HostPort, missing: ServerOperation, is_last: bool) -> Self {
        Self {
            is_refusal: is_last,
            ..Self::new(
                server,
                format_args!(
                    "it does not implement {missing}, without which only a client with Transport::Native can use it"
                ),
            )
        }
    }

    /// The server has accepted the session, but has not answered the first request within `limit`.
    pub(crate) fn unanswered(server: &HostPort, limit: Duration) -> Self {
        Self::new(
            server,
            format_args!("no reply to the first request within {limit:?}"),
        )
    }

    /// The server has answered the first request, but not a later one, within `limit`.
    pub(crate) fn silent(server: &HostPort, limit: Duration) -> Self {
        Self::new(
            server,
            format_args!("no reply to a request within {limit:?}"),
        )
    }
}

impl Session {
    /// Makes one attempt to open a session: one pass over the servers of `diagnosis`, each within its
    /// share. Callers must [prove](Self::prove) the session before they rely on it.
    ///
    /// Nothing is awaited after the session is opened, so a dropped future loses no session.
    pub(crate) async fn open(
        epoch: u64,
        options: &Arc<SessionOptions>,
        timer: &Timer,
        diagnosis: &Diagnosis<'_>,
    ) -> Result<(Self, Arc<HostPort>), OpenFailure> {
        runtime::start_event_loop().map_err(OpenFailure::no_descriptors)?;
        let (link, connect_sent) = Link::open(options, timer, diagnosis).await?;
        let server = Arc::clone(link.server());
        Ok((Self::new(epoch, link, connect_sent, options, timer), server))
    }

    /// Proves by `deadline` that a session which was just opened on `server` can be relied on.
    pub(crate) async fn prove(
        &self,
        server: &HostPort,
        deadline: Deadline,
        diagnosis: &Diagnosis<'_>,
    ) -> Result<(), OpenFailure> {
        let timer = &self.inner.timer;
        let started = ClockInstant::now();
        diagnosis.report(&OpenFailure::new(server, "no reply to the first request yet").cause);
        let (sent, answer) = tokio::select! {
            biased;
            probed = self.probe() => probed,
            () = timer.sleep_until(deadline) => {
                let waited = ClockInstant::now().saturating_duration_since(started);
                // Milliseconds are enough for the message.
                return Err(OpenFailure::unanswered(server, Duration::from_millis(waited.as_millis() as u64)));
            }
        };
        answer.map_err(|error| match error {
            Error::InvalidAcl { .. } => OpenFailure::unauthenticated(server),
            error => OpenFailure::new(server, error),
        })?;
        self.lease().probe_answered(sent);
        // If the replies were slow, too little of the lease is left for the next two probes, and a
        // new session is safer. A session whose server was asked has been probed since it was
        // opened, so that the next probe already extends the lease.
        let needed = if self.is_on_other_server() {
            self.timeout() / 3
        } else {
            self.timeout() / 2
        };
        if self.lease().remaining() < needed {
            return Err(OpenFailure::new(
                server,
                "the handshake took too long for the session to be reliable",
            ));
        }
        self.set_connected(true);
        Ok(())
    }
}
