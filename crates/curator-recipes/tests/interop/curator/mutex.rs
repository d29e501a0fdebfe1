//! Curator's `InterProcessMutex`, its semaphore mutex and ours on one path.

use std::sync::Arc;

use curator_recipes::{
    InterProcessLock, InterProcessMutex, InterProcessSemaphoreMutex, client::CuratorClient,
};
use curator_test::{soon, unique_path};

use super::{
    java::java,
    stage::{CYCLES, id, java_turns, ours, until_children, waiting_for},
};
use crate::{
    ours::children,
    turns::{cycles, take_turns},
};

pub(super) fn mutex(client: &CuratorClient, path: &str) -> Arc<dyn InterProcessLock> {
    Arc::new(InterProcessMutex::new(client, path).unwrap())
}

pub(super) fn semaphore_mutex(client: &CuratorClient, path: &str) -> Arc<dyn InterProcessLock> {
    Arc::new(InterProcessSemaphoreMutex::new(client, path).unwrap())
}

#[tokio::test]
async fn eight_sessions_hold_a_mutex_one_at_a_time_in_the_order_of_their_nodes() {
    let path = unique_path("mutex");
    take_turns(
        mutex,
        &path,
        |_, log, seed| java_turns(format!("cycles mutex {path} {log} {CYCLES} {seed}")),
        |client, log, numbers| {
            let lock = mutex(&client, &path);
            tokio::spawn(cycles(CYCLES, client, lock, log, numbers))
        },
    )
    .await;
}

#[tokio::test]
async fn both_languages_list_the_same_participants_in_the_same_order() {
    let client = ours().await;
    let path = unique_path("mutex");
    let lock = InterProcessMutex::new(&client, &path).unwrap();
    let mut first = java().await;
    let mut second = java().await;
    let third = ours().await;
    assert_eq!(first.ask(&format!("acquire mutex {path}")).await, "ok true");
    let waiting = waiting_for(&mutex(&third, &path));
    until_children(&client, &path, 2).await;
    second.send(&format!("acquire mutex {path}"));
    until_children(&client, &path, 3).await;

    let participants = lock.participants().await.unwrap();
    let names: Vec<_> = participants
        .iter()
        .map(|participant| participant.path.name().to_owned())
        .collect();
    assert_eq!(
        first.tell(&format!("participants mutex {path}")).await,
        names
    );
    let sessions: Vec<_> = participants
        .iter()
        .map(|participant| participant.session_id)
        .collect();
    assert_eq!(sessions, [first.id(), id(&third), second.id()]);
    assert_eq!(
        participants
            .iter()
            .map(|participant| participant.owns)
            .collect::<Vec<_>>(),
        [true, false, false]
    );
    // Sorting by the whole name would give another order in most runs.
    let mut children = children(&client, &path).await;
    children.sort_unstable_by_key(|name| name[name.len() - 10..].to_owned());
    assert_eq!(children, names);
    assert_eq!(participants[0].data, first.name().as_bytes());

    assert_eq!(first.ask(&format!("release mutex {path}")).await, "ok");
    soon(waiting).await.unwrap().release().await.unwrap();
    assert_eq!(second.answer().await, "ok true");
}
