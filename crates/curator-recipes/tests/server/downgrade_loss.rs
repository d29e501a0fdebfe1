//! A write lock that is lost, and found to be so by a downgrade or by a read beside it.

use curator_recipes::{Error, OwnerId};

use crate::support::{client, path, queue_of, read_write as lock, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_that_a_read_beside_has_found_is_known_from_then_on() {
    let (holder, other, path) = (client().await, client().await, path("loss-beside"));
    let (ours, owner) = (lock(&holder, &path), OwnerId::new());
    let writing = ours.write().acquire_as(&owner).await.unwrap();
    other.delete().for_path(writing.node()).await.unwrap();
    let theirs = lock(&other, &path).write().acquire().await.unwrap();
    assert!(ours.read().try_acquire_as(&owner).await.unwrap().is_none());
    assert!(!writing.is_valid());
    assert!(ours.write().try_acquire_as(&owner).await.unwrap().is_none(), "re-entered, while another one holds");
    theirs.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_is_told_of_the_loss_while_its_owner_waits_to_read() {
    let (holder, other, path) = (client().await, client().await, path("loss-gate"));
    let (ours, owner) = (lock(&holder, &path), OwnerId::new());
    let writing = ours.write().acquire_as(&owner).await.unwrap();
    other.delete().for_path(writing.node()).await.unwrap();
    let theirs = lock(&other, &path).write().acquire().await.unwrap();
    let reading = tokio::spawn(async move { ours.read().acquire_as(&owner).await });
    queue_of(&other, &path, 2).await;
    // The other one holds for as long as this takes.
    let error = soon(writing.downgrade()).await.unwrap_err();
    assert!(matches!(error, Error::Lost(_)), "{error}");
    theirs.release().await.unwrap();
    soon(reading).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_that_a_downgrade_has_found_is_known_to_the_other_guards() {
    let (holder, other, path) = (client().await, client().await, path("loss-guards"));
    let ours = lock(&holder, &path);
    let (writing, kept) = (ours.write().acquire().await.unwrap(), ours.write().acquire().await.unwrap());
    other.delete().for_path(writing.node()).await.unwrap();
    assert!(matches!(writing.downgrade().await, Err(Error::Lost(_))));
    assert!(!kept.is_valid());
}
