//! Decides when a member writes the next plan. Does no I/O, and reads no clock.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::plan::{Names, Plan};

/// How long a member waits for each one before it in the order in which members write.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a member has read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct View {
    /// The names of the shards; the last ones while no node lists them.
    pub(super) shards: Names,
    /// Whether a node lists the shards.
    pub(super) is_listed: bool,
    /// The plan; the last one while there is none.
    pub(super) plan: Plan,
    /// The version of the plan's node; `None` if there is no plan.
    pub(super) version: Option<i32>,
    /// The weights of the members that are present.
    pub(super) present: BTreeMap<String, u32>,
}

impl View {
    /// The place of a member in the order in which members write: first those that the plan does
    /// not have, because they are certainly awake. `None` if the member is absent.
    fn place(&self, id: &String) -> Option<u32> {
        self.present.get(id)?;
        let is_planned = |id: &String| self.plan.members.contains_key(id);
        let own = (is_planned(id), id);
        let before = self.present.keys();
        let before = before.filter(|other| (is_planned(other), *other) < own);
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
#[derive(Debug, Default)]
pub(super) struct Planner {
    id: String,
    /// How long an absent member keeps its shards.
    reserve_for: Duration,
    /// Until when the members of the plan that are absent keep their shards; `None` for ever.
    reserved: BTreeMap<String, Option<Instant>>,
    /// Since when the plan has been out of date, and its version.
    outdated: Option<(Instant, Option<i32>)>,
}

impl Planner {
    pub(super) fn new(id: String, reserve_for: Duration) -> Self {
        Self {
            id,
            reserve_for,
            ..Self::default()
        }
    }

    /// Records that changes may be missed: all times begin again.
    pub(super) fn lose_sight(&mut self) {
        self.reserved.clear();
        self.outdated = None;
    }

    pub(super) fn step(&mut self, view: &View, now: Instant) -> Step {
        let plan = &view.plan;
        let is_absent = |id: &String| !view.present.contains_key(id);
        self.reserved
            .retain(|id, _| plan.members.contains_key(id) && is_absent(id));
        for id in plan.members.keys().filter(|id| is_absent(id)) {
            let until = now.checked_add(self.reserve_for);
            self.reserved.entry(id.clone()).or_insert(until);
        }
        let is_ahead = |until: &Instant| now < *until;
        let is_reserved = |id: &str| {
            let until = self.reserved.get(id);
            until.is_some_and(|until| until.as_ref().is_none_or(is_ahead))
        };
        let next_end = self.reserved.values().flatten().copied();
        let next_end = next_end.filter(is_ahead).min();
        let next = plan.next(&view.shards, &view.present, is_reserved);
        let is_outdated = view.version.is_none() || next != *plan;
        let Some(place) = view.place(&self.id).filter(|_| is_outdated) else {
            self.outdated = None;
            return Step::Wait(next_end);
        };
        let outdated = self.outdated.filter(|(_, of)| *of == view.version);
        let (since, _) = *self
            .outdated
            .insert(outdated.unwrap_or((now, view.version)));
        let write_at = since + PATIENCE * place;
        if now < write_at {
            return Step::Wait(Some(next_end.map_or(write_at, |end| end.min(write_at))));
        }
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
            is_listed: true,
            plan: plan.unwrap_or_default(),
            shards: (0..6).map(|shard| shard.to_string()).collect(),
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

    /// After an outage, no member's turn has come already.
    #[test]
    fn members_write_in_their_order_after_they_have_lost_sight() {
        let now = now();
        let outdated = view(Some(planned(&["a", "b"])), &["a", "b", "c"]);
        let mut planner = planner("b");
        let turn = |since| Step::Wait(Some(since + 2 * PATIENCE));
        assert_eq!(planner.step(&outdated, now), turn(now));
        planner.lose_sight();
        let later = now + RESERVED;
        assert_eq!(planner.step(&outdated, later), turn(later));
    }

    /// The times of the members before this one begin with each plan.
    #[test]
    fn members_write_in_their_order_if_a_plan_is_soon_out_of_date() {
        let now = now();
        let mut planner = planner("b");
        let mut view = view(Some(planned(&["a", "b"])), &["a", "b", "c"]);
        let turn = |since| Step::Wait(Some(since + 2 * PATIENCE));
        assert_eq!(planner.step(&view, now), turn(now));
        // `c` has written, and another member has joined.
        view.plan = planned(&["a", "b", "c"]);
        view.version = Some(4);
        view.present.insert("d".to_owned(), 1);
        let later = now + 3 * PATIENCE;
        assert_eq!(planner.step(&view, later), turn(later));
    }
}
