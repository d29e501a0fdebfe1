//! What a semaphore looks like on the server.

use curator_recipes::client::{CreateMode, CuratorClient};
use curator_recipes::{ParticipantKind, SemaphoreLease};
use curator_test::TestingServer;

use super::{acquiring, free, leases, leases_dir, locks_dir, queue, semaphore, stands};
use crate::support::{LONG_SESSION, builder, client, path, soon, still_waits};

/// The uuid and the number of `_c_<uuid>-<kind>-<number>`.
fn parse(name: &str, kind: &str) -> (String, i32) {
    let (id, sequence) = name.strip_prefix("_c_").and_then(|rest| rest.split_once(&format!("-{kind}-"))).unwrap();
    assert_eq!(curator_recipes::Uuid::parse_str(id).unwrap().hyphenated().to_string(), id);
    assert_eq!(sequence.len(), 10, "{name}");
    (id.to_owned(), sequence.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_and_data_are_where_curator_has_them() {
    let (holder, waiter, path) = (client().await, client().await, path("layout"));
    let semaphore = semaphore(&holder, &path, 2).with_lease_data(*b"from the holder");
    assert_eq!(semaphore.path().as_str(), path);
    assert_eq!(semaphore.participants().await.unwrap(), []);
    let held = semaphore.acquire_many(2).await.unwrap();
    let mut names = leases(&holder, &path).await;
    names.sort();
    assert_eq!(held.iter().map(SemaphoreLease::name).collect::<Vec<_>>(), names);
    for (number, lease) in held.iter().enumerate() {
        let (id, sequence) = parse(lease.name(), "lease");
        assert_eq!(id, parse(&names[0], "lease").0, "both were taken by one acquire");
        assert_eq!(usize::try_from(sequence), Ok(number));
        assert_eq!(lease.node().as_str(), format!("{}/{}", leases_dir(&path), lease.name()));
        let (data, stat) = holder.get_data(lease.node()).await.unwrap();
        assert_eq!((&*data, lease.data()), (&b"from the holder"[..], &b"from the holder"[..]));
        assert_eq!(stat.ephemeral_owner, lease.session_id());
        assert_eq!(stat.czxid, lease.fencing_token().as_i64());
    }
    assert_eq!(queue(&holder, &path).await, [""; 0], "a holder keeps no place in the queue");

    let waiting = acquiring(&self::semaphore(&waiter, &path, 2), 1);
    stands(&holder, &path, 2, 1).await;
    let place = queue(&holder, &path).await.remove(0);
    parse(&place, "lock");
    // As Curator has it: the address of the client.
    let place = format!("{}/{place}", locks_dir(&path));
    assert_eq!(holder.get_data(&place).await.unwrap().0, b"127.0.0.1");

    let participants = semaphore.participants().await.unwrap();
    let seen: Vec<_> = participants.iter().map(|each| (each.path.as_str(), each.owns, &*each.data)).collect();
    let holders = held.iter().map(|lease| (lease.node().as_str(), true, lease.data()));
    let expected: Vec<_> = holders.chain([(&*place, false, &b"127.0.0.1"[..])]).collect();
    assert_eq!(seen, expected);
    assert!(participants.iter().all(|each| each.kind == ParticipantKind::Lease));

    SemaphoreLease::release_all(held).await.unwrap();
    let lease = soon(waiting).await.unwrap().remove(0);
    assert_eq!(lease.data(), b"127.0.0.1");
    lease.release().await.unwrap();
    free(&holder, &path, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_lease_can_be_given_back_by_itself() {
    let (client, path) = (client().await, path("each"));
    let semaphore = semaphore(&client, &path, 4);
    let mut held = semaphore.acquire_many(4).await.unwrap();
    // Not in their order.
    for (place, left) in [(1, 3), (2, 2), (0, 1)] {
        let gone = held.remove(place);
        let name = gone.name().to_owned();
        gone.release().await.unwrap();
        let now = leases(&client, &path).await;
        assert_eq!(now.len(), left);
        assert!(!now.contains(&name), "another one was given back");
        assert!(held.iter().all(|lease| lease.is_valid() && now.contains(&lease.name().to_owned())));
    }
    // What was given back can be had again while the last one is held.
    let again = semaphore.try_acquire_many(3).await.unwrap().unwrap();
    assert!(held[0].fencing_token() < again[0].fencing_token());
    SemaphoreLease::release_all(again.into_iter().chain(held)).await.unwrap();
    SemaphoreLease::release_all([]).await.unwrap();
    free(&client, &path, 4).await;
}

async fn foreign(client: &CuratorClient, dir: &str, name: &str) {
    let create = client.create().creating_parent_containers().with_mode(CreateMode::Persistent);
    create.for_path(format!("{dir}/{name}"), "").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_children_use_up_nothing_and_stand_in_nobodys_way() {
    let (client, path) = (client().await, path("foreign-leases"));
    for name in ["readme", "lease-", "lease-abc", "-lease-00000000001", "_c_x-lease-000000000"] {
        foreign(&client, &leases_dir(&path), name).await;
        foreign(&client, &locks_dir(&path), name).await;
    }
    let semaphore = semaphore(&client, &path, 1);
    let lease = semaphore.try_acquire().await.unwrap().expect("a foreign child counts as a lease");
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    assert_eq!(semaphore.participants().await.unwrap().len(), 1);
    let waiting = acquiring(&semaphore, 1);
    stands(&client, &path, 6, 6).await;
    // A change of the list that frees nothing.
    foreign(&client, &leases_dir(&path), "another").await;
    foreign(&client, &locks_dir(&path), "another").await;
    assert!(still_waits(&waiting, &client).await);
    lease.release().await.unwrap();
    SemaphoreLease::release_all(soon(waiting).await.unwrap()).await.unwrap();
    stands(&client, &path, 6, 6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_semaphore_lies_in_its_namespace() {
    let (plain, namespace) = (client().await, path("semaphore-namespace"));
    let server = TestingServer::shared().await.connect_string();
    let inside = builder(&server, LONG_SESSION).namespace(&namespace).connect().await.unwrap();
    let (within, without) = (semaphore(&inside, "/pool", 1), semaphore(&plain, &format!("{namespace}/pool"), 1));
    assert_eq!(within.path(), without.path());
    let lease = within.acquire().await.unwrap();
    assert!(lease.node().as_str().starts_with(&format!("{namespace}/pool/leases/")), "{lease:?}");
    assert!(without.try_acquire().await.unwrap().is_none());
    let waiting = acquiring(&without, 1);
    stands(&plain, &format!("{namespace}/pool"), 1, 1).await;
    lease.release().await.unwrap();
    let lease = soon(waiting).await.unwrap();
    assert!(within.try_acquire().await.unwrap().is_none());
    SemaphoreLease::release_all(lease).await.unwrap();

    // A count lies there too.
    let count = curator_recipes::SharedCount::new(&inside, "/counts/pool", 1).unwrap();
    let shared = curator_recipes::InterProcessSemaphoreV2::with_shared_count(&inside, "/shared", count).unwrap();
    shared.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(plain.get_data(format!("{namespace}/counts/pool")).await.unwrap().0, [0, 0, 0, 1]);
}
