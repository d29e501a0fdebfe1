//! Which parts of the work are ours.

use clap::ValueEnum;

use crate::work::{LockKind, Part, Variant};

/// The part with this key. None has the key of a peer's part: what breaks there is counted, and is no failure of ours.
pub(crate) fn part(key: &str) -> Option<Part> {
    let (lock, variant) = key.rsplit_once('-')?;
    Some(Part { lock: LockKind::from_str(lock, false).ok()?, variant: Variant::from_str(variant, false).ok()? })
}

/// How the writes of a part are guarded. Those of peers are not.
pub(crate) fn variant(key: &str) -> Variant {
    part(key).map_or(Variant::Plain, |part| part.variant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_known_by_its_key_and_no_peer_is() {
        for &lock in LockKind::value_variants() {
            for &variant in Variant::value_variants() {
                let of_ours = Part { lock, variant };
                assert_eq!(part(&of_ours.key()), Some(of_ours));
            }
        }
        for peer in ["curator-plain", "kazoo-plain", "", "plain", "mutex"] {
            assert_eq!(part(peer), None, "{peer}");
        }
    }
}
