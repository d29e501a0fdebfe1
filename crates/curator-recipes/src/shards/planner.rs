//! Decides when a member writes the next plan. Does no I/O, and reads no clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::plan::{Names, Plan};

/// How long a member waits for each one before it in the order in which members write.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a member has read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    /// Empty if there is no plan.
    pub(super) plan: Arc<Plan>,
    /// The version of the plan's node; `None` if there is no plan.
    pub(super) version: Option<i32>,
    pub(super) shards: Arc<Names>,
    /// The weights of the members that are present.
    pub(super) present: BTreeMap<String, u32>,
}

impl View {
    /// The place of a member in the order in which members write: first those that the plan does
    /// not have. `None` if the member is absent.
    fn place(&self, id: &str) -> Option<u32> {
        self.present.get(id)?;
        let order = |id: &str| (self.plan.members.contains_key(id), id.to_owned());
        let own = order(id);
        let before = self.present.keys().filter(|other| order(other) < own);
        u32::try_from(before.count()).ok()
    }
}

/// What a member does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It waits for a change, or until this time.
    Wait(Option<Instant>),
    /// It writes this plan, if the plan's node still has the version of the view.
    Write(Plan),
}

/// Decides for one member.
#[derive(Debug)]
pub(super) struct Planner {
    id: String,
    /// How long an absent member keeps its shards.
    reserve_for: Duration,
    /// Since when the members of the plan that are absent have been so.
    absent_since: BTreeMap<String, Instant>,
    /// Since when the plan has been out of date.
    outdated_since: Option<Instant>,
    /// The version of the plan at this member's last attempt to replace it, and when that was.
    attempted: Option<(Option<i32>, Instant)>,
}

impl Planner {
    pub(super) fn new(id: String, reserve_for: Duration) -> Self {
        Self {
            id,
            reserve_for,
            absent_since: BTreeMap::new(),
            outdated_since: None,
            attempted: None,
        }
    }

    /// Records that changes may be missed: the times of absent members begin again.
    pub(super) fn lose_sight(&mut self) {
        self.absent_since.clear();
    }

    pub(super) fn step(&mut self, view: &View, now: Instant) -> Step {
        let plan = &view.plan;
        self.absent_since
            .retain(|id, _| plan.members.contains_key(id) && !view.present.contains_key(id));
        for id in plan.members.keys() {
            if !view.present.contains_key(id) {
                self.absent_since.entry(id.clone()).or_insert(now);
            }
        }
        let reserved_until = |since: &Instant| since.checked_add(self.reserve_for);
        let is_reserved = |id: &str| match self.absent_since.get(id).map(reserved_until) {
            Some(Some(until)) => now < until,
            // An endless time.
            Some(None) => true,
            None => false,
        };
        let next_end = self
            .absent_since
            .values()
            .filter_map(reserved_until)
            .filter(|until| now < *until)
            .min();
        let next = plan.next(&view.shards, &view.present, is_reserved);
        let is_outdated = view.version.is_none() || next != **plan;
        let Some(place) = view.place(&self.id).filter(|_| is_outdated) else {
            self.outdated_since = None;
            return Step::Wait(next_end);
        };
        let outdated_since = *self.outdated_since.get_or_insert(now);
        let retry_at = match self.attempted {
            Some((version, at)) if version == view.version => at + PATIENCE,
            _ => now,
        };
        let write_at = retry_at.max(outdated_since + PATIENCE * place);
        if now < write_at {
            return Step::Wait(Some(next_end.map_or(write_at, |end| end.min(write_at))));
        }
        self.attempted = Some((view.version, now));
        Step::Write(next)
    }

    /// The plan without this member, which is about to leave; `None` if the plan does not have it.
    pub(super) fn plan_without_self(&self, view: &View) -> Option<Plan> {
        view.plan.members.get(&self.id)?;
        let mut present = view.present.clone();
        present.remove(&self.id);
        let is_other = |id: &str| id != self.id;
        Some(view.plan.next(&view.shards, &present, is_other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESERVED: Duration = Duration::from_secs(10);

    fn view(plan: Option<Plan>, present: &[&str]) -> View {
        View {
            version: plan.is_some().then_some(3),
            plan: Arc::new(plan.unwrap_or_default()),
            shards: Arc::new((0..6).map(|shard| shard.to_string()).collect()),
            present: present.iter().map(|id| ((*id).to_owned(), 1)).collect(),
        }
    }

    fn planned(present: &[&str]) -> Plan {
        let view = view(None, present);
        Plan::default().next(&view.shards, &view.present, |_| false)
    }

    fn planner(id: &str) -> Planner {
        Planner::new(id.to_owned(), RESERVED)
    }

    fn now() -> Instant {
        curator_client::source::now()
    }

    #[test]
    fn a_member_that_joins_writes_at_once_and_the_others_wait_their_turn() {
        let now = now();
        let view = view(Some(planned(&["a", "b"])), &["a", "b", "c"]);
        let expected = planned(&["a", "b"]).next(&view.shards, &view.present, |_| false);
        assert_eq!(planner("c").step(&view, now), Step::Write(expected.clone()));
        for (id, place) in [("a", 1), ("b", 2)] {
            let mut planner = planner(id);
            let turn = now + PATIENCE * place;
            assert_eq!(planner.step(&view, now), Step::Wait(Some(turn)));
            assert_eq!(planner.step(&view, turn), Step::Write(expected.clone()));
        }
        // A member that has not joined yet writes no plan.
        assert_eq!(planner("d").step(&view, now), Step::Wait(None));
    }

    #[test]
    fn an_attempt_is_repeated_at_once_for_a_new_version_and_otherwise_after_a_pause() {
        let now = now();
        let mut planner = planner("a");
        let mut view = view(None, &["a"]);
        assert!(matches!(planner.step(&view, now), Step::Write(_)));
        let later = now + PATIENCE;
        assert_eq!(planner.step(&view, now), Step::Wait(Some(later)));
        assert!(matches!(planner.step(&view, later), Step::Write(_)));
        view.version = Some(0);
        view.plan = Arc::default();
        assert!(matches!(planner.step(&view, later), Step::Write(_)));
    }

    #[test]
    fn an_absent_member_keeps_its_shards_for_a_time_that_begins_when_it_is_seen_absent() {
        let now = now();
        let mut planner = planner("a");
        let all = view(Some(planned(&["a", "b"])), &["a", "b"]);
        let fewer = view(Some(planned(&["a", "b"])), &["a"]);
        assert_eq!(planner.step(&all, now), Step::Wait(None));
        let until = now + RESERVED;
        assert_eq!(planner.step(&fewer, now), Step::Wait(Some(until)));
        // It returns, and vanishes again.
        assert_eq!(planner.step(&all, now), Step::Wait(None));
        let vanished = now + RESERVED / 2;
        assert_eq!(
            planner.step(&fewer, vanished),
            Step::Wait(Some(vanished + RESERVED))
        );
        assert_eq!(
            planner.step(&fewer, vanished + RESERVED),
            Step::Write(planned(&["a", "b"]).next(&fewer.shards, &fewer.present, |_| false))
        );
    }

    #[test]
    fn a_member_that_leaves_moves_only_its_own_shards() {
        let planner = planner("b");
        let view = view(Some(planned(&["a", "b", "c"])), &["a", "b"]);
        let plan = planner.plan_without_self(&view).unwrap();
        assert_eq!(plan.shards_of("b"), Names::new());
        // The absent member's shards stay reserved.
        assert_eq!(
            plan.shards_of("c"),
            planned(&["a", "b", "c"]).shards_of("c")
        );
        assert_eq!(plan.shards_of("a").len(), 4);
    }
}
