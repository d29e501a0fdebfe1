//! Locks that belong to users whom the server knows by SASL.

use curator_recipes::client::ConnectionState::{Connected, Reconnected};
use curator_recipes::client::{Acl, AuthId, CuratorClientBuilder, Error as ClientError, Permission, SaslOptions};
use curator_recipes::{Error, InterProcessReadWriteLock, InterProcessSemaphoreV2};
use curator_test::FaultProxy;

use crate::sasl_server::{USERS, shared_sasl_server};
use crate::support::{LONG_SESSION, builder, mutex, path, queue_of, soon};

/// What `docs/production.md` shows.
mod page {
    include!("sasl_example.rs");

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn shows_what_works() {
        let page = include_str!("../../../../docs/production.md");
        assert!(page.contains(include_str!("sasl_example.rs")), "the page shows something else");
        let (_, password) = super::USERS[3];
        let client = connect(&super::shared_sasl_server().await.connect_string(), password).await.unwrap();
        let lock = super::mutex(&client, &super::path("page"));
        let guard = lock.acquire().await.unwrap();
        let only_for_shop = [Acl::new(Permission::ALL, AuthId::new("sasl", "shop"))];
        assert_eq!(client.get_acl(guard.node()).await.unwrap().0, only_for_shop);
        guard.release().await.unwrap();
    }
}

/// A client of this user, whose nodes are for this user only.
fn known(connect_string: &str, (user, password): (&str, &str)) -> CuratorClientBuilder {
    let only_for_user = [Acl::new(Permission::ALL, AuthId::new("sasl", user))];
    builder(connect_string, LONG_SESSION).sasl(SaslOptions::digest_md5(user, password)).default_acl(only_for_user)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_a_user_is_closed_to_others_and_open_to_its_other_clients() {
    let connect_string = shared_sasl_server().await.connect_string();
    let (alice, bob) = (
        known(&connect_string, USERS[0]).connect().await.unwrap(),
        known(&connect_string, USERS[1]).connect().await.unwrap(),
    );
    let anonymous = builder(&connect_string, LONG_SESSION).connect().await.unwrap();
    let path = path("sasl");
    let guard = mutex(&alice, &path).acquire().await.unwrap();
    for node in [guard.node(), mutex(&alice, &path).path()] {
        assert_eq!(
            alice.get_acl(node).await.unwrap().0,
            [Acl::new(Permission::ALL, AuthId::new("sasl", "alice"))],
            "{node}"
        );
    }
    for other in [bob, anonymous] {
        let errors = [
            soon(mutex(&other, &path).acquire()).await.unwrap_err(),
            soon(mutex(&other, &path).try_acquire()).await.unwrap_err(),
            soon(InterProcessReadWriteLock::new(&other, &path).unwrap().read().acquire()).await.unwrap_err(),
            soon(mutex(&other, &path).participants()).await.unwrap_err(),
            other.delete().for_path(guard.node()).await.unwrap_err().into(),
        ];
        for error in errors {
            assert!(matches!(&error, Error::Client(ClientError::NoAuth { .. })), "{error}");
        }
    }
    let waiting = mutex(&known(&connect_string, USERS[0]).connect().await.unwrap(), &path);
    let waiting = tokio::spawn(async move { soon(waiting.acquire()).await.unwrap().release().await });
    queue_of(&alice, &path, 2).await;
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    soon(waiting).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_a_user_survives_a_broken_connection() {
    let server = shared_sasl_server().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = known(&proxy.connect_string(), USERS[0]).connect().await.unwrap();
    let semaphore = InterProcessSemaphoreV2::new(&client, path("sasl-resumed"), 1).unwrap();
    let lease = semaphore.acquire().await.unwrap();
    let mut states = client.connection_states();
    assert!(soon(states.wait_for(Connected)).await);
    proxy.cut();
    assert!(soon(states.wait_for(Reconnected)).await);
    assert!(lease.is_valid());
    // Which needs the user's permission.
    lease.release().await.unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
}
