//! The nodes of a semaphore on the server, and releases by other threads.

use curator_recipes::client::{CreateMode, CuratorClient};
use curator_recipes::{InterProcessSemaphoreMutex, OwnerId, SemaphoreLease};

use super::{acquiring, free, leases, leases_dir, locks_dir, queue, semaphore, until_counts};
use crate::support::{client, id_and_number, path, soon, still_waits};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn semaphore_nodes_have_the_paths_and_data_of_curator() {
    let holder = client().await;
    let waiter = client().await;
    let path = path("layout");
    let semaphore = semaphore(&holder, &path, 2).with_lease_data(*b"from the holder");
    assert_eq!(semaphore.path().as_str(), path);
    let held = semaphore.acquire_many(2).await.unwrap();
    let same = [
        semaphore.clone(),
        semaphore.clone().with_lease_data(*b"other data"),
    ];
    assert_eq!(
        same.map(|semaphore| semaphore.is_acquired_in_this_process()),
        [true, false]
    );
    let mut names = leases(&holder, &path).await;
    names.sort();
    assert_eq!(
        held.iter().map(SemaphoreLease::name).collect::<Vec<_>>(),
        names
    );
    for (number, lease) in held.iter().enumerate() {
        let (id, sequence) = id_and_number(lease.name(), "-lease-");
        assert_eq!(
            id,
            id_and_number(&names[0], "-lease-").0,
            "both were taken by one acquire"
        );
        assert_eq!(usize::try_from(sequence), Ok(number));
        assert_eq!(
            lease.node().as_str(),
            format!("{}/{}", leases_dir(&path), lease.name())
        );
        let (data, stat) = holder.get_data(lease.node()).await.unwrap();
        assert_eq!(
            (&*data, lease.data()),
            (&b"from the holder"[..], &b"from the holder"[..])
        );
        assert_eq!(stat.ephemeral_owner, lease.session_id());
        assert_eq!(stat.czxid, lease.fencing_token().as_i64());
    }
    assert_eq!(
        queue(&holder, &path).await,
        [""; 0],
        "a holder has no node in the queue"
    );

    let waiting = acquiring(&self::semaphore(&waiter, &path, 2), 1);
    until_counts(&holder, &path, 2, 1).await;
    let place = queue(&holder, &path).await.remove(0);
    id_and_number(&place, "-lock-");
    // As in Curator, the data is the client's address.
    assert_eq!(
        holder
            .get_data(format!("{}/{place}", locks_dir(&path)))
            .await
            .unwrap()
            .0,
        b"127.0.0.1"
    );
    SemaphoreLease::release_all(held).await.unwrap();
    let lease = soon(waiting).await.unwrap().remove(0);
    assert_eq!(lease.data(), b"127.0.0.1");
    lease.release().await.unwrap();
    free(&holder, &path, 2).await;
}

async fn create_foreign(client: &CuratorClient, dir: &str, name: &str) {
    client
        .create()
        .creating_parent_containers()
        .with_mode(CreateMode::Persistent)
        .for_path(format!("{dir}/{name}"), "")
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_children_take_no_lease_and_block_no_contender() {
    let client = client().await;
    let path = path("foreign-leases");
    for name in [
        "readme",
        "lease-",
        "lease-abc",
        "-lease-00000000001",
        "_c_x-lease-000000000",
    ] {
        create_foreign(&client, &leases_dir(&path), name).await;
        create_foreign(&client, &locks_dir(&path), name).await;
    }
    let semaphore = semaphore(&client, &path, 1);
    let lease = semaphore
        .try_acquire()
        .await
        .unwrap()
        .expect("a foreign child counts as a lease");
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    assert_eq!(semaphore.participants().await.unwrap().len(), 1);
    let waiting = acquiring(&semaphore, 1);
    until_counts(&client, &path, 6, 6).await;
    // These changes of the lists free no lease.
    create_foreign(&client, &leases_dir(&path), "another").await;
    create_foreign(&client, &locks_dir(&path), "another").await;
    assert!(still_waits(&waiting, &client).await);
    lease.release().await.unwrap();
    SemaphoreLease::release_all(soon(waiting).await.unwrap())
        .await
        .unwrap();
    until_counts(&client, &path, 6, 6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_semaphore_mutex_is_not_reentrant_and_another_thread_may_release_it() {
    let client = client().await;
    let path = path("not-reentrant");
    let mutex = InterProcessSemaphoreMutex::new(&client, &path)
        .unwrap()
        .with_lock_data(*b"the holder");
    let owner = OwnerId::new();
    let guard = mutex.acquire_as(&owner).await.unwrap();
    assert!(mutex.try_acquire_as(&owner).await.unwrap().is_none());
    assert!(mutex.is_acquired_in_this_process());
    assert_eq!(
        client.get_data(guard.node()).await.unwrap().0,
        b"the holder"
    );
    std::thread::spawn(move || guard.blocking_release().unwrap())
        .join()
        .unwrap();
    assert!(!mutex.is_acquired_in_this_process());
    free(&client, &path, 1).await;
}
