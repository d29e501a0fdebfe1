//! Which locks a multi-lock can be made of.

use std::sync::Arc;

use curator_recipes::client::CuratorClient;
use curator_recipes::{
    Error, InterProcessLock, InterProcessMultiLock, InterProcessReadWriteLock, InterProcessSemaphoreMutex,
};

use super::own::{Behaviour, Locks, Own, arc};
use super::{acquiring, holds_all, multi, paths, queues_of};
use crate::support::{client, free, mutex, soon};

/// One of each kind.
fn mixed(client: &CuratorClient, paths: &[String; 5]) -> Locks {
    vec![
        arc(mutex(client, &paths[0])),
        arc(InterProcessSemaphoreMutex::new(client, &paths[1]).unwrap()),
        arc(InterProcessReadWriteLock::new(client, &paths[2]).unwrap().write().clone()),
        arc(multi(client, &paths[3..])),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_of_all_kinds_are_held_together() {
    let (client, other, paths) = (client().await, client().await, paths::<5>("mixed"));
    let members = mixed(&client, &paths);
    let lock = InterProcessMultiLock::of(members.clone()).unwrap();
    let guard = soon(lock.acquire()).await.unwrap();
    assert!(guard.is_valid() && lock.is_acquired_in_this_process());
    assert_eq!(guard.nodes().count(), 5);
    assert_eq!(guard.fencing_tokens().map(|(_, token)| token).max(), Some(guard.fencing_token()));
    assert_eq!(lock.participants().await.unwrap().iter().filter(|each| each.owns).count(), 5);
    for theirs in mixed(&other, &paths) {
        assert!(soon(theirs.try_acquire()).await.unwrap().is_none(), "{theirs:?}");
        soon(other.janitor().idle()).await;
    }
    for member in &members {
        assert!(member.is_acquired_in_this_process(), "{member:?}");
    }
    let waiting = acquiring(&InterProcessMultiLock::of(mixed(&other, &paths)).unwrap());
    queues_of(&other, &paths[..1], &[2]).await;
    guard.release().await.unwrap();
    let theirs = soon(waiting).await.unwrap();
    assert!(!lock.is_acquired_in_this_process());
    theirs.release().await.unwrap();
    // Each can be used for itself, too.
    for member in members {
        soon(member.acquire()).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_multi_lock_is_a_member_of_another() {
    let (client, paths) = (client().await, paths::<5>("nested-multi"));
    let inner = InterProcessMultiLock::of([arc(mutex(&client, &paths[0])), arc(mutex(&client, &paths[1]))]).unwrap();
    let lock = InterProcessMultiLock::of([
        arc(inner.clone()),
        arc(multi(&client, &paths[2..4])),
        arc(mutex(&client, &paths[4])),
    ])
    .unwrap();
    let guard = lock.acquire().await.unwrap();
    holds_all(&client, &guard, &paths).await;
    let again = lock.try_acquire().await.unwrap().expect("its members are reentrant");
    guard.release().await.unwrap();
    assert!(again.is_valid() && inner.is_acquired_in_this_process());
    holds_all(&client, &again, &paths).await;
    again.release().await.unwrap();
    free(&client, &paths).await;
    // The failure of an inner member is told by both.
    let broken = InterProcessMultiLock::of([
        arc(mutex(&client, &paths[0])),
        arc(InterProcessMultiLock::of([
            arc(mutex(&client, &paths[1])),
            Own::new(&client, &paths[2], Behaviour::Fails) as Arc<dyn InterProcessLock>,
        ])
        .unwrap()),
    ]);
    let error = soon(broken.unwrap().acquire()).await.unwrap_err();
    let Error::MultiLockMember { member, cause, .. } = &error else { panic!("{error}") };
    assert_eq!(*member, format!("{}, {}", paths[1], paths[2]));
    assert!(matches!(&**cause, Error::MultiLockMember { member, .. } if *member == paths[2]), "{error}");
    free(&client, &paths).await;
    let twice = InterProcessMultiLock::of([arc(inner), arc(mutex(&client, &paths[1]))]).unwrap_err();
    assert!(matches!(&twice, Error::InvalidMultiLock { .. }), "{twice}");
}
