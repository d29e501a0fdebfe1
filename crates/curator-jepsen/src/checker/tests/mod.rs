//! Histories with a planted violation of each kind, and the same histories without it.

mod caches;
mod capacity;
mod counters;
mod operator;
mod order;
mod reentry;
mod services;
mod sets;
mod shards;
pub(crate) mod story;
mod strikes;

use self::story::{Story, leases, mutex};
use crate::checker::Kind;
use crate::history::{Outcome, What};

#[test]
fn a_history_that_contradicts_itself_is_found() {
    let story = Story::of("mutex-token")
        .client(0)
        .acquires(10, [mutex(1)])
        .valid(15)
        .gives_back(20);
    story.assert_clean();
    let twice = story.clone().event(25, story.events[0].what.clone());
    assert_eq!(twice.kinds(), [Kind::Malformed], "acquired twice");
    let never = story.clone().event(
        25,
        What::Valid {
            hold: 9,
            before: 24,
            until: 0,
        },
    );
    assert_eq!(never.kinds(), [Kind::Malformed], "never acquired");
    let asked_later = story
        .clone()
        .client(1)
        .asks_and_acquires(32, 30, [mutex(2)])
        .valid(35);
    assert_eq!(
        asked_later.kinds(),
        [Kind::Malformed],
        "acquired before it was requested"
    );
    let too_much = Story::of("semaphore-plain")
        .client(0)
        .acquires(10, [leases(4, 1)]);
    assert_eq!(
        too_much.kinds(),
        [Kind::Malformed],
        "claims more than the capacity"
    );
    let again = story
        .writes(17, "a", Outcome::Acknowledged)
        .writes(18, "a", Outcome::Acknowledged)
        .ends_with(&["a"]);
    assert_eq!(
        again.kinds(),
        [Kind::Malformed],
        "an element that was written twice"
    );
}
