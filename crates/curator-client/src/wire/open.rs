//! Opens a connection, for a new session or an existing one.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use super::connection::Connection;
use super::link::{Link, SessionKey};
use super::reply::{Reply, connect_response};
use super::request::{AUTH_XID, ConnectRequest, auth};
use tokio::runtime::Handle;

use crate::clock::ClockInstant;
use crate::connect_string::HostPort;
use crate::options::{Credentials, SessionOptions};
use crate::process::InProcess;
use crate::simulation::{Network, Socket};
use crate::spawner::Spawner;
use crate::timer::Timer;
use crate::transport::{ConnectFailure, ErrorCode, Granted, RequestError, share};

impl SessionKey {
    /// See [`SessionKey::resume`](crate::link::SessionKey::resume).
    pub(crate) async fn resume(
        &self,
        options: &SessionOptions,
        timer: &Timer,
        limit: Duration,
        report: &Report<'_>,
        granted: &Granted,
    ) -> Result<(Link, ClockInstant), ConnectFailure> {
        let pass = Pass { network: &self.network, options, timer, session: Some(self), share: share(options, limit) };
        pass.run(report, granted).await
    }
}

/// See [`Link::open`](crate::link::Link::open).
pub(crate) async fn open(
    network: &Arc<dyn Network>,
    options: &SessionOptions,
    timer: &Timer,
    report: &Report<'_>,
) -> Result<(Link, ClockInstant), ConnectFailure> {
    let pass = Pass { network, options, timer, session: None, share: share(options, options.connection_timeout) };
    let granted: Granted = Arc::new(|_, _| {});
    pass.run(report, &granted).await
}

/// Called with the known problems of the servers during a pass.
type Report<'a> = dyn Fn(&str) + Send + Sync + 'a;

/// One pass over the servers, in random order.
struct Pass<'a> {
    network: &'a Arc<dyn Network>,
    options: &'a SessionOptions,
    timer: &'a Timer,
    /// The session to resume.
    session: Option<&'a SessionKey>,
    /// The time limit for one server.
    share: Duration,
}

/// Why a server was not connected.
enum Failed {
    /// It has given a reply that the others would give too.
    Answered(RequestError),
    Problem(Cow<'static, str>),
}

impl Failed {
    fn problem(problem: impl fmt::Display) -> Self {
        Self::Problem(Cow::Owned(problem.to_string()))
    }
}

impl Pass<'_> {
    /// There is no await point between the opened connection and the return.
    async fn run(self, report: &Report<'_>, granted: &Granted) -> Result<(Link, ClockInstant), ConnectFailure> {
        let servers = self.options.servers.hosts();
        let mut problems = vec![Cow::Borrowed("not tried yet"); servers.len()];
        let mut order: Vec<_> = (0..servers.len()).collect();
        fastrand::shuffle(&mut order);
        let text = |problems: &[Cow<'_, str>]| {
            let mut text = String::new();
            for (server, problem) in servers.iter().zip(problems) {
                let separator = if text.is_empty() { "" } else { "; " };
                // Writing to a string cannot fail.
                let _: fmt::Result = write!(text, "{separator}{server}: {problem}");
            }
            text
        };
        let mut left = servers.len();
        for index in order {
            left -= 1;
            let (server, started) = (&servers[index], ClockInstant::now());
            let attempt = tokio::select! {
                biased;
                connected = self.connect(server, granted) => connected,
                () = self.timer.sleep(self.share) => {
                    Err(Failed::problem(format_args!("connected, but no reply to the handshake within {:?}", self.share)))
                }
            };
            match attempt {
                Ok(link) => return Ok((link, started)),
                Err(Failed::Answered(error)) => {
                    return Err(ConnectFailure::Answered { server: server.clone(), error });
                }
                Err(Failed::Problem(problem)) => {
                    problems[index] = problem;
                    // The caller reports the failure of the whole pass.
                    if left > 0 {
                        report(&text(&problems));
                    }
                }
            }
        }
        Err(ConnectFailure::NoServer(text(&problems)))
    }

    async fn connect(&self, server: &HostPort, granted: &Granted) -> Result<Link, Failed> {
        let connected = self.network.connect(server.host(), server.port()).await;
        let socket = connected.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => Failed::Problem(Cow::Borrowed("connection refused")),
            _ => Failed::problem(format_args!("cannot be reached ({error})")),
        })?;
        let requested = ConnectRequest {
            // As `zookeeper-client`, which does not remember it. The first probe makes up for that.
            last_zxid_seen: 0,
            timeout: self.session.map_or(self.options.session_timeout, |session| session.timeout),
            session_id: self.session.map_or(0, |session| session.session_id),
            password: self.session.map_or([0; 16].as_slice(), |session| &*session.password),
        };
        socket.send(requested.frame());
        for Credentials { scheme, auth: secret } in &self.options.auth {
            socket.send(auth(scheme, secret));
        }
        let frame = receive(&*socket).await?;
        let reply = connect_response(&frame).map_err(Failed::problem)?;
        let Some(session) = reply else {
            return Err(Failed::Answered(RequestError::Code(ErrorCode::SESSION_EXPIRED)));
        };
        granted(session.session_id, session.timeout);
        for _ in &self.options.auth {
            authenticated(&receive(&*socket).await?)?;
        }
        let network = Arc::clone(self.network);
        let (password, timeout) = (session.password.into(), session.timeout);
        let key = SessionKey { network, session_id: session.session_id, password, timeout };
        let connection = Connection::new(socket, self.share, timeout);
        // It ends with the connection: when the supervisor drops it, or the server closes it. Only the supervisor polls
        // this, on the runtime of the client.
        Spawner::new(Handle::current())
            .spawn(InProcess::new(Box::pin(Arc::clone(&connection).read(self.timer.clone()))));
        let (resumes_session, verifies_identity) = (self.session.is_some(), self.options.uses_sasl());
        Ok(Link::new(connection, key, server.clone(), resumes_session, verifies_identity))
    }
}

async fn receive(socket: &dyn Socket) -> Result<Vec<u8>, Failed> {
    let frame = poll_fn(|cx| socket.poll_receive(cx)).await;
    frame.ok_or_else(|| Failed::problem("connected, but the server ended the handshake"))
}

/// Checks the reply to the credentials.
fn authenticated(frame: &[u8]) -> Result<(), Failed> {
    let reply = Reply::parse(frame).map_err(Failed::problem)?;
    if reply.xid != AUTH_XID {
        return Err(Failed::problem("a reply to nothing in place of one to the credentials"));
    }
    reply.body.map(drop).map_err(|code| Failed::Answered(RequestError::Code(code)))
}
