//! The way into the queue: the create, and finding our node again when its answer was lost.

use std::mem;

use super::step::{Answer, ContestError, OwnNode, Pace, Request, Step};
use super::{Contest, Listing, Outcome, State, check_count, exactly, send, unfit};
use crate::lock::driver::LockInternalsDriver;
use crate::lock::queue::{Queue, SequenceOverflow};

/// Into the queue.
impl Contest {
    pub(super) fn join(&mut self) -> Step {
        self.may_exist = true;
        self.state = State::Joining;
        send(vec![Request::Create, Request::List], Pace::Now)
    }

    pub(super) fn joined(&mut self, driver: &dyn LockInternalsDriver, answers: Vec<Answer>) -> Outcome {
        let [created, listed] = exactly(answers)?;
        match created {
            Answer::Created { name, czxid } => {
                let sequence = driver.sequence(&name);
                self.own = Some(OwnNode { name: name.clone(), czxid });
                if sequence.is_none() {
                    return Err(ContestError::protocol(format!("the server has called our node {name:?}")));
                }
                self.take_listing(driver, None, listed)
            }
            Answer::NoParent => Ok(self.prepare_parents()),
            Answer::NameTaken => {
                self.may_exist = false;
                self.number_came_again(driver, listed)
            }
            // The list may come from another connection than the create, and from a server that lags behind.
            Answer::Unknown => Ok(self.recover()),
            other => Err(unfit(&Request::Create, &other)),
        }
    }

    /// Names without an id differ by their numbers only. The server has given one that it had given before, or that
    /// somebody has put there by hand. The list tells which; if it does not, at least ours is known.
    fn number_came_again(&self, driver: &dyn LockInternalsDriver, listed: Answer) -> Outcome {
        if let Listing::Children(children) = Listing::of(listed)? {
            Queue::of(children, driver)?;
        }
        Err(SequenceOverflow { name: driver.node_prefix(&self.id) }.into())
    }

    fn prepare_parents(&mut self) -> Step {
        self.may_exist = false;
        self.state = State::PreparingParents;
        // If they go again as soon as they are made, somebody is at war with us.
        let pace = if mem::replace(&mut self.parents_were_created, true) { Pace::Retry } else { Pace::Now };
        send(vec![Request::CreateParents], pace)
    }

    pub(super) fn parents_prepared(&mut self, answers: Vec<Answer>) -> Outcome {
        let [prepared] = exactly(answers)?;
        match prepared {
            Answer::ParentsReady => Ok(self.join()),
            // To do it twice does no harm.
            Answer::Unknown | Answer::NoParent => Ok(self.prepare_parents()),
            other => Err(unfit(&Request::CreateParents, &other)),
        }
    }
}

/// Finding our node again when the answer to its create was lost.
impl Contest {
    fn recover(&mut self) -> Step {
        self.state = State::Recovering;
        send(vec![Request::Sync, Request::List], Pace::Retry)
    }

    pub(super) fn recovered(&mut self, driver: &dyn LockInternalsDriver, answers: Vec<Answer>) -> Outcome {
        let [synced, listed] = exactly(answers)?;
        match (synced, Listing::of(listed)?) {
            (Answer::Synced, Listing::Children(children)) => self.identify(driver, Queue::of(children, driver)?),
            (Answer::Synced, Listing::NoDirectory) => Ok(self.prepare_parents()),
            (Answer::Synced | Answer::Unknown, _) => Ok(self.recover()),
            (other, _) => Err(unfit(&Request::Sync, &other)),
        }
    }

    fn identify(&mut self, driver: &dyn LockInternalsDriver, queue: Queue) -> Outcome {
        let prefix = driver.node_prefix(&self.id);
        let ours = queue.iter().filter(|entry| entry.name.starts_with(&prefix));
        let candidates: Vec<_> = ours.map(|entry| entry.name.clone()).collect();
        if candidates.is_empty() {
            // The leader has not applied the create, and after the sync it never will.
            return Ok(self.join());
        }
        let requests = candidates.iter().map(|name| Request::Inspect { name: name.clone() }).collect();
        self.state = State::Identifying { queue, candidates };
        Ok(send(requests, Pace::Now))
    }

    pub(super) fn identified(
        &mut self,
        driver: &dyn LockInternalsDriver,
        queue: &Queue,
        candidates: Vec<String>,
        answers: Vec<Answer>,
    ) -> Outcome {
        check_count(candidates.len(), &answers)?;
        let mut ours = Vec::new();
        let mut something_unknown = false;
        for (name, answer) in candidates.into_iter().zip(answers) {
            match answer {
                // A node of another session is about to disappear, whatever its name: to adopt it would make two holders.
                Answer::Node { ephemeral_owner, czxid, is_ours } => {
                    if is_ours && ephemeral_owner == self.session_id {
                        ours.push(OwnNode { name, czxid });
                    }
                }
                Answer::Missing => {}
                Answer::Unknown => something_unknown = true,
                other => return Err(unfit(&Request::Inspect { name }, &other)),
            }
        }
        if something_unknown {
            return Ok(self.recover());
        }
        // In the order of the queue, so the first is the best.
        let mut ours = ours.into_iter();
        self.own = ours.next();
        self.surplus.extend(ours.map(|node| node.name));
        if self.own.is_none() { Ok(self.join()) } else { self.decide(driver, queue) }
    }
}
