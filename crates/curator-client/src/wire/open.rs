//! Opens a connection, for a new session or an existing one.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::connection::Connection;
use super::handshake::{
    HandshakeFailure, UnusedSession, authenticate, await_auth_replies, receive, send_credentials,
    send_first_token,
};
use super::link::{Link, SessionKey};
use super::reply::{connect_response, is_rejection};
use super::route::{EndedBy, Route, Socket, secure};
use super::sasl::{Exchange, SaslFailure};
use crate::codec::ConnectRequest;
use crate::connect_string::HostPort;
use crate::diagnosis::{Diagnosis, NO_REPLY};
use crate::options::SessionOptions;
use crate::pass::{Connect, Failed, Pass, Target};
use crate::process::InProcess;
use crate::runtime::Spawner;
use crate::time::{ClockInstant, Deadline, Timer};
#[cfg(feature = "native")]
use crate::transport::Awaiting;
use crate::transport::{ConnectFailure, ErrorCode, Granted, RequestError};

/// See [`Link::open`](crate::link::Link::open).
pub(crate) async fn open(
    route: &Route,
    options: &SessionOptions,
    timer: &Timer,
    diagnosis: &Diagnosis<'_>,
) -> Result<(Link, ClockInstant), ConnectFailure> {
    let pass = Pass {
        diagnosis,
        options,
        share: diagnosis.share,
        timer,
        resumes_session: false,
    };
    let granted = Granted::unused();
    pass.run(&Opening {
        route,
        session: None,
        granted: &granted,
    })
    .await
}

impl SessionKey {
    /// See [`SessionKey::resume`](crate::link::SessionKey::resume).
    pub(crate) async fn resume(
        &self,
        options: &SessionOptions,
        timer: &Timer,
        diagnosis: &Diagnosis<'_>,
        granted: &Granted,
    ) -> Result<(Link, ClockInstant), ConnectFailure> {
        let pass = Pass {
            diagnosis,
            options,
            share: diagnosis.share,
            timer,
            resumes_session: true,
        };
        pass.run(&Opening {
            route: &self.route,
            session: Some(self),
            granted,
        })
        .await
    }
}

struct Opening<'a> {
    route: &'a Route,
    /// The session to resume.
    session: Option<&'a SessionKey>,
    granted: &'a Granted,
}

/// How long a failed attempt may take to close the session that the server has granted. The caller,
/// or the attempt to connect to the next server, waits for this.
const CLOSE_TIME: Duration = Duration::from_secs(1);

impl Connect for Opening<'_> {
    type Link = Link;

    async fn resolve(&self, pass: &Pass<'_>, index: usize) -> io::Result<Vec<Target>> {
        let server = &pass.diagnosis.servers[index];
        if let Some(address) = pass.options.only_address {
            return Ok(vec![Target {
                name: server.to_string(),
                addresses: vec![address],
            }]);
        }
        self.route.resolve(server).await
    }

    async fn connect(
        &self,
        pass: &Pass<'_>,
        index: usize,
        target: Target,
        limit: Duration,
    ) -> Result<Link, Failed> {
        let limits = (Deadline::after(limit / 2), Deadline::after(limit));
        let server = &pass.diagnosis.servers[index];
        let connected = pass
            .step(
                index,
                "no connection",
                limits,
                self.route.connect(server, &target),
            )
            .await?;
        let socket = Arc::new(connected.map_err(|error| {
            pass.diagnosis.unconnected(index, error);
            Failed::Noted
        })?);
        let ended = |problem| record_end(pass, index, &target, problem);
        let tls = pass
            .step(
                index,
                pass.diagnosis.no_reply(),
                limits,
                secure(&socket, server, pass.options),
            )
            .await?;
        let tls = tls.map_err(ended)?;
        let mut unused = UnusedSession::new(&socket);
        let shaken = pass
            .step(
                index,
                NO_REPLY,
                limits,
                self.shake_hands(pass, server, &socket, &mut unused),
            )
            .await?;
        let key = match shaken {
            Ok(key) => key,
            Err(failure) => {
                if failure.ends_connection() {
                    tokio::select! {
                        biased;
                        () = unused.close_over_another_connection(server, &target, pass.options) => {}
                        () = pass.timer.sleep(CLOSE_TIME) => {}
                        () = pass.timer.sleep_until(limits.1) => {}
                    }
                }
                return Err(record(pass, index, failure, |error| {
                    ended(tls.explain(error, server))
                }));
            }
        };
        unused.used();
        let connection = Connection::new(socket, pass.options.longest_share(), key.timeout);
        // The task ends when the supervisor drops the connection, or the server closes it.
        // `Handle::current` is the runtime of the client, because only the supervisor polls this.
        Spawner::new(Handle::current()).spawn(InProcess::new(Box::pin(
            Arc::clone(&connection).read(pass.timer.clone()),
        )));
        Ok(Link::new(
            connection,
            key,
            server.clone(),
            pass.resumes_session,
            pass.options.uses_sasl(),
        ))
    }
}

impl Opening<'_> {
    async fn shake_hands(
        &self,
        pass: &Pass<'_>,
        server: &HostPort,
        socket: &Arc<Socket>,
        unused: &mut UnusedSession,
    ) -> Result<SessionKey, HandshakeFailure> {
        let timeout = self
            .session
            .map_or(pass.options.session_timeout, |session| session.timeout);
        // Like `zookeeper-client`, requests no minimum zxid. The first probe, a write, ensures that
        // the server is up to date.
        let requested = ConnectRequest::new(
            i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX),
            self.session.map_or(0, |session| session.session_id),
            self.session
                .map_or([0; 16].as_slice(), |session| &*session.password),
        );
        let sasl = Exchange::begin(pass.options, server).await?;
        let credentials = &*pass.options.auth;
        #[cfg(feature = "native")]
        let awaiting = self.awaiting(socket);
        if self.session.is_none() {
            unused.requested();
        }
        socket.together(|| {
            socket.send(requested.frame());
            match &sasl {
                Some((_, token)) => send_first_token(socket, token),
                None => send_credentials(socket, credentials),
            }
        });
        let reply = receive(socket).await?;
        if is_rejection(&reply) {
            return Err(HandshakeFailure::NotReady);
        }
        let Some(session) = connect_response(&reply)? else {
            return Err(HandshakeFailure::Answered(RequestError::Code(
                ErrorCode::SESSION_EXPIRED,
            )));
        };
        self.granted.report(session.session_id, session.timeout);
        let key = SessionKey {
            route: self.route.clone(),
            session_id: session.session_id,
            password: session.password.into(),
            timeout: session.timeout,
        };
        // The server may have opened another session in place of the one to resume.
        if self
            .session
            .is_none_or(|resumed| resumed.session_id != key.session_id)
        {
            unused.granted(&key);
        }
        // The next frame is not the reply that `awaiting` reads.
        #[cfg(feature = "native")]
        drop(awaiting);
        if let Some((exchange, _)) = sasl {
            authenticate(socket, exchange).await?;
            // Sent only after the server is authenticated: an impostor must not get them.
            socket.together(|| send_credentials(socket, credentials));
        }
        await_auth_replies(socket, credentials).await?;
        socket.allow_long_frames();
        Ok(key)
    }

    /// Until the result is dropped, a thread that checks the session's lease first reads the reply
    /// itself, if it has arrived, because the runtime may be blocked.
    #[cfg(feature = "native")]
    fn awaiting(&self, socket: &Arc<Socket>) -> Awaiting {
        let socket = Arc::clone(socket);
        let granted = self.granted.clone();
        self.granted.awaiting(move || {
            let reply = socket
                .peek_now(|frame| connect_response(frame).ok().flatten())
                .flatten();
            if let Some(session) = reply {
                granted.report(session.session_id, session.timeout);
            }
        })
    }
}

/// Records why the handshake has failed. `ended` records that the connection has ended.
fn record(
    pass: &Pass<'_>,
    index: usize,
    failure: HandshakeFailure,
    ended: impl FnOnce(&io::Error) -> Failed,
) -> Failed {
    match failure {
        HandshakeFailure::Answered(error) => return Failed::Answered(error),
        HandshakeFailure::Sasl(SaslFailure::Unauthenticated(problem)) => {
            return Failed::Unauthenticated(problem);
        }
        HandshakeFailure::NotReady => pass.diagnosis.not_ready(index),
        HandshakeFailure::Unreadable(problem) => pass.diagnosis.malformed(index, problem),
        HandshakeFailure::Sasl(SaslFailure::Failed(problem)) => {
            pass.diagnosis.sasl_failed(index, problem);
        }
        HandshakeFailure::Ended(error) => return ended(&error),
    }
    Failed::Noted
}

/// Records why the server has ended the connection during the handshake.
fn record_end(pass: &Pass<'_>, index: usize, target: &Target, problem: EndedBy) -> Failed {
    match problem {
        #[cfg(all(feature = "native", feature = "tls"))]
        EndedBy::Tls(problem) => pass.diagnosis.tls(index, problem),
        EndedBy::Server => {
            pass.diagnosis.ended(index);
            // A server in memory has no address that could be examined.
            if !target.addresses.is_empty() {
                return Failed::Early(target.addresses.clone());
            }
        }
    }
    Failed::Noted
}
