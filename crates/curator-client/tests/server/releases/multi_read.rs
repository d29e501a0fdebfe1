//! Several reads in one request.

use std::time::Duration;

use curator_client::{
    Acl, AuthId, CuratorClient, CuratorClientBuilder, Error, Permission, ReadOperation, ReadResult,
    SessionEnd, ZPath,
};
use curator_test::OpCode;

use crate::support::{behind_proxy, behind_proxy_with, sent, soon, unique_path};

/// A node with data and two children.
async fn family(client: &CuratorClient) -> ZPath {
    let dir = client
        .create()
        .for_path(unique_path("node"), "parent")
        .await
        .unwrap();
    for name in ["a", "b"] {
        client
            .create()
            .for_path(dir.child(name).unwrap(), name)
            .await
            .unwrap();
    }
    dir
}

fn names(result: &Result<ReadResult, Error>) -> Vec<String> {
    let Ok(ReadResult::Children(names)) = result else {
        panic!("{result:?}")
    };
    let mut names = names.clone();
    names.sort();
    names
}

#[tokio::test]
async fn several_reads_are_one_request_and_a_failed_one_does_not_affect_the_others() {
    let (proxy, client) = behind_proxy().await;
    let dir = family(&client).await;
    let (_, stat) = client.get_data(&dir).await.unwrap();
    let closed = dir.child("closed").unwrap();
    let write_only = [Acl::new(Permission::WRITE, AuthId::anyone())];
    client
        .create()
        .with_acl(write_only)
        .for_path(&closed, "")
        .await
        .unwrap();
    let missing = dir.child("missing").unwrap();
    let other = dir.child("other").unwrap();
    let session = client.session().await.unwrap();
    proxy.ignore(OpCode::Sync);
    proxy.reset_counts();
    let operations = vec![
        ReadOperation::Data(dir.child("a").unwrap()),
        ReadOperation::Data(missing.clone()),
        ReadOperation::Children(dir.clone()),
        ReadOperation::Children(other.clone()),
        ReadOperation::Children(dir.child("a").unwrap()),
        ReadOperation::Data(closed.clone()),
        ReadOperation::Data(dir.clone()),
    ];
    let results = session.read_all(operations).await.unwrap();
    let [
        Ok(first),
        Err(no_data),
        children,
        Err(no_list),
        none,
        Err(no_auth),
        Ok(ReadResult::Data { data, stat: last }),
    ] = &*results
    else {
        panic!("{results:?}")
    };
    assert!(
        matches!(first, ReadResult::Data { data, .. } if data == b"a"),
        "{first:?}"
    );
    assert!(
        matches!(no_data, Error::NoNode { operation: "get data of", path } if *path == missing),
        "{no_data}"
    );
    assert_eq!(names(children), ["a", "b", "closed"]);
    assert!(
        matches!(no_list, Error::NoNode { operation: "list", path } if *path == other),
        "{no_list}"
    );
    assert_eq!(names(none), [""; 0]);
    assert!(
        matches!(no_auth, Error::NoAuth { path, .. } if *path == closed),
        "{no_auth}"
    );
    assert_eq!(
        (data.as_slice(), last.czxid, last.num_children),
        (b"parent".as_slice(), stat.czxid, 3)
    );
    assert_eq!(sent(&proxy), [(OpCode::MultiRead, 1)]);
    assert_eq!(proxy.round_trips(), 1);
}

#[tokio::test]
async fn a_multi_read_without_a_reply_fails_as_a_whole_unless_it_is_empty() {
    let impatient =
        |client: CuratorClientBuilder| client.operation_timeout(Duration::from_millis(200));
    let (proxy, client) =
        behind_proxy_with(|client| impatient(client).max_request_size(1024)).await;
    let session = client.session().await.unwrap();
    let reads = |count| session.read_all(vec![ReadOperation::Children(ZPath::root()); count]);
    // Neither an empty nor a too large request is sent.
    assert!(reads(0).await.unwrap().is_empty());
    let error = reads(100).await.unwrap_err();
    assert!(
        matches!(error, Error::RequestTooLarge { limit: 1024, .. }),
        "{error}"
    );
    assert_eq!(proxy.requests().get(&OpCode::MultiRead), None);
    proxy.swallow_next_reply(OpCode::MultiRead);
    let error = soon(reads(1)).await.unwrap_err();
    assert!(matches!(error, Error::OperationTimeout { .. }), "{error}");
    client.close().await.unwrap();
    assert!(reads(0).await.unwrap().is_empty());
    let error = reads(1).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::SessionEnded {
                end: SessionEnd::Closed,
                ..
            }
        ),
        "{error}"
    );
}
