//! Who served which shard, from when until when.

use std::collections::BTreeMap;

/// A member serves a shard. Times are seconds on one clock.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Service {
    pub(crate) shard: String,
    pub(crate) member: String,
    pub(crate) token: i64,
    pub(crate) from: f64,
    /// `None` while it lasts.
    pub(crate) until: Option<f64>,
}

/// The services of all shards. The reports of different members may arrive in any order.
#[derive(Debug, Default)]
pub(crate) struct History {
    services: Vec<Service>,
}

impl History {
    pub(crate) fn begins(&mut self, member: &str, shard: &str, token: i64, at: f64) {
        self.services.push(Service {
            shard: shard.to_owned(),
            member: member.to_owned(),
            token,
            from: at,
            until: None,
        });
    }

    pub(crate) fn ends(&mut self, member: &str, shard: &str, at: f64) {
        for service in self.current(member) {
            if service.shard == shard {
                service.until = Some(at);
            }
        }
    }

    /// The process of a member has ended, and with it all that it served.
    pub(crate) fn dies(&mut self, member: &str, at: f64) {
        for service in self.current(member) {
            service.until = Some(at);
        }
    }

    fn current(&mut self, member: &str) -> impl Iterator<Item = &mut Service> {
        let services = self.services.iter_mut();
        services.filter(move |service| service.member == member && service.until.is_none())
    }

    /// All services of a shard, by their beginnings.
    pub(crate) fn of_shard(&self, shard: &str) -> Vec<&Service> {
        let services = self.services.iter();
        let mut services: Vec<_> = services.filter(|service| service.shard == shard).collect();
        services.sort_by(|a, b| a.from.total_cmp(&b.from));
        services
    }

    /// The shards that each member serves now, in the order of their names.
    pub(crate) fn map(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut map: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for service in &self.services {
            if service.until.is_none() {
                map.entry(&service.member).or_default().push(&service.shard);
            }
        }
        for shards in map.values_mut() {
            shards.sort_unstable();
        }
        map
    }

    /// For how long these shards had no member, between two services of which the second began
    /// after `since`: one time for each such pair.
    pub(crate) fn gaps(&self, shards: &[String], since: f64) -> Vec<f64> {
        let of_shards = shards.iter().map(|shard| self.of_shard(shard));
        of_shards
            .flat_map(|services| {
                let pairs = services.windows(2).filter_map(|pair| match *pair {
                    [first, second] if second.from > since => Some(second.from - first.until?),
                    _ => None,
                });
                pairs.collect::<Vec<_>>()
            })
            .collect()
    }

    /// Checks that each shard was served, by one member at a time, and with a higher token by each.
    ///
    /// # Errors
    ///
    /// What was otherwise.
    pub(crate) fn check(&self, shards: &[String]) -> Result<(), String> {
        for shard in shards {
            let services = self.of_shard(shard);
            if services.is_empty() {
                return Err(format!("shard {shard} was never served"));
            }
            for pair in services.windows(2) {
                let [first, second] = *pair else { continue };
                if first.until.is_none_or(|until| until > second.from) {
                    return Err(format!(
                        "shard {shard} was served by {} and {} at the same time",
                        first.member, second.member
                    ));
                }
                if first.token >= second.token {
                    return Err(format!(
                        "the token of shard {shard} did not increase from {} to {}",
                        first.member, second.member
                    ));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved() -> History {
        let mut history = History::default();
        history.begins("a", "0", 5, 1.0);
        history.begins("b", "1", 6, 1.5);
        // The report of a's end arrives late.
        history.begins("b", "0", 7, 2.5);
        history.ends("a", "0", 2.0);
        history
    }

    fn shards(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_map_has_the_shards_that_are_served_now() {
        let mut history = moved();
        assert_eq!(history.map(), BTreeMap::from([("b", vec!["0", "1"])]));
        history.dies("b", 3.0);
        assert_eq!(history.map(), BTreeMap::new());
    }

    #[test]
    fn a_shard_that_has_moved_has_a_gap() {
        let (history, both) = (moved(), shards(&["0", "1"]));
        assert_eq!(history.gaps(&both, 2.0), [0.5]);
        assert_eq!(history.gaps(&both, 2.5), [0.0; 0]);
        assert_eq!(history.check(&both), Ok(()));
    }

    #[test]
    fn two_members_at_a_time_an_old_token_and_a_shard_without_a_member_are_found() {
        let check = |history: &History, shard| history.check(&shards(&[shard])).unwrap_err();
        let mut history = moved();
        history.begins("c", "0", 8, 2.75);
        let both = "shard 0 was served by b and c at the same time";
        assert_eq!(check(&history, "0"), both);
        history.ends("b", "0", 3.0);
        assert_eq!(check(&history, "0"), both);
        let mut history = moved();
        history.dies("b", 3.0);
        history.begins("c", "0", 7, 3.0);
        assert_eq!(
            check(&history, "0"),
            "the token of shard 0 did not increase from b to c"
        );
        assert_eq!(check(&history, "2"), "shard 2 was never served");
    }
}
