//! Waits in the queue: decides by a list, places the watches, waits for their events, and lists
//! again.

use super::entry::{Entry, Outcome, State, Watches};
use super::plan::{Next, Plan};
use super::step::{Answer, End, Event, Pace, Request};
use crate::driver::LockInternalsDriver;
use crate::queue::Queue;

/// What the answers of a pipeline show about the watched nodes. There is no report if our own node
/// is missing, because the contest then restarts.
#[derive(Default)]
struct WatchReport {
    gone: Vec<String>,
    own_exists: bool,
    has_unknown_answer: bool,
}

/// Waiting in the queue.
impl Entry {
    /// Decides by a list that is newer than our node.
    pub(super) fn decide(&mut self, driver: &dyn LockInternalsDriver, queue: Queue) -> Outcome {
        let Some(own) = &self.own else {
            return Err(End::protocol("no own node to decide about"));
        };
        let Some(place) = queue.position(&own.name) else {
            return self.restart();
        };
        self.place = place;
        let plan = match self.spare {
            Some(spare) => Plan::while_leases_are_left(driver, &queue, place, spare),
            None => Plan::for_node(driver, queue, place)?,
        };
        match plan {
            None => self.take_ownership(Pace::Now),
            Some(plan) => self.follow(plan),
        }
    }

    /// Starts to wait, once all watches of the plan are in force.
    fn follow(&mut self, plan: Plan) -> Outcome {
        if !self.waits {
            return Err(End::Refused);
        }
        let missing = self.missing_watches(&plan);
        let state = if missing.is_empty() {
            State::Waiting { plan }
        } else {
            State::PlacingWatches { plan }
        };
        self.request(state, missing, Pace::Now)
    }

    pub(super) fn watches_placed(
        &mut self,
        mut plan: Plan,
        answers: Vec<(Request, Answer)>,
    ) -> Outcome {
        let seen = self.record_watches(answers)?;
        if seen.has_unknown_answer {
            return self.look(Some(plan), Pace::Retry);
        }
        for name in seen.gone {
            plan = match plan.after_deletion(&name) {
                // A later request of the same pipeline has found our node.
                Next::Wait(plan) if seen.own_exists => {
                    self.place = self.place.saturating_sub(1);
                    plan
                }
                Next::Own if seen.own_exists => return self.take_ownership(Pace::Now),
                // Our node was watched before, and its deletion may be among the unread events.
                Next::Wait(expected) => return self.look(Some(expected), Pace::Now),
                Next::Own => return self.look(None, Pace::Now),
                Next::Look(expected) => return self.look(expected, Pace::Now),
            };
        }
        self.follow(plan)
    }

    pub(super) fn event_while_waiting(&mut self, plan: Plan, event: Event) -> Outcome {
        match event {
            Event::OwnDeleted(_) => self.restart(),
            Event::OwnChanged(_) => {
                self.watches.own = false;
                self.follow(plan)
            }
            Event::AheadChanged { name, .. } => {
                self.watches.ahead.remove(&name);
                self.follow(plan)
            }
            Event::AheadDeleted { name, .. } => {
                self.watches.ahead.remove(&name);
                // Only the watched nodes of the plan are known to have been in the list.
                if plan.ahead().contains(&name) {
                    self.place = self.place.saturating_sub(1);
                }
                match plan.after_deletion(&name) {
                    Next::Wait(plan) => self.follow(plan),
                    Next::Own => self.take_ownership(Pace::Now),
                    Next::Look(expected) => self.look(expected, Pace::Now),
                }
            }
            Event::Interrupted => {
                self.watches = Watches::default();
                self.look(Some(plan), Pace::Now)
            }
            Event::LeasesChanged | Event::LimitChanged => {
                Err(End::protocol("an event that belongs to no queue"))
            }
        }
    }

    /// Lists again. The watches precede the list in the pipeline, so a node that is missing at its
    /// watch is missing from the list too.
    fn look(&mut self, expected: Option<Plan>, pace: Pace) -> Outcome {
        let mut requests = match &expected {
            Some(plan) => self.missing_watches(plan),
            None => Vec::new(),
        };
        requests.push(Request::List);
        self.request(State::Looking { expected }, requests, pace)
    }

    pub(super) fn looked(
        &mut self,
        driver: &dyn LockInternalsDriver,
        expected: Option<Plan>,
        mut answers: Vec<(Request, Answer)>,
    ) -> Outcome {
        let Some((_, listed)) = answers.pop() else {
            return Err(End::protocol("no answers"));
        };
        let seen = self.record_watches(answers)?;
        if seen.has_unknown_answer {
            return self.look(expected, Pace::Retry);
        }
        self.take_listing(driver, expected, listed)
    }

    /// Decides by a list that was sent after the answer to our create, or after the create in the
    /// same pipeline.
    pub(super) fn take_listing(
        &mut self,
        driver: &dyn LockInternalsDriver,
        expected: Option<Plan>,
        listed: Answer,
    ) -> Outcome {
        match listed {
            Answer::Children(children) => self.decide(driver, Queue::of(children, driver)?),
            Answer::NoParent => self.restart(),
            Answer::Unknown => self.look(expected, Pace::Retry),
            other => Err(End::unexpected_answer(&Request::List, &other)),
        }
    }
}

/// Owning this queue while the contest waits in others.
impl Entry {
    /// The queue is owned. If our node is not watched yet, the watch is requested, but sent only
    /// while there is another queue to wait for. With `Pace::Retry`, ownership is not certain until
    /// the answer.
    fn take_ownership(&mut self, pace: Pace) -> Outcome {
        self.place = 0;
        let watch: Vec<_> = self.missing_own_watch().into_iter().collect();
        self.request(
            State::Owned {
                is_certain: pace == Pace::Now,
            },
            watch,
            pace,
        )
    }

    /// Takes the answer about our own node.
    pub(super) fn own_watched(&mut self, answers: Vec<(Request, Answer)>) -> Outcome {
        let seen = self.record_watches(answers)?;
        self.take_ownership(if seen.has_unknown_answer {
            Pace::Retry
        } else {
            Pace::Now
        })
    }

    pub(super) fn event_while_owner(&mut self, event: &Event) -> Outcome {
        match event {
            Event::OwnDeleted(_) => return self.restart(),
            Event::OwnChanged(_) => self.watches.own = false,
            Event::Interrupted => self.watches = Watches::default(),
            // The nodes ahead do not matter any more.
            _ => {}
        }
        self.take_ownership(Pace::Now)
    }
}

/// The watches.
impl Entry {
    /// Watches on nodes ahead come first: when the answer for our own node arrives, the others are
    /// already answered.
    fn missing_watches(&self, plan: &Plan) -> Vec<Request> {
        let mut requests: Vec<_> = plan
            .ahead()
            .iter()
            .filter(|name| !self.watches.ahead.contains(*name))
            .map(|name| Request::WatchAhead { name: name.clone() })
            .collect();
        if plan.needs_own() {
            requests.extend(self.missing_own_watch());
        }
        requests
    }

    fn missing_own_watch(&self) -> Option<Request> {
        if self.watches.own {
            return None;
        }
        let own = self.own.as_ref()?;
        Some(Request::WatchOwn {
            name: own.name.clone(),
        })
    }

    fn record_watches(&mut self, answers: Vec<(Request, Answer)>) -> Result<WatchReport, End> {
        let mut seen = WatchReport::default();
        for answer in answers {
            match answer {
                (_, Answer::Unknown) => seen.has_unknown_answer = true,
                (Request::WatchAhead { name }, Answer::Node { .. }) => {
                    self.watches.ahead.insert(name);
                }
                (Request::WatchAhead { name }, Answer::Missing) => seen.gone.push(name),
                // Another client may have created a node with our name, but not in our transaction.
                (Request::WatchOwn { .. }, Answer::Node { czxid, .. }) if self.is_own(czxid) => {
                    self.watches.own = true;
                    seen.own_exists = true;
                }
                (Request::WatchOwn { .. }, Answer::Node { .. } | Answer::Missing) => {
                    self.restart()?;
                }
                (request, answer) => return Err(End::unexpected_answer(&request, &answer)),
            }
        }
        Ok(seen)
    }

    fn is_own(&self, czxid: i64) -> bool {
        self.own.as_ref().is_some_and(|own| own.czxid == czxid)
    }
}
