//! Deletes that the server refuses.

use curator_client::node::find::NodeFinder;
use curator_client::{Acl, AuthId, CreateMode, CuratorClient, Permission, ZPath};

use crate::support::{direct, soon, unique_path};

/// Creates a directory in which every client may create nodes, and no client may delete any.
async fn without_deletes(client: &CuratorClient) -> ZPath {
    let acl = [Acl::new(Permission::READ | Permission::CREATE, AuthId::anyone())];
    client.create().with_acl(acl).for_path(unique_path("node"), "").await.unwrap()
}

async fn numbered(client: &CuratorClient, dir: &ZPath, name: &str) -> ZPath {
    let create = client.create().with_mode(CreateMode::EphemeralSequential);
    create.for_path(dir.child(name).unwrap(), "").await.unwrap()
}

fn paths(deletes: Vec<curator_client::PendingDelete>) -> Vec<String> {
    deletes.into_iter().map(|delete| delete.path).collect()
}

#[tokio::test]
async fn a_refused_delete_is_reported_to_subscribers_of_its_session() {
    let client = direct().await;
    let session = client.session().await.unwrap();
    let (dir, mut refusals) = (without_deletes(&client).await, client.janitor().refusals(&session));
    let path = numbered(&client, &dir, "n-").await;
    assert!(refusals.current().is_empty());
    client.janitor().delete_owned(&session, &path);
    soon(refusals.changed()).await;
    assert_eq!(paths(refusals.current()), [path.as_str()]);
    assert_eq!(client.janitor().pending(), 0);
    // The refusal of a delete without a session is not listed.
    let other = client.create().for_path(dir.child("other").unwrap(), "").await.unwrap();
    client.janitor().delete(&other);
    soon(refusals.changed()).await;
    assert_eq!(paths(refusals.current()), [path.as_str()]);
    assert_eq!(paths(client.janitor().pending_deletes()), [path.as_str(), other.as_str()]);
    refusals.forget(path.as_str());
    assert!(refusals.current().is_empty());
}

#[tokio::test]
async fn find_and_delete_reports_the_path_of_a_node_that_cannot_be_deleted() {
    let client = direct().await;
    let session = client.session().await.unwrap();
    let dir = without_deletes(&client).await;
    let path = numbered(&client, &dir, "sought-").await;
    client.janitor().find_and_delete(&session, NodeFinder::by_name(&dir, "sought-"));
    soon(client.janitor().idle()).await;
    let left = client.janitor().pending_deletes();
    assert!(left.iter().all(|delete| delete.given_up && delete.last_error.is_some()));
    assert_eq!(paths(left), [path.as_str()]);
}
