//! The work under a lock: the workload `lock-set`, in its variants.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use curator_recipes::client::CuratorClient;
use fastrand::Rng;
use tokio::time::{sleep, timeout};

use super::held::{Guarded, Held};
use super::history::{HistoryFile, now};
use super::lock::family;
use super::node_sets::{self, NodeSet};
use crate::history::{Claim, HoldId, Outcome, What};
use crate::store::{Answer, Request, StoreClient, StoreError};
use crate::work::{Part, Variant, Work};

/// How long a read or a write of a set may take. Only a stopped or disconnected process exceeds it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads and writes the sets of a part.
#[derive(Debug)]
pub(super) struct LockSet {
    part: Part,
    /// The key of the part in the history.
    key: String,
    began: u64,
    /// For how many nanoseconds a set is used. Not zero.
    set_time: u64,
    think: Duration,
    store: StoreClient,
    client: CuratorClient,
    guarded: Guarded,
}

/// A set as it was read: from the store, or from a node.
#[derive(Debug)]
enum Before {
    Stored {
        elements: Vec<String>,
        token: Option<i64>,
    },
    InNode(NodeSet),
}

/// An element that is added to a set.
#[derive(Debug)]
struct Update {
    set: String,
    element: String,
    checked: u64,
    until: u64,
    answered: Option<u64>,
    outcome: Outcome,
}

impl LockSet {
    pub(super) fn new(work: &Work, part: Part, client: &CuratorClient) -> Self {
        Self {
            part,
            key: part.key(),
            began: work.began,
            set_time: work.set_ms.max(1).saturating_mul(1_000_000),
            think: Duration::from_millis(work.think_ms),
            store: StoreClient::new(&work.store, TIMEOUT),
            client: client.clone(),
            guarded: Guarded::new(work, part, client),
        }
    }

    /// The same sets with another key in the history.
    pub(super) fn with_key(self, key: &str) -> Self {
        Self {
            key: key.to_owned(),
            ..self
        }
    }

    /// A random wait between a read and a write.
    pub(super) fn thinking(&self, random: &mut Rng) -> Duration {
        self.think.mul_f64(random.f64())
    }

    /// Reads the set of each claim, waits, writes each set back with a new element, and records the
    /// results.
    pub(super) async fn update(
        &mut self,
        history: &HistoryFile,
        hold: HoldId,
        held: &Held,
        claims: &[Claim],
        think: Duration,
    ) {
        // Declared outside the future of the work, so that the updates are recorded even if the
        // future is dropped.
        let mut updates = Vec::new();
        let guarded = self.guarded.clone();
        let part = self.key.clone();
        guarded
            .run(
                held,
                self.read_and_write(history, held, claims, think, &mut updates),
            )
            .await;
        for Update {
            set,
            element,
            checked,
            until,
            answered,
            outcome,
        } in updates
        {
            history.write(What::Wrote {
                hold,
                part: part.clone(),
                set,
                element,
                checked,
                until,
                answered,
                outcome,
            });
        }
    }

    async fn read_and_write(
        &mut self,
        history: &HistoryFile,
        held: &Held,
        claims: &[Claim],
        think: Duration,
        updates: &mut Vec<Update>,
    ) {
        let mut read = Vec::new();
        for claim in claims {
            let set = self.set(claim);
            // Without its elements, the set cannot be written back.
            let Some(before) = self.read(&set, claim).await else {
                return;
            };
            read.push(before);
            updates.push(Update {
                set,
                element: history.next_element(),
                checked: 0,
                until: 0,
                answered: None,
                outcome: Outcome::NotSent,
            });
        }
        sleep(think).await;
        let mut nodes = Vec::new();
        for (update, before) in updates.iter_mut().zip(read) {
            match before {
                Before::Stored { elements, token } => {
                    if !self.check(held, update) {
                        return;
                    }
                    update.outcome = self.write(update, elements, token).await;
                    update.answered = Some(now());
                }
                Before::InNode(node) => nodes.push(node.with(&update.element)),
            }
        }
        if !nodes.is_empty() {
            // All sets are checked and written together.
            for update in updates.iter_mut() {
                self.check(held, update);
            }
            let outcome = node_sets::write(held.transaction(), nodes).await;
            let answered = Some(now());
            for update in updates {
                update.outcome = outcome;
                update.answered = answered;
            }
        }
    }

    /// Returns whether to write now. If so, sets the outcome to `Unknown`, which the reply
    /// replaces.
    fn check(&self, held: &Held, update: &mut Update) -> bool {
        let checked = now();
        let until = held.valid_until();
        if self.part.variant == Variant::Guarded && !held.is_valid() {
            return false;
        }
        update.checked = checked;
        update.until = until;
        update.outcome = Outcome::Unknown;
        true
    }

    /// Reads the set of the first claim twice, with a wait in between, and records the results.
    pub(super) async fn read_twice(
        &mut self,
        history: &HistoryFile,
        hold: HoldId,
        held: &Held,
        claims: &[Claim],
        think: Duration,
    ) {
        self.guarded
            .clone()
            .run(held, self.read_and_read(history, hold, claims, think))
            .await;
    }

    async fn read_and_read(
        &mut self,
        history: &HistoryFile,
        hold: HoldId,
        claims: &[Claim],
        think: Duration,
    ) {
        let Some(claim) = claims.first() else { return };
        let set = self.set(claim);
        for pause in [think, Duration::ZERO] {
            let before = now();
            if let Some(
                Before::Stored { elements, .. } | Before::InNode(NodeSet { elements, .. }),
            ) = self.read(&set, claim).await
            {
                let mut hasher = DefaultHasher::new();
                elements.hash(&mut hasher);
                history.write(What::Read {
                    hold,
                    part: self.key.clone(),
                    set: set.clone(),
                    before,
                    elements: elements.len(),
                    digest: hasher.finish(),
                });
            }
            sleep(pause).await;
        }
    }

    /// Holds the lock without using it.
    pub(super) async fn wait(&self, held: &Held, think: Duration) {
        self.guarded.run(held, sleep(think)).await;
    }

    /// The name of the current set.
    fn set(&self, claim: &Claim) -> String {
        format!(
            "{}/{}",
            family(claim),
            now().saturating_sub(self.began) / self.set_time
        )
    }

    /// Reads a set. `None` if the token is stale, or the request fails.
    async fn read(&mut self, set: &str, claim: &Claim) -> Option<Before> {
        if self.part.variant == Variant::Transaction {
            return timeout(TIMEOUT, NodeSet::read(&self.client, set))
                .await
                .ok()?
                .ok()
                .map(Before::InNode);
        }
        let token = claim.token.filter(|_| self.part.variant == Variant::Token);
        match self
            .store
            .ask(&Request::Read {
                set: set.to_owned(),
                token,
            })
            .await
        {
            Ok(Answer::Elements { elements }) => Some(Before::Stored { elements, token }),
            Ok(_) | Err(_) => None,
        }
    }

    async fn write(
        &mut self,
        update: &Update,
        mut elements: Vec<String>,
        token: Option<i64>,
    ) -> Outcome {
        elements.push(update.element.clone());
        match self
            .store
            .ask(&Request::Write {
                set: update.set.clone(),
                elements,
                token,
            })
            .await
        {
            Ok(Answer::Written) => Outcome::Acknowledged,
            Ok(Answer::Stale | Answer::Invalid { .. } | Answer::Elements { .. }) => {
                Outcome::Refused
            }
            Err(StoreError::NotConnected { .. }) => Outcome::NotSent,
            Err(StoreError::NoAnswer { .. }) => Outcome::Unknown,
        }
    }
}
