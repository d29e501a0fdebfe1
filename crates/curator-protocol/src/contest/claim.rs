//! Takes the leases, for the contender that is first in a semaphore's queue.
//!
//! Only the first in the queue takes leases. So while a contender is first, the number of leases
//! can only fall, and it need not list them again after the take, as Curator does. One transaction
//! creates all its leases and deletes its place in the queue. If another client has deleted that
//! place in the meantime, the transaction fails.

use std::mem;

use uuid::Uuid;

use super::step::{Answer, End, Event, IMMEDIATE_ATTEMPTS, Limit, OwnNode, Pace, Request};
use crate::driver::{LockInternalsDriver as _, StandardLockInternalsDriver};

/// The indices of the queue's directory and of the leases' directory.
const QUEUE: usize = 0;
pub(super) const LEASES: usize = 1;

/// How many leases there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a runner of contests must handle every case"
)]
pub enum LeaseLimit {
    /// This number, which must be the same for every contender.
    Fixed(usize),
    /// A node contains the number.
    Shared,
}

/// One contender's claim, in one session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Claim {
    /// The id in the names of the leases.
    id: Uuid,
    session_id: i64,
    quantity: usize,
    limit: LeaseLimit,
    /// Whether to wait for leases.
    pub(super) waits: bool,
    state: State,
    place: OwnNode,
    /// The latest version of our place's data that was read.
    place_version: i32,
    /// Whether a take was sent, and its outcome is not known.
    pub(super) may_exist: bool,
    /// Whether the directory of the leases was missing when it was last read.
    is_directory_missing: bool,
    /// How many takes have failed because `is_directory_missing` was wrong, up to
    /// [`IMMEDIATE_ATTEMPTS`].
    directory_changes: u8,
    /// How often the limit was created since the claim last waited, or since it began; up to
    /// [`IMMEDIATE_ATTEMPTS`].
    limit_creates: u8,
    pending: Vec<(usize, Request)>,
    pace: Pace,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    /// Not first in the queue yet. `LeaseReads` came with the latest list of the queue.
    Queued(LeaseReads),
    Looking(LeaseReads),
    CreatingLimit(LeaseReads),
    Waiting(LeaseReads),
    Taking(Limit),
    ReadingPlace(Limit),
    /// The outcome of the take is unknown.
    Recovering(Limit),
    /// These leases are ours. Sent: a read of the first lease, for the transaction that created
    /// them.
    Inspecting(Limit, Vec<String>),
    Taken(Vec<OwnNode>),
}

/// The leases and the limit, as far as they have been read. Without an event, they change only in
/// our favour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct LeaseReads {
    leases: Option<usize>,
    limit: Option<Limit>,
}

type Outcome = Result<(), End>;

impl Claim {
    pub(super) fn new(id: Uuid, session_id: i64, quantity: usize, limit: LeaseLimit) -> Self {
        Self {
            id,
            session_id,
            quantity,
            limit,
            waits: true,
            state: State::Queued(LeaseReads::default()),
            place: OwnNode {
                name: String::new(),
                czxid: 0,
            },
            place_version: 0,
            may_exist: false,
            is_directory_missing: false,
            directory_changes: 0,
            limit_creates: 0,
            pending: Vec::new(),
            pace: Pace::Now,
        }
    }

    /// Whether the contender is first in the queue.
    pub(super) fn has_begun(&self) -> bool {
        !matches!(self.state, State::Queued(_))
    }

    /// The requests that are sent with the first list of the queue; by a claim that does not wait,
    /// with every list.
    pub(super) fn early_reads(&self) -> Vec<(usize, Request)> {
        let mut reads = vec![(LEASES, Request::List)];
        if self.limit == LeaseLimit::Shared {
            reads.push((LEASES, Request::Limit));
        }
        reads
    }

    /// Takes the answers that came with a list of the queue; none, if the list was sent alone.
    pub(super) fn read_early(&mut self, answers: Vec<(Request, Answer)>) -> Outcome {
        let mut known = LeaseReads::default();
        self.record(&mut known, answers)?;
        self.state = State::Queued(known);
        Ok(())
    }

    /// How many leases others may take before too few are left for us, according to the reads that
    /// came with the latest list; `usize::MAX` if these reads were not answered. `None` for a claim
    /// that waits.
    ///
    /// # Errors
    ///
    /// [`End::Refused`] if the claim does not wait, and too few are left.
    pub(super) fn spare(&self) -> Result<Option<usize>, End> {
        let State::Queued(known) = self.state else {
            return Ok(None);
        };
        if self.waits {
            return Ok(None);
        }
        let LeaseReads {
            leases: Some(leases),
            limit: Some(limit),
        } = self.with_fixed_limit(known)
        else {
            return Ok(Some(usize::MAX));
        };
        let total = leases.saturating_add(self.quantity);
        match limit.leases.checked_sub(total) {
            Some(spare) => Ok(Some(spare)),
            None => Err(End::Refused),
        }
    }

    /// Starts the claim: our place is first in the queue. The reads that came with the latest list
    /// are used, if any.
    pub(super) fn begin(&mut self, place: OwnNode) -> Outcome {
        let State::Queued(known) = self.state else {
            return Ok(());
        };
        self.place = place;
        let known = self.with_fixed_limit(known);
        match known {
            LeaseReads {
                leases: Some(leases),
                limit: Some(limit),
            } if self.suffices(leases, limit) => {
                self.take(limit, Pace::Now);
            }
            LeaseReads {
                leases: Some(_),
                limit: Some(_),
            } if !self.waits => return Err(End::Refused),
            // No watch is set yet.
            _ => self.look(LeaseReads::default(), Pace::Now),
        }
        Ok(())
    }

    /// Takes the answers to the requests sent.
    pub(super) fn answered(&mut self, mut answers: Vec<(Request, Answer)>) -> Outcome {
        let state = mem::replace(&mut self.state, State::Looking(LeaseReads::default()));
        if let State::Looking(known) = state {
            return self.looked(known, answers);
        }
        let last = answers.pop().map(|(_, answer)| answer);
        match (state, last.ok_or_else(|| End::protocol("no answers"))?) {
            (State::CreatingLimit(known), Answer::Done) => {
                self.limit_creates = IMMEDIATE_ATTEMPTS.min(self.limit_creates + 1);
                self.look(known, Pace::Now);
            }
            (State::CreatingLimit(known), Answer::Unknown) => self.look(known, Pace::Retry),
            (State::Taking(limit), answer) => return self.take_answered(limit, answer),
            (State::ReadingPlace(limit), Answer::Node { czxid, version, .. })
                if czxid == self.place.czxid =>
            {
                self.place_version = version;
                self.take(limit, Pace::Now);
            }
            (State::ReadingPlace(_) | State::Inspecting(..), Answer::Missing)
            | (State::ReadingPlace(_), Answer::Node { .. }) => return Err(End::Restart),
            (State::ReadingPlace(limit), Answer::Unknown) => self.read_place(limit, Pace::Retry),
            (State::Recovering(limit), listed) => {
                let is_synced = match answers.pop() {
                    Some((_, Answer::Done)) => true,
                    Some((_, Answer::Unknown)) => false,
                    other => {
                        return Err(End::protocol(format!(
                            "{other:?} is not an answer to a sync"
                        )));
                    }
                };
                return self.recovered(limit, is_synced, listed);
            }
            (
                State::Inspecting(_, names),
                Answer::Node {
                    ephemeral_owner,
                    czxid,
                    ..
                },
            ) if ephemeral_owner == self.session_id => {
                self.finish(
                    names
                        .into_iter()
                        .map(|name| OwnNode { name, czxid })
                        .collect(),
                );
            }
            (State::Inspecting(..), Answer::Node { .. }) => return Err(End::Restart),
            (State::Inspecting(limit, _), Answer::Unknown) => self.recover(limit),
            (state, answer) => {
                return Err(End::protocol(format!(
                    "{answer:?} is not an expected answer in {state:?}"
                )));
            }
        }
        Ok(())
    }

    /// Takes one event, while waiting.
    pub(super) fn observed(&mut self, event: &Event) -> Outcome {
        let State::Waiting(mut known) = self.state else {
            return Err(End::protocol("an event while not waiting"));
        };
        match event {
            Event::LeasesChanged => known.leases = None,
            Event::LimitChanged => known.limit = None,
            Event::Interrupted => known = LeaseReads::default(),
            Event::OwnDeleted(_) => return Err(End::Restart),
            // If another client has written to our place, the take fails and reports it.
            Event::OwnChanged(_) | Event::AheadDeleted { .. } | Event::AheadChanged { .. } => {
                return Ok(());
            }
        }
        self.look(known, Pace::Now);
        Ok(())
    }

    /// Takes the requests to send now.
    pub(super) fn take_pending(&mut self) -> (Vec<(usize, Request)>, Pace) {
        (mem::take(&mut self.pending), self.pace)
    }

    /// The leases, once they have been taken.
    pub(super) fn taken(&self) -> Option<&[OwnNode]> {
        match &self.state {
            State::Taken(leases) => Some(leases),
            _ => None,
        }
    }

    /// Whether the claim cannot be won while `stuck` of the leases exist, even if all others are
    /// returned. A claim for more than the limit waits for a change of the limit, and is not
    /// blocked by leases.
    pub(super) fn is_blocked_by(&self, stuck: usize) -> bool {
        let leases = match (&self.state, self.limit) {
            (
                State::Waiting(LeaseReads {
                    limit: Some(limit), ..
                }),
                _,
            ) => limit.leases,
            (State::Queued(_), LeaseLimit::Fixed(leases)) => leases,
            _ => return false,
        };
        let free = leases.saturating_sub(stuck);
        free < self.quantity && self.quantity <= leases
    }

    /// Whether this child of the leases' directory is a lease. Other children are not counted.
    pub(super) fn is_lease(name: &str) -> bool {
        StandardLockInternalsDriver::LEASES.sequence(name).is_some()
    }
}

impl Claim {
    fn suffices(&self, leases: usize, limit: Limit) -> bool {
        leases
            .checked_add(self.quantity)
            .is_some_and(|total| total <= limit.leases)
    }

    fn with_fixed_limit(&self, known: LeaseReads) -> LeaseReads {
        match self.limit {
            LeaseLimit::Fixed(leases) => LeaseReads {
                limit: Some(Limit {
                    leases,
                    version: None,
                }),
                ..known
            },
            LeaseLimit::Shared => known,
        }
    }

    fn request(
        &mut self,
        state: State,
        requests: impl IntoIterator<Item = (usize, Request)>,
        pace: Pace,
    ) {
        self.state = state;
        self.pending = requests.into_iter().collect();
        self.pace = pace;
    }

    /// Requests everything that is not known yet.
    fn look(&mut self, known: LeaseReads, pace: Pace) {
        let known = self.with_fixed_limit(known);
        let (limit, list) = if self.waits {
            (Request::WatchLimit, Request::WatchList)
        } else {
            (Request::Limit, Request::List)
        };
        let mut requests = Vec::new();
        if known.limit.is_none() {
            requests.push((LEASES, limit));
        }
        if known.leases.is_none() {
            requests.push((LEASES, list));
        }
        self.request(State::Looking(known), requests, pace);
    }

    fn looked(&mut self, mut known: LeaseReads, answers: Vec<(Request, Answer)>) -> Outcome {
        let no_limit = self.record(&mut known, answers)?;
        match (known.leases, known.limit) {
            _ if no_limit => {
                // If the limit is missing again and again, another client keeps deleting it.
                let pace = if self.limit_creates < IMMEDIATE_ATTEMPTS {
                    Pace::Now
                } else {
                    Pace::Pause
                };
                self.request(
                    State::CreatingLimit(known),
                    [(LEASES, Request::CreateLimit)],
                    pace,
                );
            }
            (Some(leases), Some(limit)) if self.suffices(leases, limit) => {
                self.take(limit, Pace::Now);
            }
            (Some(_), Some(_)) if !self.waits => return Err(End::Refused),
            (Some(_), Some(_)) => {
                self.limit_creates = 0;
                self.state = State::Waiting(known);
            }
            _ => self.look(known, Pace::Retry),
        }
        Ok(())
    }

    /// Records the answers in `known`. Returns whether the node that contains the limit is missing.
    fn record(
        &mut self,
        known: &mut LeaseReads,
        answers: Vec<(Request, Answer)>,
    ) -> Result<bool, End> {
        let mut no_limit = false;
        for answer in answers {
            match answer {
                (Request::List | Request::WatchList, Answer::Children(children)) => {
                    known.leases =
                        Some(children.iter().filter(|name| Self::is_lease(name)).count());
                    self.is_directory_missing = false;
                }
                (Request::List | Request::WatchList, Answer::NoParent) => {
                    known.leases = Some(0);
                    self.is_directory_missing = true;
                }
                (Request::Limit | Request::WatchLimit, Answer::Limit(limit)) => {
                    known.limit = Some(limit);
                }
                (Request::Limit | Request::WatchLimit, Answer::Missing) => no_limit = true,
                (_, Answer::Unknown) => {}
                (request, answer) => return Err(End::unexpected_answer(&request, &answer)),
            }
        }
        Ok(no_limit)
    }

    fn take(&mut self, limit: Limit, pace: Pace) {
        let take = Request::Take {
            with_directory: self.is_directory_missing,
            quantity: self.quantity,
            limit,
            place: self.place.name.clone(),
            place_version: self.place_version,
        };
        self.request(State::Taking(limit), [(LEASES, take)], pace);
    }

    fn take_answered(&mut self, limit: Limit, answer: Answer) -> Outcome {
        // Stays false if the server has denied the take.
        self.may_exist &= matches!(answer, Answer::Taken(_) | Answer::Unknown);
        match answer {
            Answer::Taken(leases) if leases.len() == self.quantity => self.finish(leases),
            Answer::LimitChanged => self.look(LeaseReads::default(), Pace::Now),
            Answer::PlaceWritten => self.read_place(limit, Pace::Now),
            Answer::Missing => return Err(End::Restart),
            Answer::NoParent => {
                self.is_directory_missing = !self.is_directory_missing;
                let changes = self.directory_changes;
                self.directory_changes = IMMEDIATE_ATTEMPTS.min(changes + 1);
                match changes {
                    0 => self.take(limit, Pace::Now),
                    // Other clients keep creating and deleting the directory; or its parents are
                    // deleted, and our place with them.
                    1..IMMEDIATE_ATTEMPTS => self.read_place(limit, Pace::Now),
                    _ => self.read_place(limit, Pace::Pause),
                }
            }
            Answer::Unknown => self.recover(limit),
            other => {
                return Err(End::protocol(format!(
                    "{other:?} is not an answer to the taking of leases"
                )));
            }
        }
        Ok(())
    }

    fn finish(&mut self, leases: Vec<OwnNode>) {
        self.may_exist = false;
        self.state = State::Taken(leases);
    }

    /// Reads our place again. The number of leases has not risen, because we are still first.
    fn read_place(&mut self, limit: Limit, pace: Pace) {
        let inspect = Request::Inspect {
            name: self.place.name.clone(),
        };
        self.request(State::ReadingPlace(limit), [(QUEUE, inspect)], pace);
    }

    fn recover(&mut self, limit: Limit) {
        let requests = [(LEASES, Request::Sync), (LEASES, Request::List)];
        self.request(State::Recovering(limit), requests, Pace::Retry);
    }

    fn recovered(&mut self, limit: Limit, is_synced: bool, listed: Answer) -> Outcome {
        let mut names = match listed {
            Answer::Children(children) if is_synced => children,
            Answer::NoParent if is_synced => Vec::new(),
            Answer::Children(_) | Answer::NoParent | Answer::Unknown => {
                self.recover(limit);
                return Ok(());
            }
            other => return Err(End::unexpected_answer(&Request::List, &other)),
        };
        let prefix = StandardLockInternalsDriver::LEASES.node_prefix(&self.id);
        names.retain(|name| name.starts_with(&prefix));
        names.sort_unstable();
        match names.first() {
            // The leader has not applied the take, and after the sync it cannot any more. Time has
            // passed, so read everything again.
            None => {
                self.may_exist = false;
                self.look(LeaseReads::default(), Pace::Now);
            }
            Some(first) if names.len() == self.quantity => {
                let inspect = Request::Inspect {
                    name: first.clone(),
                };
                self.request(
                    State::Inspecting(limit, names),
                    [(LEASES, inspect)],
                    Pace::Now,
                );
            }
            // Another client has deleted some of them.
            Some(_) => return Err(End::Restart),
        }
        Ok(())
    }
}
