//! Participates in elections, with the interface of a lock: a term is acquired and ended.

use std::convert::Infallible;
use std::fmt;

use curator_recipes::client::{CuratorClient, Session};
use curator_recipes::{LeaderLatch, LeaderSelector, LeaderSelectorError, Leadership, Result};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// The number of terms after which a participant leaves the election, and another one joins. The
/// last term of a selector ends because its job returns, the other terms because they are
/// interrupted: after a job that returns within 10 s, the selector pauses, and the pauses would
/// soon be too long for a run.
const TERMS: u32 = 8;

/// Takes part in the election of a part, with one participant after the other.
#[derive(Debug)]
pub(super) struct Candidate {
    client: CuratorClient,
    path: String,
    kind: Election,
    current: Option<Participant>,
    terms: u32,
}

/// The recipe that elects the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Election {
    Latch,
    Selector,
}

#[derive(Debug)]
enum Participant {
    Latch(LeaderLatch),
    Selector(RunningSelector),
}

/// A running selector. Its job sends each term to the task of the part.
struct RunningSelector {
    selector: LeaderSelector,
    jobs: mpsc::Receiver<Job>,
    /// Dropped to stop the selector.
    shutdown: oneshot::Sender<Infallible>,
    run: JoinHandle<Result<(), LeaderSelectorError<Infallible>>>,
}

/// A job of a selector. The job runs until `returns` is used or dropped, or until the job's future
/// is dropped.
#[derive(Debug)]
struct Job {
    leadership: Leadership,
    returns: oneshot::Sender<()>,
}

/// One term, and how to end it.
#[derive(Debug)]
pub(super) struct Term {
    pub(super) leadership: Leadership,
    /// The session of the leader's node.
    pub(super) session: Session,
    end: TermEnd,
}

#[derive(Debug)]
enum TermEnd {
    Resign(LeaderLatch),
    Interrupt(LeaderSelector, oneshot::Sender<()>),
    Return(oneshot::Sender<()>),
    /// The job that has the term ends by itself.
    Itself,
}

impl Candidate {
    /// A candidate that has not joined the election yet.
    pub(super) fn new(client: &CuratorClient, path: String, kind: Election) -> Self {
        Self {
            client: client.clone(),
            path,
            kind,
            current: None,
            terms: 0,
        }
    }

    /// Joins the election if necessary, and waits for the next term. `None` if the term has already
    /// ended.
    pub(super) async fn lead(&mut self) -> Result<Option<Term>> {
        if self.terms >= TERMS {
            self.leave().await;
        }
        self.terms += 1;
        let is_last = self.terms >= TERMS;
        let participant = match self.current.take() {
            Some(participant) => participant,
            None => Participant::start(&self.client, &self.path, self.kind)?,
        };
        match self.current.insert(participant) {
            Participant::Latch(latch) => {
                let leadership = latch.leadership().await?;
                Ok(Term::new(
                    leadership,
                    &self.client,
                    TermEnd::Resign(latch.clone()),
                ))
            }
            Participant::Selector(running) => {
                let Some(Job {
                    leadership,
                    returns,
                }) = running.jobs.recv().await
                else {
                    // The selector has ended unexpectedly. If the cause persists, the start of the
                    // next selector fails for the same cause.
                    self.leave().await;
                    return Ok(None);
                };
                let end = if is_last {
                    TermEnd::Return(returns)
                } else {
                    TermEnd::Interrupt(running.selector.clone(), returns)
                };
                Ok(Term::new(leadership, &self.client, end))
            }
        }
    }

    /// Leaves the election. The client retries failed deletes until it is closed.
    pub(super) async fn leave(&mut self) {
        self.terms = 0;
        match self.current.take() {
            Some(Participant::Latch(latch)) => drop(latch.close().await),
            Some(Participant::Selector(RunningSelector {
                jobs,
                shutdown,
                run,
                ..
            })) => {
                drop((jobs, shutdown));
                drop(run.await);
            }
            None => {}
        }
    }
}

impl Participant {
    fn start(client: &CuratorClient, path: &str, kind: Election) -> Result<Self> {
        let selector = match kind {
            Election::Latch => {
                return Ok(Self::Latch(
                    LeaderLatch::builder(client, path)?
                        .id(client.name())
                        .start(),
                ));
            }
            Election::Selector => LeaderSelector::builder(client, path)?
                .id(client.name())
                .build(),
        };
        let (to, jobs) = mpsc::channel(1);
        let (shutdown, stopped) = oneshot::channel();
        let running = selector.clone().run(
            move |leadership| {
                let to = to.clone();
                async move {
                    let (returns, returned) = oneshot::channel();
                    let job = Job {
                        leadership,
                        returns,
                    };
                    // If the receiver was dropped, the job returns immediately.
                    drop(to.send(job).await);
                    drop(returned.await);
                    Ok(())
                }
            },
            stopped,
        );
        Ok(Self::Selector(RunningSelector {
            selector,
            jobs,
            shutdown,
            run: tokio::spawn(running),
        }))
    }
}

impl Term {
    /// The term of a job that ends by itself. `None` if the term has already ended.
    pub(super) fn of_job(leadership: Leadership, client: &CuratorClient) -> Option<Self> {
        Self::new(leadership, client, TermEnd::Itself)
    }

    fn new(leadership: Leadership, client: &CuratorClient, end: TermEnd) -> Option<Self> {
        // If the term is valid after this read, this session is the session of the term.
        let session = client.current_session()?;
        leadership.is_valid().then_some(Self {
            leadership,
            session,
            end,
        })
    }

    /// Ends the term. The participant then rejoins the election, unless this was its last term.
    pub(super) async fn end(self) -> Result<()> {
        match self.end {
            TermEnd::Resign(latch) => latch.resign().await,
            TermEnd::Interrupt(selector, mut returns) => {
                selector.interrupt_leadership();
                // The channel is closed when the job's future is dropped.
                returns.closed().await;
                Ok(())
            }
            TermEnd::Return(returns) => {
                // If the term was lost, the receiver was dropped.
                returns.send(()).unwrap_or_default();
                Ok(())
            }
            TermEnd::Itself => Ok(()),
        }
    }
}

impl fmt::Debug for RunningSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningSelector")
            .field("selector", &self.selector)
            .finish_non_exhaustive()
    }
}
