//! With an embedded server.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use curator_test::EmbeddedServer;

use super::super::reply::{self, Event, FailedOperation, OperationResult, Reply};
use super::super::request::{self, Request, WatchKind};
use super::{node, path};
use crate::acl::{Acl, AuthId, Permission};
use crate::codec::{AUTH_XID, ConnectRequest, EVENT_XID, framed};
use crate::operation::{CreateMode, Created, ReadOperation, ReadResult, TransactionOperation};
use crate::path::ZPath;
use crate::transport::ErrorCode;

/// A blocking connection to an embedded server.
struct Connection(TcpStream);

impl Connection {
    fn open(server: &EmbeddedServer) -> Self {
        Self(TcpStream::connect(server.connect_string()).unwrap())
    }

    fn call(&mut self, frame: &[u8]) -> Vec<u8> {
        self.0.write_all(&framed(frame)).unwrap();
        self.receive()
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).unwrap();
        let mut frame = vec![0; u32::from_be_bytes(length).try_into().unwrap()];
        self.0.read_exact(&mut frame).unwrap();
        frame
    }
}

#[test]
fn a_server_understands_the_requests_and_its_replies_are_understood() {
    let server = EmbeddedServer::start().unwrap();
    let mut connection = Connection::open(&server);
    let connect = ConnectRequest::new(9_000, 0, &b""[..]);
    let granted = reply::connect_response(&connection.call(&connect.frame())).unwrap().unwrap();
    assert_eq!((granted.timeout, granted.password.len()), (Duration::from_secs(9), 16));
    let auth = connection.call(&request::auth("digest", b"user:password"));
    assert_eq!(Reply::parse(&auth).unwrap().xid, AUTH_XID);

    let mut xid = 0;
    macro_rules! call {
        ($request:expr, $decoder:ident $(, $operations:expr)?) => {{
            xid += 1;
            let frame = connection.call(&$request.frame(xid).unwrap());
            let reply = Reply::parse(&frame).unwrap();
            assert_eq!(reply.xid, xid);
            reply.body.map(|body| body.$decoder($($operations)?).unwrap())
        }};
    }
    let (root, a) = (&ZPath::root(), &path("/a"));
    call!(Request::AddWatch { path: root }, watch_added).unwrap().unwrap();
    for expected in [None, Some(ErrorCode::NO_WATCHER)] {
        let removed = call!(Request::RemoveWatches { path: root, kind: WatchKind::Any }, empty);
        assert_eq!(removed.err(), expected);
    }
    assert_eq!(call!(Request::Exists { path: a, watch: true }, stat), Err(ErrorCode::NO_NODE));

    let create = Request::Create(&node("/a", CreateMode::Persistent)).frame(100).unwrap();
    let event = connection.call(&create);
    let event = Reply::parse(&event).unwrap();
    assert_eq!((event.xid, event.body.unwrap().event()), (EVENT_XID, Ok(Event::Created(a.clone()))));
    let created = connection.receive();
    let created = Reply::parse(&created).unwrap();
    let Created { path: found, stat } = created.body.unwrap().created().unwrap();
    assert_eq!((&found, stat.data_length), (a, 2));

    let ttl = Duration::from_secs(60);
    for mode in [CreateMode::Container, CreateMode::EphemeralSequential, CreateMode::PersistentWithTtl(ttl)] {
        let name = if mode.is_sequential() { "/b" } else { "/c" };
        let created = call!(Request::Create(&node(name, mode)), created).unwrap();
        assert_eq!(created.stat.ephemeral_owner == granted.session_id, mode.is_ephemeral(), "{mode:?}");
        call!(Request::Delete { path: &created.path, version: Some(0) }, empty).unwrap();
    }
    let stat = call!(Request::SetData { path: a, data: b"new", version: Some(0) }, stat).unwrap();
    assert_eq!(call!(Request::GetData { path: a, watch: false }, data), Ok((b"new".to_vec(), stat)));
    assert_eq!(call!(Request::GetChildren { path: a, watch: false }, children), Ok(vec![]));
    let acl = [Acl::new(Permission::ALL, AuthId::anyone()), Acl::new(Permission::READ, AuthId::new("ip", "127.0.0.1"))];
    call!(Request::SetAcl { path: a, acl: &acl, version: None }, stat).unwrap();
    assert_eq!(call!(Request::GetAcl { path: a }, acl).unwrap().0, acl);
    call!(Request::Sync { path: a }, synced).unwrap();

    let check = |version| TransactionOperation::Check { path: a.clone(), version };
    let operations = [
        check(Some(1)),
        TransactionOperation::Create(node("/a/b", CreateMode::Container)),
        TransactionOperation::Create(node("/a/c", CreateMode::PersistentWithTtl(ttl))),
        TransactionOperation::SetData { path: a.clone(), data: [].into(), version: Some(1) },
        TransactionOperation::Delete { path: path("/a/b"), version: None },
    ];
    let results = call!(Request::Multi(&operations), transaction, &operations).unwrap().unwrap();
    let [_, OperationResult::Created(b), OperationResult::Created(c), OperationResult::DataSet(set), _] = &results[..]
    else {
        panic!("{results:?}");
    };
    assert_eq!((b.stat.czxid, c.stat.czxid), (set.mzxid, set.mzxid));
    let failing = [check(None), check(Some(1)), check(None)];
    let failed = FailedOperation { index: 1, error: ErrorCode::BAD_VERSION };
    assert_eq!(call!(Request::Multi(&failing), transaction, &failing), Ok(Err(failed)));

    let operations =
        [ReadOperation::Children(a.clone()), ReadOperation::Data(path("/x")), ReadOperation::Data(a.clone())];
    let results = call!(Request::MultiRead(&operations), reads, &operations).unwrap();
    assert_eq!(results[..2], [Ok(ReadResult::Children(vec!["c".to_owned()])), Err(ErrorCode::NO_NODE)]);
    assert!(matches!(&results[2], Ok(ReadResult::Data { data, .. }) if data.is_empty()));
    call!(Request::CloseSession, empty).unwrap();
}
