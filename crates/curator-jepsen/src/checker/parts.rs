//! Classifies the parts of the work by their keys: ours or a peer's, locks or leaders, and the
//! variant.

use clap::ValueEnum;

use crate::history::{CACHE, CACHE_SLOW, CounterKind, SERVICE};
use crate::peer::Peer;
use crate::work::{LockKind, Part, Variant};

/// The part with this key; `None` for a peer's part, whose violations are counted, but do not fail
/// the run.
pub(crate) fn part(key: &str) -> Option<Part> {
    let (lock, variant) = key.rsplit_once('-')?;
    Some(Part {
        lock: LockKind::from_str(lock, false).ok()?,
        variant: Variant::from_str(variant, false).ok()?,
    })
}

/// Whether a violation in the part with this key fails the run: in our locks, our cache, our
/// counters or our service.
pub(crate) fn is_ours(key: &str) -> bool {
    part(key).is_some()
        || [CACHE, CACHE_SLOW, SERVICE].contains(&key)
        || CounterKind::of(key).is_some()
}

/// The kind of leader of a part, without its variant; `None` if the part has a lock.
pub(crate) fn leaders(key: &str) -> Option<String> {
    match part(key) {
        Some(part) => part.lock.is_of_leaders().then(|| part.lock.to_string()),
        None => Peer::CuratorLeaders
            .keys()
            .iter()
            .find(|known| **known == key)
            .map(ToString::to_string),
    }
}

/// How the writes of a part are guarded. The parts of peers are `Plain`.
pub(crate) fn variant(key: &str) -> Variant {
    part(key).map_or(Variant::Plain, |part| part.variant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_our_parts_are_parsed_and_keys_of_peers_are_not() {
        for &lock in LockKind::value_variants() {
            for &variant in Variant::value_variants() {
                let our_part = Part { lock, variant };
                assert_eq!(part(&our_part.key()), Some(our_part));
            }
        }
        for peer in Peer::value_variants()
            .iter()
            .flat_map(|peer| peer.keys())
            .copied()
            .chain(["", "plain", "mutex"])
        {
            assert_eq!(part(peer), None, "{peer}");
        }
    }

    #[test]
    fn leader_recipes_are_recognized_in_every_variant() {
        let leaders = |key| leaders(key).unwrap_or_default();
        assert_eq!(
            [leaders("leader-latch-plain"), leaders("leader-latch-token")],
            ["leader-latch", "leader-latch"]
        );
        assert_eq!(
            [leaders("curator-latch-session"), leaders("mutex-plain")],
            ["curator-latch-session", ""]
        );
    }
}
