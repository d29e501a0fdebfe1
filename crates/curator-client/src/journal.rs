//! Records the session events of a client, for its log, errors and health checks.
//!
//! All log events of this crate at `info` are emitted here, one for each change, and the events at
//! `warn` about an outage. `docs/production.md` explains them to operators.

use std::convert::Infallible;
use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tracing::field::DebugValue;

use crate::error::{Error, SessionEnd};
use crate::failure_log::Outage;
use crate::meter::ClientMeter;
use crate::options::SessionOptions;
use crate::session::{OpenFailure, Session};
use crate::source::watch;
use crate::text::Truncated;
use crate::time::{ClockInstant, Timer};
use crate::tls::TlsFailure;

/// Why a session is suspended: it is not lost, but the client cannot currently confirm it.
#[derive(Debug, Clone)]
pub(crate) enum Doubt {
    ConnectionBroke,
    /// The session has another connection, which has not answered yet.
    NewConnection,
    ProbeFailed(Error),
    ProbeOverdue,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConnectionBroke => f.write_str("the connection broke"),
            Self::NewConnection => f.write_str("the new connection has not been confirmed yet"),
            Self::ProbeFailed(error) => write!(f, "{error}"),
            Self::ProbeOverdue => f.write_str("the server is slow to answer"),
        }
    }
}

/// The cause that is shown before any attempt to connect has ended.
const NO_REPLY_YET: &str = "no server has answered yet";

/// The record of a client's session events. The supervisor and the connection write it, and callers
/// read it.
#[derive(Debug)]
pub(crate) struct Journal {
    client: Arc<str>,
    meter: Arc<ClientMeter>,
    /// The interval of the log lines about one outage.
    log_interval: Duration,
    record: watch::Sender<Record>,
}

#[derive(Debug, Clone)]
pub(crate) struct Record {
    outage: Option<Outage>,
    /// Whether a server refused the last attempt to open a session.
    is_refused: bool,
    /// The TLS failures of the last attempt, if TLS failed with all servers.
    tls: Vec<TlsFailure>,
    /// Whether the session has had another connection since the outage began.
    is_resumed: bool,
    /// The last failure, and its time.
    pub(crate) last_failure: Option<(String, ClockInstant)>,
    /// The number of times that a session continued over another connection.
    pub(crate) resumed: u64,
    /// The number of sessions opened in place of a lost one.
    pub(crate) replaced: u64,
}

impl Record {
    fn set_last_failure(&mut self, cause: &str, now: ClockInstant) {
        self.last_failure = Some((cause.to_owned(), now));
    }

    fn cause(&self) -> Option<&str> {
        self.outage.as_ref()?.cause()
    }
}

impl Journal {
    /// Creates the journal of a client that has no session yet.
    pub(crate) fn new(options: &SessionOptions, log_interval: Duration) -> Self {
        let record = Record {
            outage: Some(Outage::begin(ClockInstant::now(), None, log_interval)),
            is_refused: false,
            tls: Vec::new(),
            is_resumed: false,
            last_failure: None,
            resumed: 0,
            replaced: 0,
        };
        let meter = Arc::new(ClientMeter::new(options.metrics_name.clone()));
        Self {
            client: Arc::clone(&options.name),
            meter,
            log_interval,
            record: watch::Sender::new(record),
        }
    }

    pub(crate) fn meter(&self) -> &Arc<ClientMeter> {
        &self.meter
    }

    pub(crate) fn record(&self) -> Record {
        self.record.borrow().clone()
    }

    /// Why there is no connection.
    pub(crate) fn cause(&self) -> String {
        let record = self.record.borrow();
        let unknown = if record.outage.is_some() {
            NO_REPLY_YET
        } else {
            "the connection is down"
        };
        record.cause().unwrap_or(unknown).to_owned()
    }

    /// Waits until a server refuses this client. Returns the cause, and the TLS failure of each
    /// server if TLS failed with all of them.
    pub(crate) async fn refused(&self) -> (String, Vec<TlsFailure>) {
        // The sender lives in `self`, so the channel cannot be closed while this waits.
        let refused = self
            .record
            .subscribe()
            .wait_for(|record| record.is_refused)
            .await
            .map(|record| record.clone());
        refused
            .map(|record| (record.cause().unwrap_or_default().to_owned(), record.tls))
            .unwrap_or_default()
    }

    /// A client was started.
    pub(crate) fn started(&self, options: &SessionOptions) {
        let client = &*self.client;
        let transport = options.transport_name();
        tracing::info!(
            client,
            servers = &*Truncated(&options.servers).to_string(),
            transport,
            "connecting"
        );
    }

    /// Records the state of an attempt to connect that is still in progress.
    pub(crate) fn record_progress(&self, cause: &str) {
        self.record.send_if_modified(|record| {
            if let Some(outage) = &mut record.outage {
                outage.record_progress(cause);
            }
            // Does not notify the waiters of this channel.
            false
        });
    }

    /// A connection was closed because no reply arrived for too long.
    pub(crate) fn silent(&self, failure: &OpenFailure) {
        let client = &*self.client;
        let cause = &failure.cause;
        self.change(|record| record.set_last_failure(cause, ClockInstant::now()));
        tracing::debug!(
            client,
            cause = &*Truncated(cause).to_string(),
            "the connection is closed"
        );
    }

    /// An attempt to open a session, or to resume it, has failed.
    pub(crate) fn failed(&self, failure: &OpenFailure) {
        let now = ClockInstant::now();
        let client = &*self.client;
        let OpenFailure {
            cause,
            is_refusal,
            tls,
        } = failure;
        let mut lasted = None;
        let mut repeated = false;
        self.record.send_if_modified(|record| {
            repeated = record
                .last_failure
                .as_ref()
                .is_some_and(|(known, _)| known == cause);
            record.is_refused = *is_refusal;
            record.tls.clone_from(tls);
            record.set_last_failure(cause, now);
            if let Some(outage) = &mut record.outage
                && outage.failed(cause, now)
            {
                lasted = Some(outage.lasted(now));
            }
            // Notifies the waiters only of what they wait for: a refusal, or a new time for the
            // next line.
            *is_refusal || lasted.is_some()
        });
        let cause = Truncated(cause);
        match lasted.map(Rounded) {
            Some(lasted) => tracing::warn!(
                client,
                ?lasted,
                cause = &*cause.to_string(),
                "not connected"
            ),
            // At `trace`, because there are several attempts a second.
            None if repeated => tracing::trace!(
                client,
                cause = &*cause.to_string(),
                "the attempt to connect failed"
            ),
            None => tracing::debug!(
                client,
                cause = &*cause.to_string(),
                "the attempt to connect failed"
            ),
        }
    }

    /// The session cannot be relied on until it is [confirmed](Self::confirmed).
    pub(crate) fn doubted(&self, session: &Session, doubt: &Doubt) {
        let now = ClockInstant::now();
        let client = &*self.client;
        let session = Id(session);
        self.meter.doubted();
        let is_new = self.change(|record| {
            let is_new = record.outage.is_none();
            if is_new {
                let cause = doubt.to_string();
                record.set_last_failure(&cause, now);
                record.outage = Some(Outage::begin(now, Some(cause), self.log_interval));
                record.is_resumed = false;
            }
            is_new
        });
        if is_new {
            tracing::info!(client, %session, why = &*Truncated(doubt).to_string(), "session suspended");
        } else {
            tracing::debug!(client, %session, why = &*Truncated(doubt).to_string(), "session still suspended");
        }
    }

    /// The session has another connection, which has not answered yet.
    pub(crate) fn resumed(&self, session: &Session) {
        tracing::debug!(client = &*self.client, session = %Id(session), "the session has another connection");
        self.change(|record| record.is_resumed = true);
    }

    /// The session was confirmed by a reply. Returns a closure that logs this; call it after the
    /// state is published.
    pub(crate) fn confirmed<'a>(&'a self, session: &'a Session) -> impl FnOnce() + Send + use<'a> {
        self.meter.confirmed(|| session.lease().remaining());
        // Usually there is no outage, and nothing to record.
        let has_outage = self.record.borrow().outage.is_some();
        let ended = has_outage.then(|| {
            self.change(|record| {
                let is_resumed = std::mem::take(&mut record.is_resumed);
                record.resumed += u64::from(is_resumed);
                (record.outage.take(), is_resumed)
            })
        });
        move || {
            let Some((outage, is_resumed)) = ended else {
                return;
            };
            let client = &*self.client;
            let id = Id(session);
            let lasted = lasted(outage.as_ref());
            if is_resumed {
                self.meter.resumed();
                let server = session.server();
                tracing::info!(client, session = %id, server, lasted, "session resumed over another connection");
            } else {
                tracing::info!(client, session = %id, lasted, "session confirmed");
            }
        }
    }

    /// The session has ended.
    pub(crate) fn lost(&self, session: &Session, end: SessionEnd) {
        let now = ClockInstant::now();
        let why = end.to_string();
        self.meter.doubted();
        self.meter.lost(end);
        let outage = self.change(|record| {
            // If the lease ran out after failed attempts, keep their recorded cause: it is more
            // specific than `why`.
            if end != SessionEnd::LeaseOver
                || !record.outage.as_ref().is_some_and(Outage::has_failed)
            {
                record.set_last_failure(&why, now);
            }
            record.is_resumed = false;
            record
                .outage
                .get_or_insert_with(|| Outage::begin(now, Some(why.clone()), self.log_interval));
            record.outage.clone()
        });
        let client = &*self.client;
        let session = Id(session);
        // The cause of the outage, if an attempt failed.
        let failed = outage.as_ref().filter(|outage| outage.has_failed());
        let cause = failed
            .and_then(Outage::cause)
            .map(|cause| Truncated(cause).to_string());
        tracing::info!(client, %session, why, suspended_for = lasted(outage.as_ref()), cause, "session lost");
    }

    /// A session was opened.
    pub(crate) fn opened(&self, session: &Session) {
        self.meter.opened();
        self.meter.confirmed(|| session.lease().remaining());
        let is_first = session.epoch() == 1;
        let outage = self.change(|record| {
            record.is_refused = false;
            record.replaced += u64::from(!is_first);
            record.outage.take()
        });
        let client = &*self.client;
        let id = Id(session);
        let lasted = lasted(outage.as_ref());
        let server = session.server();
        let timeout = session.timeout();
        if is_first {
            tracing::info!(client, session = %id, server, ?timeout, lasted, "session opened");
        } else {
            tracing::info!(client, session = %id, server, ?timeout, lasted, "session opened in place of the lost one");
        }
    }

    /// The client was closed. `confirmed`: whether the servers have confirmed the end of the
    /// session; `None` if the client never had a session.
    pub(crate) fn closed(&self, confirmed: Option<bool>) {
        self.meter.closed();
        tracing::info!(client = &*self.client, confirmed, "client closed");
    }

    /// The task that writes this journal has panicked.
    pub(crate) fn panicked(&self, message: &str) {
        self.meter.doubted();
        let message = &*Truncated(message).to_string();
        tracing::error!(
            client = &*self.client,
            message,
            "the client has ended: its task has panicked"
        );
    }

    /// The runtime ended before the client was closed.
    pub(crate) fn cut_short(&self, session: &Session) {
        let client = &*self.client;
        let id = Id(session);
        let timeout = session.timeout();
        self.meter.closed();
        tracing::warn!(
            client,
            session = %id,
            ?timeout,
            "the runtime ended before the client was closed: unless a server still receives the request to close the \
             session, the session keeps its nodes and locks until its timeout"
        );
    }

    /// Logs an outage whenever a line is due.
    pub(crate) async fn log_outages(&self, timer: &Timer) -> Infallible {
        let mut changes = self.record.subscribe();
        loop {
            let next_line = changes
                .borrow_and_update()
                .outage
                .as_ref()
                .map(Outage::next_line);
            let due = async {
                match next_line {
                    Some(next_line) => timer.sleep(next_line.remaining()).await,
                    None => pending().await,
                }
            };
            // Most changes in an outage are failed attempts, which do not move the next line.
            let moved = changes
                .wait_for(|record| record.outage.as_ref().map(Outage::next_line) != next_line);
            tokio::select! {
                biased;
                // The sender lives in `self`, so the channel cannot be closed.
                _ = moved => {}
                () = due => self.log_if_due(),
            }
        }
    }

    fn log_if_due(&self) {
        let now = ClockInstant::now();
        let due = self.change(|record| {
            let outage = record.outage.as_mut()?;
            outage.is_due(now).then(|| outage.clone())
        });
        if let Some(outage) = due {
            let client = &*self.client;
            let cause = Truncated(outage.cause().unwrap_or(NO_REPLY_YET));
            tracing::warn!(
                client,
                lasted = lasted(Some(&outage)),
                cause = &*cause.to_string(),
                "not connected"
            );
        }
    }

    /// Changes the record. Callers log after this returns: a log subscriber may read the client's
    /// health, which locks the same record.
    fn change<T: Default>(&self, change: impl FnOnce(&mut Record) -> T) -> T {
        let mut result = T::default();
        self.record.send_modify(|record| result = change(record));
        result
    }
}

/// The duration of an outage, as the value of a field.
fn lasted(outage: Option<&Outage>) -> Option<DebugValue<Rounded>> {
    outage.map(|outage| tracing::field::debug(Rounded(outage.lasted(ClockInstant::now()))))
}

/// The id of a session, in the format of ZooKeeper's own logs.
struct Id<'a>(&'a Session);

impl fmt::Display for Id<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0.id())
    }
}

/// A duration, rounded down to whole milliseconds.
struct Rounded(Duration);

impl fmt::Debug for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = Duration::from_nanos(u64::from(self.0.subsec_nanos() % 1_000_000));
        write!(f, "{:?}", self.0.saturating_sub(rest))
    }
}
