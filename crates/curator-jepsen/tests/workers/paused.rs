//! Workers that are stopped while they hold the lock, until another worker holds it.

use curator_jepsen::checker::check;
use curator_jepsen::history::{Event, Outcome, What};
use curator_jepsen::work::{LockKind, Part, Variant, Work};
use curator_jepsen::worker::node_sets;
use curator_recipes::client::CuratorClient;
use curator_test::TestingServer;
use rustix::process::Signal;

use crate::support::{Run, TICK, VARIANTS, acknowledged, check_holds, elements};

/// The number of pauses after which the test fails. In each pause, the holder is most likely
/// between its read and its write.
const PAUSES: usize = 10;

fn key(variant: Variant) -> String {
    Part {
        lock: LockKind::Mutex,
        variant,
    }
    .key()
}

/// Whether the last hold of this part has not ended yet.
fn holds(history: &[Event], key: &str) -> bool {
    history
        .iter()
        .rev()
        .find_map(|event| match &event.what {
            What::Acquired {
                hold,
                part,
                reentry: false,
                ..
            } if part == key => Some(*hold),
            _ => None,
        })
        .is_some_and(|hold| {
            !history
                .iter()
                .any(|event| event.what == What::Releasing { hold })
        })
}

/// Whether the expected effect has occurred after the writer was resumed: a lost update in the
/// plain variant, a refused or unsent write in the others.
fn has_shown(variant: Variant, run: &Run, history: &[Event]) -> bool {
    let of = |outcome| {
        elements(history, &[outcome])
            .into_iter()
            .filter(|(set, _)| set.starts_with(&key(variant)))
    };
    match variant {
        // The store is read after the history, so it contains all writes of the history.
        Variant::Plain => {
            let acknowledged = of(Outcome::Acknowledged).collect::<Vec<_>>();
            let sets = run.store.sets();
            acknowledged
                .iter()
                .any(|(set, element)| !sets[set].contains(element))
        }
        Variant::Guarded => of(Outcome::NotSent).next().is_some(),
        Variant::Transaction | Variant::Token => of(Outcome::Refused).next().is_some(),
    }
}

#[tokio::test]
async fn paused_clients_lose_updates_only_if_they_ignore_the_guard() {
    let server = TestingServer::builder()
        .tick_time(TICK)
        .start()
        .await
        .unwrap();
    let run = Run::start().await;
    let start = |number, think_ms| {
        let parts = VARIANTS.map(|variant| Part {
            lock: LockKind::Mutex,
            variant,
        });
        let session_timeout_ms = 2_000;
        let set_ms = 3_600_000;
        run.start_worker(&Work {
            session_timeout_ms,
            set_ms,
            think_ms,
            ..run.work(number, server.connect_string(), &parts)
        })
    };
    // During most of a hold, the first worker is between the read and the write.
    let mut paused = start(0, 2_000);
    let mut other = start(1, 20);
    for variant in VARIANTS {
        let key = key(variant);
        let mut pauses = 0;
        while !has_shown(variant, &run, &[paused.history(), other.history()].concat()) {
            pauses += 1;
            assert!(pauses <= PAUSES, "{key}: no effect after {PAUSES} pauses");
            paused.until(|history| holds(history, &key)).await;
            paused.signal(Signal::STOP);
            let before = acknowledged(&other.history(), &key);
            other
                .until(|history| acknowledged(history, &key) > before)
                .await;
            paused.signal(Signal::CONT);
            paused.until(|history| !holds(history, &key)).await;
        }
    }
    let histories = [paused.finish().await, other.finish().await];
    histories.iter().for_each(|history| check_holds(history));
    let client = CuratorClient::builder(server.connect_string())
        .connect()
        .await
        .unwrap();
    let mut sets = run.store.stop().await;
    sets.extend(node_sets(&client).await.unwrap());
    // Without violations, no update was lost in the variants that prevent it.
    let findings = check(&histories.concat(), &sets);
    assert_eq!(findings.violations, []);
    assert!(findings.parts[&key(Variant::Plain)].lost > 0);
}
