//! Several reads in one request.

use std::time::Duration;

use curator_client::{Acl, AuthId, CuratorClient, Error, Permission, ReadOperation, ReadResult, SessionEnd, ZPath};
use curator_test::OpCode;

use crate::support::{behind_proxy, behind_proxy_with, soon, unique_path};

/// A node with data and two children.
async fn family(client: &CuratorClient) -> ZPath {
    let dir = client.create().for_path(unique_path("node"), "parent").await.unwrap();
    for name in ["a", "b"] {
        client.create().for_path(dir.child(name).unwrap(), name).await.unwrap();
    }
    dir
}

fn names(result: &Result<ReadResult, Error>) -> Vec<String> {
    let Ok(ReadResult::Children(names)) = result else { panic!("{result:?}") };
    let mut names = names.clone();
    names.sort();
    names
}

#[tokio::test]
async fn several_reads_are_one_request_and_one_that_fails_takes_nothing_from_the_others() {
    let (proxy, client) = behind_proxy().await;
    let dir = family(&client).await;
    let (_, stat) = client.get_data(&dir).await.unwrap();
    let closed = dir.child("closed").unwrap();
    let write_only = [Acl::new(Permission::WRITE, AuthId::anyone())];
    client.create().with_acl(write_only).for_path(&closed, "").await.unwrap();
    let (missing, other) = (dir.child("missing").unwrap(), dir.child("other").unwrap());
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
    assert!(matches!(first, ReadResult::Data { data, .. } if data == b"a"), "{first:?}");
    assert!(matches!(no_data, Error::NoNode { operation: "get data of", path } if *path == missing), "{no_data}");
    assert_eq!(names(children), ["a", "b", "closed"]);
    assert!(matches!(no_list, Error::NoNode { operation: "list", path } if *path == other), "{no_list}");
    assert_eq!(names(none), [""; 0]);
    assert!(matches!(no_auth, Error::NoAuth { path, .. } if *path == closed), "{no_auth}");
    assert_eq!((data.as_slice(), last.czxid, last.num_children), (b"parent".as_slice(), stat.czxid, 3));
    let mut requests = proxy.requests();
    requests.remove(&OpCode::Sync);
    assert_eq!(requests.into_iter().collect::<Vec<_>>(), [(OpCode::MultiRead, 1)]);
    assert_eq!(proxy.round_trips(), 1);
}

#[tokio::test]
async fn no_reads_are_no_request_and_cannot_fail() {
    let (proxy, client) = behind_proxy().await;
    let session = client.session().await.unwrap();
    assert!(session.read_all(Vec::new()).await.unwrap().is_empty());
    assert_eq!(proxy.requests().get(&OpCode::MultiRead), None);
    client.close().await.unwrap();
    assert!(session.read_all(Vec::new()).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_multi_read_without_an_answer_fails_as_a_whole() {
    let (proxy, client) = behind_proxy_with(|client| client.operation_timeout(Duration::from_millis(200))).await;
    let session = client.session().await.unwrap();
    proxy.swallow_next_reply(OpCode::MultiRead);
    let error = soon(session.read_all(vec![ReadOperation::Data(ZPath::root())])).await.unwrap_err();
    assert!(matches!(error, Error::OperationTimeout { .. }), "{error}");
    client.close().await.unwrap();
    let error = session.read_all(vec![ReadOperation::Data(ZPath::root())]).await.unwrap_err();
    assert!(matches!(error, Error::SessionEnded { end: SessionEnd::Closed, .. }), "{error}");
}

#[tokio::test]
async fn a_multi_read_that_is_too_large_is_not_sent() {
    let (proxy, client) = behind_proxy_with(|client| client.max_request_size(1024)).await;
    let operations = vec![ReadOperation::Children(ZPath::root()); 100];
    let error = client.session().await.unwrap().read_all(operations).await.unwrap_err();
    assert!(matches!(error, Error::RequestTooLarge { limit: 1024, .. }), "{error}");
    assert_eq!(proxy.requests().get(&OpCode::MultiRead), None);
}
