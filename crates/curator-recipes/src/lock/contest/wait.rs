//! In the queue: deciding by a list, waiting, looking again; and the watches that this takes.

use super::plan::{Next, Plan};
use super::step::{Answer, ContestError, Event, Pace, Request, RestartReason, Step};
use super::{Contest, Listing, Outcome, State, Watches, check_count, send, unfit};
use crate::lock::driver::LockInternalsDriver;
use crate::lock::queue::Queue;

/// What a flight has shown of the nodes that it was to watch.
#[derive(Default)]
struct Seen {
    gone: Vec<String>,
    own: OwnSeen,
    something_unknown: bool,
}

#[derive(Default, PartialEq, Eq)]
enum OwnSeen {
    #[default]
    NotAsked,
    There,
    Gone,
}

/// In the queue.
impl Contest {
    /// Decides by a list that is newer than our node.
    pub(super) fn decide(&mut self, driver: &dyn LockInternalsDriver, queue: &Queue) -> Outcome {
        let Some(own) = &self.own else { return Err(ContestError::protocol("no node of ours to decide about")) };
        let Some(place) = queue.position(&own.name) else { return Ok(self.restart(RestartReason::NodeMissing)) };
        match Plan::of(driver, queue, place)? {
            None => self.own_it(),
            Some(plan) => Ok(self.follow(plan)),
        }
    }

    /// Waits, once all the watches that the plan needs are in force.
    fn follow(&mut self, plan: Plan) -> Step {
        let asked = self.missing_watches(&plan);
        if asked.is_empty() {
            self.state = State::Waiting { plan };
            return Step::Wait;
        }
        self.state = State::PlacingWatches { plan, asked: asked.clone() };
        send(asked, Pace::Now)
    }

    pub(super) fn watches_placed(&mut self, mut plan: Plan, asked: Vec<Request>, answers: Vec<Answer>) -> Outcome {
        let seen = self.note_watches(asked, answers)?;
        if seen.own == OwnSeen::Gone {
            return Ok(self.restart(RestartReason::NodeMissing));
        }
        if seen.something_unknown {
            return Ok(self.look(Some(plan), Pace::Retry));
        }
        for name in seen.gone {
            plan = match plan.without(&name) {
                // Our node was seen by a later request of the same flight.
                Next::Wait(plan) if seen.own == OwnSeen::There => plan,
                Next::Own if seen.own == OwnSeen::There => return self.own_it(),
                // Our node is watched since before, and its deletion may lie unread among the events.
                Next::Wait(expected) => return Ok(self.look(Some(expected), Pace::Now)),
                Next::Own => return Ok(self.look(None, Pace::Now)),
                Next::Look(expected) => return Ok(self.look(expected, Pace::Now)),
            };
        }
        Ok(self.follow(plan))
    }

    pub(super) fn saw(&mut self, plan: Plan, event: Event) -> Step {
        match event {
            Event::OwnDeleted => self.restart(RestartReason::NodeDeleted),
            Event::OwnChanged => {
                self.watches.own = false;
                self.follow(plan)
            }
            Event::AheadChanged { name } => {
                self.watches.ahead.remove(&name);
                self.follow(plan)
            }
            Event::AheadDeleted { name, certain } => {
                self.watches.ahead.remove(&name);
                self.saw_deletion(plan, &name, certain)
            }
            Event::Uncertain => {
                self.watches = Watches::default();
                self.look(Some(plan), Pace::Now)
            }
        }
    }

    fn saw_deletion(&mut self, plan: Plan, name: &str, certain: bool) -> Step {
        match plan.without(name) {
            Next::Wait(plan) if certain => self.follow(plan),
            Next::Own if certain => self.conclude_owned(),
            Next::Wait(expected) => self.look(Some(expected), Pace::Now),
            Next::Own => self.look(None, Pace::Now),
            Next::Look(expected) => self.look(expected, Pace::Now),
        }
    }

    /// Lists again. Watches come before the list in the flight, so what they miss is missing in the list as well.
    fn look(&mut self, expected: Option<Plan>, pace: Pace) -> Step {
        let asked = expected.as_ref().map_or_else(Vec::new, |plan| self.missing_watches(plan));
        let requests = asked.iter().cloned().chain([Request::List]).collect();
        self.state = State::Looking { expected, asked };
        send(requests, pace)
    }

    pub(super) fn looked(
        &mut self,
        driver: &dyn LockInternalsDriver,
        expected: Option<Plan>,
        asked: Vec<Request>,
        mut answers: Vec<Answer>,
    ) -> Outcome {
        check_count(asked.len() + 1, &answers)?;
        let Some(listed) = answers.pop() else { return Err(ContestError::protocol("no answers")) };
        let seen = self.note_watches(asked, answers)?;
        if seen.own == OwnSeen::Gone {
            return Ok(self.restart(RestartReason::NodeMissing));
        }
        if seen.something_unknown {
            return Ok(self.look(expected, Pace::Retry));
        }
        self.take_listing(driver, expected, listed)
    }

    /// Decides by the answer to a list that was sent after our create was answered or before it in the same flight.
    pub(super) fn take_listing(
        &mut self,
        driver: &dyn LockInternalsDriver,
        expected: Option<Plan>,
        listed: Answer,
    ) -> Outcome {
        match Listing::of(listed)? {
            Listing::Children(children) => self.decide(driver, &Queue::of(children, driver)?),
            Listing::NoDirectory => Ok(self.restart(RestartReason::NodeMissing)),
            Listing::Unknown => Ok(self.look(expected, Pace::Retry)),
        }
    }
}

/// The watches.
impl Contest {
    /// Those ahead first: when the answer for our own node comes, the others' are already certain.
    fn missing_watches(&self, plan: &Plan) -> Vec<Request> {
        let ahead = plan.ahead().iter().filter(|name| !self.watches.ahead.contains(*name));
        let ahead = ahead.map(|name| Request::WatchAhead { name: name.clone() });
        let own = self.own.iter().filter(|_| plan.needs_own() && !self.watches.own);
        let own = own.map(|node| Request::WatchOwn { name: node.name.clone() });
        ahead.chain(own).collect()
    }

    fn note_watches(&mut self, asked: Vec<Request>, answers: Vec<Answer>) -> Result<Seen, ContestError> {
        check_count(asked.len(), &answers)?;
        let mut seen = Seen::default();
        for (request, answer) in asked.into_iter().zip(answers) {
            match (request, answer) {
                (_, Answer::Unknown) => seen.something_unknown = true,
                (Request::WatchAhead { name }, Answer::Node { .. }) => {
                    self.watches.ahead.insert(name);
                }
                (Request::WatchAhead { name }, Answer::Missing) => seen.gone.push(name),
                // The number can come again when the whole directory was deleted and made anew; the transaction cannot.
                (Request::WatchOwn { .. }, Answer::Node { czxid, .. }) if self.is_own(czxid) => {
                    self.watches.own = true;
                    seen.own = OwnSeen::There;
                }
                (Request::WatchOwn { .. }, Answer::Node { .. } | Answer::Missing) => seen.own = OwnSeen::Gone,
                (request, answer) => return Err(unfit(&request, &answer)),
            }
        }
        Ok(seen)
    }

    fn is_own(&self, czxid: i64) -> bool {
        self.own.as_ref().is_some_and(|own| own.czxid == czxid)
    }
}
