//! One queue of a joint contest.

use super::super::step::{Answer, ContestError, Event, OwnNode, Pace, Request, RestartReason, Step};
use super::super::{Contest, check_count, unfit};
use crate::lock::driver::{ContenderId, LockInternalsDriver};

/// The contest for one queue, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    contest: Contest,
    standing: Standing,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Standing {
    /// These have to be sent.
    Asking {
        requests: Vec<Request>,
        pace: Pace,
    },
    /// So many of the requests in the air are of this lane.
    Flying {
        count: usize,
    },
    Waiting,
    Owned {
        node: OwnNode,
        watch: NodeWatch,
    },
}

/// Whether the node of a queue that is owned is watched, while other queues are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum NodeWatch {
    Missing(Pace),
    Asked,
    Placed,
}

/// How far a lane has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It has no node, and wants one.
    Entering,
    /// It looks whether it has one.
    Finding,
    /// It has one.
    Queued,
}

/// What became of a lane that cannot go on.
pub(super) enum Broken {
    Restart(RestartReason),
    Failed(ContestError),
}

impl Lane {
    pub(super) fn new(id: ContenderId, session_id: i64) -> Self {
        Self { contest: Contest::new(id, session_id), standing: Standing::Waiting }
    }

    pub(super) fn contest(&self) -> &Contest {
        &self.contest
    }

    pub(super) fn start(&mut self, driver: &dyn LockInternalsDriver) -> Result<(), Broken> {
        let step = self.contest.start(driver);
        self.take(step)
    }

    fn take(&mut self, step: Step) -> Result<(), Broken> {
        self.standing = match step {
            Step::Send { requests, pace } => Standing::Asking { requests, pace },
            Step::Wait => Standing::Waiting,
            Step::Owned(node) => {
                let watch = if self.contest.watches_own() { NodeWatch::Placed } else { NodeWatch::Missing(Pace::Now) };
                Standing::Owned { node, watch }
            }
            Step::Restart(reason) => return Err(Broken::Restart(reason)),
            Step::Failed(error) => return Err(Broken::Failed(error)),
        };
        Ok(())
    }

    pub(super) fn answered(&mut self, driver: &dyn LockInternalsDriver, answers: Vec<Answer>) -> Result<(), Broken> {
        match &mut self.standing {
            Standing::Flying { count } => {
                check_count(*count, &answers).map_err(Broken::Failed)?;
                let step = self.contest.answered(driver, answers);
                self.take(step)
            }
            Standing::Owned { node, watch: watch @ NodeWatch::Asked } => {
                let request = || Request::WatchOwn { name: node.name.clone() };
                let Ok([answer]) = <[Answer; 1]>::try_from(answers) else {
                    return Err(Broken::Failed(ContestError::protocol("no answer to the watch on our own node")));
                };
                *watch = match answer {
                    Answer::Node { czxid, .. } if czxid == node.czxid => NodeWatch::Placed,
                    Answer::Node { .. } | Answer::Missing => return Err(Broken::Restart(RestartReason::NodeMissing)),
                    Answer::Unknown => NodeWatch::Missing(Pace::Retry),
                    other => return Err(Broken::Failed(unfit(&request(), &other))),
                };
                Ok(())
            }
            _ => check_count(0, &answers).map_err(Broken::Failed),
        }
    }

    pub(super) fn observed(&mut self, driver: &dyn LockInternalsDriver, event: Event) -> Result<(), Broken> {
        match &mut self.standing {
            Standing::Owned { watch, .. } => {
                match event {
                    Event::OwnDeleted => return Err(Broken::Restart(RestartReason::NodeDeleted)),
                    Event::OwnChanged | Event::Uncertain => *watch = NodeWatch::Missing(Pace::Now),
                    // What was ahead does not matter any more.
                    Event::AheadDeleted { .. } | Event::AheadChanged { .. } => {}
                }
                Ok(())
            }
            _ => {
                let step = self.contest.observed(driver, event);
                self.take(step)
            }
        }
    }

    /// Its node, if it owns its queue.
    pub(super) fn owned(&self) -> Option<OwnNode> {
        match &self.standing {
            // It was asked whether the node is still there, and not answered: somebody else may own the queue by now.
            Standing::Owned { watch: NodeWatch::Missing(Pace::Retry), .. } => None,
            Standing::Owned { node, .. } => Some(node.clone()),
            Standing::Asking { .. } | Standing::Flying { .. } | Standing::Waiting => None,
        }
    }

    /// What it has to send, which is then in the air.
    pub(super) fn send(&mut self) -> Option<(Vec<Request>, Pace)> {
        match &mut self.standing {
            Standing::Asking { requests, pace } => {
                let (requests, pace) = (std::mem::take(requests), *pace);
                self.standing = Standing::Flying { count: requests.len() };
                Some((requests, pace))
            }
            Standing::Owned { node, watch } => match *watch {
                NodeWatch::Missing(pace) => {
                    *watch = NodeWatch::Asked;
                    Some((vec![Request::WatchOwn { name: node.name.clone() }], pace))
                }
                NodeWatch::Asked | NodeWatch::Placed => None,
            },
            Standing::Flying { .. } | Standing::Waiting => None,
        }
    }

    pub(super) fn asks_for(&self, wanted: &Request) -> bool {
        matches!(&self.standing, Standing::Asking { requests, .. } if requests.contains(wanted))
    }

    pub(super) fn progress(&self) -> Progress {
        if self.asks_for(&Request::Create) || self.asks_for(&Request::CreateParents) {
            Progress::Entering
        } else if self.contest.node().is_some() {
            Progress::Queued
        } else {
            Progress::Finding
        }
    }
}
