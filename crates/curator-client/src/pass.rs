//! One pass over the servers: tries one after another, in random order, until one of them accepts
//! the session.
//!
//! Some servers may be tried before the others: the members of an ensemble. Each server gets an equal
//! share of the time, and each of its addresses an equal part of the time that the server has left,
//! so that a silent address does not prevent attempts at the others. A server that fails is examined
//! ([`Diagnosis`]); the attempts do not wait for the examinations.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use crate::diagnosis::{Diagnosis, ExaminationCause};
use crate::options::SessionOptions;
use crate::time::{ClockInstant, Deadline, Timer};
use crate::transport::{ConnectFailure, RequestError, Unauthenticated};

/// A pass over the servers.
pub(crate) struct Pass<'a> {
    pub(crate) diagnosis: &'a Diagnosis<'a>,
    pub(crate) options: &'a SessionOptions,
    /// The time limit for one server.
    pub(crate) share: Duration,
    pub(crate) timer: &'a Timer,
    /// Whether this pass resumes a session, so that a server may have older state than the session
    /// has seen.
    pub(crate) resumes_session: bool,
}

/// The target of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) name: String,
    /// The addresses of `name`.
    pub(crate) addresses: Vec<SocketAddr>,
}

/// How an attempt at one server failed.
pub(crate) enum Failed {
    /// The server has given a reply that the other servers would give too.
    Answered(RequestError),
    /// Over SASL, the server has not authenticated the client, or itself.
    #[cfg_attr(
        not(feature = "native"),
        expect(dead_code, reason = "this crate's own transport returns it")
    )]
    Unauthenticated(Unauthenticated),
    /// The attempt failed before its time had passed. The server at these addresses is examined.
    Early(Vec<SocketAddr>),
    /// The diagnosis has recorded the reason.
    Noted,
}

/// How a transport connects to one server.
pub(crate) trait Connect: Sync {
    type Link: Send;

    /// Finds the targets of a server.
    fn resolve(
        &self,
        pass: &Pass<'_>,
        index: usize,
    ) -> impl Future<Output = io::Result<Vec<Target>>> + Send;

    /// Connects to a target within `limit`.
    ///
    /// Once the connection is open, an implementation must return without another await point.
    fn connect(
        &self,
        pass: &Pass<'_>,
        index: usize,
        target: Target,
        limit: Duration,
    ) -> impl Future<Output = Result<Self::Link, Failed>> + Send;
}

impl Pass<'_> {
    /// Returns the connection, and a time before its connect request was sent.
    ///
    /// Once the connection is open, this returns without another await point, so that a time limit
    /// of the caller cannot expire in between.
    pub(crate) async fn run<C: Connect>(
        &self,
        connect: &C,
    ) -> Result<(C::Link, ClockInstant), ConnectFailure> {
        let servers = &*self.diagnosis.servers;
        let mut order: Vec<_> = (0..servers.len()).collect();
        let first = self.diagnosis.first.min(order.len());
        fastrand::shuffle(&mut order[..first]);
        fastrand::shuffle(&mut order[first..]);
        // Run concurrently with the attempts at the next servers.
        let mut examinations = FuturesUnordered::new();
        for index in order {
            let started = ClockInstant::now();
            self.diagnosis.begin(index);
            // Boxed: it is large, and callers' futures contain it.
            let mut attempt = Box::pin(self.attempt(index, connect));
            let attempted = loop {
                tokio::select! {
                    biased;
                    attempted = &mut attempt => break attempted,
                    Some(()) = examinations.next(), if !examinations.is_empty() => {}
                }
            };
            match attempted {
                Ok(link) => return Ok((link, started)),
                Err(Failed::Answered(error)) => {
                    return Err(ConnectFailure::Answered {
                        server: servers[index].clone(),
                        error,
                    });
                }
                Err(Failed::Unauthenticated(problem)) => {
                    return Err(ConnectFailure::Unauthenticated {
                        server: servers[index].clone(),
                        problem,
                    });
                }
                Err(Failed::Early(addresses)) => {
                    examinations.push(Box::pin(self.examine(index, addresses)));
                }
                Err(Failed::Noted) => {}
            }
        }
        tokio::select! {
            biased;
            () = examinations.collect() => {}
            () = self.timer.sleep(self.share) => {}
        }
        let problems = self.diagnosis.to_string();
        Err(match self.diagnosis.tls_failures() {
            Some(failures) => ConnectFailure::Tls(problems, failures),
            None => ConnectFailure::NoServer(problems),
        })
    }

    /// Connects to a server, within its share of the time.
    async fn attempt<C: Connect>(&self, index: usize, connect: &C) -> Result<C::Link, Failed> {
        let deadline = Deadline::after(self.share);
        #[cfg(feature = "sasl-gssapi")]
        self.get_ticket(index, deadline).await?;
        let targets = self
            .resolve(index, connect.resolve(self, index), deadline)
            .await?;
        self.connect_to_any(index, targets, deadline, connect).await
    }

    async fn resolve(
        &self,
        index: usize,
        resolved: impl Future<Output = io::Result<Vec<Target>>>,
        deadline: Deadline,
    ) -> Result<Vec<Target>, Failed> {
        let slow_at = Deadline::after(self.share / 2);
        let error = match self
            .step(index, "no address found", (slow_at, deadline), resolved)
            .await?
        {
            Ok(targets) if !targets.is_empty() => return Ok(targets),
            Ok(_) => io::Error::other("it has no address"),
            Err(error) => error,
        };
        self.diagnosis.unresolved(index, error);
        Err(Failed::Noted)
    }

    /// Connects to a server at any of its targets, in random order. Each target gets an equal part
    /// of the remaining time.
    pub(crate) async fn connect_to_any<C: Connect>(
        &self,
        index: usize,
        mut targets: Vec<Target>,
        deadline: Deadline,
        connect: &C,
    ) -> Result<C::Link, Failed> {
        fastrand::shuffle(&mut targets);
        let mut failed = Failed::Noted;
        while let Some(target) = targets.pop() {
            let parts = u32::try_from(targets.len() + 1).unwrap_or(u32::MAX);
            let limit = deadline.remaining().unwrap_or_default() / parts;
            match connect.connect(self, index, target, limit).await {
                Err(failed @ (Failed::Answered(_) | Failed::Unauthenticated(_))) => {
                    return Err(failed);
                }
                Err(other) => failed = other,
                Ok(link) => return Ok(link),
            }
        }
        Err(failed)
    }

    /// Waits for a step of an attempt. `missing` describes what has not happened while the step is
    /// unfinished: the diagnosis records it at `slow_at`, and again at the deadline, which ends the
    /// attempt.
    pub(crate) async fn step<T>(
        &self,
        index: usize,
        missing: &'static str,
        (slow_at, deadline): (Deadline, Deadline),
        step: impl Future<Output = T>,
    ) -> Result<T, Failed> {
        let slow = async {
            self.timer.sleep_until(slow_at).await;
            self.diagnosis.slow(index, missing);
            pending().await
        };
        tokio::select! {
            biased;
            done = step => Ok(done),
            () = self.timer.sleep_until(deadline) => {
                // `slow` may not have reported this yet.
                self.diagnosis.slow(index, missing);
                self.diagnosis.end(index, self.share);
                Err(Failed::Noted)
            }
            never = slow => never,
        }
    }

    /// Examines a server after an attempt that failed before its time limit. A resumed session was
    /// connected to the ensemble before, so its TLS settings are known to match.
    async fn examine(&self, index: usize, addresses: Vec<SocketAddr>) {
        let cause = if self.resumes_session {
            ExaminationCause::EndedOnResume
        } else {
            ExaminationCause::EndedOnOpen
        };
        self.diagnosis.examine(index, &addresses, cause).await;
    }

    /// Gets the Kerberos ticket that a client with GSSAPI needs before it connects to a server.
    #[cfg(feature = "sasl-gssapi")]
    async fn get_ticket(&self, index: usize, deadline: Deadline) -> Result<(), Failed> {
        let problem = tokio::select! {
            biased;
            problem = crate::sasl::ticket::missing(self.options.sasl.as_ref(), &self.diagnosis.servers[index]) => problem,
            () = self.timer.sleep_until(deadline) => Some(format!("no Kerberos ticket within {:?}", self.share)),
        };
        let Some(problem) = problem else {
            return Ok(());
        };
        self.diagnosis.prerequisite_missing(index, problem);
        Err(Failed::Noted)
    }
}

#[cfg(test)]
mod tests {
    use curator_test::soon;
    use tokio::runtime::Handle;

    use super::*;

    const SHARE: Duration = Duration::from_millis(200);

    #[tokio::test]
    async fn an_unresolved_host_fails_at_its_deadline_or_with_the_error_of_the_resolver() {
        let options = SessionOptions::with_long_timeouts("client", "zk");
        let timer = Timer::new(Handle::current());
        let servers = options.servers.hosts().into();
        let diagnosis = Diagnosis::new(&options, servers, &|_| {});
        let pass = Pass {
            diagnosis: &diagnosis,
            options: &options,
            timer: &timer,
            share: SHARE,
            resumes_session: false,
        };
        // On a busy machine, all of the time may have passed when the attempt is first polled.
        for left in [Duration::ZERO, SHARE] {
            let started = std::time::Instant::now();
            assert!(
                soon(pass.resolve(0, pending(), Deadline::after(left)))
                    .await
                    .is_err()
            );
            assert!(started.elapsed() >= left);
            assert_eq!(
                diagnosis.to_string(),
                "zk:2181: no address found within 200ms"
            );
        }
        for (resolved, why) in [
            (Ok(Vec::new()), "it has no address"),
            (Err(io::Error::other("unknown")), "unknown"),
        ] {
            assert!(
                soon(pass.resolve(0, async { resolved }, Deadline::after(SHARE)))
                    .await
                    .is_err()
            );
            assert_eq!(
                diagnosis.to_string(),
                format!("zk:2181: cannot be resolved ({why})")
            );
        }
    }
}
