//! Finds out why servers do not accept a client.
//!
//! A server whose handshake has failed, or takes long, is examined: does it accept a connection,
//! and does TLS differ between client and server? A working server is not examined.

#[cfg(feature = "tls")]
mod handshake;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use async_net::TcpStream;
use futures_util::{AsyncReadExt as _, AsyncWriteExt as _};

#[cfg(all(feature = "native", feature = "tls"))]
pub(crate) use self::handshake::tls_problem;
#[cfg(feature = "tls")]
use self::handshake::{Handshake, shake_hands};
use crate::connect_string::HostPort;
use crate::ensemble::PassServers;
use crate::options::SessionOptions;
use crate::time::ClockInstant;
#[cfg(feature = "tls")]
use crate::tls::TlsOptions;
use crate::tls::{TlsFailure, TlsProblem};

/// Why a server is examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExaminationCause {
    /// The server is slow to answer. Only its port is checked, since it may be busy.
    Slow,
    /// The server has ended the handshake of a session that was connected to the ensemble before.
    EndedOnResume,
    /// The server has ended the handshake for a new session. The client may never have been
    /// connected to the ensemble.
    EndedOnOpen,
}

/// The problem with one server.
#[derive(Debug)]
enum Problem {
    /// The client is connecting to the server, and no problem is known yet.
    BeingTried,
    Unresolved(io::Error),
    Unconnected(io::Error),
    /// The step that has not happened yet.
    Slow(&'static str),
    /// The step that has not happened within this time.
    Overdue(&'static str, Duration),
    /// The server has accepted the connection, and then closed it.
    Ended,
    /// The server has replied that it grants no session now.
    #[cfg(feature = "native")]
    NotReady,
    /// The server's reply to the handshake cannot be read.
    #[cfg(feature = "native")]
    Malformed(String),
    /// SASL has failed.
    #[cfg(feature = "native")]
    Sasl(String),
    /// Like `Ended`, or SASL failed locally: `zookeeper-client` does not distinguish these.
    #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
    Unauthenticated,
    /// The server has accepted the connection, but TLS failed.
    Tls(TlsProblem),
    /// The server was not tried, because a prerequisite is missing.
    #[cfg(feature = "sasl-gssapi")]
    PrerequisiteMissing(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeingTried => f.write_str("being tried"),
            Self::Unresolved(error) => write!(f, "cannot be resolved ({error})"),
            Self::Unconnected(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                f.write_str("connection refused")
            }
            Self::Unconnected(error) => write!(f, "cannot be reached ({error})"),
            Self::Slow(what) => write!(f, "{what} yet"),
            Self::Overdue(what, share) => write!(f, "{what} within {share:?}"),
            #[cfg(feature = "sasl-gssapi")]
            Self::PrerequisiteMissing(problem) => f.write_str(problem),
            Self::Ended => f.write_str(
                "connected, but the server ended the handshake (it may be starting, without a quorum, or at its limit \
                 of connections)",
            ),
            #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
            Self::Unauthenticated => f.write_str(
                "connected, but the handshake was not completed (the server may be starting, without a quorum, or at its \
                 limit of connections; or SASL has failed on this side: the log of zookeeper_client has the reason)",
            ),
            #[cfg(feature = "native")]
            Self::NotReady => f.write_str(
                "connected, but the server is not ready: it grants no sessions (it may be starting, or without a leader)",
            ),
            #[cfg(feature = "native")]
            Self::Malformed(problem) => write!(f, "connected, but its reply to the handshake cannot be read ({problem})"),
            #[cfg(feature = "native")]
            Self::Sasl(problem) => write!(f, "connected, but SASL has failed ({problem})"),
            Self::Tls(problem) => write!(f, "{problem}"),
        }
    }
}

/// The problems of the servers, which are kept across passes. `Display` lists them in the order of
/// the servers.
pub(crate) struct Diagnosis<'a> {
    /// The servers that a pass tries.
    pub(crate) servers: Arc<[HostPort]>,
    /// So many of them are tried before the others.
    pub(crate) first: usize,
    /// The time limit for one server in the next pass.
    pub(crate) share: Duration,
    #[cfg(feature = "tls")]
    tls: Option<&'a TlsOptions>,
    /// Whether `zookeeper-client` authenticates the client over SASL.
    #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
    zookeeper_client_authenticates: bool,
    found: Mutex<Vec<Findings>>,
    report: &'a Report<'a>,
}

/// Called with the known problems of the servers during a pass.
pub(crate) type Report<'a> = dyn Fn(&str) + Send + Sync + 'a;

/// The findings about one server.
#[derive(Debug, Default)]
struct Findings {
    problem: Option<Problem>,
    last_examined: Option<ClockInstant>,
    /// When the server was last tested for the other kind of port (TLS or plain), if the test was
    /// negative.
    port_tested: Option<ClockInstant>,
    /// The number of addresses of its name, if `zookeeper-client` chooses among them.
    #[cfg(feature = "zookeeper-client")]
    resolved_by_zookeeper_client: Option<usize>,
}

/// The maximum number of servers that `Display` names; an ensemble has fewer.
const MOST_NAMED: usize = 9;
/// The minimum time between two examinations of a server. In an outage every client makes a pass
/// every second.
const EXAMINATION_INTERVAL: Duration = Duration::from_secs(10);
/// The minimum time between two tests of a server for the other kind of port while a client opens
/// its session: the server may log each of them.
const PORT_TEST_INTERVAL: Duration = Duration::from_secs(60);
pub(crate) const NO_REPLY: &str = "connected, but no reply to the handshake";
#[cfg(feature = "tls")]
const NO_TLS_REPLY: &str = "connected, but no reply to the TLS handshake";

impl<'a> Diagnosis<'a> {
    /// The servers share the connection timeout, until a caller sets another `share`.
    pub(crate) fn new(
        options: &'a SessionOptions,
        servers: PassServers,
        report: &'a Report<'a>,
    ) -> Self {
        Self {
            share: options.first_share(servers.all.len()),
            #[cfg(feature = "tls")]
            tls: options.tls.as_ref(),
            #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
            zookeeper_client_authenticates: options.uses_sasl() && !options.is_native(),
            ..Self::without_tls(servers, report)
        }
    }

    fn without_tls(servers: impl Into<PassServers>, report: &'a Report<'a>) -> Self {
        let PassServers { all, first } = servers.into();
        let found = all.iter().map(|_| Findings::default()).collect();
        Self {
            servers: all,
            first,
            share: Duration::MAX,
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
            zookeeper_client_authenticates: false,
            found: Mutex::new(found),
            report,
        }
    }

    /// Continues with other servers. What is known about a server that stays is kept.
    pub(crate) fn set_servers(&mut self, servers: impl Into<PassServers>) {
        let PassServers {
            all: servers,
            first,
        } = servers.into();
        let found = self.found.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut kept: Vec<_> = self.servers.iter().zip(std::mem::take(found)).collect();
        *found = servers
            .iter()
            .map(|server| {
                let known = kept.iter().position(|(kept, _)| *kept == server);
                known.map_or_else(Findings::default, |index| kept.swap_remove(index).1)
            })
            .collect();
        self.servers = servers;
        self.first = first;
    }

    /// The TLS failure of each server, if TLS has failed with all of them, in a way that waiting
    /// does not solve.
    pub(crate) fn tls_failures(&self) -> Option<Vec<TlsFailure>> {
        let found = self.lock();
        self.servers
            .iter()
            .zip(&*found)
            .map(
                |(server, found): (&HostPort, &Findings)| match &found.problem {
                    Some(Problem::Tls(problem)) if problem.is_lasting() => {
                        Some(TlsFailure::new(server, problem.clone()))
                    }
                    _ => None,
                },
            )
            .collect()
    }

    /// Reports `text` about the server that a pass has connected to.
    pub(crate) fn report(&self, text: &str) {
        (self.report)(text);
    }

    /// Examines a server at `addresses` that does not accept the client, unless it was examined
    /// recently.
    pub(crate) async fn examine(
        &self,
        index: usize,
        addresses: &[SocketAddr],
        cause: ExaminationCause,
    ) {
        if !self.is_due(index) {
            return;
        }
        self.note(index, Problem::Slow("no connection"));
        let connected = match TcpStream::connect(addresses).await {
            Ok(connected) => connected,
            Err(error) => return self.note(index, Problem::Unconnected(error)),
        };
        if cause == ExaminationCause::Slow {
            return self.note(index, Problem::Slow(self.no_reply()));
        }
        let speaks_plainly = async || match TcpStream::connect(addresses).await {
            Ok(connected) => speaks_plainly(connected).await,
            Err(_) => false,
        };
        #[cfg(feature = "tls")]
        if let Some(tls) = self.tls {
            self.note(index, Problem::Slow(NO_TLS_REPLY));
            match Box::pin(shake_hands(connected, &self.servers[index], tls)).await {
                Handshake::Failed(problem) => self.note(index, Problem::Tls(problem)),
                Handshake::Accepted => self.note(index, self.ended_problem()),
                Handshake::Ended => {
                    let is_plain = async {
                        let speaks_tls = async || match TcpStream::connect(addresses).await {
                            Ok(connected) => speaks_tls(connected).await,
                            Err(_) => false,
                        };
                        speaks_plainly().await && !speaks_tls().await
                    };
                    self.note_ended(index, cause, TlsProblem::NotTls, is_plain)
                        .await;
                }
            }
            return;
        }
        // Some ports accept both (`client.portUnification`).
        let needs_tls = async { speaks_tls(connected).await && !speaks_plainly().await };
        self.note_ended(index, cause, TlsProblem::TlsRequired, needs_tls)
            .await;
    }

    /// Records that a server has ended the handshake. Tests whether `problem` is the reason, unless
    /// this was tested recently, or the client's session was connected to the ensemble before.
    async fn note_ended(
        &self,
        index: usize,
        cause: ExaminationCause,
        problem: TlsProblem,
        test: impl Future<Output = bool>,
    ) {
        // This problem stands until the test has a result.
        self.note(index, self.ended_problem());
        let is_due = cause == ExaminationCause::EndedOnOpen
            && is_due(&mut self.lock()[index].port_tested, PORT_TEST_INTERVAL);
        if is_due && test.await {
            self.lock()[index].port_tested = None;
            self.note(index, Problem::Tls(problem));
        }
    }

    /// Records the step of an attempt that has not happened yet.
    pub(crate) fn slow(&self, index: usize, what: &'static str) {
        self.note(index, Problem::Slow(what));
    }

    /// Records that the name of a server cannot be resolved.
    pub(crate) fn unresolved(&self, index: usize, error: io::Error) {
        self.note(index, Problem::Unresolved(error));
    }

    /// Records that the connection to a server cannot be opened.
    #[cfg(feature = "native")]
    pub(crate) fn unconnected(&self, index: usize, error: io::Error) {
        self.note(index, Problem::Unconnected(error));
    }

    /// Records that a server has closed the connection during the handshake.
    #[cfg(feature = "native")]
    pub(crate) fn ended(&self, index: usize) {
        self.note(index, self.ended_problem());
    }

    /// Records that TLS has failed with a server.
    #[cfg(all(feature = "native", feature = "tls"))]
    pub(crate) fn tls(&self, index: usize, problem: TlsProblem) {
        self.note(index, Problem::Tls(problem));
    }

    /// Records that a server has replied that it grants no session now.
    #[cfg(feature = "native")]
    pub(crate) fn not_ready(&self, index: usize) {
        self.note(index, Problem::NotReady);
    }

    /// Records that a server's reply to the handshake cannot be read.
    #[cfg(feature = "native")]
    pub(crate) fn malformed(&self, index: usize, problem: String) {
        self.note(index, Problem::Malformed(problem));
    }

    /// Records that SASL has failed with a server.
    #[cfg(feature = "native")]
    pub(crate) fn sasl_failed(&self, index: usize, problem: String) {
        self.note(index, Problem::Sasl(problem));
    }

    /// Records that a server was not tried, because a prerequisite is missing.
    #[cfg(feature = "sasl-gssapi")]
    pub(crate) fn prerequisite_missing(&self, index: usize, problem: String) {
        self.note(index, Problem::PrerequisiteMissing(problem));
    }

    /// Records that `zookeeper-client` resolves the name of a server, and that the name has this
    /// many addresses.
    #[cfg(feature = "zookeeper-client")]
    pub(crate) fn resolved_by_zookeeper_client(&self, index: usize, addresses: usize) {
        self.lock()[index].resolved_by_zookeeper_client = (addresses > 1).then_some(addresses);
    }

    /// The description of a server whose first reply is missing.
    pub(crate) fn no_reply(&self) -> &'static str {
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            return NO_TLS_REPLY;
        }
        NO_REPLY
    }

    fn ended_problem(&self) -> Problem {
        #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
        if self.zookeeper_client_authenticates {
            return Problem::Unauthenticated;
        }
        Problem::Ended
    }

    fn is_due(&self, index: usize) -> bool {
        is_due(&mut self.lock()[index].last_examined, EXAMINATION_INTERVAL)
    }

    /// Records that a server is being tried.
    pub(crate) fn begin(&self, index: usize) {
        self.lock()[index]
            .problem
            .get_or_insert(Problem::BeingTried);
        self.report(&self.to_string());
    }

    fn note(&self, index: usize, problem: Problem) {
        self.lock()[index].problem = Some(problem);
        self.report(&self.to_string());
    }

    /// Records that the server's share of the time has passed.
    pub(crate) fn end(&self, index: usize, share: Duration) {
        let problem = &mut self.lock()[index].problem;
        match problem {
            Some(Problem::Slow(what)) => *problem = Some(Problem::Overdue(what, share)),
            Some(Problem::BeingTried) => *problem = Some(Problem::Overdue("no reply", share)),
            _ => {}
        }
    }

    /// Records that an attempt has failed before its time had passed.
    #[cfg(feature = "zookeeper-client")]
    pub(crate) fn end_early(&self, index: usize) {
        let ended = self.ended_problem();
        let no_reply = self.no_reply();
        let problem = &mut self.lock()[index].problem;
        if matches!(problem, Some(Problem::Slow(what)) if *what == no_reply) {
            *problem = Some(ended);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Findings>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether `interval` has passed since `last`, or `last` is `None`. If so, sets `last` to
/// now.
fn is_due(last: &mut Option<ClockInstant>, interval: Duration) -> bool {
    let now = ClockInstant::now();
    let is_due = last.is_none_or(|last| now.saturating_duration_since(last) >= interval);
    if is_due {
        *last = Some(now);
    }
    is_due
}

impl fmt::Display for Diagnosis<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.lock();
        for (index, (server, found)) in self
            .servers
            .iter()
            .zip(&*found)
            .take(MOST_NAMED)
            .enumerate()
        {
            write!(f, "{}{server}: ", if index == 0 { "" } else { "; " })?;
            match &found.problem {
                Some(problem) => write!(f, "{problem}")?,
                None => f.write_str("not tried yet")?,
            }
            #[cfg(feature = "zookeeper-client")]
            if let Some(addresses) = found.resolved_by_zookeeper_client {
                write!(
                    f,
                    " (the name has {addresses} addresses, and with TLS only the first that accepts a connection is tried)"
                )?;
            }
        }
        match self.servers.len().saturating_sub(MOST_NAMED) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// A four-letter word that every plain ZooKeeper server answers, even one that does not serve
/// requests: with the word's result, or with the message that the word is not permitted. The server
/// then closes the connection. ZooKeeper reads only the first four bytes; a TLS server needs five
/// to see that this is not TLS.
const WORD: &[u8; 5] = b"srvr\n";

/// The beginning of a TLS handshake, in the format of TLS 1.0, which every TLS server recognises. A
/// TLS server answers with a handshake or an alert; a plain ZooKeeper reads the first bytes as the
/// length of a request, 369 MB, and closes the connection, unless `jute.maxbuffer` is larger still.
#[rustfmt::skip]
const CLIENT_HELLO: [u8; 52] = [
    // Record: handshake, TLS 1.0, 47 bytes.
    0x16, 3, 1, 0, 47,
    // Handshake: client hello, 43 bytes, TLS 1.2.
    1, 0, 0, 43, 3, 3,
    // Random bytes, which need not be random, because this handshake is never finished.
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
    // No session; two cipher suites, one of them TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256; no
    // compression.
    0, 0, 4, 0xc0, 0x2f, 0, 0xff, 1, 0,
];

/// Whether the server at the other end of a new connection speaks TLS. Has no deadline: the caller
/// drops the future when its time has passed.
async fn speaks_tls(mut stream: TcpStream) -> bool {
    // The reply counts, even if the server closes the connection during the write.
    drop(stream.write_all(&CLIENT_HELLO).await);
    let mut first = [0];
    let is_record = |first| matches!(first, 0x15 | 0x16);
    matches!(stream.read(&mut first).await, Ok(1)) && is_record(first[0])
}

/// Whether the server at the other end of a new connection is a plain ZooKeeper. Has no deadline.
async fn speaks_plainly(mut stream: TcpStream) -> bool {
    drop(stream.write_all(WORD).await);
    let mut first = [0];
    // A TLS alert does not begin with a letter.
    matches!(stream.read(&mut first).await, Ok(1)) && first[0].is_ascii_alphabetic()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect_string::ConnectString;

    fn servers(connect_string: &str) -> Arc<[HostPort]> {
        ConnectString::parse(connect_string).unwrap().hosts().into()
    }

    #[test]
    fn every_server_is_named_with_its_problem() {
        let servers = servers("zk1,zk2,zk3,zk4,[::1]:7");
        let share = Duration::from_secs(5);
        let last = Mutex::new(String::new());
        let report = |text: &str| text.clone_into(&mut last.lock().unwrap());
        let diagnosis = Diagnosis::without_tls(Arc::clone(&servers), &report);
        diagnosis.begin(3);
        diagnosis.note(2, Problem::Slow(NO_REPLY));
        diagnosis.note(1, Problem::Unresolved(io::Error::other("unknown")));
        diagnosis.note(
            0,
            Problem::Unconnected(io::ErrorKind::ConnectionRefused.into()),
        );
        assert_eq!(
            *last.lock().unwrap(),
            "zk1:2181: connection refused; zk2:2181: cannot be resolved (unknown); \
             zk3:2181: connected, but no reply to the handshake yet; zk4:2181: being tried; [::1]:7: not tried yet"
        );
        diagnosis.end(2, share);
        diagnosis.end(1, share);
        diagnosis.note(3, Problem::Ended);
        diagnosis.note(4, Problem::Unconnected(io::Error::other("no route")));
        let text = diagnosis.to_string();
        assert!(
            text.contains(
                "zk2:2181: cannot be resolved (unknown); zk3:2181: connected, but no reply"
            ),
            "{text}"
        );
        assert!(
            text.contains(
                "handshake within 5s; zk4:2181: connected, but the server ended the handshake"
            ),
            "{text}"
        );
        assert!(
            text.ends_with("; [::1]:7: cannot be reached (no route)"),
            "{text}"
        );
    }

    #[test]
    fn the_problem_of_a_server_that_stays_is_kept() {
        let mut diagnosis = Diagnosis::without_tls(servers("zk1,zk2,zk3"), &|_| {});
        (0..3).for_each(|index| diagnosis.note(index, Problem::Ended));
        diagnosis.note(2, Problem::Slow("no connection"));
        diagnosis.set_servers(servers("zk3,zk4,zk1"));
        let text = diagnosis.to_string();
        assert!(
            text.starts_with(
                "zk3:2181: no connection yet; zk4:2181: not tried yet; zk1:2181: connected, but"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_long_list_of_servers_is_truncated() {
        let servers = servers(&["zk"; 30].join(","));
        let diagnosis = Diagnosis::without_tls(Arc::clone(&servers), &|_| {});
        (0..30).for_each(|index| diagnosis.note(index, Problem::Slow("no connection")));
        let text = diagnosis.to_string();
        assert_eq!(text.matches("no connection yet").count(), MOST_NAMED);
        assert!(text.ends_with("; and 21 more"), "{text}");
    }

    #[test]
    fn a_server_that_ends_a_slow_handshake_is_not_reported_as_silent() {
        let servers = servers("zk1,zk2");
        let diagnosis = Diagnosis::without_tls(Arc::clone(&servers), &|_| {});
        diagnosis.note(0, Problem::Slow(NO_REPLY));
        diagnosis.note(1, Problem::Slow("no connection"));
        (0..2).for_each(|index| diagnosis.end_early(index));
        let text = diagnosis.to_string();
        assert!(
            text.contains("zk1:2181: connected, but the server ended the handshake"),
            "{text}"
        );
        assert!(text.ends_with("zk2:2181: no connection yet"), "{text}");
    }

    #[test]
    fn tls_failures_are_final_only_if_every_server_has_a_permanent_one() {
        let servers = servers("zk1,zk2");
        let diagnosis = Diagnosis::without_tls(Arc::clone(&servers), &|_| {});
        diagnosis.note(0, Problem::Tls(TlsProblem::UnknownIssuer));
        diagnosis.note(1, Problem::Ended);
        assert_eq!(diagnosis.tls_failures(), None);
        diagnosis.note(1, Problem::Tls(TlsProblem::NotTls));
        let failures = diagnosis.tls_failures().unwrap();
        assert_eq!(
            failures[0],
            TlsFailure::new(&servers[0], TlsProblem::UnknownIssuer)
        );
        assert_eq!(
            failures[1],
            TlsFailure::new(&servers[1], TlsProblem::NotTls)
        );
        assert_eq!(diagnosis.to_string(), crate::tls::listed(&failures));
        // A problem that passes with time is not final.
        diagnosis.note(
            1,
            Problem::Tls(TlsProblem::NotValidYet {
                after: Duration::from_secs(9),
            }),
        );
        assert_eq!(diagnosis.tls_failures(), None);
        let text = diagnosis.to_string();
        assert!(
            text.ends_with(
                "zk2:2181: its certificate becomes valid in 9s by the clock of this machine"
            ),
            "{text}"
        );
    }

    #[tokio::test]
    async fn the_test_for_the_other_kind_of_port_is_repeated_soon_only_after_a_match() {
        let servers = servers("zk1");
        let diagnosis = Diagnosis::without_tls(Arc::clone(&servers), &|_| {});
        let note_ended = |result: bool| {
            diagnosis.note_ended(
                0,
                ExaminationCause::EndedOnOpen,
                TlsProblem::TlsRequired,
                async move { result },
            )
        };
        for _ in 0..2 {
            note_ended(true).await;
            assert!(diagnosis.tls_failures().is_some());
        }
        note_ended(false).await;
        assert_eq!(diagnosis.tls_failures(), None);
        // Not tested again so soon after a negative result.
        note_ended(true).await;
        assert_eq!(diagnosis.tls_failures(), None);
        // A server is not tested either if the session was connected to the ensemble before.
        let diagnosis = Diagnosis::without_tls(Arc::clone(&servers), &|_| {});
        diagnosis
            .note_ended(
                0,
                ExaminationCause::EndedOnResume,
                TlsProblem::TlsRequired,
                async { panic!("tested") },
            )
            .await;
        assert!(
            diagnosis
                .to_string()
                .contains("the server ended the handshake"),
            "{diagnosis}"
        );
    }

    #[test]
    fn a_server_is_not_examined_again_in_the_next_pass() {
        let servers = servers("zk1,zk2");
        let diagnosis = Diagnosis::without_tls(Arc::clone(&servers), &|_| {});
        assert!(diagnosis.is_due(0) && diagnosis.is_due(1));
        assert!(!diagnosis.is_due(0) && !diagnosis.is_due(1));
    }
}
