//! The plan: which member serves which shard. Does no I/O.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// The names of shards.
pub(super) type Names = BTreeSet<String>;

/// The first line of the plan's data.
const HEADER: &str = "shards 1\n";

/// A member of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Member {
    pub(super) weight: u32,
    pub(super) shards: Names,
}

/// The members, by id, and the shards of each. No shard has two members.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Plan {
    pub(super) members: BTreeMap<String, Member>,
}

impl Plan {
    /// Reads the data of the plan's node.
    ///
    /// # Errors
    ///
    /// What is wrong with the data, without quoting it.
    pub(super) fn decode(data: &[u8]) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(data).map_err(|_| "it is not UTF-8")?;
        let lines = text.strip_prefix(HEADER);
        let lines = lines.ok_or("its first line is not \"shards 1\"")?.lines();
        let mut plan = Self::default();
        let mut planned = BTreeSet::new();
        for line in lines {
            let mut fields = line.split('\t').map(str::to_owned);
            let id = fields.next().unwrap_or_default();
            let weight = fields.next().and_then(|weight| weight.parse().ok());
            let weight = weight.ok_or("a line does not begin with an id and a weight")?;
            let shards: Names = fields.collect();
            if !shards.iter().all(|shard| planned.insert(shard.clone())) {
                return Err("a shard has two members");
            }
            if plan.members.insert(id, Member { weight, shards }).is_some() {
                return Err("a member has two lines");
            }
        }
        Ok(plan)
    }

    /// A header, and a line for each member: its id, its weight and its shards, with tabs between
    /// them. Names of nodes contain no control characters.
    pub(super) fn encode(&self) -> String {
        let lines = self.members.iter().map(|(id, member)| {
            let shards = member.shards.iter().map(|shard| format!("\t{shard}"));
            format!("{id}\t{}{}\n", member.weight, shards.collect::<String>())
        });
        std::iter::once(HEADER.to_owned()).chain(lines).collect()
    }

    /// The shards of a member.
    pub(super) fn shards_of(&self, id: &str) -> Names {
        self.members
            .get(id)
            .map(|member| member.shards.clone())
            .unwrap_or_default()
    }

    /// The member that has a shard.
    pub(super) fn member_of(&self, shard: &str) -> Option<&String> {
        let mut members = self.members.iter();
        let found = members.find(|(_, member)| member.shards.contains(shard));
        found.map(|(id, _)| id)
    }

    /// The plan that follows this one when these members are present, with these weights. The
    /// `reserved` members of this plan, which are absent, keep what they have.
    ///
    /// Each present member gets its quota of the shards that are not reserved. A member that has
    /// more gives up the difference; only these shards, and those without a member, move.
    pub(super) fn next(
        &self,
        shards: &Names,
        present: &BTreeMap<String, u32>,
        reserved: impl Fn(&str) -> bool,
    ) -> Self {
        let absent = self.members.iter().map(|(id, member)| (id, member.weight));
        let absent = absent.filter(|(id, _)| !present.contains_key(*id) && reserved(id));
        let members = present.iter().map(|(id, weight)| (id, *weight));
        let kept = members.chain(absent).map(|(id, weight)| {
            let has = self.shards_of(id);
            let shards = has.intersection(shards).cloned().collect();
            (id.clone(), Member { weight, shards })
        });
        let members = kept.collect();
        let mut next = Self { members };
        let quotas = next.quotas(shards.len(), present);
        for (id, quota) in &quotas {
            let shards = &mut next.members.entry(id.clone()).or_default().shards;
            if shards.len() > *quota {
                *shards = in_order(&*shards).into_iter().take(*quota).collect();
            }
        }
        let planned: BTreeSet<_> = next.members.values().flat_map(|m| &m.shards).collect();
        let mut free = in_order(shards.iter().filter(|s| !planned.contains(s))).into_iter();
        for (id, quota) in &quotas {
            let shards = &mut next.members.entry(id.clone()).or_default().shards;
            shards.extend(free.by_ref().take(quota - shards.len()));
        }
        next
    }

    /// How many shards each present member gets. Their sum is the number of shards without those of
    /// absent members, if any weight is above zero.
    ///
    /// The method is Sainte-Laguë's for seats of parties: one by one, each shard goes to the member
    /// that has the fewest for its weight. With such a method, a member that joins takes from the
    /// others and gives to none, and one that leaves gives to the others and takes from none.
    fn quotas(&self, shards: usize, present: &BTreeMap<String, u32>) -> BTreeMap<String, usize> {
        let has = |id: &String| self.members.get(id).map_or(0, |member| member.shards.len());
        let absent = self.members.keys().filter(|id| !present.contains_key(*id));
        let shards = shards - absent.map(has).sum::<usize>();
        if present.values().all(|weight| *weight == 0) {
            return present.keys().map(|id| (id.clone(), has(id))).collect();
        }
        // The one with the fewest comes first. Of two equal ones, a member keeps what it has.
        let ranked = |id, weight: u64, has: usize, quota: usize| {
            let need = weight / (2 * quota as u64 + 1);
            (need, has > quota, id, weight, has, quota)
        };
        let members = present.iter();
        let members = members.map(|(id, weight)| ranked(id, u64::from(*weight) << 32, has(id), 0));
        let mut members: BinaryHeap<_> = members.collect();
        for _ in 0..shards {
            if let Some((_, _, id, weight, has, quota)) = members.pop() {
                members.push(ranked(id, weight, has, quota + 1));
            }
        }
        let quotas = members.into_iter();
        quotas
            .map(|(.., id, _, _, quota)| (id.clone(), quota))
            .collect()
    }
}

/// Orders shards by a hash of their names, so that each member's shards are spread over the names.
fn in_order<'a>(shards: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut ordered: Vec<_> = shards.into_iter().cloned().collect();
    ordered.sort_by_cached_key(|shard| (fnv_1a(shard), shard.clone()));
    ordered
}

/// The 64-bit FNV-1a hash. It is the same in all processes, which the standard library's is not.
fn fnv_1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_map;
    use proptest::prelude::*;

    use super::*;

    type Weights = BTreeMap<String, u32>;

    fn names(count: usize) -> Names {
        (0..count).map(|shard| shard.to_string()).collect()
    }

    fn all_present(plan: &Plan, shards: &Names, present: &Weights) -> Plan {
        plan.next(shards, present, |_| false)
    }

    /// The member of each shard.
    fn owners(plan: &Plan) -> BTreeMap<&str, &str> {
        let members = plan.members.iter();
        members
            .flat_map(|(id, member)| {
                member
                    .shards
                    .iter()
                    .map(|shard| (shard.as_str(), id.as_str()))
            })
            .collect()
    }

    /// The shards that two plans give to different members, with both.
    fn moves<'a>(before: &'a Plan, after: &'a Plan) -> Vec<(&'a str, Option<&'a str>, &'a str)> {
        let old = owners(before);
        let moved = owners(after).into_iter();
        moved
            .map(|(shard, to)| (shard, old.get(shard).copied(), to))
            .filter(|(_, from, to)| *from != Some(*to))
            .collect()
    }

    /// Each shard has one member, and no shard could be given to another member to make the parts
    /// fairer. With equal weights, two parts differ by one shard at most.
    fn check_balance(plan: &Plan, shards: &Names, present: &Weights) {
        let planned: usize = plan.members.values().map(|m| m.shards.len()).sum();
        assert_eq!((owners(plan).len(), planned), (shards.len(), shards.len()));
        let loads = |more: f64| {
            let load = move |(id, weight): (&String, &u32)| {
                (plan.shards_of(id).len() as f64 + more) / f64::from(*weight)
            };
            present.iter().map(load)
        };
        let (giver, taker) = (
            loads(-0.5).fold(0.0, f64::max),
            loads(0.5).fold(f64::MAX, f64::min),
        );
        assert!(giver <= taker + 1e-9, "{giver} {taker}");
    }

    fn members(count: usize, weight: impl Fn(usize) -> u32) -> Weights {
        (0..count)
            .map(|id| (format!("m{id}"), weight(id)))
            .collect()
    }

    fn changed(present: &Weights, id: &str, weight: Option<u32>) -> Weights {
        let mut changed = present.clone();
        match weight {
            Some(weight) => changed.insert(id.to_owned(), weight),
            None => changed.remove(id),
        };
        changed
    }

    proptest! {
        /// From any sequence of plans: the bound on moves when one member joins or leaves.
        #[test]
        fn a_member_that_joins_or_leaves_moves_its_part_and_no_more(
            shards in prop_oneof![1..60_usize, 1..2_000_usize],
            members in prop_oneof![1..10_usize, 1..200_usize],
            weights in prop_oneof![Just(vec![1_u32]), proptest::collection::vec(1..5_u32, 1..7)],
            history in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
            at in any::<prop::sample::Index>(),
        ) {
            let shards = names(shards);
            let present = self::members(members, |id| weights[id % weights.len()]);
            let mut plan = all_present(&Plan::default(), &shards, &present);
            check_balance(&plan, &shards, &present);
            // Members come and go.
            for gone in history {
                let id = gone.get(&present.keys().collect::<Vec<_>>()).to_string();
                let fewer = changed(&present, &id, None);
                if !fewer.is_empty() {
                    plan = all_present(&plan, &shards, &fewer);
                    check_balance(&plan, &shards, &fewer);
                }
                plan = all_present(&plan, &shards, &present);
            }
            check_balance(&plan, &shards, &present);
            prop_assert_eq!(&all_present(&plan, &shards, &present), &plan, "nothing changes");

            let joined = changed(&present, "joins", Some(weights[0]));
            let after = all_present(&plan, &shards, &joined);
            check_balance(&after, &shards, &joined);
            let moved = moves(&plan, &after);
            prop_assert!(moved.iter().all(|(_, _, to)| *to == "joins"), "{moved:?}");
            prop_assert_eq!(moved.len(), after.shards_of("joins").len());

            let leaver = at.get(&present.keys().collect::<Vec<_>>()).to_string();
            let fewer = changed(&present, &leaver, None);
            if !fewer.is_empty() {
                let after = all_present(&plan, &shards, &fewer);
                check_balance(&after, &shards, &fewer);
                let moved = moves(&plan, &after);
                prop_assert!(moved.iter().all(|(_, from, _)| *from == Some(leaver.as_str())), "{moved:?}");
                prop_assert_eq!(moved.len(), plan.shards_of(&leaver).len());
            }
        }

        #[test]
        fn a_plan_is_read_as_it_was_written(
            members in btree_map("[ -~é]{1,9}", (any::<u32>(), 0..5_usize), 0..5),
        ) {
            let mut plan = Plan::default();
            for (id, (weight, shards)) in members {
                let shards = names(shards).iter().map(|shard| format!("{id} {shard}")).collect();
                plan.members.insert(id, Member { weight, shards });
            }
            prop_assert_eq!(Plan::decode(plan.encode().as_bytes()), Ok(plan));
        }

        #[test]
        fn foreign_data_is_never_a_panic(data: Vec<u8>, text in "(shards 1\n)?([ab0-9]\t?\n?){0,9}") {
            let _ = Plan::decode(&data);
            if let Ok(plan) = Plan::decode(text.as_bytes()) {
                plan.next(&names(3), &members(2, |_| 1), |_| true);
            }
        }
    }

    #[test]
    fn ten_thousand_shards_and_two_hundred_members_with_weights() {
        let shards = names(10_000);
        let present = members(200, |id| 1 + id as u32 % 3);
        let plan = all_present(&Plan::default(), &shards, &present);
        check_balance(&plan, &shards, &present);
        let joined = changed(&present, "joins", Some(3));
        let after = all_present(&plan, &shards, &joined);
        check_balance(&after, &shards, &joined);
        // Its part is 10,000 × 3 / 402.
        let moved = moves(&plan, &after);
        assert!(moved.iter().all(|(_, _, to)| *to == "joins"));
        assert!((74..=75).contains(&moved.len()), "{}", moved.len());
        assert!(plan.encode().len() < 60_000);
    }

    #[test]
    fn a_reserved_member_keeps_its_shards_until_it_is_no_longer_reserved() {
        let shards = names(12);
        let present = members(3, |_| 1);
        let plan = all_present(&Plan::default(), &shards, &present);
        let fewer = changed(&present, "m1", None);
        let reserving = plan.next(&shards, &fewer, |id| id == "m1");
        assert_eq!(reserving, plan);
        let returned = reserving.next(&shards, &present, |_| false);
        assert_eq!(returned, plan);
        let taken = all_present(&reserving, &shards, &fewer);
        assert_eq!(moves(&plan, &taken).len(), 4);
        check_balance(&taken, &shards, &fewer);
    }

    #[test]
    fn shards_that_are_removed_or_added_move_no_others() {
        let present = members(3, |_| 1);
        let plan = all_present(&Plan::default(), &names(9), &present);
        let more = all_present(&plan, &names(12), &present);
        check_balance(&more, &names(12), &present);
        assert!(
            moves(&plan, &more)
                .iter()
                .all(|(_, from, _)| from.is_none())
        );
        let fewer = all_present(&more, &names(9), &present);
        check_balance(&fewer, &names(9), &present);
    }

    #[test]
    fn a_member_without_weight_gets_nothing_and_without_any_weight_nothing_moves() {
        let shards = names(4);
        let plan = all_present(&Plan::default(), &shards, &members(2, |id| id as u32));
        assert_eq!(plan.shards_of("m0"), Names::new());
        assert_eq!(plan.shards_of("m1"), shards);
        let none = all_present(&plan, &shards, &members(2, |_| 0));
        assert_eq!(moves(&plan, &none), []);
    }

    #[test]
    fn a_plan_with_contradictions_is_refused() {
        for text in [
            "",
            "shards 2\n",
            "shards 1\na\n",
            "shards 1\na\tone\n",
            "shards 1\na\t1\t0\nb\t1\t0\n",
            "shards 1\na\t1\na\t1\n",
        ] {
            assert!(Plan::decode(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(Plan::decode(b"\xff").is_err());
    }
}
