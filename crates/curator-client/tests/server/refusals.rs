//! Deletes that the server refuses.

use curator_client::node::find::NodeFinder;
use curator_client::{Acl, AuthId, CreateMode, CuratorClient, Permission, ZPath};

use crate::support::{direct, soon, unique_path};

/// Creates a directory where every client may create nodes, and no client may delete any.
async fn without_deletes(client: &CuratorClient) -> ZPath {
    let acl = [Acl::new(
        Permission::READ | Permission::CREATE,
        AuthId::anyone(),
    )];
    client
        .create()
        .with_acl(acl)
        .for_path(unique_path("node"), "")
        .await
        .unwrap()
}

async fn numbered(client: &CuratorClient, dir: &ZPath, name: &str) -> ZPath {
    client
        .create()
        .with_mode(CreateMode::EphemeralSequential)
        .for_path(dir.child(name).unwrap(), "")
        .await
        .unwrap()
}

fn paths(deletes: Vec<curator_client::PendingDelete>) -> Vec<String> {
    deletes
        .into_iter()
        .map(|delete| delete.to_string())
        .collect()
}

#[tokio::test]
async fn find_and_delete_reports_the_path_of_a_node_that_cannot_be_deleted() {
    let client = direct().await;
    let session = client.session().await.unwrap();
    let dir = without_deletes(&client).await;
    let path = numbered(&client, &dir, "sought-").await;
    client
        .janitor()
        .find_and_delete(&session, NodeFinder::by_name(&dir, "sought-"));
    soon(client.janitor().idle()).await;
    let left = client.janitor().pending_deletes();
    assert!(
        left.iter()
            .all(|delete| delete.is_refused && delete.last_error.is_some())
    );
    assert_eq!(paths(left), [path.as_str()]);
}
