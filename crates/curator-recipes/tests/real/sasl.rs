//! Locks whose nodes belong to SASL users, as `docs/production.md` shows.

use crate::support::{mutex, path, soon};
use test_support::sasl_server::{USERS, shared_sasl_server};

include!("sasl_example.rs");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_sasl_example_denies_the_locks_of_a_user_to_others() {
    let page = include_str!("../../../../docs/production.md");
    assert!(
        page.contains(include_str!("sasl_example.rs")),
        "the page must contain `sasl_example.rs`"
    );
    let connect_string = shared_sasl_server(env!("CARGO_TARGET_TMPDIR"))
        .await
        .connect_string();
    let (_, password) = USERS[3];
    let shop = connect(&connect_string, password).await.unwrap();
    let path = path("sasl");
    let guard = mutex(&shop, &path).acquire().await.unwrap();
    let only_for_shop = [Acl::new(Permission::ALL, AuthId::new("sasl", "shop"))];
    for node in [guard.node(), mutex(&shop, &path).path()] {
        assert_eq!(shop.get_acl(node).await.unwrap().0, only_for_shop, "{node}");
    }
    let anonymous = crate::support::connect(&connect_string).await;
    let error = soon(mutex(&anonymous, &path).acquire()).await.unwrap_err();
    assert!(
        matches!(&error, curator_recipes::Error::Client(Error::NoAuth { .. })),
        "{error}"
    );
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    // Another client of the same user can acquire the lock.
    let guard = soon(mutex(&connect(&connect_string, password).await.unwrap(), &path).acquire())
        .await
        .unwrap();
    guard.release().await.unwrap();
}
