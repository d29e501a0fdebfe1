//! `participants`, which lists the holders and the waiters.

use std::time::{Duration, SystemTime};

use curator_recipes::Participant;

use super::stage::Stage;
use super::subjects::{Kind, Lock};
use crate::support::{LONG_SESSION, builder, soon, until};

/// For each listed directory, its contenders: the number of the contender, and whether it owns the
/// lock.
fn expected(kind: Kind) -> Vec<Vec<(usize, bool)>> {
    let holder_and_waiters = vec![(0, true), (1, false), (2, false)];
    match kind {
        Kind::Read => vec![vec![(0, true), (1, true), (2, true)]],
        Kind::Paths => vec![holder_and_waiters; 3],
        // A waiter for the first lock has no node in the others.
        Kind::Locks => vec![holder_and_waiters, vec![(0, true)], vec![(0, true)]],
        Kind::Mutex
        | Kind::NonReentrantMutex
        | Kind::SemaphoreMutex
        | Kind::Semaphore
        | Kind::Write => {
            vec![holder_and_waiters]
        }
        Kind::Leases | Kind::SharedLimit => unreachable!("not in the contract"),
    }
}

pub(super) async fn participants_are_listed_with_their_data_and_ownership(kind: Kind) {
    let stage = Stage::shared(kind, "participants").await;
    let shown: Lock = stage.lock(&stage.admin);
    assert_eq!(shown.participants().await.unwrap(), []);
    let mut sessions = Vec::new();
    let mut acquiring = Vec::new();
    let began = SystemTime::now();
    for number in 0..3 {
        let client = builder(&stage.server.connect_string(), LONG_SESSION)
            .default_lock_data(format!("contender {number}").into_bytes())
            .connect()
            .await
            .unwrap();
        sessions.push(client.session().await.unwrap().id());
        acquiring.push(stage.acquiring(&client));
        stage.until_contenders(number + 1).await;
        if number == 0 {
            // A multi-lock of locks acquires its locks one after another.
            let all = kind.kinds().len();
            until(async || {
                shown
                    .participants()
                    .await
                    .unwrap()
                    .iter()
                    .filter(|one| one.owns)
                    .count()
                    == all
            })
            .await;
        }
    }
    let lifetime = began - Duration::from_millis(1)..=SystemTime::now() + Duration::from_millis(1);
    let participants = shown.participants().await.unwrap();
    let mut listed = participants.iter();
    for (queue, kind) in expected(kind).into_iter().zip(kind.kinds()) {
        for (number, owns) in queue {
            let participant = listed
                .next()
                .unwrap_or_else(|| panic!("a participant is missing: {participants:?}"));
            assert_eq!(
                (participant.session_id, participant.owns),
                (sessions[number], owns),
                "{participants:?}"
            );
            assert_eq!(participant.kind, *kind, "{participants:?}");
            assert_eq!(participant.data, format!("contender {number}").into_bytes());
            assert!(lifetime.contains(&participant.created), "{participants:?}");
            let stat = stage
                .admin
                .check_exists(&participant.path)
                .await
                .unwrap()
                .unwrap();
            assert_eq!(stat.ephemeral_owner, participant.session_id);
            assert!(
                participant
                    .path
                    .name()
                    .ends_with(&format!("{:010}", participant.sequence))
            );
        }
    }
    assert_eq!(listed.next(), None, "{participants:?}");
    let in_order = |one: &Participant, next: &Participant| {
        one.path.parent() != next.path.parent() || one.sequence < next.sequence
    };
    assert!(participants.is_sorted_by(in_order), "{participants:?}");
    let mut owning: Vec<_> = participants
        .iter()
        .filter(|one| one.owns)
        .map(|one| one.path.clone())
        .collect();
    for (number, acquiring) in acquiring.into_iter().enumerate() {
        let guard = soon(acquiring).await.unwrap();
        if number == 0 || shown.shares() {
            for node in guard.nodes() {
                owning.retain(|path| path != node);
            }
        }
        guard.release().await.unwrap();
    }
    assert_eq!(owning, [], "each listed owner has a guard");
    assert_eq!(shown.participants().await.unwrap(), []);
    stage.free(&stage.admin).await;
}
